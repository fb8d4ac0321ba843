"""Cron expressions: what is allowed in one, and the local times it stands for. Time zones are no matter here.

Five fields (minute, hour, day of month, month, day of week) or six, with seconds first. Each is a list of `*`, numbers,
names (months and days of the week), ranges and steps. Days of the month also know `L` (the last), `15W` (the weekday
nearest to the 15th) and `LW`; days of the week `5L` or `L5` (the month's last Friday) and `5#2` (its second). The
nicknames @hourly, @daily (@midnight), @weekly, @monthly and @yearly (@annually) stand for what crontab(5) says.
What else callers may write, `H` and `@every`, is replaced before (cron_input.py).

When a day field begins with `*`, a day must match both day fields, else either one: Vixie cron's rule.
"""

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from raftsched.model.errors import InvalidField
from raftsched.model.limits import CRON_MAX_LENGTH

DAY_S = 86_400
HOUR_S = 3_600
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_YEAR = date.max.year

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class CronField:
    """One field of an expression, and the numbers that are right in it."""

    title: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        names = f" or {next(iter(self.names))}–{list(self.names)[-1]}" if self.names else ""
        return f"{self.low}–{self.high}{names}"


_MONTH_NAMES = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_WEEKDAY_NAMES = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}

_SECOND = CronField("second", 0, 59)
_MINUTE = CronField("minute", 0, 59)
_HOUR = CronField("hour", 0, 23)
_DAY = CronField("day of month", 1, 31)
_MONTH = CronField("month", 1, 12, _MONTH_NAMES)
# 0 and 7 are both Sunday.
_WEEKDAY = CronField("day of week", 0, 7, _WEEKDAY_NAMES)
# In the order of an expression with six fields.
FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)

_PLAIN_TERM = re.compile(r"(?:([*?])|([0-9]+|[a-z]{3})(?:-([0-9]+|[a-z]{3}))?)(?:/([0-9]+))?")
_NEAREST_WEEKDAY = re.compile(r"([0-9]+)w|w([0-9]+)")
_LAST_OF_WEEKDAY = re.compile(r"([0-9]|[a-z]{3})l|l([0-9]|[a-z]{3})")
_NTH_OF_WEEKDAY = re.compile(r"([0-9]|[a-z]{3})#([0-9]+)")
_HASHED_TERM = re.compile(r"([hr])(?:\(.*\))?(?:/.*)?")


