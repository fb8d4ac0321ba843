"""From wall-clock times to instants: the ticks of a whole schedule, one after the other.

Where clocks change, the rule is Debian cron's. A *fixed-time* expression (neither its minute nor its hour field begins
with `*`) fires at the first instant after a gap, once, for all of its ticks that fell into it, and in a fold the first
time only, unless the schedule asks for another treatment of either. Any other expression follows real elapsed time: all
instants of a fold, none that does not exist.

A tick that was moved out of a gap is left out when an exclusion or a calendar has the time it was meant for, or the
time it would fire at.
"""

import heapq
from collections.abc import Iterator

from raftsched.model.cron import DAY_S, CronExpression, parse_cron
from raftsched.model.recurrence import CronSchedule, Exclusion, Fold, Gap
from raftsched.model.zones import LAST_YEAR, TZDATA, Span, ZoneData, year_bounds_s, year_of

# A tick moves to another day by at most so many; if none is open, it is left out.
MOVE_MAX_DAYS = 366
# Times looked at in vain before a search stops, so that none takes long; it can be taken up again where it stopped.
SEARCH_MAX = 50_000
# Every date falls on every day of the week within 40 years: what does not fire for so long never will.
_BARREN_YEARS = 100
# Zones differ from UTC, and clocks jump, by at most a day.
_MARGIN_S = 2 * DAY_S

# The instant, what the wall clock shows then, and the wall-clock time that was asked for; all in seconds.
_Tick = tuple[int, int, int]


