"""Keys that handlers claim, so that what may run twice takes effect once.

A claim belongs to one lease of one execution. Who holds no valid lease claims nothing, so a run that was overtaken
cannot; and a claim whose lease is over without being completed goes to the next who asks.
"""

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField, KeyNotOwned, LeaseOver
from raftsched.model.transitions import ExecutionState
from raftsched.state import timed_keys
from raftsched.state.context import Context
from raftsched.state.results import Done, KeyClaimed
from raftsched.store import keys, rows

_HELD = {int(ExecutionState.LEASED), int(ExecutionState.RUNNING)}


def apply_claim_key(context: Context, command: command_pb2.ClaimKey) -> KeyClaimed:
    """Raises InvalidField, or LeaseOver when the execution is not leased under that token, having written nothing."""
    if not 1 <= len(command.key) <= limits.DEDUP_KEY_MAX_LENGTH:
        raise InvalidField("is empty or too long", field="key")
    if not limits.DEDUP_KEEP_MIN_MS <= command.keep_ms <= limits.DEDUP_KEEP_MAX_MS:
        raise InvalidField("is out of range", field="keep")
    if not _is_held(context, command.execution, command.token):
        raise LeaseOver(execution_id=str(command.execution))
    key = keys.dedup(command.namespace, command.key)
    found = _find(context, key)
    if found is not None and (found.completed or _is_anothers(context, found, command)):
        return KeyClaimed(False, found.completed, found.result, found.token, found.expiry_ms)
    expiry_ms = context.now_ms + command.keep_ms
    claim = rows.DedupRow(expiry_ms, command.keep_ms, command.execution, command.token, completed=False)
    _write(context, key, claim)
    return KeyClaimed(True, False, b"", claim.token, expiry_ms)


def apply_complete_key(context: Context, command: command_pb2.CompleteKey) -> Done:
    """Also when the lease is over: nobody has claimed the key since, so what was done was done once.

    Raises InvalidField, or KeyNotOwned, having written nothing.
    """
    if len(command.result) > limits.RESULT_MAX_BYTES:
        raise InvalidField(f"is larger than {limits.RESULT_MAX_BYTES} bytes", field="result")
    key = keys.dedup(command.namespace, command.key)
    found = _find(context, key)
    if found is None or found.token != command.token:
        raise KeyNotOwned(key=command.key)
    if not found.completed:
        expiry_ms = context.now_ms + found.keep_ms
        done = rows.DedupRow(expiry_ms, found.keep_ms, found.execution, found.token, True, command.result)
        _write(context, key, done)
    return Done()


def forget_expired(context: Context, limit: int) -> int:
    """Removes at most `limit` keys whose time is over; how many."""
    return timed_keys.remove_before(context, context.tables.dedup, keys.dedup_expiry(context.now_ms, b""), limit)


def next_expiry_ms(context: Context) -> int | None:
    """When the next key's time is over; None when there is none."""
    return timed_keys.oldest_ms(context, context.tables.dedup)


def _find(context: Context, key: bytes) -> rows.DedupRow | None:
    """The claim of a key whose time is not over."""
    value = context.writer.get(context.tables.dedup, key)
    row = rows.DedupRow.unpack(value) if value is not None else None
    return row if row is not None and row.expiry_ms > context.now_ms else None


def _write(context: Context, key: bytes, row: rows.DedupRow) -> None:
    before = context.writer.get(context.tables.dedup, key)
    if before is not None:
        expiry = keys.dedup_expiry(rows.DedupRow.unpack(before).expiry_ms, key)
        context.writer.delete(context.tables.dedup, expiry)
    context.writer.put(context.tables.dedup, key, row.pack())
    context.writer.put(context.tables.dedup, keys.dedup_expiry(row.expiry_ms, key), b"")


def _is_anothers(context: Context, claim: rows.DedupRow, command: command_pb2.ClaimKey) -> bool:
    """Whether the claim is of another lease that is not over."""
    if (claim.execution, claim.token) == (command.execution, command.token):
        return False
    return _is_held(context, claim.execution, claim.token)


def _is_held(context: Context, execution: int, token: int) -> bool:
    """Whether the execution is leased, or runs, under this token."""
    row = context.writer.get(context.tables.executions, keys.pack_id(execution))
    if row is None or row[rows.EXECUTION_STATUS] not in _HELD:
        return False
    return row[rows.EXECUTION_TOKEN] == keys.pack_id(token)
