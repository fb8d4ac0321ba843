"""Time zones of the tz database that the `tzdata` package carries: their names, and when their clocks change.

The operating system's own database is not asked, so that what is installed with this project decides.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import Protocol
from zoneinfo import ZoneInfo

from raftsched.model.errors import InvalidField
from raftsched.model.limits import TIME_ZONE_MAX_LENGTH

# Python's datetime cannot convert times of its last year in every zone.
LAST_YEAR = 9_998
_PROBE_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """A time from `start_s` to before `end_s` (seconds since the epoch) in which a zone's UTC offset is one."""

    start_s: int
    end_s: int
    offset_s: int
    # The offset just before start_s.
    offset_before_s: int


@cache
def database_version() -> str:
    """The release of the tz database in use, such as "2026a"."""
    with resources.files("tzdata").joinpath("zoneinfo", "tzdata.zi").open(encoding="ascii") as file:
        return file.readline().removeprefix("# version ").strip()


@cache
def zone_names() -> frozenset[str]:
    """Every name the database knows."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


@cache
def zone(name: str) -> ZoneInfo:
    """Raises InvalidField, field "time_zone", if the database has no zone of that name."""
    if len(name) > TIME_ZONE_MAX_LENGTH or name not in zone_names():
        known = {known.lower(): known for known in zone_names()}
        close = get_close_matches(name[:TIME_ZONE_MAX_LENGTH].lower(), known, n=1, cutoff=0.7)
        hint = f"; did you mean {known[close[0]]}?" if close else "; an IANA name such as Europe/Berlin is right"
        raise InvalidField(f"`{name[:TIME_ZONE_MAX_LENGTH]}` is not a time zone{hint}", field="time_zone")
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=10_000)
def spans_of_year(name: str, year: int) -> tuple[Span, ...]:
    """The spans of constant offset that make up a calendar year of UTC, in order.

    Offsets are compared day by day and a change is then narrowed down to its second. Two changes that undo each other
    within a day would be missed; no zone of the database has such a pair.
    """
    tz = zone(name)
    year_start_s, year_end_s = _year_start_s(year), _year_start_s(year + 1)
    spans = []
    start_s = year_start_s
    before_s = _offset_s(tz, year_start_s - 1)
    offset_s = _offset_s(tz, year_start_s)
    seen_s = year_start_s
    while seen_s < year_end_s:
        probe_s = min(seen_s + _PROBE_S, year_end_s - 1)
        if _offset_s(tz, probe_s) != offset_s:
            change_s = _first_change_s(tz, seen_s, probe_s, offset_s)
            spans.append(Span(start_s, change_s, offset_s, before_s))
            start_s, before_s, offset_s = change_s, offset_s, _offset_s(tz, change_s)
            seen_s = change_s
        elif probe_s == year_end_s - 1:
            break
        else:
            seen_s = probe_s
    spans.append(Span(start_s, year_end_s, offset_s, before_s))
    return tuple(spans)


class ZoneData(Protocol):
    """The rules of all zones, as of one release of the tz database."""

    @property
    def version(self) -> str:
        """The release, such as "2026a"."""
        ...

    def spans_of_year(self, name: str, year: int) -> tuple[Span, ...]:
        """As the function of that name."""
        ...


class _Installed:
    @property
    def version(self) -> str:
        return database_version()

    def spans_of_year(self, name: str, year: int) -> tuple[Span, ...]:
        return spans_of_year(name, year)


# What the `tzdata` package carries.
TZDATA: ZoneData = _Installed()


def year_of(time_s: int) -> int:
    """The calendar year of UTC in which a time lies."""
    return datetime.fromtimestamp(time_s, UTC).year


def year_bounds_s(year: int) -> tuple[int, int]:
    """First second of a calendar year of UTC, and of the next."""
    return _year_start_s(year), _year_start_s(year + 1)


def _year_start_s(year: int) -> int:
    return int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())


def _offset_s(tz: ZoneInfo, time_s: int) -> int:
    offset = datetime.fromtimestamp(time_s, tz).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _first_change_s(tz: ZoneInfo, known_s: int, changed_s: int, offset_s: int) -> int:
    """The first second in (known_s, changed_s] whose offset is not offset_s."""
    while changed_s - known_s > 1:
        middle_s = (known_s + changed_s) // 2
        if _offset_s(tz, middle_s) == offset_s:
            known_s = middle_s
        else:
            changed_s = middle_s
    return changed_s
