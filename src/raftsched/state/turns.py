"""How a lease is dealt out: among the priorities of a queue, the tenants of a priority and the lanes of a tenant.

* Of every PRIORITY_TURN executions leased from a queue, one goes to a lower priority than the highest that has
  something to lease; the lower ones take these in turn. All others go to the highest priorities there are. So with
  n priorities that have something to lease, each gets at least one of any PRIORITY_TURN × (n - 1) executions.
* Tenants of one priority take turns; a turn is as many executions as the tenant's weight.
* The lanes of a tenant (handlers and concurrency keys) take turns of one execution; in a lane the oldest goes first.

What a limit holds back counts as not there. All of this is a function of the store, not of what happens to be parked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar

from raftsched.state.lanes import Lanes
from raftsched.state.limits import Limits, handler_slot, key_slot, queue_slot, tenant_slot
from raftsched.store import keys, rows

PRIORITY_TURN = 10

Run = tuple[int, int]
# The run of a lane that begins at or after an execution: its first and how many; None when there is none.
NextRun = Callable[[bytes, int], Run | None]
# The row keys.meta_turn of a prefix.
ReadTurn = Callable[[bytes], bytes | None]
# A limit's slot, and how many more executions it lets through as this lease begins.
Cap = tuple[int, int]


@dataclass(slots=True)
class Pick:
    """What a lease may take of one lane: the first `amount` executions of these runs (first id, count)."""

    lane: bytes
    runs: list[Run] = field(default_factory=list)
    amount: int = 0
    # How many of them are there although a higher priority has something to lease.
    lifted: int = 0
    # Executions in `runs`.
    seen: int = 0
    exhausted: bool = False

    def executions(self) -> Iterator[int]:
        left = self.amount
        for first, count in self.runs:
            yield from range(first, first + min(count, left))
            left -= count
            if left <= 0:
                return

    def extend(self, next_run: NextRun, wanted: int) -> int:
        """Adds up to `wanted` more executions of the lane; how many there were."""
        while self.seen < self.amount + wanted and not self.exhausted:
            run = next_run(self.lane, self.runs[-1][0] + 1 if self.runs else 0)
            if run is None:
                self.exhausted = True
                break
            self.runs.append(run)
            self.seen += run[1]
        got = min(wanted, self.seen - self.amount)
        self.amount += got
        return got


@dataclass(slots=True)
class Selection:
    """Picks in the order of the lease, and the rows keys.meta_turn as they are when it is taken."""

    picks: list[Pick] = field(default_factory=list)
    turns: dict[bytes, bytes] = field(default_factory=dict)

    def executions(self) -> list[int]:
        return [execution for pick in self.picks for execution in pick.executions()]

    def cut(self, amount: int) -> None:
        """Keeps the first `amount` executions only. Whose turn it is then is near enough."""
        kept = []
        for pick in self.picks:
            pick.amount = min(pick.amount, amount)
            amount -= pick.amount
            if pick.amount:
                kept.append(pick)
        self.picks = kept


def take_in_order(lanes: Sequence[bytes], limit: int, next_run: NextRun) -> Selection:
    """What Selector selects, quicker, when there are no limits and no queue has more than one lane."""
    selection = Selection()
    for lane in lanes:
        if not limit:
            break
        pick = Pick(lane)
        limit -= pick.extend(next_run, limit)
        selection.picks.append(pick)
        tenant = lane[keys.LEVEL_BYTES : keys.SHARE_BYTES]
        selection.turns[lane[: keys.LEVEL_BYTES]] = rows.LEVEL_TURN.pack(tenant, 0)
    return selection


class _Member(Protocol):
    @property
    def weight(self) -> int: ...

    def take(self, wanted: int) -> int: ...


M = TypeVar("M", bound=_Member)


class _Round(Generic[M]):
    """Deals what it is given out among its members, who take turns of as many executions as their weight."""

    def __init__(self, members: Iterator[M], used: int = 0) -> None:
        """`members` begins with the one whose turn it is, of which it has had `used` executions."""
        self._fresh = members
        # Those who had a turn and may have more, the next in turn first.
        self._served: list[M] = []
        self.used = used
        self.last: M | None = None

    def deal(self, wanted: int) -> int:
        """How much the members took: less than wanted only when none has any more."""
        left = wanted
        while left:
            in_turn = 1 if self.used and self._served else 0
            members = [*self._served[:in_turn], *islice(self._fresh, left), *self._served[in_turn:]]
            if not members:
                break
            left = self._deal_once(members, left)
        return wanted - left

    def _deal_once(self, members: Sequence[M], left: int) -> int:
        """Gives each as many turns as all can have; what is left then."""
        rounds = max(1, left // sum([member.weight for member in members]))
        served: list[M] = []
        for at, member in enumerate(members, 1):
            asked = min(rounds * member.weight - self.used, left)
            got = member.take(asked)
            left -= got
            if got:
                self.last = member
            self.used = (self.used + got) % member.weight if got == asked else 0
            if self.used:
                # Nothing is left, and its turn goes on.
                self._served = [member, *members[at:], *served]
                return 0
            if got == asked:
                served.append(member)
            if not left:
                self._served = [*members[at:], *served]
                return 0
        self._served = served
        return left


class _LaneShare:
    """A lane, as a member of its tenant."""

    weight = 1

    def __init__(self, selector: Selector, lane: bytes, caps: Sequence[Cap]) -> None:
        self._selector = selector
        self.lane = lane
        self._caps = caps

    def take(self, wanted: int) -> int:
        selector = self._selector
        wanted = selector.within(self._caps, wanted)
        if not wanted:
            return 0
        pick = selector.picks.get(self.lane)
        if pick is None:
            pick = selector.picks[self.lane] = Pick(self.lane)
        got = pick.extend(selector.next_run, wanted)
        if selector.lifting:
            pick.lifted += got
        selector.spend(self._caps, got)
        return got


class _TenantShare:
    """A tenant at one priority of a queue."""

    def __init__(
        self, selector: Selector, share: bytes, weight: int, caps: Sequence[Cap], lanes: Iterator[_LaneShare]
    ) -> None:
        self._selector = selector
        self.share = share
        self.weight = weight
        self._caps = caps
        self._round = _Round(lanes)

    def take(self, wanted: int) -> int:
        got = self._round.deal(self._selector.within(self._caps, wanted))
        self._selector.spend(self._caps, got)
        last = self._round.last
        if got and last is not None and self._selector.lanes.siblings(self.share) > 1:
            self._selector.turns[self.share] = last.lane[keys.SHARE_BYTES :]
        return got


class _LevelShare:
    """A priority of a queue."""

    weight = 1

    def __init__(self, selector: Selector, level: bytes, tenants: Iterator[_TenantShare], used: int) -> None:
        self._selector = selector
        self.level = level
        self._round = _Round(tenants, used)

    def take(self, wanted: int) -> int:
        got = self._round.deal(wanted)
        last = self._round.last
        if got and last is not None:
            tenant = last.share[keys.LEVEL_BYTES :]
            self._selector.turns[self.level] = rows.LEVEL_TURN.pack(tenant, self._round.used)
        return got


class Selector:
    """Puts one lease together. Changes nothing but what is parked."""

    def __init__(self, lanes: Lanes, limits: Limits, now_ms: int, next_run: NextRun, read_turn: ReadTurn) -> None:
        self.lanes = lanes
        self.next_run = next_run
        self.picks: dict[bytes, Pick] = {}
        self.turns: dict[bytes, bytes] = {}
        # Whether a lower priority is being served ahead of a higher one.
        self.lifting = False
        self._limits = limits
        self._now_ms = now_ms
        self._read_turn = read_turn
        self._spent: dict[int, int] = {}
        # Prefixes that a limit holds back, with its slot. They are parked when nobody walks through the lanes.
        self._held: list[tuple[bytes, int]] = []

    def select(self, queues: Sequence[bytes], limit: int) -> Selection:
        """What a lease of `limit` executions gets, taken from the queues in this order."""
        for queue in queues:
            if limit and self.lanes.open_count(queue):
                limit -= self._queue(queue, limit)
        return Selection(list(self.picks.values()), self.turns)

    def within(self, caps: Sequence[Cap], wanted: int) -> int:
        """As much of `wanted` as these limits let through."""
        for slot, room in caps:
            wanted = min(wanted, room - self._spent.get(slot, 0))
        return max(0, wanted)

    def spend(self, caps: Sequence[Cap], count: int) -> None:
        for slot, _ in caps:
            self._spent[slot] = self._spent.get(slot, 0) + count

    def _queue(self, queue: bytes, limit: int) -> int:
        slot = queue_slot(keys.unpack_small_id(queue))
        room = self._limits.room(slot, self._now_ms) if len(self._limits) else None
        if room == 0:
            self._held.append((queue, slot))
            self._park()
            return 0
        limit = limit if room is None else min(limit, room)
        levels = [level for part in self.lanes.parts(queue) if (level := self._level(queue + part)) is not None]
        taken = self._lift(queue, levels, limit) if len(levels) > 1 else 0
        for level in levels:
            if taken == limit:
                break
            taken += level.take(limit - taken)
        if len(levels) > 1:
            self._note_lifted(queue, taken)
        self._park()
        return taken

    def _lift(self, queue: bytes, levels: Sequence[_LevelShare], limit: int) -> int:
        """Gives the lower priorities what is due to them of `limit` executions, in turn."""
        since, last = self._queue_turn(queue)
        lifted = (since + limit) // PRIORITY_TURN
        lower = [level for level in levels[1:] if level.level[-1] > last]
        lower += [level for level in levels[1:] if level.level[-1] <= last]
        self.lifting = True
        turns = _Round(iter(lower))
        taken = turns.deal(lifted) if lifted else 0
        self.lifting = False
        if turns.last is not None:
            self.turns[queue] = rows.QUEUE_TURN.pack(since, turns.last.level[-1])
        return taken

    def _note_lifted(self, queue: bytes, taken: int) -> None:
        since, last = self._queue_turn(queue)
        lifted = sum(pick.lifted for lane, pick in self.picks.items() if lane.startswith(queue))
        since = min(max(since + taken - PRIORITY_TURN * lifted, 0), PRIORITY_TURN - 1)
        self.turns[queue] = rows.QUEUE_TURN.pack(since, last)

    def _queue_turn(self, queue: bytes) -> tuple[int, int]:
        value = self.turns.get(queue) or self._read_turn(queue)
        since, last = rows.QUEUE_TURN.unpack(value) if value is not None else (0, 0)
        return since, last

    def _level(self, level: bytes) -> _LevelShare | None:
        """None when limits hold all of it back."""
        value = self._read_turn(level)
        last, used = rows.LEVEL_TURN.unpack(value) if value is not None else (b"", 0)
        tenants = self._tenants(level, last, used)
        first = next(tenants, None)
        if first is None:
            return None
        # A tenant in the middle of its turn that has nothing to lease has had it.
        used = used if first.share[keys.LEVEL_BYTES :] == last and used < first.weight else 0
        return _LevelShare(self, level, _chained(first, tenants), used)

    def _tenants(self, level: bytes, last: bytes, used: int) -> Iterator[_TenantShare]:
        for part in _around(self.lanes.parts(level), last, inclusive=used > 0):
            share = level + part
            caps: Sequence[Cap] = ()
            weight = 1
            if len(self._limits):
                tenant = keys.unpack_small_id(part)
                weight = self._limits.weight(tenant)
                slot = tenant_slot(tenant)
                room = self._limits.room(slot, self._now_ms)
                if room == 0:
                    self._held.append((share, slot))
                    continue
                if room is not None:
                    caps = ((slot, room),)
            lanes = self._lanes_of(share)
            first = next(lanes, None)
            if first is not None:
                yield _TenantShare(self, share, weight, caps, _chained(first, lanes))

    def _lanes_of(self, share: bytes) -> Iterator[_LaneShare]:
        parts = self.lanes.parts(share)
        last = self._read_turn(share) if len(parts) > 1 else None
        for part in _around(parts, last or b"", inclusive=False):
            lane = share + part
            caps = self._caps_of(lane)
            held = next((slot for slot, room in caps if not room), None)
            if held is not None:
                self._held.append((lane, held))
                continue
            yield _LaneShare(self, lane, caps)

    def _caps_of(self, lane: bytes) -> list[Cap]:
        """The limits of a lane's handler and concurrency key."""
        caps: list[Cap] = []
        handler, concurrency_key, concurrency_limit = keys.lane_limited(lane)
        if len(self._limits):
            room = self._limits.room(handler_slot(handler), self._now_ms)
            if room is not None:
                caps.append((handler_slot(handler), room))
        if concurrency_key:
            caps.append((key_slot(concurrency_key), self._limits.key_room(concurrency_key, concurrency_limit)))
        return caps

    def _park(self) -> None:
        for prefix, slot in self._held:
            self.lanes.park(prefix, slot, self._limits.refill_ms(slot, self._now_ms))
        self._held.clear()


def _around(parts: Sequence[bytes], last: bytes, *, inclusive: bool) -> Iterator[bytes]:
    """All of them once, beginning after the last one served, or with it."""
    start = bisect_left(parts, last) if inclusive else bisect_right(parts, last)
    for at in range(start, len(parts)):
        yield parts[at]
    for at in range(start):
        yield parts[at]


def _chained(first: M, others: Iterator[M]) -> Iterator[M]:
    yield first
    yield from others
