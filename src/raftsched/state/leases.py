"""Lease blocks: which executions a session holds under which token, until they are settled or lost."""

from collections.abc import Iterable

from raftsched.model.errors import ImpossibleState
from raftsched.state.context import Context
from raftsched.store import keys, rows


def add(context: Context, session: int, executions: bytes, run_timeouts_ms: Iterable[int]) -> None:
    """A new block under the token of this command."""
    timeouts = tuple(sorted(run_timeouts_ms))
    block = rows.LeaseRow(context.now_ms, timeouts, executions)
    context.writer.put(context.tables.leases, keys.lease(session, context.token), block.pack())
    for timeout_ms in timeouts:
        key = keys.deadline(keys.RUN_TIMEOUT, context.now_ms + timeout_ms, session, context.token)
        context.writer.put(context.tables.deadlines, key, keys.pack_id(timeout_ms))
    context.state.leased += len(executions) // keys.ID_BYTES


def find(context: Context, key: bytes) -> rows.LeaseRow | None:
    """The block of a (session, token) key."""
    value = context.writer.get(context.tables.leases, key)
    return rows.LeaseRow.unpack(value) if value is not None else None


def of_session(context: Context, session: int) -> list[bytes]:
    """The keys of all blocks of a session, oldest first."""
    prefix = keys.pack_id(session)
    found = []
    cursor = context.writer.cursor(context.tables.leases)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if not key.startswith(prefix):
                break
            found.append(key)
    return found


def remove(context: Context, key: bytes, executions: bytes) -> None:
    """Takes executions (a column) out of a block that holds them; an empty block goes, with its deadlines."""
    block = find(context, key)
    if block is None:
        raise ImpossibleState("an execution is leased but its lease block is missing")
    left = _without(block.executions, executions)
    removed = len(block.executions) - len(left)
    if removed != len(executions):
        raise ImpossibleState("an execution is leased but not in its lease block")
    context.state.leased -= removed // keys.ID_BYTES
    if left:
        value = rows.LeaseRow(block.leased_ms, block.run_timeouts_ms, left).pack()
        context.writer.put(context.tables.leases, key, value)
        return
    context.writer.delete(context.tables.leases, key)
    session, token = keys.unpack_pair(key)
    for timeout_ms in block.run_timeouts_ms:
        deadline = keys.deadline(keys.RUN_TIMEOUT, block.leased_ms + timeout_ms, session, token)
        # Already gone if it has been reached.
        context.writer.delete(context.tables.deadlines, deadline)


def _without(held: bytes, gone: bytes) -> bytes:
    if held == gone:
        return b""
    at = held.find(gone)
    if at >= 0 and at % keys.ID_BYTES == 0:
        return held[:at] + held[at + len(gone) :]
    settled = set(keys.split_ids(gone))
    return b"".join([number for number in keys.split_ids(held) if number not in settled])
