"""Calendars: days and windows of time that a schedule leaves out, or moves its ticks away from."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from raftsched.model.cron import DAY_S

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days are counted from 1970-01-01 by the wall clock of whoever asks; windows are instants, ascending."""

    days: frozenset[int] = frozenset()
    # (start, end) in milliseconds; the end is outside. They do not overlap.
    windows_ms: tuple[tuple[int, int], ...] = ()

    def has_day(self, day: int) -> bool:
        return day in self.days

    def window_end_ms(self, time_ms: int) -> int | None:
        """The end of the window that holds an instant; None when none does."""
        at = bisect_right(self.windows_ms, (time_ms, 1 << 62)) - 1
        return self.windows_ms[at][1] if at >= 0 and time_ms < self.windows_ms[at][1] else None

    def has(self, time_s: int, wall_s: int) -> bool:
        """Whether an instant, at which the wall clock shows `wall_s`, is within."""
        return wall_s // DAY_S in self.days or self.window_end_ms(time_s * 1000) is not None

    def touches(self, from_ms: int, to_ms: int) -> bool:
        """Whether a window has any instant of [from_ms, to_ms)."""
        at = bisect_right(self.windows_ms, (from_ms, 1 << 62)) - 1
        if at >= 0 and from_ms < self.windows_ms[at][1]:
            return True
        return at + 1 < len(self.windows_ms) and self.windows_ms[at + 1][0] < to_ms


@dataclass(frozen=True, slots=True)
class CalendarUse:
    """How a schedule uses a calendar: what is within is left out, or moves to the next day that is open."""

    calendar: Calendar
    moves: bool = False


def day_number(text: str) -> int:
    """Of a day such as "2026-12-25". Raises ValueError."""
    if len(text) != 10:
        raise ValueError(text)
    return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL


def calendar_of(dates: Iterable[str], windows_ms: Iterable[tuple[int, int]]) -> Calendar:
    """Dates as "2026-12-25"; windows in any order, also overlapping. Raises ValueError for what is no date."""
    joined: list[tuple[int, int]] = []
    for start_ms, end_ms in sorted(windows_ms):
        if joined and start_ms <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end_ms, joined[-1][1]))
        else:
            joined.append((start_ms, end_ms))
    return Calendar(frozenset(map(day_number, dates)), tuple(joined))
