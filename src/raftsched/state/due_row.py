"""The row in due in which a job waits for its next occurrence."""

from raftsched.model.errors import ImpossibleState
from raftsched.model.jitter import job_jitter_ms
from raftsched.state.context import Context
from raftsched.store import keys, rows


def key_of(context: Context, job: bytes, row: bytes) -> bytes:
    """Of a job (its key and row) that waits: at its scheduled time and jitter, unless catch-up has moved it."""
    number = keys.unpack_id(job)
    paced = context.writer.get(context.tables.extras, keys.extra(job, keys.EXTRA_PACED))
    if paced is not None:
        return keys.due(number, keys.unpack_id(paced))
    jitter_ms = context.catalog.profile(row[rows.JOB_PROFILE]).jitter_ms
    scheduled_for_ms = keys.unpack_id(row[rows.JOB_SCHEDULED_FOR])
    return keys.due(number, scheduled_for_ms + (job_jitter_ms(number, jitter_ms) if jitter_ms else 0))


def put(context: Context, job: bytes, row: bytes) -> None:
    """For a job that is to wait for the time in its row."""
    kind = rows.DUE_TICK if row[rows.JOB_SCHEDULE] != bytes(4) else rows.DUE_FIRST
    context.writer.put(context.tables.due, key_of(context, job, row), kind)


def remove(context: Context, job: bytes, row: bytes) -> None:
    """For a job that waits. Raises ImpossibleState when it has no due row."""
    if not context.writer.delete(context.tables.due, key_of(context, job, row)):
        raise ImpossibleState(f"job {keys.unpack_id(job)} waits but has no due row")
    context.writer.delete(context.tables.extras, keys.extra(job, keys.EXTRA_PACED))


def is_there(context: Context, job: bytes, row: bytes) -> bool:
    """For a job that waits: while Fire works on it, it is not."""
    return context.writer.get(context.tables.due, key_of(context, job, row)) is not None
