"""Tick tables: the coming ticks of each cron schedule, evaluated by proposers and replicated.

Which schedules need more ticks, and when, is kept in memory; everything else is in the store.
"""

from __future__ import annotations

import dataclasses
import heapq
from dataclasses import dataclass

import lmdb

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState
from raftsched.model.limits import SECOND_MS
from raftsched.model.schedule import latest_interval_tick
from raftsched.state.catalog import Catalog, Schedule
from raftsched.state.tick_rules import TableRules
from raftsched.store import keys, rows
from raftsched.store.writer import Writer

# A table is extended when it ends sooner than this from now, or has a single tick left.
EXTEND_BEFORE_MS = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ScheduleNeed:
    """A cron schedule whose table has little future left: the ticks after `last_tick_ms` are wanted."""

    schedule_id: int
    schedule: command_pb2.Schedule
    last_tick_ms: int
    rules: rows.TickTableRow


class TickTables:
    """The tick tables of all schedules, with the number of jobs that use each."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._tables = writer.tables
        self._catalog = catalog
        # schedule -> when it needs more ticks; the heap holds these and outdated entries.
        self._need_ms: dict[int, int] = {}
        self._needs: list[tuple[int, int]] = []
        self.rules = TableRules(writer, catalog)
        cursor = writer.cursor(self._tables.schedules)
        for key, value in cursor:
            if rows.SCHEDULE.unpack_from(value)[0]:
                self.rules.used(catalog.schedule(key))
                self._plan(catalog.schedule(key))

    def needs(self, now_ms: int) -> list[ScheduleNeed]:
        """The schedules that need more ticks now, the most urgent first."""
        urgent: list[tuple[int, int]] = []
        while self._needs and self._needs[0][0] <= now_ms:
            need_ms, number = heapq.heappop(self._needs)
            if self._need_ms.get(number) == need_ms and (need_ms, number) not in urgent[-1:]:
                urgent.append((need_ms, number))
        for entry in urgent:
            heapq.heappush(self._needs, entry)
        return [self.need(number) for _, number in urgent]

    def need(self, number: int) -> ScheduleNeed:
        """A schedule, with what its ticks follow from and where they end."""
        schedule = self._catalog.schedule(keys.pack_small_id(number))
        return ScheduleNeed(number, schedule.message, self.last(number), self.rules.of(number))

    def use(self, schedule: Schedule, jobs: int) -> int:
        """Counts jobs that use the schedule, or with a negative number no longer do; how many did before."""
        key = keys.pack_small_id(schedule.id)
        value = self._writer.get(self._tables.schedules, key)
        if value is None:
            raise ImpossibleState(f"schedule {schedule.id} is missing")
        (before,) = rows.SCHEDULE.unpack_from(value)
        self._writer.put(self._tables.schedules, key, rows.SCHEDULE.pack(before + jobs) + value[rows.SCHEDULE.size :])
        if before + jobs == 0:
            self._need_ms.pop(schedule.id, None)
            self.rules.unused(schedule)
        elif before == 0:
            self.rules.used(schedule)
        return int(before)

    def replace(self, schedule: Schedule, ticks_ms: list[int], rules: rows.TickTableRow | None = None) -> None:
        """A new table of a schedule in use; the old one, if any, is no longer needed by any job."""
        old = self._keys_before(schedule.id, keys.MAX_MS)
        if old:
            self._writer.delete_neighbours(self._tables.ticks, old)
        self.rules.write(schedule, rules or rows.TickTableRow())
        self._put(schedule, ticks_ms, 1)

    def append(self, schedule: Schedule, ticks_ms: list[int], *, omitted: int = 0, is_final: bool = False) -> None:
        """Ascending ticks after the last one. `omitted` ticks between that and these are counted, but not kept."""
        if is_final:
            self.rules.write(schedule, dataclasses.replace(self.rules.of(schedule.id), is_final=True))
        self._put(schedule, ticks_ms, self.last_number(schedule.id) + omitted + 1)

    def replace_after(self, schedule: Schedule, after_ms: int, ticks_ms: list[int], rules: rows.TickTableRow) -> None:
        """What the table holds after that time gives way to other ticks after it, ascending."""
        cursor = self._writer.cursor(self._tables.ticks)
        old: list[bytes] = []
        number = self.last_number(schedule.id) + 1
        if cursor.set_range(keys.tick(schedule.id, after_ms + 1)):
            for key, value in cursor:
                if keys.unpack_tick(key)[0] != schedule.id:
                    break
                if not old:
                    number = keys.unpack_id(value)
                old.append(key)
        if old:
            self._writer.delete_neighbours(self._tables.ticks, old)
        self.rules.write(schedule, rules)
        self._put(schedule, ticks_ms, number)

    def _put(self, schedule: Schedule, ticks_ms: list[int], first_number: int) -> None:
        if ticks_ms:
            self._writer.put_many(
                self._tables.ticks,
                [keys.tick(schedule.id, tick_ms) for tick_ms in ticks_ms],
                keys.pack_id_range(first_number, len(ticks_ms)),
            )
        self._plan(schedule)

    def trim(self, schedule: Schedule, before_ms: int, keep_from: int) -> None:
        """Deletes ticks that are before that time and have lower numbers than that, never the last of the table."""
        cursor = self._writer.cursor(self._tables.ticks)
        old = []
        if cursor.set_range(keys.tick(schedule.id, 0)):
            end = keys.tick(schedule.id, max(0, min(before_ms, self.last(schedule.id))))
            for key, value in cursor.iternext():
                if key >= end or keys.unpack_id(value) >= keep_from:
                    break
                old.append(key)
        if old:
            self._writer.delete_neighbours(self._tables.ticks, old)

    def last(self, schedule: int) -> int:
        """The table's last tick; 0 when it has none."""
        cursor = self._writer.cursor(self._tables.ticks)
        return keys.unpack_tick(cursor.key())[1] if _seek_last(cursor, schedule) else 0

    def last_number(self, schedule: int) -> int:
        """The number of the table's last tick; 0 when it has none."""
        cursor = self._writer.cursor(self._tables.ticks)
        return keys.unpack_id(cursor.value()) if _seek_last(cursor, schedule) else 0

    def timetable(self, schedule: Schedule) -> Timetable:
        return Timetable(self, self._writer.cursor(self._tables.ticks), schedule)

    def has_ended(self, schedule: Schedule) -> bool:
        """Whether no tick comes after the last one known. Jobs that have starved will be looked at again."""
        if not (schedule.end_ms if schedule.every_ms else self.rules.of(schedule.id).is_final):
            return False
        place, first = keys.meta_stamping(schedule.id), keys.pack_id(0)
        if self._writer.get(self._tables.meta, place) != first:
            self._writer.put(self._tables.meta, place, first)
        return True

    def _keys_before(self, schedule: int, before_ms: int) -> list[bytes]:
        found = []
        cursor = self._writer.cursor(self._tables.ticks)
        if cursor.set_range(keys.tick(schedule, 0)):
            end = keys.tick(schedule, before_ms)
            for key in cursor.iternext(values=False):
                if key >= end:
                    break
                found.append(key)
        return found

    def _plan(self, schedule: Schedule) -> None:
        """Notes when a cron schedule's table will need more."""
        if schedule.every_ms:
            return
        if self.rules.of(schedule.id).is_final:
            self._need_ms.pop(schedule.id, None)
            return
        cursor = self._writer.cursor(self._tables.ticks)
        need_ms = 0
        if _seek_last(cursor, schedule.id):
            last_ms = keys.unpack_tick(cursor.key())[1]
            only_one_left_ms = 0
            if cursor.prev():
                number, tick_ms = keys.unpack_tick(cursor.key())
                only_one_left_ms = tick_ms if number == schedule.id else 0
            need_ms = max(0, min(last_ms - EXTEND_BEFORE_MS, only_one_left_ms))
        if self._need_ms.get(schedule.id) != need_ms:
            self._need_ms[schedule.id] = need_ms
            heapq.heappush(self._needs, (need_ms, schedule.id))


