"""The limits that are set, and how much is leased under each: how many executions more each of them lets through.

What is leased is counted in memory only, for every queue, tenant, handler and concurrency key; it is what the lease
blocks say. A rate limit is a bucket that fills by the replicated clock; what it holds is in its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raftsched.state.catalog import Catalog, Profile
from raftsched.store import keys, rows
from raftsched.store.writer import Writer
from raftsched.v1 import limit_pb2

# What one execution takes out of a bucket. A rate is executions in 1,000 s, hence as many of these in a millisecond.
EXECUTION = 1_000_000

_QUEUE = limit_pb2.LIMIT_SCOPE_QUEUE << 32
_TENANT = limit_pb2.LIMIT_SCOPE_TENANT << 32
_HANDLER = limit_pb2.LIMIT_SCOPE_HANDLER << 32
# The scope of concurrency keys, which have no limits of their own: jobs name the limit with the key.
_KEY = 15 << 32


def queue_slot(queue: int) -> int:
    """The number under which a limit of a queue, and what is leased of that queue, are kept."""
    return _QUEUE | queue


def tenant_slot(tenant: int) -> int:
    return _TENANT | tenant


def handler_slot(handler: int) -> int:
    return _HANDLER | handler


def key_slot(concurrency_key: int) -> int:
    return _KEY | concurrency_key


def slots_of(profile: Profile) -> tuple[int, ...]:
    """Everything that an execution counts for."""
    slots = (_QUEUE | profile.queue, _TENANT | profile.tenant, _HANDLER | profile.handler)
    return (*slots, _KEY | profile.concurrency_key) if profile.concurrency_key else slots


def level_at(row: rows.LimitRow, now_ms: int) -> int:
    """What a limit's bucket holds."""
    return min(row.burst * EXECUTION, row.level + row.rate * (now_ms - row.at_ms))


class Limits:
    """Used on the core thread."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._table = writer.tables.limits
        # By slot: key and row.
        self._limits: dict[int, tuple[bytes, rows.LimitRow]] = {}
        self._leased: dict[int, int] = {}
        for key, value in writer.cursor(self._table):
            row = rows.LimitRow.unpack(value)
            self._limits[key[0] << 32 | row.id] = (key, row)
        for _, value in writer.cursor(writer.tables.leases):
            for number, count in rows.LeaseRow.unpack(value).profiles:
                self._count(catalog.profile(keys.pack_small_id(number)), count)

    def __len__(self) -> int:
        return len(self._limits)

    def find(self, slot: int) -> rows.LimitRow | None:
        found = self._limits.get(slot)
        return found[1] if found is not None else None

    def put(self, slot: int, key: bytes, row: rows.LimitRow) -> None:
        self._limits[slot] = (key, row)
        self._writer.put(self._table, key, row.pack())

    def delete(self, slot: int) -> None:
        key, _ = self._limits.pop(slot)
        self._writer.delete(self._table, key)

    def leased(self, slot: int) -> int:
        """Executions leased or running now."""
        return self._leased.get(slot, 0)

    def weight(self, tenant: int) -> int:
        row = self.find(_TENANT | tenant)
        return row.weight if row is not None else 1

    def room(self, slot: int, now_ms: int) -> int | None:
        """How many more may be leased now; None: any number."""
        row = self.find(slot)
        if row is None or not (row.concurrency or row.rate):
            return None
        rooms = []
        if row.concurrency:
            rooms.append(row.concurrency - self._leased.get(slot, 0))
        if row.rate:
            rooms.append(level_at(row, now_ms) // EXECUTION)
        return max(0, min(rooms))

    def key_room(self, concurrency_key: int, concurrency_limit: int) -> int:
        """As `room`, of jobs that name this key with this limit."""
        return max(0, concurrency_limit - self._leased.get(_KEY | concurrency_key, 0))

    def refill_ms(self, slot: int, now_ms: int) -> int | None:
        """When the next execution may be leased; None when that does not depend on time alone."""
        row = self.find(slot)
        if row is None or not row.rate or (row.concurrency and row.concurrency <= self._leased.get(slot, 0)):
            return None
        missing = EXECUTION - level_at(row, now_ms)
        return now_ms + max(0, -(-missing // row.rate))

    def began(self, profiles: Iterable[tuple[Profile, int]], now_ms: int) -> None:
        """So many executions of these profiles have been leased."""
        for profile, count in profiles:
            self._count(profile, count)
            if not self._limits:
                continue
            for slot in slots_of(profile):
                found = self._limits.get(slot)
                if found is not None and found[1].rate:
                    key, row = found
                    level = level_at(row, now_ms) - count * EXECUTION
                    self.put(slot, key, replace(row, level=level, at_ms=now_ms))

    def ended(self, profile: Profile, count: int) -> tuple[int, ...]:
        """So many executions of the profile are not leased any more; the slots of what may let more through now."""
        return self._count(profile, -count)

    def _count(self, profile: Profile, count: int) -> tuple[int, ...]:
        leased = self._leased
        slots = slots_of(profile)
        for slot in slots:
            number = leased.get(slot, 0) + count
            if number:
                leased[slot] = number
            else:
                del leased[slot]
        return slots
