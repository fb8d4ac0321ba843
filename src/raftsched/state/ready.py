"""The execution queue: PENDING executions as runs of consecutive ids, in lanes of one queue, priority and tenant.

A lease takes from the front: priorities strictly in order, tenants of one priority in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import lmdb

from raftsched.model.errors import ImpossibleState
from raftsched.state.catalog import Catalog
from raftsched.store import keys
from raftsched.store.writer import Writer

Run = tuple[int, int]


@dataclass(slots=True)
class Pick:
    """What a lease may take of one lane: the first `amount` executions of these runs (first id, count)."""

    lane: bytes
    runs: list[Run] = field(default_factory=list)
    amount: int = 0
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


@dataclass(slots=True)
class Selection:
    """Picks in the order of the lease, and by level (queue and priority) the tenant whose turn is over."""

    picks: list[Pick] = field(default_factory=list)
    turns: dict[bytes, bytes] = field(default_factory=dict)

    def executions(self) -> list[int]:
        return [execution for pick in self.picks for execution in pick.executions()]

    def cut(self, amount: int) -> None:
        """Keeps the first `amount` executions only."""
        kept = []
        for pick in self.picks:
            pick.amount = min(pick.amount, amount)
            amount -= pick.amount
            if pick.amount:
                kept.append(pick)
        self.picks = kept
        last = {pick.lane[: keys.LEVEL_BYTES]: pick.lane[keys.LEVEL_BYTES :] for pick in kept}
        self.turns = {level: last[level] for level in self.turns if level in last}


class ReadyLanes:
    """`by_queue` counts what is ready; other threads may read it."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._table = writer.tables.ready
        self._meta = writer.tables.meta
        self._catalog = catalog
        # Queues in which something became ready; whoever reads it empties it.
        self.woken: set[str] = set()
        counts: dict[int, int] = {}
        for key, value in writer.cursor(self._table):
            queue = keys.lane_queue(key)
            counts[queue] = counts.get(queue, 0) + keys.unpack_small_id(value)
        self.by_queue = {catalog.queue_name(queue): count for queue, count in counts.items()}

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

    def select(self, queues: Iterable[int], limit: int) -> Selection:
        """What a lease of `limit` executions gets, taken from the queues in this order. Changes nothing."""
        selection = Selection()
        cursor = self._writer.cursor(self._table)
        for queue in queues:
            prefix = keys.pack_small_id(queue)
            found = cursor.set_range(prefix)
            while limit and found and cursor.key().startswith(prefix):
                level = cursor.key()[: keys.LEVEL_BYTES]
                limit -= self._select_level(cursor, level, limit, selection)
                found = _seek_after(cursor, level)
        return selection

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
        for level, tenant in selection.turns.items():
            if self._writer.get(self._meta, keys.meta_turn(level)) != tenant:
                self._writer.put(self._meta, keys.meta_turn(level), tenant)

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

    def _select_level(self, cursor: lmdb.Cursor[bytes], level: bytes, limit: int, selection: Selection) -> int:
        """Deals `limit` executions out among the tenants of one level; the number selected."""
        picks = self._tenants_in_turn(cursor, level, limit)
        active, left, served = picks, limit, picks[0]
        while left and active:
            share = max(1, left // len(active))
            unfinished = []
            for pick in active:
                wanted = min(share, left)
                if not wanted:
                    break
                got = _extend(cursor, pick, wanted)
                left -= got
                if got:
                    served = pick
                if got == wanted:
                    unfinished.append(pick)
            active = unfinished
        selection.picks += [pick for pick in picks if pick.amount]
        selection.turns[level] = served.lane[keys.LEVEL_BYTES :]
        return limit - left

    def _tenants_in_turn(self, cursor: lmdb.Cursor[bytes], level: bytes, limit: int) -> list[Pick]:
        """The lanes of a level, at most `limit`, beginning after the tenant that was served last."""
        last = self._writer.get(self._meta, keys.meta_turn(level))
        picks: list[Pick] = []
        found = _seek_after(cursor, level + last) if last is not None else cursor.set_range(level)
        wrapped = last is None
        while len(picks) < limit:
            key = cursor.key() if found else b""
            if not key.startswith(level):
                if wrapped:
                    break
                wrapped, found = True, cursor.set_range(level)
                continue
            lane = key[: keys.LANE_BYTES]
            if picks and lane == picks[0].lane:
                break
            picks.append(Pick(lane))
            found = _seek_after(cursor, lane)
        return picks

    def _add_count(self, lane: bytes, count: int) -> str:
        name = self._catalog.queue_name(keys.lane_queue(lane))
        if name in self.by_queue:
            self.by_queue[name] += count
        else:
            # A new dict, since other threads may be walking through this one.
            self.by_queue = {**self.by_queue, name: count}
        return name


def _extend(cursor: lmdb.Cursor[bytes], pick: Pick, wanted: int) -> int:
    """Selects up to `wanted` more executions of the lane; how many there were."""
    while pick.seen < pick.amount + wanted and not pick.exhausted:
        after = pick.lane + keys.pack_id(pick.runs[-1][0] + 1) if pick.runs else pick.lane
        if not cursor.set_range(after) or cursor.key()[: keys.LANE_BYTES] != pick.lane:
            pick.exhausted = True
            break
        count = keys.unpack_small_id(cursor.value())
        pick.runs.append((keys.unpack_id(cursor.key()[keys.RUN_FIRST]), count))
        pick.seen += count
    got = min(wanted, pick.seen - pick.amount)
    pick.amount += got
    return got


def _seek_after(cursor: lmdb.Cursor[bytes], prefix: bytes) -> bool:
    following = keys.after_prefix(prefix)
    return following is not None and cursor.set_range(following)


def _runs(ids: Sequence[int]) -> Iterator[Run]:
    """Ascending ids as runs of consecutive ones."""
    first = previous = ids[0]
    for number in ids[1:]:
        if number != previous + 1:
            yield first, previous - first + 1
            first = number
        previous = number
    yield first, previous - first + 1