class Timetable:
    """One schedule's ticks, for one command: what was looked up is remembered."""

    def __init__(self, tables: TickTables, cursor: lmdb.Cursor[bytes], schedule: Schedule) -> None:
        self._tables = tables
        self._whole = schedule
        self._cursor = cursor
        self._schedule = schedule.id
        self._every_ms = schedule.every_ms
        # The latest time that a tick of an interval may have.
        self._until_ms = schedule.end_ms - 1 if schedule.end_ms else keys.MAX_MS
        self._has_ended: bool | None = None
        self._after: dict[int, int | None] = {}
        # By time: the latest tick that is not later, the one before it, and its number; None when there is none.
        self._latest: dict[int, tuple[int, int, int] | None] = {}
        self._back: dict[tuple[int, int], int] = {}

    @property
    def is_interval(self) -> bool:
        return self._every_ms > 0

    def may_tick_at(self, time_ms: int) -> bool:
        """Whether a tick may have that time, which no trigger then has."""
        return self.is_interval or time_ms % SECOND_MS == 0

    def after(self, time_ms: int) -> int | None:
        """The first tick later than `time_ms`, which for an interval is a tick itself; None: not known yet, or none."""
        if self._every_ms:
            next_ms = time_ms + self._every_ms
            if next_ms <= self._until_ms:
                return next_ms
            self.has_ended()
            return None
        if time_ms not in self._after:
            found = None
            if self._cursor.set_range(keys.tick(self._schedule, time_ms + 1)):
                schedule, tick_ms = keys.unpack_tick(self._cursor.key())
                found = tick_ms if schedule == self._schedule else None
            if found is None:
                self.has_ended()
            self._after[time_ms] = found
        return self._after[time_ms]

    def has_ended(self) -> bool:
        """For a time without a tick after it: whether there is none, rather than none known yet."""
        if self._has_ended is None:
            self._has_ended = self._tables.has_ended(self._whole)
        return self._has_ended

    def latest(self, tick_ms: int, until_ms: int, *, number: int | None = None) -> tuple[int, int, int]:
        """From a tick to the latest one not after `until_ms`: (that tick, the one before it, how many before it).

        (tick_ms, tick_ms, 0) when no other tick lies between. `number` is the tick's, for one that the table may not
        hold any more; without it, what came before the table is not counted.
        """
        if self._every_ms:
            latest_ms = max(tick_ms, latest_interval_tick(self._every_ms, tick_ms, min(until_ms, self._until_ms)))
            missed = (latest_ms - tick_ms) // self._every_ms
            return latest_ms, latest_ms - self._every_ms if missed else tick_ms, missed
        following_ms = self.after(tick_ms)
        if following_ms is None or following_ms > until_ms:
            return tick_ms, tick_ms, 0
        found = self._find(until_ms)
        if found is None:
            raise ImpossibleState("a tick is in the table and is not")
        latest_ms, before_ms, latest_number = found
        before_ms = max(before_ms, tick_ms)
        if number is None:
            number = self.number(tick_ms)
        if number is None:
            # The tick itself, and what the table holds after it.
            number = (self.number(following_ms) or latest_number) - 1
        return latest_ms, before_ms, latest_number - number

    def back(self, tick_ms: int, steps: int) -> int:
        """So many ticks before this one, which for cron is in the table.

        The first one before which the table lacks some, when that is later.
        """
        if self._every_ms:
            return tick_ms - steps * self._every_ms
        if (tick_ms, steps) not in self._back:
            cursor = self._cursor
            found_ms = tick_ms
            cursor.set_key(keys.tick(self._schedule, tick_ms))
            number = keys.unpack_id(cursor.value())
            for _ in range(steps):
                if not cursor.prev():
                    break
                schedule, before_ms = keys.unpack_tick(cursor.key())
                number -= 1
                if schedule != self._schedule or keys.unpack_id(cursor.value()) != number:
                    break
                found_ms = before_ms
            self._back[tick_ms, steps] = found_ms
        return self._back[tick_ms, steps]

    def first_from(self, tick_ms: int, from_ms: int) -> int | None:
        """The first tick that is neither before `tick_ms`, a tick itself, nor before `from_ms`."""
        if from_ms <= tick_ms:
            return tick_ms
        if self._every_ms:
            return self.after(latest_interval_tick(self._every_ms, tick_ms, from_ms - 1))
        return self.after(from_ms - 1)

    def is_cut_off(self, tick_ms: int, until_ms: int) -> bool:
        """Whether the table ends with this tick though there may be later ones up to `until_ms`."""
        return until_ms - tick_ms >= SECOND_MS and self.after(tick_ms) is None and not self.has_ended()

    def holds(self, tick_ms: int) -> bool:
        """Whether the ticks that come after this one, a tick itself, are all known or can be counted."""
        return self._every_ms > 0 or self.number(tick_ms) is not None

    def number(self, tick_ms: int) -> int | None:
        """The number of a tick of the table; None when it does not hold it."""
        key = keys.tick(self._schedule, tick_ms)
        return keys.unpack_id(self._cursor.value()) if self._cursor.set_key(key) else None

    def omitted(self, tick_ms: int, following_ms: int) -> int:
        """How many ticks between two neighbours of the table it leaves out; 0 where it does not hold both."""
        number, following = self.number(tick_ms), self.number(following_ms)
        return following - number - 1 if number is not None and following is not None else 0

    def newest_number(self, until_ms: int) -> int:
        """The number of the latest tick of the table that is not after that time; 0 when there is none."""
        found = self._find(until_ms)
        return found[2] if found is not None else 0

    def _find(self, until_ms: int) -> tuple[int, int, int] | None:
        if until_ms not in self._latest:
            self._latest[until_ms] = self._look(until_ms)
        return self._latest[until_ms]

    def _look(self, until_ms: int) -> tuple[int, int, int] | None:
        cursor = self._cursor
        found = cursor.set_range(keys.tick(self._schedule, until_ms + 1))
        if not (cursor.prev() if found else cursor.last()):
            return None
        schedule, latest_ms = keys.unpack_tick(cursor.key())
        if schedule != self._schedule:
            return None
        number = keys.unpack_id(cursor.value())
        before_ms = 0
        if cursor.prev():
            schedule, tick_ms = keys.unpack_tick(cursor.key())
            before_ms = tick_ms if schedule == self._schedule else 0
        return latest_ms, before_ms, number


def _seek_last(cursor: lmdb.Cursor[bytes], schedule: int) -> bool:
    """Stands the cursor on the schedule's last tick; False when it has none."""
    found = cursor.set_range(keys.tick(schedule + 1, 0))
    return (cursor.prev() if found else cursor.last()) and keys.unpack_tick(cursor.key())[0] == schedule
