"""What a cron expression may hold, and the exact answer to one that is wrong."""

from datetime import datetime, timedelta

import pytest

from raftsched.model.cron import DAY_S, normalized, parse_cron
from raftsched.model.errors import InvalidField

EPOCH = datetime(1970, 1, 1)


def local_times(expression: str, start: str, count: int) -> list[str]:
    start_s = int((datetime.fromisoformat(start) - EPOCH).total_seconds())
    times = parse_cron(expression).local_times(start_s, start_s + 12 * 366 * DAY_S)
    return [(EPOCH + timedelta(seconds=next(times))).isoformat(timespec="seconds") for _ in range(count)]


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:01", ["2026-01-01T00:01:00", "2026-01-01T00:02:00"]),
        ("5/15 * * * *", "2026-01-01", ["2026-01-01T00:05:00", "2026-01-01T00:20:00", "2026-01-01T00:35:00"]),
        ("*/20 30 2 * * *", "2026-01-01", ["2026-01-01T02:30:00", "2026-01-01T02:30:20", "2026-01-01T02:30:40"]),
        ("0 0-4/2,9 * * *", "2026-01-01", ["2026-01-01T00:00:00", "2026-01-01T02:00:00", "2026-01-01T04:00:00"]),
        ("0 0 1 JAN,jul *", "2026-01-02", ["2026-07-01T00:00:00", "2027-01-01T00:00:00"]),
        ("0 0 1 nov-dec *", "2026-01-02", ["2026-11-01T00:00:00", "2026-12-01T00:00:00"]),
        ("0 0 * * mon-wed", "2026-01-01", ["2026-01-05T00:00:00", "2026-01-06T00:00:00", "2026-01-07T00:00:00"]),
        ("0 0 * * 7", "2026-01-01", ["2026-01-04T00:00:00", "2026-01-11T00:00:00"]),
        ("0 0 * * 0", "2026-01-01", ["2026-01-04T00:00:00", "2026-01-11T00:00:00"]),
        ("0 0 * * sat-sun", "2026-01-01", ["2026-01-03T00:00:00", "2026-01-04T00:00:00"]),
        ("0 0 * * 6-7", "2026-01-01", ["2026-01-03T00:00:00", "2026-01-04T00:00:00"]),
        ("0 0 ? * 1", "2026-01-01", ["2026-01-05T00:00:00", "2026-01-12T00:00:00"]),
        ("0 0 15,L * *", "2026-01-16", ["2026-01-31T00:00:00", "2026-02-15T00:00:00", "2026-02-28T00:00:00"]),
        ("0 0 L 2 *", "2026-03-01", ["2027-02-28T00:00:00", "2028-02-29T00:00:00"]),
        ("0 0 * * friL", "2026-01-15", ["2026-01-30T00:00:00", "2026-02-27T00:00:00"]),
        ("0 0 * * L7", "2026-01-15", ["2026-01-25T00:00:00", "2026-02-22T00:00:00"]),
        ("0 0 * * mon#5", "2026-01-01", ["2026-03-30T00:00:00", "2026-06-29T00:00:00"]),
        # 15 August 2026 is a Saturday, 15 November a Sunday; 1 August a Saturday; 31 May a Sunday.
        ("0 0 15W 8,11 *", "2026-01-01", ["2026-08-14T00:00:00", "2026-11-16T00:00:00"]),
        ("0 0 1W 8 *", "2026-01-01", ["2026-08-03T00:00:00"]),
        ("0 0 31W 5 *", "2026-01-01", ["2026-05-29T00:00:00"]),
        ("0 0 LW * *", "2026-05-01", ["2026-05-29T00:00:00", "2026-06-30T00:00:00"]),
        ("@hourly", "2026-01-01T00:00:01", ["2026-01-01T01:00:00"]),
        ("@daily", "2026-01-01T00:00:01", ["2026-01-02T00:00:00"]),
        ("@midnight", "2026-01-01T00:00:01", ["2026-01-02T00:00:00"]),
        ("@Weekly", "2026-01-01", ["2026-01-04T00:00:00"]),
        ("@monthly", "2026-01-02", ["2026-02-01T00:00:00"]),
        ("@yearly", "2026-01-02", ["2027-01-01T00:00:00"]),
        ("@annually", "2026-01-02", ["2027-01-01T00:00:00"]),
        ("  0\t0 1 1 *  ", "2026-01-02", ["2027-01-01T00:00:00"]),
    ],
)
def test_an_expression_means_these_times(expression: str, start: str, expected: list[str]) -> None:
    assert local_times(expression, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "empty; five fields (minute hour day month weekday) such as `0 2 * * *`, or six with seconds first"),
        ("   ", "empty; five fields (minute hour day month weekday) such as `0 2 * * *`, or six with seconds first"),
        ("* * * *", "4 fields; five (minute hour day month weekday) are right, or six with seconds first"),
        ("* * * * * * *", "7 fields; five (minute hour day month weekday) are right, or six with seconds first"),
        ("60 * * * *", "minute `60`: 60 is not 0–59"),
        ("99 0 0 * * *", "second `99`: 99 is not 0–59"),
        ("* 24 * * *", "hour `24`: 24 is not 0–23"),
        ("* * 0 * *", "day of month `0`: 0 is not 1–31"),
        ("* * 32 * *", "day of month `32`: 32 is not 1–31"),
        ("* * * 13 *", "month `13`: 13 is not 1–12 or jan–dec"),
        ("* * * foo *", "month `foo`: foo is not 1–12 or jan–dec"),
        ("* * * * 8", "day of week `8`: 8 is not 0–7 or sun–sat"),
        ("* * * * jan", "day of week `jan`: jan is not 0–7 or sun–sat"),
        ("mon * * * *", "minute `mon`: mon is not 0–59"),
        ("10-5 * * * *", "minute `10-5`: the range ends before it begins; write 10-…,…-5"),
        ("*/0 * * * *", "minute `*/0`: a step is 1–60; for more use @every, such as @every 90m"),
        ("*/90 * * * *", "minute `*/90`: a step is 1–60; for more use @every, such as @every 90m"),
        ("-5 * * * *", "minute `-5`: not understood; right are *, numbers 0–59, ranges a-b, steps */n, lists"),
        ("1,,2 * * * *", "minute ``: not understood; right are *, numbers 0–59, ranges a-b, steps */n, lists"),
        ("1.5 * * * *", "minute `1.5`: not understood; right are *, numbers 0–59, ranges a-b, steps */n, lists"),
        ("nan * * * *", "minute `nan`: nan is not 0–59"),
        ("٣ * * * *", "minute `٣`: not understood; right are *, numbers 0–59, ranges a-b, steps */n, lists"),
        ("? * * * *", "minute `?`: ? may only stand alone as day of month or day of week; write *"),
        ("R * * * *", "minute `r`: a random time would differ at each look; use `jitter` to spread jobs"),
        ("0 R(0-5) * * *", "hour `r(0-5)`: a random time would differ at each look; use `jitter` to spread jobs"),
        ("R/15 * * * *", "minute `r/15`: a random time would differ at each look; use `jitter` to spread jobs"),
        ("0 0 * 15W *", "month `15w`: W belongs to the day of month, such as 15W"),
        ("0 0 32W * *", "day of month `32w`: 32 is not 1–31"),
        ("0 0 1#2 * *", "day of month `1#2`: # belongs to the day of week, such as 1#2 for the second Monday"),
        ("0 0 * * 1#6", "day of week `1#6`: the number after # is 1–5"),
        ("0 0 * * 1#0", "day of week `1#0`: the number after # is 1–5"),
        ("0 0 * * L", "day of week `l`: say which day of the week is meant, such as 5L for the last Friday"),
        ("0 0 * * 9L", "day of week `9l`: 9 is not 0–7 or sun–sat"),
        ("H 2 * * *", "minute `h`: right are H, H/n, H(a-b) and H(a-b)/n, and only in the schedule of a job"),
        ("@every 5m", "@every stands alone: it is an interval, without a time zone or any other expression beside it"),
        ("@reboot", "@reboot is not a time; a cluster has no boot; use another expression, or run it once"),
        (
            "@fortnightly",
            "`@fortnightly` is not a nickname;"
            " right are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",
        ),
        (
            "0 0 31 2 *",
            "never fires: no year has a day 31 in month 2 with day of week *;"
            " for the end of a month write L as the day",
        ),
        (
            "0 0 30 feb *",
            "never fires: no year has a day 30 in month feb with day of week *;"
            " for the end of a month write L as the day",
        ),
        (
            "0 0 31 4,6,9,11 *",
            "never fires: no year has a day 31 in month 4,6,9,11 with day of week *;"
            " for the end of a month write L as the day",
        ),
        ("0 " * 1000, "longer than 1000 characters"),
    ],
)
def test_a_wrong_expression_is_told_what_would_be_right(expression: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_cron(expression)
    assert caught.value.field == "expression"
    assert caught.value.message == message


def test_a_day_that_only_leap_years_have_is_accepted() -> None:
    assert local_times("0 0 29 2 *", "2096-03-01", 2) == ["2104-02-29T00:00:00", "2108-02-29T00:00:00"]


@pytest.mark.parametrize(
    ("expression", "both"),
    [("0 0 13 * 5", False), ("0 0 */2 * 1", True), ("0 0 1 * */2", True), ("0 0 * * 1", True), ("0 0 1-5 * 1", False)],
)
def test_both_day_fields_must_match_when_one_begins_with_a_star(expression: str, both: bool) -> None:
    assert parse_cron(expression).both_days is both


@pytest.mark.parametrize(
    ("expression", "fixed"),
    [
        ("30 2 * * *", True),
        ("0,30 1-3 * * *", True),
        ("*/30 2 * * *", False),
        ("30 */2 * * *", False),
        ("@daily", True),
        ("@hourly", False),
    ],
)
def test_an_expression_is_fixed_time_when_neither_minute_nor_hour_begins_with_a_star(
    expression: str, fixed: bool
) -> None:
    assert parse_cron(expression).fixed_time is fixed


def test_whitespace_does_not_make_another_schedule() -> None:
    assert normalized(" 0  2\t* * * ") == "0 2 * * *"


def test_every_day_of_27_years_matches_as_a_plain_look_at_the_calendar_says() -> None:
    # 27 years from 2001 hold every pair of month length and first day of the week but one leap February.
    cron = parse_cron("0 0 15W,LW,3 * 5L,1#2,7")
    days = [datetime(2001, 1, 1) + timedelta(days=day) for day in range(27 * 365)]

    def working_days(day: datetime) -> list[datetime]:
        first = day.replace(day=1)
        month = [first + timedelta(days=index) for index in range(31)]
        return [other for other in month if other.month == day.month and other.weekday() < 5]

    def matches(day: datetime) -> bool:
        nearest = min(working_days(day), key=lambda other: abs(other.day - 15))
        following = day + timedelta(days=7)
        return (
            day in (nearest, working_days(day)[-1])
            or day.day == 3
            or (day.weekday() == 4 and following.month != day.month)
            or (day.weekday() == 0 and 8 <= day.day <= 14)
            or day.weekday() == 6
        )

    start_s = int((days[0] - EPOCH).total_seconds())
    times = cron.local_times(start_s, start_s + len(days) * DAY_S)
    assert [EPOCH + timedelta(seconds=time) for time in times] == [day for day in days if matches(day)]
