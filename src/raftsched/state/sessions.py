"""Workers' sessions: opened, renewed, ended. What a session held when it ends goes to others."""

from dataclasses import replace

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state import failures, leases
from raftsched.state.context import Context, check_column
from raftsched.state.results import Done, LeaseEnded, Renewed, SessionOpened
from raftsched.store import keys, rows
from raftsched.v1 import worker_pb2


def apply_open_session(context: Context, command: command_pb2.OpenSession) -> SessionOpened:
    """Raises InvalidField, having written nothing."""
    if not 1 <= len(command.worker) <= limits.WORKER_NAME_MAX_LENGTH:
        raise InvalidField("is empty or too long", field="worker")
    if not 1 <= len(command.queues) <= limits.SESSION_QUEUES_MAX:
        raise InvalidField(f"holds {len(command.queues)} queues", field="queues")
    if any(not 1 <= len(queue) <= limits.QUEUE_MAX_LENGTH for queue in command.queues):
        raise InvalidField("holds a name that is empty or too long", field="queues")
    if not 1 <= command.ttl_ms <= limits.DAY_MS:
        raise InvalidField("is out of range", field="ttl_ms")
    context.state.sessions += 1
    session = context.state.sessions
    row = rows.SessionRow(
        open=True,
        expiry_ms=context.now_ms + command.ttl_ms,
        ttl_ms=command.ttl_ms,
        opened_ms=context.now_ms,
        ended_ms=0,
        worker=command.worker,
        queues=tuple(command.queues),
    )
    context.writer.put(context.tables.sessions, keys.pack_id(session), row.pack())
    context.writer.put(context.tables.deadlines, _expiry(session, row), b"")
    context.sessions[session] = row
    return SessionOpened(session)


def apply_close_session(context: Context, command: command_pb2.CloseSession) -> Done:
    """Nothing if it is over already."""
    if command.session in context.sessions:
        end(context, command.session)
    return Done()


def apply_renew(context: Context, command: command_pb2.Renew) -> Renewed:
    """Raises InvalidField, having written nothing."""
    for number, renewal in enumerate(command.sessions):
        check_column(renewal.held_tokens, f"sessions[{number}].held_tokens")
    if not 0 <= command.grant_timeout_ms < keys.MAX_MS:
        raise InvalidField("is out of range", field="grant_timeout_ms")
    lost = []
    for renewal in command.sessions:
        row = context.sessions.get(renewal.session)
        if row is None:
            lost.append(renewal.session)
            continue
        _renew(context, renewal, row)
        # A heartbeat that was held up tells what the worker held long ago; what it was granted since is not lost.
        if renewal.sequence >= row.heartbeat:
            _take_back(context, renewal, context.now_ms - command.grant_timeout_ms)
    return Renewed(lost)


def end(context: Context, session: int) -> None:
    """Ends an open session; all it holds is PENDING again, or dead if it has lost too many leases."""
    row = context.sessions.pop(session)
    context.writer.delete(context.tables.deadlines, _expiry(session, row))
    ended = replace(row, open=False, ended_ms=context.now_ms)
    context.writer.put(context.tables.sessions, keys.pack_id(session), ended.pack())
    for key in leases.of_session(context, session):
        _lose_block(context, key)
    context.effects.sessions_ended.append(session)


def _renew(context: Context, renewal: command_pb2.RenewSession, row: rows.SessionRow) -> None:
    renewed = replace(row, expiry_ms=context.now_ms + row.ttl_ms, heartbeat=max(row.heartbeat, renewal.sequence))
    if renewed == row:
        return
    session = renewal.session
    context.writer.delete(context.tables.deadlines, _expiry(session, row))
    context.writer.put(context.tables.deadlines, _expiry(session, renewed), b"")
    context.writer.put(context.tables.sessions, keys.pack_id(session), renewed.pack())
    context.sessions[session] = renewed


def _take_back(context: Context, renewal: command_pb2.RenewSession, leased_before_ms: int) -> None:
    """Blocks that the worker does not list and that had time to reach it never did: others get them."""
    held = set(keys.split_ids(renewal.held_tokens))
    for key in leases.of_session(context, renewal.session):
        token = key[keys.ID_BYTES :]
        if token in held:
            continue
        block = leases.find(context, key)
        if block is None or block.leased_ms >= leased_before_ms:
            continue
        executions = _lose_block(context, key)
        context.effects.leases_ended.append(
            LeaseEnded(
                renewal.session,
                keys.unpack_id(token),
                keys.unpack_ids(executions),
                worker_pb2.CANCEL_REASON_LEASE_LOST,
            )
        )


def _lose_block(context: Context, key: bytes) -> bytes:
    """Ends one lease block; the executions it held, as a column."""
    block = leases.find(context, key)
    if block is None:
        return b""
    numbers = keys.split_ids(block.executions)
    found = context.writer.get_all(context.tables.executions, numbers)
    leases.remove(context, key, block.executions)
    failures.lose(context, numbers, found)
    return block.executions


def _expiry(session: int, row: rows.SessionRow) -> bytes:
    return keys.deadline(keys.SESSION_EXPIRY, row.expiry_ms, session)
