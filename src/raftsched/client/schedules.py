"""Values that tell when a schedule ticks where clocks change, and on which days it does not."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime
from enum import StrEnum


class GapPolicy(StrEnum):
    """What becomes of a fixed time of day that the clocks skip."""

    UNSPECIFIED = "UNSPECIFIED"
    SHIFT = "SHIFT"  # it fires at the first instant after the gap
    SKIP = "SKIP"


class FoldPolicy(StrEnum):
    """What becomes of a fixed time of day that comes twice when clocks are set back."""

    UNSPECIFIED = "UNSPECIFIED"
    FIRST = "FIRST"
    LAST = "LAST"
    BOTH = "BOTH"


class CalendarRule(StrEnum):
    """What becomes of a tick within a calendar."""

    UNSPECIFIED = "UNSPECIFIED"
    EXCLUDE = "EXCLUDE"  # it is left out
    NEXT_OPEN_DAY = "NEXT_OPEN_DAY"  # it moves to the same time of the next day that is open


@dataclass(frozen=True, slots=True)
class CalendarUse:
    """A calendar of the job's namespace, and what its schedule makes of it."""

    calendar: str
    rule: CalendarRule = CalendarRule.EXCLUDE


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days, by the time zone of the schedule that uses them, and windows (start, end) of aware datetimes.

    The end of a window is outside.
    """

    name: str
    dates: Sequence[date] = ()
    windows: Sequence[tuple[datetime, datetime]] = ()
    _: KW_ONLY
    # The client's when empty.
    namespace: str = ""
