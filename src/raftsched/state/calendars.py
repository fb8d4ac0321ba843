"""Calendars: PutCalendar and DeleteCalendar, what is stored of them, and schedules as values that ticks come from.

Each change gives a calendar a new version, by which it is known which tick tables are out of date.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.calendars import Calendar, CalendarUse, calendar_of, day_number
from raftsched.model.errors import CalendarChanged, CalendarInUse, CalendarNotFound, ImpossibleState, InvalidField
from raftsched.model.recurrence import CronSchedule, Fold, Gap
from raftsched.model.zones import TZDATA, ZoneData
from raftsched.state.context import Context
from raftsched.state.queries import Page
from raftsched.state.results import Done
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.v1 import calendar_pb2, job_pb2

# What of a list's page is looked at, at most.
PAGE_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CalendarRecord:
    """A calendar as it is stored, with its version: the index of the entry that put it."""

    version: int
    message: calendar_pb2.Calendar


# (namespace, name) -> the calendar's row.
FindCalendar = Callable[[str, str], bytes | None]


def apply_put_calendar(context: Context, command: command_pb2.PutCalendar) -> Done:
    """Raises InvalidField or CalendarChanged, having written nothing. Nothing if it is as it should be already."""
    calendar = _checked(command.calendar)
    key = keys.calendar(calendar.namespace, calendar.name)
    value = context.writer.get(context.tables.calendars, key)
    version, stored = _unpacked(value)
    if value is not None and stored == command.calendar:
        return Done()
    if version != command.replaced:
        raise CalendarChanged(field="calendar")
    context.writer.put(context.tables.calendars, key, rows.CALENDAR.pack(context.index) + command.calendar)
    context.ticks.rules.calendar_changed(key)
    return Done()


def apply_delete_calendar(context: Context, command: command_pb2.DeleteCalendar) -> Done:
    """Raises CalendarNotFound, CalendarInUse or CalendarChanged, having written nothing."""
    key = keys.calendar(command.namespace, command.name)
    value = context.writer.get(context.tables.calendars, key) if len(key) <= keys.MAX_KEY_BYTES else None
    if value is None:
        raise CalendarNotFound(field="name")
    if _unpacked(value)[0] != command.replaced:
        raise CalendarChanged(field="name")
    if context.ticks.rules.is_calendar_used(key):
        raise CalendarInUse(field="name")
    context.writer.delete(context.tables.calendars, key)
    return Done()


def check_calendars(context: Context, schedule: command_pb2.Schedule, field: str) -> None:
    """Raises InvalidField unless all calendars that the schedule names are there."""
    for number, use in enumerate(schedule.calendars):
        key = keys.calendar(use.namespace, use.calendar)
        if len(key) > keys.MAX_KEY_BYTES or context.writer.get(context.tables.calendars, key) is None:
            raise InvalidField(f"there is no calendar `{use.calendar}`", field=f"{field}.calendars[{number}].calendar")


def get_calendar(view: View, namespace: str, name: str) -> CalendarRecord | None:
    value = view.get(view.tables.calendars, keys.calendar(namespace, name))
    return _record(value) if value is not None else None


def list_calendars(view: View, namespace: str, *, after: str, limit: int) -> Page[CalendarRecord, str]:
    """Those of a namespace whose names come after `after`, in order of name."""
    items: list[CalendarRecord] = []
    size_bytes = 0
    prefix = keys.calendars_of(namespace)
    cursor = view.cursor(view.tables.calendars)
    if cursor.set_range(keys.calendar(namespace, after) + (b"\x00" if after else b"")):
        for key, value in cursor.iternext():
            if not key.startswith(prefix):
                break
            if len(items) == limit or (items and size_bytes + len(value) > PAGE_MAX_BYTES):
                return Page(items, items[-1].message.name, len(items), size_bytes)
            items.append(_record(value))
            size_bytes += len(value)
    return Page(items, None, len(items), size_bytes)


def cron_schedule(schedule: command_pb2.Schedule, find: FindCalendar) -> tuple[CronSchedule, int]:
    """A cron schedule as a value, and the version of its newest calendar (0: it has none).

    Raises InvalidField, field "calendars[0].calendar"…, when there is no such calendar.
    """
    uses = []
    version = 0
    for number, use in enumerate(schedule.calendars):
        value = find(use.namespace, use.calendar)
        if value is None:
            raise InvalidField(
                f"there is no calendar `{use.calendar}` in namespace `{use.namespace}`",
                field=f"calendars[{number}].calendar",
            )
        uses.append(CalendarUse(_as_value(value), use.rule == job_pb2.CALENDAR_RULE_NEXT_OPEN_DAY))
        version = max(version, rows.CALENDAR.unpack_from(value)[0])
    return (
        CronSchedule(
            expressions=(schedule.expression, *schedule.more_expressions),
            time_zone=schedule.time_zone,
            exclude=tuple(schedule.exclude),
            gap=Gap(schedule.gap or Gap.SHIFT),
            fold=Fold(schedule.fold or Fold.FIRST),
            start_ms=schedule.start_ms or None,
            end_ms=schedule.end_ms or None,
            calendars=tuple(uses),
        ),
        version,
    )


def tick_rules(schedule: CronSchedule, calendars_version: int, zones: ZoneData = TZDATA) -> command_pb2.TickRules:
    """What ticks of the schedule follow from when they are evaluated now."""
    database = "" if schedule.time_zone == "UTC" else zones.version
    return command_pb2.TickRules(time_zone_database=database, calendars_version=calendars_version)


def found_by(view: View) -> FindCalendar:
    """The calendars of a view."""
    return lambda namespace, name: view.get(view.tables.calendars, keys.calendar(namespace, name))


def _checked(serialized: bytes) -> calendar_pb2.Calendar:
    try:
        calendar = calendar_pb2.Calendar.FromString(serialized)
    except DecodeError:
        raise InvalidField("cannot be read", field="calendar") from None
    if not calendar.namespace or not calendar.name:
        raise InvalidField("has no name", field="calendar.name")
    if len(keys.calendar(calendar.namespace, calendar.name)) > keys.MAX_KEY_BYTES:
        raise InvalidField("is too long", field="calendar.name")
    if len(calendar.dates) > limits.CALENDAR_DATES_MAX or len(calendar.windows) > limits.CALENDAR_WINDOWS_MAX:
        raise InvalidField("holds too many dates or windows", field="calendar")
    for number, text in enumerate(calendar.dates):
        try:
            day_number(text)
        except ValueError:
            raise InvalidField("is not a date", field=f"calendar.dates[{number}]") from None
    return calendar


def _unpacked(value: bytes | None) -> tuple[int, bytes]:
    """Version and message of a row; (0, b"") when there is none."""
    if value is None:
        return 0, b""
    return rows.CALENDAR.unpack_from(value)[0], value[rows.CALENDAR.size :]


def _record(value: bytes) -> CalendarRecord:
    version, serialized = _unpacked(value)
    return CalendarRecord(version, calendar_pb2.Calendar.FromString(serialized))


@lru_cache(maxsize=64)
def _as_value(value: bytes) -> Calendar:
    message = _record(value).message
    try:
        return calendar_of(
            message.dates,
            [(_ms(window.start), _ms(window.end)) for window in message.windows],
        )
    except ValueError as error:
        raise ImpossibleState(f"calendar {message.name} holds what is no date") from error


def _ms(moment: Timestamp) -> int:
    return moment.seconds * 1000 + moment.nanos // 1_000_000