class TickSearch:
    """Iterates over the ticks later than `after_s`, in seconds, strictly ascending.

    When it ends, `is_over` says whether no tick comes any more; else it has looked in vain up to `searched_s` and a
    search from there goes on.
    """

    def __init__(self, schedule: CronSchedule, after_s: int, zones: ZoneData = TZDATA) -> None:
        self.is_over = False
        self.searched_s = after_s
        self._schedule = schedule
        self._zones = zones
        self._after_s = after_s
        self._crons = [parse_cron(expression) for expression in schedule.expressions]
        exclusions = [Exclusion(expression) for expression in schedule.exclude]
        self._whole_days = [exclusion for exclusion in exclusions if exclusion.takes_whole_days]
        self._exclusions = [exclusion for exclusion in exclusions if not exclusion.takes_whole_days]
        self._calendars = [use.calendar for use in schedule.calendars]
        self._excluding = [use.calendar for use in schedule.calendars if not use.moves]
        self._moving = [use.calendar for use in schedule.calendars if use.moves]
        self._closes_days = bool(self._whole_days) or any(calendar.days for calendar in self._excluding)
        self._year = 0
        self._left = SEARCH_MAX

    def __iter__(self) -> Iterator[int]:
        start_ms, end_ms = self._schedule.start_ms, self._schedule.end_ms
        last_s = self._after_s if start_ms is None else max(self._after_s, (start_ms - 1) // 1000)
        first_s = None if start_ms is None else (start_ms - 1) // 1000
        self._year = year_of(last_s)
        for tick_s in self._rearranged(last_s, first_s):
            if end_ms is not None and tick_s * 1000 >= end_ms:
                break
            if tick_s > last_s:
                last_s = tick_s
                self._year, self._left = year_of(tick_s), SEARCH_MAX
                yield tick_s
        self.is_over = self._left > 0

    def _rearranged(self, after_s: int, first_s: int | None) -> Iterator[int]:
        """Moves what falls on a day that is not open; also ticks that are not later than `after_s`."""
        if not self._moving:
            for instant_s, _, _ in self._open(after_s):
                yield instant_s
            return
        moved: list[int] = []
        from_s = self._look_back_s(after_s)
        for instant_s, wall_s, wanted_s in self._open(from_s if first_s is None else max(from_s, first_s)):
            while moved and moved[0] <= instant_s:
                yield heapq.heappop(moved)
            if not any(calendar.has(instant_s, wall_s) for calendar in self._moving):
                yield instant_s
            elif (target_s := self._next_open(wall_s, wanted_s)) is not None:
                heapq.heappush(moved, target_s)
        while moved:
            yield heapq.heappop(moved)

    def _next_open(self, wall_s: int, wanted_s: int) -> int | None:
        """The instant of the same time of the next day on which neither a calendar nor an exclusion has it."""
        day, time_s = wall_s // DAY_S, wanted_s % DAY_S
        for ahead in range(1, MOVE_MAX_DAYS + 1):
            found = self._instant((day + ahead) * DAY_S + time_s)
            if found is not None and self._is_open(*found):
                return found[0]
        return None

    def _is_open(self, instant_s: int, wall_s: int) -> bool:
        return not (
            any(calendar.has(instant_s, wall_s) for calendar in self._calendars)
            or any(exclusion.has(wall_s) for exclusion in (*self._whole_days, *self._exclusions))
        )

    def _look_back_s(self, after_s: int) -> int:
        """From where on ticks can have moved beyond `after_s`: all days between are not open, or not always."""
        day = after_s // DAY_S
        for _ in range(MOVE_MAX_DAYS):
            from_ms, to_ms = ((day - 1) * DAY_S - _MARGIN_S) * 1000, (day * DAY_S + _MARGIN_S) * 1000
            if not (
                self._whole_days
                or self._exclusions
                or any(
                    {day - 2, day - 1, day} & calendar.days or calendar.touches(from_ms, to_ms)
                    for calendar in self._calendars
                )
            ):
                break
            day -= 1
        return day * DAY_S - _MARGIN_S

    def _open(self, after_s: int) -> Iterator[_Tick]:
        """What no exclusion and no excluding calendar has."""
        resume_s: int | None = after_s
        while resume_s is not None:
            after_s, resume_s = resume_s, None
            for tick in self._merged(after_s):
                self.searched_s = max(self.searched_s, tick[0])
                self._left -= 1
                if self._left <= 0:
                    return
                window_end_ms = self._window_end_ms(tick[0])
                if window_end_ms is not None:
                    # What the window holds need not be looked at.
                    resume_s = max(tick[0], (window_end_ms - 1) // 1000)
                    break
                if not any(exclusion.has(tick[1]) for exclusion in self._exclusions):
                    yield tick

    def _window_end_ms(self, instant_s: int) -> int | None:
        for calendar in self._excluding:
            end_ms = calendar.window_end_ms(instant_s * 1000)
            if end_ms is not None:
                return end_ms
        return None

    def _merged(self, after_s: int) -> Iterator[_Tick]:
        """The ticks of all expressions, once where they coincide."""
        streams = [self._ticks_of(cron, after_s) for cron in self._crons]
        if len(streams) == 1:
            yield from streams[0]
            return
        last_s = after_s
        for tick in heapq.merge(*streams):
            if tick[0] > last_s:
                last_s = tick[0]
                yield tick

    def _ticks_of(self, cron: CronExpression, after_s: int) -> Iterator[_Tick]:
        for year in range(year_of(after_s), LAST_YEAR + 1):
            if year - self._year > _BARREN_YEARS:
                return
            start_s, end_s = year_bounds_s(year)
            # Offsets are less than a day. Years without a matching day need no look at the zone.
            if next(self._wall_times(cron, start_s - DAY_S, end_s + DAY_S), None) is None:
                continue
            yield from self._fixed(cron, year, after_s) if cron.fixed_time else self._elapsed(cron, year, after_s)

    def _elapsed(self, cron: CronExpression, year: int, after_s: int) -> Iterator[_Tick]:
        for span in self._spans(year):
            if span.end_s > after_s:
                from_s = max(span.start_s, after_s + 1)
                for wall_s in self._wall_times(cron, from_s + span.offset_s, span.end_s + span.offset_s):
                    yield wall_s - span.offset_s, wall_s, wall_s

    def _fixed(self, cron: CronExpression, year: int, after_s: int) -> Iterator[_Tick]:
        fold = self._schedule.fold
        spans = self._spans(year)
        # The wall-clock time up to which everything has had its turn: ahead of the clock in a fold, behind it after a
        # gap.
        reached_s = spans[0].start_s + spans[0].offset_before_s
        for number, span in enumerate(spans):
            wall_start_s, wall_end_s = span.start_s + span.offset_s, span.end_s + span.offset_s
            if span.end_s > after_s:
                from_s, until_s = max(wall_start_s, after_s + 1 + span.offset_s), wall_end_s
                if fold is Fold.FIRST:
                    from_s = max(from_s, reached_s)
                elif fold is Fold.LAST:
                    until_s = min(wall_end_s, self._next_wall_start_s(year, spans, number))
                if self._schedule.gap is Gap.SHIFT and reached_s < wall_start_s and span.start_s > after_s:
                    wanted_s = self._first_wanted(cron, reached_s, wall_start_s)
                    if wanted_s is not None:
                        yield span.start_s, wall_start_s, wanted_s
                        from_s = max(from_s, wall_start_s + 1)
                for wall_s in self._wall_times(cron, from_s, until_s):
                    yield wall_s - span.offset_s, wall_s, wall_s
            reached_s = max(reached_s, wall_end_s)

    def _next_wall_start_s(self, year: int, spans: tuple[Span, ...], number: int) -> int:
        """What the wall clock shows when the span after this one begins."""
        if number + 1 < len(spans):
            return spans[number + 1].start_s + spans[number + 1].offset_s
        if year == LAST_YEAR:
            return spans[number].end_s + spans[number].offset_s
        following = self._spans(year + 1)[0]
        return following.start_s + following.offset_s

    def _first_wanted(self, cron: CronExpression, from_s: int, until_s: int) -> int | None:
        """The first time of a gap that fires at its end."""
        for wall_s in self._wall_times(cron, from_s, until_s):
            if not any(exclusion.has(wall_s) for exclusion in self._exclusions):
                return wall_s
        return None

    def _instant(self, wall_s: int) -> tuple[int, int] | None:
        """When a fixed time of one day fires, and what the wall clock shows then; None: not at all."""
        found = []
        after_gap = None
        for year in range(year_of(wall_s - DAY_S), year_of(wall_s + DAY_S) + 1):
            for span in self._spans(year):
                instant_s = wall_s - span.offset_s
                if span.start_s <= instant_s < span.end_s:
                    found.append(instant_s)
                elif instant_s < span.start_s and after_gap is None:
                    after_gap = span
        if found:
            return (found[-1] if self._schedule.fold is Fold.LAST else found[0]), wall_s
        if self._schedule.gap is Gap.SKIP or after_gap is None:
            return None
        return after_gap.start_s, after_gap.start_s + after_gap.offset_s

    def _spans(self, year: int) -> tuple[Span, ...]:
        return self._zones.spans_of_year(self._schedule.time_zone, year)

    def _wall_times(self, cron: CronExpression, from_s: int, until_s: int) -> Iterator[int]:
        return cron.local_times(from_s, until_s, self._is_closed_day if self._closes_days else None)

    def _is_closed_day(self, day: int) -> bool:
        """Whether nothing can fire on it."""
        return any(calendar.has_day(day) for calendar in self._excluding) or any(
            exclusion.has_day(day) for exclusion in self._whole_days
        )
