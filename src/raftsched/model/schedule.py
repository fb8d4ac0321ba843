"""Ticks: the instants at which a recurring schedule fires.

Where clocks change, the rule is Debian cron's. A *fixed-time* expression (neither its minute nor its hour field begins
with `*`) fires at the first instant after a gap, once, for all of its ticks that fell into it, and in a fold the first
time only. Any other expression follows real elapsed time: all instants of a fold, none that does not exist.

Only nodes that propose evaluate schedules; replicas look ticks up in the tables those nodes replicate.
"""

from collections.abc import Iterator
from itertools import islice

from raftsched.model.cron import DAY_S, CronExpression, parse_cron
from raftsched.model.limits import DAY_MS
from raftsched.model.zones import LAST_YEAR, Span, spans_of_year, year_bounds_s, year_of, zone

# A new schedule's table: enough for a minutely job to last until the table is extended, long after one heartbeat.
INITIAL_TICKS = 64
# What one ExtendTicks carries at most: a log entry stays small, and a call short.
EXTEND_TICKS = 512
# Ticks further away are evaluated later, by a tz database that may have changed meanwhile...
TICK_HORIZON_MS = 400 * DAY_MS
# ...but for rare ones (29 February) this many are always known.
MIN_TICKS = 4


def check_cron(expression: str, time_zone: str) -> None:
    """Raises InvalidField or NotImplementedField, field "expression" or "time_zone"."""
    parse_cron(expression)
    zone(time_zone)


def ticks_after(
    expression: str, time_zone: str, after_ms: int, *, count: int, until_ms: int | None = None
) -> list[int]:
    """The first `count` ticks later than `after_ms` and not later than `until_ms`, strictly ascending, in milliseconds.

    Shorter only at `until_ms` or the end of the calendar (year 9998). Raises as check_cron does.
    """
    cron = parse_cron(expression)
    zone(time_zone)
    ticks_ms = []
    for tick_s in islice(_ticks_s(cron, time_zone, after_ms // 1000), count):
        tick_ms = tick_s * 1000
        if until_ms is not None and tick_ms > until_ms:
            break
        ticks_ms.append(tick_ms)
    return ticks_ms


def initial_ticks(expression: str, time_zone: str, now_ms: int) -> list[int]:
    """The ticks after `now_ms` that a new schedule's table begins with: up to 64, at least 4."""
    return _table_ticks(expression, time_zone, now_ms, now_ms, INITIAL_TICKS)


def more_ticks(
    expression: str, time_zone: str, last_tick_ms: int, now_ms: int, *, limit: int = EXTEND_TICKS
) -> list[int]:
    """The ticks that follow a table's last one, without a hole however long ago that was: at least 4, at most `limit`.

    Empty only at the end of the calendar.
    """
    return _table_ticks(expression, time_zone, last_tick_ms, now_ms, limit)


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


def _table_ticks(expression: str, time_zone: str, after_ms: int, now_ms: int, limit: int) -> list[int]:
    cron = parse_cron(expression)
    zone(time_zone)
    ticks_ms: list[int] = []
    for tick_s in islice(_ticks_s(cron, time_zone, after_ms // 1000), limit):
        if tick_s * 1000 > now_ms + TICK_HORIZON_MS and len(ticks_ms) >= MIN_TICKS:
            break
        ticks_ms.append(tick_s * 1000)
    return ticks_ms


def _ticks_s(cron: CronExpression, time_zone: str, after_s: int) -> Iterator[int]:
    """Every tick later than `after_s`, ascending, in seconds."""
    for year in range(year_of(after_s), LAST_YEAR + 1):
        start_s, end_s = year_bounds_s(year)
        # Offsets are less than a day. Years without a matching day need no look at the zone.
        if next(cron.local_times(start_s - DAY_S, end_s + DAY_S), None) is None:
            continue
        spans = spans_of_year(time_zone, year)
        yield from _fixed_times(cron, spans, after_s) if cron.fixed_time else _elapsed_times(cron, spans, after_s)


def _elapsed_times(cron: CronExpression, spans: tuple[Span, ...], after_s: int) -> Iterator[int]:
    for span in spans:
        if span.end_s > after_s:
            from_s = max(span.start_s, after_s + 1)
            for local_s in cron.local_times(from_s + span.offset_s, span.end_s + span.offset_s):
                yield local_s - span.offset_s


def _fixed_times(cron: CronExpression, spans: tuple[Span, ...], after_s: int) -> Iterator[int]:
    # The wall-clock time up to which everything has had its turn: ahead of the clock in a fold, behind it after a gap.
    reached_s = spans[0].start_s + spans[0].offset_before_s
    for span in spans:
        local_start_s = span.start_s + span.offset_s
        local_end_s = span.end_s + span.offset_s
        if span.end_s > after_s:
            from_s = max(local_start_s, reached_s, after_s + 1 + span.offset_s)
            if (
                reached_s < local_start_s
                and span.start_s > after_s
                and next(cron.local_times(reached_s, local_start_s), None) is not None
            ):
                yield span.start_s
                from_s += 1
            for local_s in cron.local_times(from_s, local_end_s):
                yield local_s - span.offset_s
        reached_s = max(reached_s, local_end_s)
