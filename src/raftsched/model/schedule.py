"""Ticks: the instants at which a recurring schedule fires, in milliseconds since the epoch.

Only nodes that propose evaluate schedules; replicas look ticks up in the tables those nodes replicate.
"""

from dataclasses import dataclass

from raftsched.model.cron import parse_cron
from raftsched.model.errors import InvalidField
from raftsched.model.instants import TickSearch
from raftsched.model.limits import DAY_MS
from raftsched.model.recurrence import CronSchedule
from raftsched.model.zones import TZDATA, ZoneData, zone

# A new schedule's table: enough for a minutely job to last until the table is extended, long after one heartbeat.
INITIAL_TICKS = 64
# What one ExtendTicks carries at most: a log entry stays small, and a call short.
EXTEND_TICKS = 512
# Ticks further away are evaluated later, by a tz database that may have changed meanwhile...
TICK_HORIZON_MS = 400 * DAY_MS
# ...but for rare ones (29 February) this many are always known.
MIN_TICKS = 4


@dataclass(frozen=True, slots=True)
class TickBatch:
    """Coming ticks, strictly ascending. `is_final`: there are no more after these.

    Neither ticks nor final: there is none up to `searched_ms`, where the search may be taken up.
    """

    ticks_ms: list[int]
    is_final: bool
    searched_ms: int


def check_cron(expression: str, time_zone: str) -> None:
    """Raises InvalidField, field "expression" or "time_zone"."""
    parse_cron(expression)
    zone(time_zone)


def check_schedule(schedule: CronSchedule) -> None:
    """Raises InvalidField, field "expression", "more_expressions[0]"…, "exclude[0]"… or "time_zone"."""
    fields = ["expression", *(f"more_expressions[{number}]" for number in range(len(schedule.expressions) - 1))]
    fields += [f"exclude[{number}]" for number in range(len(schedule.exclude))]
    for field, expression in zip(fields, (*schedule.expressions, *schedule.exclude), strict=True):
        try:
            parse_cron(expression)
        except InvalidField as error:
            error.field = field
            raise
    zone(schedule.time_zone)


def ticks_after(schedule: CronSchedule, after_ms: int, *, count: int, until_ms: int | None = None) -> list[int]:
    """The first `count` ticks later than `after_ms` and not later than `until_ms`, strictly ascending.

    Shorter only at `until_ms`, when the schedule ends, at the end of the calendar (year 9998), and, without `until_ms`,
    after a long search in vain. Raises as check_schedule does.
    """
    check_schedule(schedule)
    ticks_ms: list[int] = []
    after_s = after_ms // 1000
    while True:
        search = TickSearch(schedule, after_s)
        for tick_s in search:
            if until_ms is not None and tick_s * 1000 > until_ms:
                return ticks_ms
            ticks_ms.append(tick_s * 1000)
            if len(ticks_ms) == count:
                return ticks_ms
        after_s = search.searched_s
        if search.is_over or until_ms is None or after_s * 1000 >= until_ms:
            return ticks_ms


def initial_ticks(schedule: CronSchedule, now_ms: int, zones: ZoneData = TZDATA) -> TickBatch:
    """The ticks after `now_ms` that a new schedule's table begins with: up to 64, at least 4 if there are so many."""
    return more_ticks(schedule, now_ms, now_ms, limit=INITIAL_TICKS, zones=zones)


def more_ticks(
    schedule: CronSchedule, last_tick_ms: int, now_ms: int, *, limit: int = EXTEND_TICKS, zones: ZoneData = TZDATA
) -> TickBatch:
    """The ticks that follow a table's last one, without a hole however long ago that was: at least 4, at most `limit`.

    Fewer than 4 when the schedule ends, or after a long search in vain.
    """
    search = TickSearch(schedule, last_tick_ms // 1000, zones)
    ticks_ms: list[int] = []
    for tick_s in search:
        if tick_s * 1000 > now_ms + TICK_HORIZON_MS and len(ticks_ms) >= MIN_TICKS:
            break
        ticks_ms.append(tick_s * 1000)
        if len(ticks_ms) == limit:
            break
    return TickBatch(ticks_ms, search.is_over, search.searched_s * 1000)


def first_interval_tick(every_ms: int, start_ms: int | None, now_ms: int) -> int:
    """First occurrence of an interval registered at `now_ms`: one interval later, or `start_ms`, or, when that is past,
    the next multiple of the interval after it that is later than `now_ms`."""
    if start_ms is None:
        return now_ms + every_ms
    if start_ms >= now_ms:
        return start_ms
    return next_interval_tick(every_ms, start_ms, now_ms)


def next_interval_tick(every_ms: int, anchor_ms: int, after_ms: int) -> int:
    """The first time later than `after_ms` that is a whole number of intervals away from `anchor_ms`."""
    return after_ms + every_ms - (after_ms - anchor_ms) % every_ms


def latest_interval_tick(every_ms: int, anchor_ms: int, now_ms: int) -> int:
    """The last time not later than `now_ms` that is a whole number of intervals away from `anchor_ms`."""
    return now_ms - (now_ms - anchor_ms) % every_ms
