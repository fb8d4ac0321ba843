"""What each tick table was evaluated with, and which tables are out of date: by another release of the tz database, or
because a calendar has changed.

The tables in use are known in memory, so that a leader need not search for those that are out of date.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftsched.state.catalog import Catalog, Schedule
from raftsched.store import keys, rows
from raftsched.store.writer import Writer


class TableRules:
    """The rules of all tables; the order in which they became known has no influence on any command."""

    def __init__(self, writer: Writer, catalog: Catalog) -> None:
        self._writer = writer
        self._tables = writer.tables
        self._catalog = catalog
        # Of the schedules in use: by the tz database of their table, and by the calendars they name.
        self._by_database: dict[str, set[int]] = {}
        self._database: dict[int, str] = {}
        self._users: dict[bytes, set[int]] = {}
        # Whose calendars are newer than their table.
        self._behind_calendars: set[int] = set()

    def of(self, schedule: int) -> rows.TickTableRow:
        value = self._writer.get(self._tables.meta, keys.meta_tick_table(schedule))
        return rows.TickTableRow.unpack(value) if value is not None else rows.TickTableRow()

    def write(self, schedule: Schedule, row: rows.TickTableRow) -> None:
        """For a schedule in use."""
        self._writer.put(self._tables.meta, keys.meta_tick_table(schedule.id), row.pack())
        self._note(schedule, row)

    def used(self, schedule: Schedule) -> None:
        """The schedule is in use from now on, with the table that it has."""
        for key in calendar_keys(schedule):
            self._users.setdefault(key, set()).add(schedule.id)
        self._note(schedule, self.of(schedule.id))

    def unused(self, schedule: Schedule) -> None:
        for key in calendar_keys(schedule):
            users = self._users.get(key, set())
            users.discard(schedule.id)
            if not users:
                self._users.pop(key, None)
        self._forget_database(schedule.id)
        self._behind_calendars.discard(schedule.id)

    def is_used(self, schedule: int) -> bool:
        """Whether a job uses the schedule."""
        return schedule in self._database

    def is_calendar_used(self, key: bytes) -> bool:
        return key in self._users

    def calendar_changed(self, key: bytes) -> None:
        """The tables of all schedules that use it are out of date."""
        self._behind_calendars |= self._users.get(key, set())

    def outdated(self, database: str, limit: int) -> list[int]:
        """Up to `limit` schedules whose table was not evaluated with this release, or with older calendars."""
        found = sorted(self._behind_calendars)[:limit]
        for other, schedules in self._by_database.items():
            if other not in (database, "") and len(found) < limit:
                found += sorted(schedules - set(found))[: limit - len(found)]
        return found

    def outdated_count(self, database: str) -> int:
        """How many there are, at most."""
        others = (len(found) for other, found in self._by_database.items() if other not in (database, ""))
        return len(self._behind_calendars) + sum(others)

    def calendars_version(self, schedule: Schedule) -> int:
        """Of the newest of the schedule's calendars."""
        return newest(self._writer.get(self._tables.calendars, key) for key in calendar_keys(schedule))

    def _note(self, schedule: Schedule, row: rows.TickTableRow) -> None:
        self._forget_database(schedule.id)
        self._database[schedule.id] = row.time_zone_database
        self._by_database.setdefault(row.time_zone_database, set()).add(schedule.id)
        if schedule.message.calendars and self.calendars_version(schedule) != row.calendars_version:
            self._behind_calendars.add(schedule.id)
        else:
            self._behind_calendars.discard(schedule.id)

    def _forget_database(self, schedule: int) -> None:
        before = self._database.pop(schedule, None)
        if before is not None:
            self._by_database[before].discard(schedule)
            if not self._by_database[before]:
                del self._by_database[before]


def calendar_keys(schedule: Schedule) -> list[bytes]:
    """Of the calendars that a schedule names."""
    return [keys.calendar(use.namespace, use.calendar) for use in schedule.message.calendars]


def newest(calendars: Iterable[bytes | None]) -> int:
    """The highest version of these rows; 0 when there is none."""
    return max((rows.CALENDAR.unpack_from(value)[0] for value in calendars if value is not None), default=0)
