"""Ends an execution as CANCELLED wherever it is: it leaves its queue or its backoff, or its worker loses the lease."""

from raftsched.model.errors import ImpossibleState
from raftsched.model.transitions import ExecutionState
from raftsched.state import endings, leases
from raftsched.state.context import Context
from raftsched.state.lifecycle import RETRY, REVOKE
from raftsched.state.results import LeaseEnded
from raftsched.store import keys, rows

_STATUS = rows.EXECUTION_STATUS


def revoke(context: Context, execution: bytes, row: bytes, reason: int) -> None:
    """Cancels an execution that is not finished, by force.

    Nothing that its worker says under the old token counts any more; it is told so with `reason`, a value of
    raftsched.v1.CancelReason.
    """
    status = row[_STATUS]
    number = keys.unpack_id(execution)
    ended = row[79:87]
    if status == ExecutionState.PENDING:
        context.ready.remove(context.catalog.profile(row[rows.EXECUTION_PROFILE]).lane, number)
    elif status in RETRY:
        decoded = rows.ExecutionRow.unpack(row)
        if not context.writer.delete(context.tables.due, keys.due(decoded.job, decoded.changed_ms, number)):
            raise ImpossibleState(f"execution {number} waits for its next attempt but has no due row")
    else:
        leases.remove(context, row[rows.EXECUTION_LEASE], execution)
        session, token = keys.unpack_pair(row[rows.EXECUTION_LEASE])
        context.effects.leases_ended.append(LeaseEnded(session, token, [number], reason))
        ended = keys.pack_id(context.now_ms) if status == ExecutionState.RUNNING else ended
    end_as_revoked(context, execution, row, ended)


def end_as_revoked(
    context: Context, execution: bytes, row: bytes, ended: bytes | None = None, *, error: str = ""
) -> None:
    """Writes an execution that waits nowhere any more as CANCELLED; `ended` is its ended_ms, packed.

    `error` takes the place of that of an earlier attempt.
    """
    value = row[:_STATUS] + REVOKE[row[_STATUS]] + row[71:79] + (row[79:87] if ended is None else ended)
    if error:
        value += bytes(8) + (row[95:111] or bytes(16)) + error.encode()
    elif len(row) > rows.EXECUTION_BYTES:
        value += bytes(8) + row[95:]
    context.writer.put(context.tables.executions, execution, value)
    endings.ended(context, [(execution, value)], ExecutionState.CANCELLED)
