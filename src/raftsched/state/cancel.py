"""CancelJob: a compare-and-set from what has not begun to CANCELLED."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState, JobFinished, JobNotFound, JobRunning
from raftsched.model.jitter import job_jitter_ms
from raftsched.model.transitions import ExecutionState
from raftsched.state import catch_up, due_row, endings, graph, leases, overlap, skipped
from raftsched.state.context import Context
from raftsched.state.lifecycle import CANCEL, IS_TERMINAL
from raftsched.state.results import CancelNeedsWorker, JobCancelled
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2

# Executions of one job looked at, newest first, for those that are not finished. Only ALLOW and replays let more
# than one be under way. Of a job with more, the older ones are cancelled when their turn to be leased comes.
MAX_EXECUTIONS = 1_000

# Key and row.
Execution = tuple[bytes, bytes]


def apply_cancel_job(context: Context, command: command_pb2.CancelJob) -> JobCancelled | CancelNeedsWorker:
    """Raises JobNotFound, JobRunning or JobFinished, having written nothing."""
    number = keys.pack_id(command.job)
    row = context.writer.get(context.tables.jobs, number)
    if row is None:
        raise JobNotFound(job=str(command.job))
    job = rows.JobRow.unpack(row)
    if job.state == rows.JOB_CANCELLED:
        return JobCancelled(command.job)
    under_way, has_older = executions_under_way(context, row[rows.JOB_LAST_EXECUTION])
    if job.state in (rows.JOB_FIRED, rows.JOB_COMPLETED) and not under_way:
        raise JobFinished(job=str(command.job))
    for execution, found in under_way:
        if found[rows.EXECUTION_STATUS] == ExecutionState.RUNNING:
            raise JobRunning(job=str(command.job), execution=str(keys.unpack_id(execution)))
    for execution, found in under_way:
        session, token = keys.unpack_pair(found[rows.EXECUTION_LEASE])
        if found[rows.EXECUTION_STATUS] == ExecutionState.LEASED and token != command.dropped_token:
            return CancelNeedsWorker(command.job, keys.unpack_id(execution), token, session)
    # First of all, or the end of the one before would start the next.
    overlap.drop_waiting(context, number, row, execution_pb2.SKIP_REASON_CANCELLED)
    for execution, found in under_way:
        _cancel_execution(context, execution, found)
    if has_older:
        context.writer.put(context.tables.meta, keys.META_CANCELLING + number, b"")
        context.cancelling.add(number)
    _stop_waiting(context, command.job, row, job)
    value = bytes((rows.JOB_CANCELLED,)) + row[1:37] + keys.pack_id(context.now_ms) + row[45:]
    context.writer.put(context.tables.jobs, number, value)
    context.state.jobs_cancelled += 1
    graph.cancelled(context, number, row[rows.JOB_LAST_EXECUTION])
    return JobCancelled(command.job)


def executions_under_way(context: Context, newest: bytes) -> tuple[list[Execution], bool]:
    """The executions of a job that are not finished, newest first; whether there are older ones not looked at."""
    found: list[Execution] = []
    execution = newest
    for _ in range(MAX_EXECUTIONS):
        if execution == keys.NO_EXECUTION:
            break
        row = context.writer.get(context.tables.executions, execution)
        if row is None:
            # What came before is over and not kept any more.
            return found, False
        if row[rows.EXECUTION_STATUS] not in IS_TERMINAL:
            found.append((execution, row))
        execution = row[8:16]
    return found, execution != keys.NO_EXECUTION


def _cancel_execution(context: Context, execution: bytes, row: bytes) -> None:
    """Takes it from wherever it waits."""
    status = row[rows.EXECUTION_STATUS]
    number = keys.unpack_id(execution)
    if status == ExecutionState.PENDING:
        context.ready.remove(context.catalog.profile(row[rows.EXECUTION_PROFILE]).lane, number)
    elif status in (ExecutionState.FAILED, ExecutionState.SNOOZED):
        decoded = rows.ExecutionRow.unpack(row)
        if not context.writer.delete(context.tables.due, keys.due(decoded.job, decoded.changed_ms, number)):
            raise ImpossibleState(f"execution {number} waits to run again but has no due row")
    else:
        leases.remove(context, row[rows.EXECUTION_LEASE], execution)
    end_as_cancelled(context, execution, row)


def end_as_cancelled(context: Context, execution: bytes, row: bytes) -> None:
    """Writes an execution that waits nowhere any more as CANCELLED."""
    value = cancelled_row(row)
    context.writer.put(context.tables.executions, execution, value)
    endings.ended(context, [(execution, value)], ExecutionState.CANCELLED)


def cancelled_row(row: bytes) -> bytes:
    """An execution's row with the status CANCELLED."""
    cancelled = row[: rows.EXECUTION_STATUS] + CANCEL[row[rows.EXECUTION_STATUS]] + row[71:87]
    return cancelled + bytes(8) + row[95:] if len(row) > rows.EXECUTION_BYTES else cancelled


def _stop_waiting(context: Context, number: int, row: bytes, job: rows.JobRow) -> None:
    """Removes the job from due or starved; occurrences that have passed are recorded as skipped."""
    key = keys.pack_id(number)
    tick_number, is_starved = None, False
    if job.schedule and job.state != rows.JOB_COMPLETED:
        schedule = context.catalog.schedule(row[rows.JOB_SCHEDULE])
        context.ticks.use(schedule, -1)
        # Also while it is paused, where it has such a row.
        is_starved = context.writer.delete(context.tables.starved, keys.starved(job.schedule, number))
        tick_number = context.writer.get(context.tables.extras, keys.extra(key, keys.EXTRA_TICK_NUMBER))
        catch_up.caught_up(context, key, row)
    reason = execution_pb2.SKIP_REASON_CANCELLED
    if job.state == rows.JOB_WAITING:
        due_row.remove(context, key, row)
    elif job.state == rows.JOB_PAUSED and not is_starved:
        reason = execution_pb2.SKIP_REASON_PAUSED
    else:
        return
    jitter_ms = job_jitter_ms(number, context.catalog.profile(row[rows.JOB_PROFILE]).jitter_ms)
    if job.scheduled_for_ms + jitter_ms > context.now_ms:
        return
    last_ms, count = job.scheduled_for_ms, 1
    if not job.schedule:
        skip = rows.SkippedRow(reason, count, last_ms)
        context.writer.put(context.tables.skipped, keys.skipped(number, last_ms), skip.pack())
        return
    timetable = context.ticks.timetable(schedule)
    last_ms, _, missed = timetable.latest(
        job.scheduled_for_ms,
        context.now_ms - jitter_ms,
        number=keys.unpack_id(tick_number) if tick_number is not None else None,
    )
    skipped.record(context, timetable, key, reason, job.scheduled_for_ms, last_ms, 1 + missed)
