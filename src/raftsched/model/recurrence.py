"""A whole recurring schedule as one value: what ticks are evaluated from."""

from dataclasses import dataclass
from enum import IntEnum

from raftsched.model.calendars import CalendarUse
from raftsched.model.cron import DAY_S, CronExpression, parse_cron


class Gap(IntEnum):
    """What becomes of a fixed time of day that the clocks skip; numbered as raftsched.v1.GapPolicy."""

    SHIFT = 1
    SKIP = 2


class Fold(IntEnum):
    """What becomes of a fixed time of day that comes twice; numbered as raftsched.v1.FoldPolicy."""

    FIRST = 1
    LAST = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The ticks of all expressions, once where they coincide, without what is excluded. Times in milliseconds.

    Expressions are those of cron.py. `start_ms`: none before it. `end_ms`: none at or after it.
    """

    expressions: tuple[str, ...]
    time_zone: str = "UTC"
    exclude: tuple[str, ...] = ()
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    start_ms: int | None = None
    end_ms: int | None = None
    calendars: tuple[CalendarUse, ...] = ()


class Exclusion:
    """A cron expression whose times are left out, by the wall clock: with five fields every instant of a minute that
    matches, with six the second."""

    def __init__(self, expression: str) -> None:
        cron = parse_cron(expression)
        self._cron: CronExpression = cron
        self._hours = frozenset(cron.hours)
        self._seconds_of_hour = frozenset(cron.seconds_of_hour)
        self._step_s = 1 if cron.has_seconds else 60
        # It leaves nothing of the days that it matches.
        self.takes_whole_days = len(cron.hours) == 24 and len(cron.seconds_of_hour) * self._step_s == 3600
        self._day = -(1 << 62)
        self._day_matches = False

    def has_day(self, day: int) -> bool:
        if day != self._day:
            self._day, self._day_matches = day, self._cron.has_day(day)
        return self._day_matches

    def has(self, wall_s: int) -> bool:
        """Whether a time of the wall clock, as seconds since 1970-01-01T00:00, is left out."""
        second = wall_s % DAY_S
        return (
            second // 3600 in self._hours
            and second % 3600 // self._step_s * self._step_s in self._seconds_of_hour
            and self.has_day(wall_s // DAY_S)
        )
