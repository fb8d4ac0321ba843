"""PutLimit and DeleteLimit: checked, then kept by their scope and name."""

from dataclasses import replace

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.context import Context
from raftsched.state.limits import EXECUTION, handler_slot, level_at, queue_slot, tenant_slot
from raftsched.state.results import Done, LimitStored
from raftsched.store import keys, rows
from raftsched.v1 import limit_pb2

# What the names of each scope are interned as, and where a limit of it is kept.
_SCOPES = {
    int(limit_pb2.LIMIT_SCOPE_QUEUE): (keys.QUEUE, queue_slot),
    int(limit_pb2.LIMIT_SCOPE_TENANT): (keys.TENANT, tenant_slot),
    int(limit_pb2.LIMIT_SCOPE_HANDLER): (keys.HANDLER, handler_slot),
}


def apply_put_limit(context: Context, command: command_pb2.PutLimit) -> LimitStored:
    """Raises InvalidField, having written nothing."""
    _check(command)
    key = keys.limit(command.scope, command.name)
    value = context.writer.get(context.tables.limits, key)
    if value is None and len(context.limits) >= limits.LIMITS_MAX:
        raise InvalidField(f"there are {limits.LIMITS_MAX:,} limits already; delete one first", field="limit")
    kind, slot_of = _SCOPES[command.scope]
    number = context.catalog.intern(kind, command.name)
    slot = slot_of(number)
    old = rows.LimitRow.unpack(value) if value is not None else None
    row = rows.LimitRow(
        concurrency=command.concurrency,
        rate=command.rate,
        burst=(command.burst or max(1, command.rate // 1000)) if command.rate else 0,
        weight=command.weight or 1,
        level=0,
        at_ms=context.now_ms,
        id=number,
    )
    if old is not None and _same(old, row):
        return LimitStored(old, context.limits.leased(slot))
    # A new rate begins with a full bucket; one that is replaced by another is not filled by that.
    level = level_at(old, context.now_ms) if old is not None and old.rate else row.burst * EXECUTION
    row = replace(row, level=min(level, row.burst * EXECUTION))
    context.limits.put(slot, key, row)
    context.ready.limits_eased((slot,))
    return LimitStored(row, context.limits.leased(slot))


def apply_delete_limit(context: Context, command: command_pb2.DeleteLimit) -> Done:
    """Raises InvalidField, having written nothing."""
    _check_name(command.scope, command.name)
    value = context.writer.get(context.tables.limits, keys.limit(command.scope, command.name))
    if value is not None:
        _, slot_of = _SCOPES[command.scope]
        slot = slot_of(rows.LimitRow.unpack(value).id)
        context.limits.delete(slot)
        context.ready.limits_eased((slot,))
    return Done()


def _check(command: command_pb2.PutLimit) -> None:
    _check_name(command.scope, command.name)
    for name, high in (
        ("concurrency", limits.CONCURRENCY_MAX),
        ("rate", limits.RATE_PER_S_MAX * 1000),
        ("burst", limits.BURST_MAX),
        ("weight", limits.WEIGHT_MAX),
    ):
        if getattr(command, name) > high:
            raise InvalidField(f"is not 0–{high:,}", field=f"limit.{name}")
    if command.burst and not command.rate:
        raise InvalidField("means nothing without a rate", field="limit.burst")
    if command.weight and command.scope != limit_pb2.LIMIT_SCOPE_TENANT:
        raise InvalidField("only tenants are served by weight", field="limit.weight")
    if not (command.concurrency or command.rate or command.weight):
        raise InvalidField("limits nothing; set concurrency, a rate, or a tenant's weight", field="limit")


def _check_name(scope: int, name: str) -> None:
    if scope not in _SCOPES:
        raise InvalidField("is not a scope; QUEUE, TENANT and HANDLER are right", field="limit.scope")
    if not 1 <= len(name.encode()) <= keys.MAX_INTERNED_BYTES:
        raise InvalidField("is empty or too long", field="limit.name")


def _same(old: rows.LimitRow, new: rows.LimitRow) -> bool:
    return (old.concurrency, old.rate, old.burst, old.weight) == (new.concurrency, new.rate, new.burst, new.weight)
