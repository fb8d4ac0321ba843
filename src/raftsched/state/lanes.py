"""Which lanes of the ready queue have something, arranged by queue, priority and tenant, in memory.

What a limit holds back is parked: it is left out until that limit lets something through again, so that looking for
work costs nothing for a backlog that must wait. Parking is only a shortcut. What is parked could not be leased anyway,
so a replica that has parked nothing, since it has just begun, leases the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

from raftsched.store import keys

# Where the parts of a lane begin and end, the innermost first.
_PARTS = (
    (keys.SHARE_BYTES, keys.LANE_BYTES),
    (keys.LEVEL_BYTES, keys.SHARE_BYTES),
    (keys.QUEUE_BYTES, keys.LEVEL_BYTES),
)


class Lanes:
    """A prefix is a whole lane, a share (a tenant at a priority of a queue), a level (a priority of a queue) or a
    queue."""

    def __init__(self) -> None:
        # Executions by lane; no zeros.
        self._counts: dict[bytes, int] = {}
        # Lanes that are not empty, by share.
        self._siblings: dict[bytes, int] = {}
        # Executions in lanes that are not parked, by share, and in shares that are not parked, by queue.
        self._open: dict[bytes, int] = {}
        # Sorted, by prefix: what continues it and is neither empty nor parked.
        self._parts: dict[bytes, list[bytes]] = {}
        # Prefixes that are parked, with the slot of the limit, and the other way round.
        self._parked: dict[bytes, int] = {}
        self._parked_by: dict[int, dict[bytes, None]] = {}
        # When a rate lets something through again, by the slot of its limit.
        self._refills: dict[int, int] = {}
        # Heaps of (time, slot), by queue, and b"" for all; what _refills does not say any more counts for nothing.
        self._refill_heaps: dict[bytes, list[tuple[int, int]]] = {}

    def change(self, lane: bytes, by: int) -> None:
        """So many executions more, or fewer, are ready in a lane."""
        count = self._counts.get(lane, 0) + by
        share = lane[: keys.SHARE_BYTES]
        if lane not in self._parked:
            self._change_open(share, by)
        if not count:
            del self._counts[lane]
            self._siblings[share] -= 1
            if not self._siblings[share]:
                del self._siblings[share]
            self._leave_out(lane)
            return
        self._counts[lane] = count
        if count == by:
            self._siblings[share] = self._siblings.get(share, 0) + 1
            self._bring_in(lane)

    def parts(self, prefix: bytes) -> Sequence[bytes]:
        """What continues a queue (levels), a level (tenants) or a share (the rest of lanes), in order of key."""
        return self._parts.get(prefix, ())

    def siblings(self, share: bytes) -> int:
        """The lanes of a share that are not empty, parked ones too."""
        return self._siblings.get(share, 0)

    def sole(self, queue: bytes) -> bytes | None:
        """The lane of a queue that has no other, parked or not, under its only tenant; b"" when nothing is open; None
        when there is more to choose from."""
        prefix = queue
        for _ in _PARTS:
            parts = self._parts.get(prefix)
            if parts is None:
                return b""
            if len(parts) > 1:
                return None
            prefix += parts[0]
        return prefix if self._siblings[prefix[: keys.SHARE_BYTES]] == 1 else None

    def open_count(self, queue: bytes) -> int:
        """Executions of a queue that no limit is known to hold back."""
        return 0 if queue in self._parked else self._open.get(queue, 0)

    def park(self, prefix: bytes, slot: int, until_ms: int | None) -> None:
        """Leaves out a lane, share or queue that the limit at `slot` holds back; until a time, if that is known."""
        if prefix in self._parked:
            return
        if len(prefix) == keys.LANE_BYTES:
            self._change_open(prefix[: keys.SHARE_BYTES], -self._counts[prefix])
        elif len(prefix) == keys.SHARE_BYTES:
            self._add_open(prefix[: keys.QUEUE_BYTES], -self._open.get(prefix, 0))
        self._leave_out(prefix)
        self._parked[prefix] = slot
        self._parked_by.setdefault(slot, {})[prefix] = None
        if until_ms is not None:
            self._refills[slot] = until_ms
            for queue in (prefix[: keys.QUEUE_BYTES], b""):
                heappush(self._refill_heaps.setdefault(queue, []), (until_ms, slot))

    @property
    def has_parked(self) -> bool:
        return bool(self._parked)

    def unpark(self, slot: int) -> None:
        """The limit at `slot` may let something through again."""
        for prefix in self._parked_by.pop(slot, ()):
            del self._parked[prefix]
            if len(prefix) == keys.LANE_BYTES:
                if prefix not in self._counts:
                    continue
                self._change_open(prefix[: keys.SHARE_BYTES], self._counts[prefix])
            elif len(prefix) == keys.SHARE_BYTES:
                if prefix not in self._parts:
                    continue
                self._add_open(prefix[: keys.QUEUE_BYTES], self._open.get(prefix, 0))
            self._bring_in(prefix)
        self._refills.pop(slot, None)

    def unpark_refilled(self, now_ms: int) -> None:
        """Brings back what waited for a time that has come."""
        while True:
            refill_ms = self.refill_ms(b"")
            if refill_ms is None or now_ms < refill_ms:
                return
            self.unpark(self._refill_heaps[b""][0][1])

    def refill_ms(self, queue: bytes) -> int | None:
        """When the next of the rates that hold something of a queue back lets it through; b"": of any queue."""
        heap = self._refill_heaps.get(queue)
        while heap:
            until_ms, slot = heap[0]
            if self._refills.get(slot) == until_ms:
                return until_ms
            heappop(heap)
        return None

    def _bring_in(self, prefix: bytes) -> None:
        for start, end in _PARTS:
            if end > len(prefix):
                continue
            if prefix[:end] in self._parked:
                return
            parts = self._parts.get(prefix[:start])
            if parts is not None:
                part = prefix[start:end]
                at = bisect_left(parts, part)
                if at == len(parts) or parts[at] != part:
                    insort(parts, part)
                return
            self._parts[prefix[:start]] = [prefix[start:end]]

    def _leave_out(self, prefix: bytes) -> None:
        for start, end in _PARTS:
            if end > len(prefix):
                continue
            parts = self._parts.get(prefix[:start])
            part = prefix[start:end]
            if parts is None:
                return
            at = bisect_left(parts, part)
            if at == len(parts) or parts[at] != part:
                return
            if len(parts) > 1:
                del parts[at]
                return
            del self._parts[prefix[:start]]

    def _change_open(self, share: bytes, by: int) -> None:
        self._add_open(share, by)
        if share not in self._parked:
            self._add_open(share[: keys.QUEUE_BYTES], by)

    def _add_open(self, prefix: bytes, by: int) -> None:
        count = self._open.get(prefix, 0) + by
        if count:
            self._open[prefix] = count
        else:
            self._open.pop(prefix, None)