@dataclass(frozen=True, slots=True, eq=False)
class CronExpression:
    """A parsed expression. Days of the week count from 0, Sunday."""

    hours: tuple[int, ...]
    # Minute and second as seconds since the hour began, ascending.
    seconds_of_hour: tuple[int, ...]
    months: frozenset[int]
    days: frozenset[int]
    last_day: bool
    last_weekday_of_month: bool
    # "15W" as 15.
    nearest_weekdays: frozenset[int]
    weekdays: frozenset[int]
    # "5L" as 5.
    last_weekdays: frozenset[int]
    # "5#2" as (5, 2).
    nth_weekdays: frozenset[tuple[int, int]]
    # A day must match both day fields, not just one.
    both_days: bool
    # Neither minute nor hour begins with `*`; see raftsched.model.schedule for what this means where clocks change.
    fixed_time: bool
    # It has six fields.
    has_seconds: bool
    _days_by_shape: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    def days_of_month(self, first_weekday: int, length: int) -> tuple[int, ...]:
        """The days that match in a month of `length` days whose first is a `first_weekday`, ascending."""
        shape = (first_weekday, length)
        found = self._days_by_shape.get(shape)
        if found is None:
            by_date = self._by_date(first_weekday, length)
            by_weekday = self._by_weekday(first_weekday, length)
            found = tuple(sorted(by_date & by_weekday if self.both_days else by_date | by_weekday))
            self._days_by_shape[shape] = found
        return found

    def _by_date(self, first_weekday: int, length: int) -> set[int]:
        matching = {day for day in self.days if day <= length}
        if self.last_day:
            matching.add(length)
        if self.last_weekday_of_month:
            matching.add(_nearest_weekday(length, first_weekday, length))
        matching.update(_nearest_weekday(day, first_weekday, length) for day in self.nearest_weekdays if day <= length)
        return matching

    def _by_weekday(self, first_weekday: int, length: int) -> set[int]:
        matching: set[int] = set()
        for weekday in self.weekdays:
            matching.update(range(1 + (weekday - first_weekday) % 7, length + 1, 7))
        for weekday in self.last_weekdays:
            matching.add(range(1 + (weekday - first_weekday) % 7, length + 1, 7)[-1])
        for weekday, number in self.nth_weekdays:
            day = 1 + (weekday - first_weekday) % 7 + 7 * (number - 1)
            if day <= length:
                matching.add(day)
        return matching

    def has_day(self, day: int) -> bool:
        """Whether the day matches; days are counted from 1970-01-01."""
        date_of_day = date.fromordinal(_EPOCH_ORDINAL + day)
        if date_of_day.month not in self.months:
            return False
        weekday, length = monthrange(date_of_day.year, date_of_day.month)
        return date_of_day.day in self.days_of_month((weekday + 1) % 7, length)

    def local_times(self, start_s: int, end_s: int, is_closed: Callable[[int], bool] | None = None) -> Iterator[int]:
        """The matching wall-clock times from `start_s` to before `end_s`, ascending.

        All three are seconds since 1970-01-01T00:00 by the wall clock, as if there were no time zones. Days that
        `is_closed` are passed over; it is asked for their number, counted from 1970-01-01.
        """
        first = date.fromordinal(_EPOCH_ORDINAL + start_s // DAY_S)
        year, month = first.year, first.month
        while year <= _LAST_YEAR:
            if month in self.months:
                weekday, length = monthrange(year, month)
                month_s = (date(year, month, 1).toordinal() - _EPOCH_ORDINAL) * DAY_S
                if month_s >= end_s:
                    return
                for day in self.days_of_month((weekday + 1) % 7, length):
                    day_s = month_s + (day - 1) * DAY_S
                    if day_s >= end_s:
                        return
                    if day_s + DAY_S > start_s and not (is_closed and is_closed(day_s // DAY_S)):
                        yield from self._times_of_day(day_s, start_s, end_s)
            elif (date(year, month, 1).toordinal() - _EPOCH_ORDINAL) * DAY_S >= end_s:
                return
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)

    def _times_of_day(self, day_s: int, start_s: int, end_s: int) -> Iterator[int]:
        for hour in self.hours:
            hour_s = day_s + hour * HOUR_S
            if hour_s >= end_s:
                return
            if hour_s + HOUR_S <= start_s:
                continue
            skip = bisect_left(self.seconds_of_hour, start_s - hour_s) if start_s > hour_s else 0
            for second in self.seconds_of_hour[skip:]:
                if hour_s + second >= end_s:
                    return
                yield hour_s + second

    def fires(self) -> bool:
        """Whether any day of any year matches. Within 400 years every month begins on every day of the week."""
        return any(
            self.days_of_month(weekday, length)
            for month in self.months
            for length in ((28, 29) if month == 2 else (monthrange(2001, month)[1],))
            for weekday in range(7)
        )


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """The day from Monday to Friday nearest to `day` in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def normalized(expression: str) -> str:
    """The expression with single spaces, so that equal schedules are stored once."""
    return " ".join(expression.split())


@lru_cache(maxsize=10_000)
def parse_cron(expression: str) -> CronExpression:
    """Raises InvalidField, field "expression", saying which part is wrong and what is right."""
    if len(expression) > CRON_MAX_LENGTH:
        raise _invalid(f"longer than {CRON_MAX_LENGTH} characters")
    text = expression.lower().strip()
    if not text:
        raise _invalid(
            "empty; five fields (minute hour day month weekday) such as `0 2 * * *`, or six with seconds first"
        )
    if text.startswith("@"):
        text = _expand_nickname(text)
    parts = text.split()
    if len(parts) not in (5, 6):
        raise _invalid(
            f"{len(parts)} fields; five (minute hour day month weekday) are right, or six with seconds first"
        )
    second_text, minute_text, hour_text, day_text, month_text, weekday_text = (
        parts if len(parts) == 6 else ["0", *parts]
    )
    seconds = _parse_numbers(_SECOND, second_text)
    minutes = _parse_numbers(_MINUTE, minute_text)
    hours = _parse_numbers(_HOUR, hour_text)
    months = _parse_numbers(_MONTH, month_text)
    days = _parse_days(day_text)
    weekdays = _parse_weekdays(weekday_text)
    cron = CronExpression(
        hours=tuple(sorted(hours)),
        seconds_of_hour=tuple(minute * 60 + second for minute in sorted(minutes) for second in sorted(seconds)),
        months=frozenset(months),
        days=frozenset(days.numbers),
        last_day=days.last,
        last_weekday_of_month=days.last_weekday,
        nearest_weekdays=frozenset(days.nearest_weekdays),
        weekdays=frozenset(weekdays.numbers),
        last_weekdays=frozenset(weekdays.last),
        nth_weekdays=frozenset(weekdays.nth),
        both_days=day_text[0] in "*?" or weekday_text[0] in "*?",
        fixed_time=minute_text[0] != "*" and hour_text[0] != "*",
        has_seconds=len(parts) == 6,
    )
    if not cron.fires():
        raise _invalid(
            f"never fires: no year has a day {day_text} in month {month_text} with day of week {weekday_text};"
            " for the end of a month write L as the day"
        )
    return cron


@dataclass(slots=True)
class _Days:
    numbers: set[int] = field(default_factory=set)
    last: bool = False
    last_weekday: bool = False
    nearest_weekdays: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Weekdays:
    numbers: set[int] = field(default_factory=set)
    last: set[int] = field(default_factory=set)
    nth: set[tuple[int, int]] = field(default_factory=set)


def _invalid(message: str) -> InvalidField:
    return InvalidField(message, field="expression")


def invalid_term(which: CronField, term: str, hint: str) -> InvalidField:
    """The error for one term of a field's list."""
    return _invalid(f"{which.title} `{term}`: {hint}")


def _expand_nickname(text: str) -> str:
    if text in _NICKNAMES:
        return _NICKNAMES[text]
    if text == "@reboot":
        raise _invalid("@reboot is not a time; a cluster has no boot; use another expression, or run it once")
    if text.startswith("@every"):
        raise _invalid("@every stands alone: it is an interval, without a time zone or any other expression beside it")
    raise _invalid(f"`{text}` is not a nickname; right are {', '.join(_NICKNAMES)}")


def _parse_days(text: str) -> _Days:
    days = _Days()
    for term in text.split(","):
        if term == "l":
            days.last = True
        elif term == "lw":
            days.last_weekday = True
        elif nearest := _NEAREST_WEEKDAY.fullmatch(term):
            days.nearest_weekdays.add(parse_number(_DAY, term, nearest[1] or nearest[2]))
        else:
            days.numbers.update(_parse_term(_DAY, term))
    return days


def _parse_weekdays(text: str) -> _Weekdays:
    weekdays = _Weekdays()
    for term in text.split(","):
        if last := _LAST_OF_WEEKDAY.fullmatch(term):
            weekdays.last.add(parse_number(_WEEKDAY, term, last[1] or last[2]) % 7)
        elif nth := _NTH_OF_WEEKDAY.fullmatch(term):
            number = int(nth[2])
            if not 1 <= number <= 5:
                raise invalid_term(_WEEKDAY, term, "the number after # is 1–5")
            weekdays.nth.add((parse_number(_WEEKDAY, term, nth[1]) % 7, number))
        else:
            weekdays.numbers.update(number % 7 for number in _parse_term(_WEEKDAY, term))
    return weekdays


def _parse_numbers(which: CronField, text: str) -> set[int]:
    return {number for term in text.split(",") for number in _parse_term(which, term)}


def _parse_term(which: CronField, term: str) -> range:
    """The numbers of one term of a list: `*`, `*/n`, `a`, `a/n`, `a-b`, `a-b/n`."""
    match = _PLAIN_TERM.fullmatch(term)
    if match is None:
        raise _explain(which, term)
    star, first_text, last_text, step_text = match.groups()
    if star == "?" and (which not in (_DAY, _WEEKDAY) or step_text):
        raise invalid_term(which, term, "? may only stand alone as day of month or day of week; write *")
    if star:
        # Both ends of a week are Sunday: steps run from 0 to 6.
        first, last = which.low, 6 if which is _WEEKDAY else which.high
    else:
        first = parse_number(which, term, first_text)
        if last_text:
            last = parse_number(which, term, last_text)
            if which is _WEEKDAY and last_text == "sun" and first > 0:
                last = 7
        elif step_text:
            last = 6 if which is _WEEKDAY and first < 7 else which.high
        else:
            last = first
    if last < first:
        raise invalid_term(which, term, f"the range ends before it begins; write {first_text}-…,…-{last_text}")
    step = int(step_text) if step_text else 1
    if not 1 <= step <= which.high - which.low + 1:
        raise invalid_term(
            which,
            term,
            f"a step is 1–{which.high - which.low + 1}; for more use @every, such as @every 90m",
        )
    return range(first, last + 1, step)


def parse_number(which: CronField, term: str, text: str) -> int:
    """A number or a name of the field. Raises InvalidField, naming the term."""
    if text in which.names:
        return which.names[text]
    if text[0] not in "0123456789" or not which.low <= int(text) <= which.high:
        raise invalid_term(which, term, f"{text} is not {which.allowed}")
    return int(text)


def _explain(which: CronField, term: str) -> InvalidField:
    """What is wrong with a term that has no known form."""
    hashed = _HASHED_TERM.fullmatch(term)
    if hashed and hashed[1] == "r":
        return invalid_term(which, term, "a random time would differ at each look; use `jitter` to spread jobs")
    if hashed:
        return invalid_term(which, term, "right are H, H/n, H(a-b) and H(a-b)/n, and only in the schedule of a job")
    if which is _WEEKDAY and term == "l":
        return invalid_term(which, term, "say which day of the week is meant, such as 5L for the last Friday")
    if which is not _DAY and "w" in term:
        return invalid_term(which, term, "W belongs to the day of month, such as 15W")
    if which is not _WEEKDAY and "#" in term:
        return invalid_term(which, term, "# belongs to the day of week, such as 1#2 for the second Monday")
    return invalid_term(
        which, term, f"not understood; right are *, numbers {which.allowed}, ranges a-b, steps */n, lists"
    )
