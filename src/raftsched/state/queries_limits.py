"""Reads of limits, with what is leased under each."""

from collections.abc import Iterator
from dataclasses import dataclass

from raftsched.state.catalog import decode_profile
from raftsched.state.limits import slots_of
from raftsched.state.queries import Page
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.v1 import limit_pb2

_KINDS = {
    int(limit_pb2.LIMIT_SCOPE_QUEUE): keys.QUEUE,
    int(limit_pb2.LIMIT_SCOPE_TENANT): keys.TENANT,
    int(limit_pb2.LIMIT_SCOPE_HANDLER): keys.HANDLER,
}


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """A limit; `leased` executions count against its concurrency now."""

    scope: int
    name: str
    row: rows.LimitRow
    leased: int


def list_limits(view: View, *, after: tuple[int, int] | None, limit: int) -> Page[LimitRecord, tuple[int, int]]:
    """In order of scope and name, from the one that follows `after` on: the scope and the id of a name."""
    leased = _leased(view)
    items: list[LimitRecord] = []
    size_bytes = 0
    for key, value in _following(view, after):
        if len(items) == limit:
            last = items[-1]
            return Page(items, (last.scope, last.row.id), len(items), size_bytes)
        row = rows.LimitRow.unpack(value)
        items.append(LimitRecord(key[0], key[1:].decode(), row, leased.get(key[0] << 32 | row.id, 0)))
        size_bytes += len(key) + len(value)
    return Page(items, None, len(items), size_bytes)


def _following(view: View, after: tuple[int, int] | None) -> Iterator[tuple[bytes, bytes]]:
    start = b""
    if after is not None:
        kind = _KINDS.get(after[0])
        name = view.get(view.tables.interned, keys.interned_text(kind, after[1])) if kind is not None else None
        if name is None:
            return
        start = keys.limit(after[0], name.decode())
    cursor = view.cursor(view.tables.limits)
    if not cursor.set_range(start):
        return
    for key, value in cursor.iternext():
        if key != start:
            yield key, value


def _leased(view: View) -> dict[int, int]:
    """Executions that are leased or running, by slot."""
    by_profile: dict[int, int] = {}
    for _, value in view.cursor(view.tables.leases):
        for number, count in rows.LeaseRow.unpack(value).profiles:
            by_profile[number] = by_profile.get(number, 0) + count
    leased: dict[int, int] = {}
    for number, count in by_profile.items():
        profile = view.get(view.tables.profiles, keys.pack_small_id(number))
        assert profile is not None, "a lease block names an unknown profile"
        for slot in slots_of(decode_profile(number, profile)):
            leased[slot] = leased.get(slot, 0) + count
    return leased
