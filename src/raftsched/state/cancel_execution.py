"""CancelExecution: what has not begun is cancelled at once, what runs is asked to stop."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionFinished, ExecutionNotFound
from raftsched.model.transitions import ExecutionState
from raftsched.state import leases
from raftsched.state.context import Context
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.results import CancelNeedsWorker, ExecutionCancelled, LeaseEnded
from raftsched.state.revoke import end_as_revoked, revoke
from raftsched.store import keys, rows
from raftsched.v1 import worker_pb2

_STATUS = rows.EXECUTION_STATUS
_REASON = worker_pb2.CANCEL_REASON_REQUESTED


def apply_cancel_execution(
    context: Context, command: command_pb2.CancelExecution
) -> ExecutionCancelled | CancelNeedsWorker:
    """Raises ExecutionNotFound or ExecutionFinished, having written nothing.

    One that has begun goes on until its worker reports its end, its run timeout is over or its lease is lost; then it
    is CANCELLED, unless it has succeeded. Repeating the command tells its worker again.
    """
    number = keys.pack_id(command.execution)
    row = context.writer.get(context.tables.executions, number)
    if row is None:
        raise ExecutionNotFound(execution=str(command.execution))
    status = row[_STATUS]
    if status == ExecutionState.CANCELLED:
        return ExecutionCancelled(command.execution)
    if status in IS_TERMINAL:
        raise ExecutionFinished(execution=str(command.execution), state=ExecutionState(status).name)
    session, token = keys.unpack_pair(row[rows.EXECUTION_LEASE])
    if status == ExecutionState.RUNNING or (status == ExecutionState.LEASED and token == command.begun_token):
        _ask_to_stop(context, number, row)
    elif status != ExecutionState.LEASED:
        revoke(context, number, row, _REASON)
    elif token == command.dropped_token:
        leases.remove(context, row[rows.EXECUTION_LEASE], number)
        end_as_revoked(context, number, row)
    else:
        return CancelNeedsWorker(keys.unpack_id(row[rows.EXECUTION_JOB]), command.execution, token, session)
    return ExecutionCancelled(command.execution)


def _ask_to_stop(context: Context, number: bytes, row: bytes) -> None:
    flags = row[rows.EXECUTION_CAUSE]
    if not flags & rows.CANCEL_REQUESTED:
        value = row[: rows.EXECUTION_CAUSE] + bytes((flags | rows.CANCEL_REQUESTED,)) + row[rows.EXECUTION_CAUSE + 1 :]
        context.writer.put(context.tables.executions, number, value)
    session, token = keys.unpack_pair(row[rows.EXECUTION_LEASE])
    context.effects.leases_ended.append(LeaseEnded(session, token, [keys.unpack_id(number)], _REASON))
