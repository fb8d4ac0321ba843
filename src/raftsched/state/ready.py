"""The execution queue: PENDING executions as runs of consecutive ids, in lanes of like executions (see keys.lane).

A lease takes from the front of lanes; which lanes, and how much of each, is dealt out in turns.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from raftsched.model.errors import ImpossibleState
from raftsched.state.catalog import Catalog
from raftsched.state.lanes import Lanes
from raftsched.state.limits import Limits
from raftsched.state.turns import Run, Selection, Selector, take_in_order
from raftsched.store import keys
from raftsched.store.writer import Writer

# Turns kept in memory; when there are more, all are forgotten and read anew.
CACHED_TURNS = 100_000


class ReadyLanes:
    """`by_queue` counts what is ready; other threads may read it."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._table = writer.tables.ready
        self._meta = writer.tables.meta
        self._catalog = catalog
        self._lanes = Lanes()
        # The rows keys.meta_turn that were read or written, by prefix.
        self._turns: dict[bytes, bytes | None] = {}
        # Queues in which something became ready; whoever reads it empties it.
        self.woken: set[str] = set()
        self.by_queue: dict[str, int] = {}
        # By name.
        self._queues: dict[str, bytes] = {}
        for key, value in writer.cursor(self._table):
            self._add_count(key[: keys.LANE_BYTES], keys.unpack_small_id(value))

    def add_runs(self, runs: Sequence[tuple[bytes, int, int]]) -> None:
        """(lane, first id, count) each."""
        self._writer.put_many(
            self._table,
            [lane + keys.pack_id(first) for lane, first, _ in runs],
            [keys.pack_small_id(count) for _, _, count in runs],
        )
        for lane, _, count in runs:
            self.woken.add(self._add_count(lane, count))

    def add(self, by_lane: dict[bytes, list[int]]) -> None:
        """Executions of any order in each lane."""
        runs = [(lane, first, count) for lane, ids in by_lane.items() for first, count in _runs(sorted(ids))]
        if runs:
            self.add_runs(runs)

    def select(self, queues: Iterable[int], limit: int, limits: Limits, now_ms: int) -> Selection:
        """What a lease of `limit` executions gets, taken from the queues in this order. Changes nothing."""
        self._lanes.unpark_refilled(now_ms)
        cursor = self._writer.cursor(self._table)

        def next_run(lane: bytes, first: int) -> Run | None:
            if not cursor.set_range(lane + keys.pack_id(first)):
                return None
            key, value = cursor.item()
            if key[: keys.LANE_BYTES] != lane:
                return None
            return keys.unpack_id(key[keys.RUN_FIRST]), keys.unpack_small_id(value)

        prefixes = [keys.pack_small_id(queue) for queue in queues]
        if not len(limits):
            lanes = [self._lanes.sole(queue) for queue in prefixes]
            if all(lane is not None and not keys.lane_limited(lane)[1] for lane in lanes if lane != b""):
                return take_in_order([lane for lane in lanes if lane], limit, next_run)
        selector = Selector(self._lanes, limits, now_ms, next_run, self._turn)
        return selector.select(prefixes, limit)

    def take(self, selection: Selection) -> None:
        """Removes what was selected."""
        for pick in selection.picks:
            left = pick.amount
            gone = []
            for first, count in pick.runs:
                if left <= 0:
                    break
                gone.append(pick.lane + keys.pack_id(first))
                if count > left:
                    self._writer.put(
                        self._table, pick.lane + keys.pack_id(first + left), keys.pack_small_id(count - left)
                    )
                left -= count
            self._writer.delete_many(self._table, gone)
            self._add_count(pick.lane, -pick.amount)
        for prefix, turn in selection.turns.items():
            if self._turn(prefix) != turn:
                self._writer.put(self._meta, keys.meta_turn(prefix), turn)
                self._turns[prefix] = turn

    def remove(self, lane: bytes, execution: int) -> None:
        """Takes one execution out of the middle. Raises ImpossibleState when it is not there."""
        cursor = self._writer.cursor(self._table)
        found = cursor.set_range(lane + keys.pack_id(execution + 1))
        if not (cursor.prev() if found else cursor.last()) or cursor.key()[: keys.LANE_BYTES] != lane:
            raise ImpossibleState(f"execution {execution} is PENDING but not in the ready queue")
        key, count = cursor.key(), keys.unpack_small_id(cursor.value())
        first = keys.unpack_id(key[keys.RUN_FIRST])
        if execution >= first + count:
            raise ImpossibleState(f"execution {execution} is PENDING but not in the ready queue")
        self._writer.delete(self._table, key)
        for part, size in ((first, execution - first), (execution + 1, first + count - execution - 1)):
            if size:
                self._writer.put(self._table, lane + keys.pack_id(part), keys.pack_small_id(size))
        self._add_count(lane, -1)

    def limits_eased(self, slots: Iterable[int]) -> None:
        """The limits at these slots may let something through that they held back."""
        if self._lanes.has_parked:
            for slot in slots:
                self._lanes.unpark(slot)

    def leasable(self, queue: str) -> int:
        """Executions of a queue that are ready and that no limit is known to hold back."""
        number = self._queues.get(queue)
        return self._lanes.open_count(number) if number is not None else 0

    def is_shared(self, queue: str) -> bool:
        """Whether a queue ever had jobs of more than one priority or tenant."""
        number = self._queues.get(queue)
        return number is not None and self._catalog.is_shared(keys.unpack_small_id(number))

    def refill_ms(self, queue: str) -> int | None:
        """When a rate that holds executions of the queue back lets the next one through; None: none does."""
        number = self._queues.get(queue)
        return self._lanes.refill_ms(number) if number is not None else None

    def _turn(self, prefix: bytes) -> bytes | None:
        try:
            return self._turns[prefix]
        except KeyError:
            if len(self._turns) >= CACHED_TURNS:
                self._turns = {}
            turn = self._turns[prefix] = self._writer.get(self._meta, keys.meta_turn(prefix))
            return turn

    def _add_count(self, lane: bytes, count: int) -> str:
        self._lanes.change(lane, count)
        name = self._catalog.queue_name(keys.lane_queue(lane))
        if name in self.by_queue:
            self.by_queue[name] += count
        else:
            # A new dict, since other threads may be walking through this one.
            self.by_queue = {**self.by_queue, name: count}
            self._queues[name] = lane[: keys.QUEUE_BYTES]
        return name


def _runs(ids: Sequence[int]) -> Iterator[Run]:
    """Ascending ids as runs of consecutive ones."""
    first = previous = ids[0]
    for number in ids[1:]:
        if number != previous + 1:
            yield first, previous - first + 1
            first = number
        previous = number
    yield first, previous - first + 1
