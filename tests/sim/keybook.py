"""Keys that handlers claim: who has them, what is known of them."""

from dataclasses import dataclass, field

from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context
from raftsched.store import keys, rows
from tests.sim.timeline import Violation

_HELD = (ExecutionState.LEASED, ExecutionState.RUNNING)


@dataclass(frozen=True, slots=True)
class Done:
    """A key whose completion was confirmed; until then, by the replicated clock, nobody else may do it."""

    token: int
    result: bytes
    until_ms: int


@dataclass(slots=True)
class KeyBook:
    """What is known of keys."""

    done: dict[str, Done] = field(default_factory=dict)


def check_row(context: Context, key: bytes, value: bytes) -> None:
    """A key's row is about to be written. Raises Violation when it takes the key from who has it."""
    new = rows.DedupRow.unpack(value)
    before = context.writer.get(context.tables.dedup, key)
    old = rows.DedupRow.unpack(before) if before is not None else None
    if old is not None and old.expiry_ms <= context.now_ms:
        old = None
    if old is not None and old.completed and (new.token, new.completed, new.result) != (old.token, True, old.result):
        raise Violation(f"a key that {old.token} completed went to {new.token}")
    is_same = old is not None and old.token == new.token
    if old is not None and not is_same and _is_held(context, old):
        raise Violation(f"a key that {old.token} has, under a lease that is valid, went to {new.token}")
    if not new.completed and not _is_held(context, new):
        raise Violation(f"a key went to {new.token}, whose lease is over")


def _is_held(context: Context, claim: rows.DedupRow) -> bool:
    value = context.writer.get(context.tables.executions, keys.pack_id(claim.execution))
    row = rows.ExecutionRow.unpack(value) if value is not None else None
    return row is not None and row.token == claim.token and row.status in _HELD
