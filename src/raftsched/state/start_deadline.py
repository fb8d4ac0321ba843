"""Start deadlines: an occurrence that no worker has taken in time is recorded as skipped and never starts.

Only the first start counts: what waits for another attempt, or lost its lease, has started. A replay, a backfill or a
dependency that is met runs however long ago its scheduled time is.
"""

from collections.abc import Sequence

from raftsched.model.transitions import ExecutionState
from raftsched.state import overlap_queue, skipped
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.revoke import end_as_revoked, revoke
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, worker_pb2

_CAUSES = (0, execution_pb2.EXECUTION_CAUSE_SCHEDULE, execution_pb2.EXECUTION_CAUSE_TRIGGER)
_ATTEMPT = slice(44, 46)
_NO_ATTEMPT = bytes(2)
_SCHEDULED_FOR = slice(16, 24)


def is_over(context: Context, settings: Profile, scheduled_for_ms: int, cause: int) -> bool:
    """Whether an occurrence that has not started must not start any more."""
    deadline_ms = settings.start_deadline_ms
    return bool(deadline_ms) and cause in _CAUSES and context.now_ms >= scheduled_for_ms + deadline_ms


def watch(context: Context, settings: Profile, execution: bytes, scheduled_for_ms: int, cause: int) -> None:
    """Tick looks at the execution when its deadline is over."""
    if settings.start_deadline_ms and cause in _CAUSES:
        deadline_ms = scheduled_for_ms + settings.start_deadline_ms
        key = keys.deadline(keys.START_DEADLINE, deadline_ms, keys.unpack_id(execution))
        context.writer.put(context.tables.deadlines, key, b"")


def watch_waiting(
    context: Context, settings: Profile, job_key: bytes, place: int, scheduled_for_ms: int, cause: int
) -> None:
    """Tick looks at this place of the job's overlap queue when the deadline is over."""
    if settings.start_deadline_ms and cause in _CAUSES:
        deadline_ms = scheduled_for_ms + settings.start_deadline_ms
        key = keys.deadline(keys.START_DEADLINE, deadline_ms, keys.unpack_id(job_key), place)
        context.writer.put(context.tables.deadlines, key, b"")


def record(context: Context, job_key: bytes, job: bytes, scheduled_for_ms: int, cause: int) -> None:
    """Records the occurrence as skipped."""
    reason = execution_pb2.SKIP_REASON_START_DEADLINE
    skipped.record_one(context, job_key, job, reason, scheduled_for_ms, is_tick=not cause)


def without_expired(
    context: Context, numbers: Sequence[bytes], found: Sequence[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Of executions that have left the ready queue to be leased, those that still may start; the others are ended."""
    kept = []
    for number, row in zip(numbers, found, strict=True):
        if _has_expired(context, row):
            end_as_revoked(context, number, row)
            _record_execution(context, row)
        else:
            kept.append((number, row))
    return [number for number, _ in kept], [row for _, row in kept]


def end_one(context: Context, deadline: bytes) -> None:
    """The time of a deadlines row of the kind START_DEADLINE has come; the row is removed."""
    _, _, number, place = keys.unpack_deadline(deadline)
    context.writer.delete(context.tables.deadlines, deadline)
    key = keys.pack_id(number)
    if place:
        _end_waiting(context, key, place)
        return
    row = context.writer.get(context.tables.executions, key)
    if row is not None and row[rows.EXECUTION_STATUS] == ExecutionState.PENDING and _has_expired(context, row):
        revoke(context, key, row, worker_pb2.CANCEL_REASON_REQUESTED)
        _record_execution(context, row)


def _end_waiting(context: Context, job_key: bytes, place: int) -> None:
    occurrence = overlap_queue.find(context, job_key, place)
    job = context.writer.get(context.tables.jobs, job_key)
    if occurrence is None or job is None:
        return
    settings = context.catalog.profile(job[rows.JOB_PROFILE])
    # The place may be another occurrence's by now.
    if is_over(context, settings, occurrence.scheduled_for_ms, occurrence.cause):
        overlap_queue.remove(context, job_key, place)
        record(context, job_key, job, occurrence.scheduled_for_ms, occurrence.cause)


def _has_expired(context: Context, row: bytes) -> bool:
    settings = context.catalog.profile(row[rows.EXECUTION_PROFILE])
    scheduled_for_ms = keys.unpack_id(row[_SCHEDULED_FOR])
    return row[_ATTEMPT] == _NO_ATTEMPT and is_over(context, settings, scheduled_for_ms, rows.cause_of(row))


def _record_execution(context: Context, row: bytes) -> None:
    job_key = row[rows.EXECUTION_JOB]
    job = context.writer.get(context.tables.jobs, job_key)
    if job is not None:
        record(context, job_key, job, keys.unpack_id(row[_SCHEDULED_FOR]), rows.cause_of(row))
