"""What Tick does of a backfill: it finds out what has run, then fires one scheduled time after the other."""

from dataclasses import replace

from raftsched.state import overlap, unfinished
from raftsched.state.backfill import chunks, end, pass_over, pass_over_until
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.store.backfill_rows import BackfillRow, backfill_key, ticks_key
from raftsched.v1 import backfill_pb2, execution_pb2, job_pb2

# Executions that one step of the search looks at.
SEARCH_AT_ONCE = 1_000
# A backfill that has to wait looks no more often than this whether it may go on.
WAIT_MS = 1_000
_PREVIOUS = slice(8, 16)
_FIRED_MS = slice(32, 40)
_FIRED_ALL = int(backfill_pb2.BACKFILL_STATE_DONE)
_CANCELLED = int(backfill_pb2.BACKFILL_STATE_CANCELLED)


def step(context: Context, deadline: bytes) -> None:
    """One step of the backfill whose row in deadlines this is."""
    number = keys.unpack_deadline(deadline)[2]
    (value,) = context.writer.get_all(context.tables.backfills, [backfill_key(number)])
    row = BackfillRow.unpack(value)
    job_key = keys.pack_id(row.job)
    job = context.writer.get(context.tables.jobs, job_key)
    if job is None or job[rows.JOB_STATE] == rows.JOB_CANCELLED:
        end(context, number, row, _CANCELLED)
    elif row.search:
        _search(context, number, row, job_key)
    else:
        _fire(context, number, row, job_key, job)


def _search(context: Context, number: int, row: BackfillRow, job_key: bytes) -> None:
    """Passes over the times that have an execution: none of those is older than the first of these times."""
    ran: set[int] = set()
    execution, searched_ms, passed = row.search, row.searched_ms, 0
    for _ in range(SEARCH_AT_ONCE):
        found = context.writer.get(context.tables.executions, keys.pack_id(execution))
        if found is None or found[rows.EXECUTION_JOB] != job_key:
            # What ran before is not kept any more, so nobody can tell: all up to then counts as run.
            passed += pass_over_until(context, number, searched_ms)
            execution = 0
            break
        searched_ms = keys.unpack_id(found[_FIRED_MS])
        ran.add(keys.unpack_id(found[rows.EXECUTION_SCHEDULED_FOR]))
        execution = keys.unpack_id(found[_PREVIOUS]) if searched_ms >= row.start_ms else 0
        if not execution:
            break
    passed += pass_over(context, number, ran)
    row = replace(row, search=execution, searched_ms=searched_ms, passed_over=row.passed_over + passed)
    _plan(context, number, row, context.now_ms)


def _fire(context: Context, number: int, row: BackfillRow, job_key: bytes, job: bytes) -> None:
    found = chunks(context, number, 1)
    if not found:
        end(context, number, row, _FIRED_ALL)
        return
    if _must_wait(context, job_key, job):
        _plan(context, number, row, context.now_ms + max(row.interval_ms, WAIT_MS))
        return
    key, column = found[0]
    tick_ms = keys.unpack_id(column[: keys.ID_BYTES])
    rest = column[keys.ID_BYTES :]
    context.writer.delete(context.tables.backfills, key)
    if rest:
        context.writer.put(context.tables.backfills, ticks_key(number, keys.unpack_id(rest[: keys.ID_BYTES])), rest)
    cause = execution_pb2.EXECUTION_CAUSE_BACKFILL
    overlap.start(context, job_key, job, tick_ms, cause, profile=keys.pack_small_id(row.profile))
    row = replace(row, fired=row.fired + 1)
    if rest or chunks(context, number, 1):
        _plan(context, number, row, context.now_ms + row.interval_ms)
    else:
        end(context, number, row, _FIRED_ALL)


def _must_wait(context: Context, job_key: bytes, job: bytes) -> bool:
    """While the job is paused, or its overlap policy would skip, queue or replace anything."""
    if job[rows.JOB_STATE] == rows.JOB_PAUSED or overlap.is_refused(context, job_key, job):
        return True
    policy = context.catalog.profile(job[rows.JOB_PROFILE]).message.overlap
    if policy not in (job_pb2.OVERLAP_POLICY_QUEUE, job_pb2.OVERLAP_POLICY_REPLACE):
        return False
    return bool(unfinished.of_job(context, job_key, 1))


def _plan(context: Context, number: int, row: BackfillRow, next_ms: int) -> None:
    """Writes the row, with its next step at that time."""
    context.writer.delete(context.tables.deadlines, keys.deadline(keys.BACKFILL, row.next_ms, number))
    context.writer.put(context.tables.deadlines, keys.deadline(keys.BACKFILL, next_ms, number), b"")
    context.writer.put(context.tables.backfills, backfill_key(number), replace(row, next_ms=next_ms).pack())
