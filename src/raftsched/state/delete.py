"""DeleteJob: the job goes at once, and its name is free; its history follows in bounded steps of Tick."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import JobNotFound, JobStateForbids
from raftsched.model.transitions import ExecutionState
from raftsched.state import backfill, removal, unfinished
from raftsched.state.cancel import apply_cancel_job, executions_under_way
from raftsched.state.context import Context
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.results import JobChanged
from raftsched.state.revoke import revoke
from raftsched.store import keys, rows
from raftsched.v1 import worker_pb2

# Executions, and skipped ranges, of one job that one step removes.
STEP = 500
_STATUS = rows.EXECUTION_STATUS
_HELD = (ExecutionState.LEASED, ExecutionState.RUNNING)


def apply_delete_job(context: Context, command: command_pb2.DeleteJob) -> JobChanged:
    """Raises JobNotFound or JobStateForbids, having written nothing. Nothing if it is deleted already."""
    key = keys.pack_id(command.job)
    row = context.writer.get(context.tables.jobs, key)
    if row is None:
        if not 0 < command.job <= context.state.jobs:
            raise JobNotFound(job=str(command.job))
        return JobChanged(command.job)
    found, _ = executions_under_way(context, row[rows.JOB_LAST_EXECUTION])
    tracked = unfinished.of_job(context, key, STEP)
    found += context.writer.get_many(context.tables.executions, tracked)
    for execution, value in found:
        if value[_STATUS] in _HELD:
            raise JobStateForbids(
                "an execution of the job is leased or running",
                job=str(command.job),
                execution=str(keys.unpack_id(execution)),
            )
    if row[rows.JOB_STATE] != rows.JOB_CANCELLED and (found or not _is_over(row)):
        apply_cancel_job(context, command_pb2.CancelJob(job=command.job))
        row = context.writer.get_all(context.tables.jobs, [key])[0]
    removal.remove_closed_job(context, key, row)
    rest = keys.deadline(keys.DELETION, context.now_ms, command.job)
    context.writer.put(context.tables.deadlines, rest, row[rows.JOB_LAST_EXECUTION])
    remove_some(context, rest)
    return JobChanged(command.job)


def remove_some(context: Context, rest: bytes) -> None:
    """Removes a bounded part of what a deleted job has left behind; the row `rest` of deadlines goes with the last."""
    job = keys.pack_id(keys.unpack_deadline(rest)[2])
    newest = context.writer.get_all(context.tables.deadlines, [rest])[0]
    gone: dict[bytes, bytes] = {}
    execution = newest
    while execution != keys.NO_EXECUTION and len(gone) < STEP:
        row = context.writer.get(context.tables.executions, execution)
        if row is None or row[rows.EXECUTION_JOB] != job:
            execution = keys.NO_EXECUTION
            break
        gone[execution] = _ended(context, execution, row)
        execution = row[8:16]
    if gone:
        numbers = sorted(gone)
        removal.remove_executions(context, numbers, [gone[number] for number in numbers])
    is_last = execution == keys.NO_EXECUTION and _remove_skipped(context, job) < STEP
    if is_last and backfill.forget_some(context, job, removal.BACKFILLS_AT_ONCE) < removal.BACKFILLS_AT_ONCE:
        context.writer.delete(context.tables.deadlines, rest)
    elif execution != newest:
        context.writer.put(context.tables.deadlines, rest, execution)


def _is_over(row: bytes) -> bool:
    return row[rows.JOB_STATE] in (rows.JOB_FIRED, rows.JOB_COMPLETED)


def _ended(context: Context, execution: bytes, row: bytes) -> bytes:
    """Its row, once it stands in no index any more."""
    if row[_STATUS] not in IS_TERMINAL:
        # Behind more executions than were looked at.
        revoke(context, execution, row, worker_pb2.CANCEL_REASON_REQUESTED)
        return context.writer.get_all(context.tables.executions, [execution])[0]
    decoded = rows.ExecutionRow.unpack(row)
    if decoded.status == ExecutionState.DEAD_LETTER and not decoded.replayed_as:
        namespace = context.catalog.profile(row[rows.EXECUTION_PROFILE]).namespace
        entry = keys.dead_letter(namespace, decoded.changed_ms, keys.unpack_id(execution))
        context.writer.delete(context.tables.dead_letters, entry)
        context.state.dead_letters -= 1
    return row


def _remove_skipped(context: Context, job: bytes) -> int:
    """How many there were."""
    cursor = context.writer.cursor(context.tables.skipped)
    found: list[bytes] = []
    if cursor.set_range(job):
        for key in cursor.iternext(values=False):
            if not key.startswith(job) or len(found) == STEP:
                break
            found.append(key)
    if found:
        context.writer.delete_neighbours(context.tables.skipped, found)
    return len(found)
