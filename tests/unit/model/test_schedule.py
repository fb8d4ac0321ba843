"""Ticks where clocks change, against a table of right answers and against another implementation."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.model.errors import InvalidField
from raftsched.model.limits import DAY_MS, HOUR_MS, MINUTE_MS, YEAR_MS
from raftsched.model.recurrence import CronSchedule
from raftsched.model.schedule import (
    EXTEND_TICKS,
    INITIAL_TICKS,
    MIN_TICKS,
    TICK_HORIZON_MS,
    TickBatch,
    check_cron,
    first_interval_tick,
    initial_ticks,
    latest_interval_tick,
    more_ticks,
    next_interval_tick,
    ticks_after,
)
from raftsched.model.zones import zone as load_zone


def ms(text: str, zone: str = "UTC") -> int:
    """Milliseconds of an ISO time; without an offset it is local to `zone`."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=load_zone(zone))
    return int(moment.timestamp() * 1000)


RIGHT_ANSWERS = [
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]),
    (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T01:31",
        [
            "2026-10-25T02:00+02:00",
            "2026-10-25T02:30+02:00",
            "2026-10-25T02:00+01:00",
            "2026-10-25T02:30+01:00",
            "2026-10-25T03:00+01:00",
        ],
    ),
    (
        "0 * * * *",
        "America/New_York",
        "2026-11-01T00:30",
        ["2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00", "2026-11-01T02:00-05:00", "2026-11-01T03:00-05:00"],
    ),
    (
        "30 1-3 * * *",
        "Europe/Berlin",
        "2026-10-25T00:00",
        ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T03:30+01:00", "2026-10-26T01:30+01:00"],
    ),
    ("0 0 * * *", "America/Santiago", "2022-09-10T12:00", ["2022-09-11T01:00-03:00", "2022-09-12T00:00-03:00"]),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
    ("30 1 * * *", "Europe/Dublin", "2026-03-28T12:00", ["2026-03-29T02:00+01:00", "2026-03-30T01:30+01:00"]),
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T00:00+00:00", "2108-02-29T00:00+00:00"]),
    (
        "0 0 */2 * 1",
        "UTC",
        "2026-01-01T00:00",
        ["2026-01-05T00:00+00:00", "2026-01-19T00:00+00:00", "2026-02-09T00:00+00:00"],
    ),
    (
        "0 0 13 * 5",
        "UTC",
        "2026-01-01T00:00",
        ["2026-01-02T00:00+00:00", "2026-01-09T00:00+00:00", "2026-01-13T00:00+00:00", "2026-01-16T00:00+00:00"],
    ),
    (
        "0 0 L * *",
        "UTC",
        "2026-01-15T00:00",
        ["2026-01-31T00:00+00:00", "2026-02-28T00:00+00:00", "2026-03-31T00:00+00:00"],
    ),
    (
        "0 0 * * 5L",
        "UTC",
        "2026-01-15T00:00",
        ["2026-01-30T00:00+00:00", "2026-02-27T00:00+00:00", "2026-03-27T00:00+00:00"],
    ),
    (
        "0 0 * * L5",
        "UTC",
        "2026-01-15T00:00",
        ["2026-01-30T00:00+00:00", "2026-02-27T00:00+00:00", "2026-03-27T00:00+00:00"],
    ),
    ("0 9 * * 1#2", "UTC", "2026-01-01T00:00", ["2026-01-12T09:00+00:00", "2026-02-09T09:00+00:00"]),
    (
        "5/15 * * * *",
        "UTC",
        "2026-01-01T00:00",
        [
            "2026-01-01T00:05+00:00",
            "2026-01-01T00:20+00:00",
            "2026-01-01T00:35+00:00",
            "2026-01-01T00:50+00:00",
            "2026-01-01T01:05+00:00",
        ],
    ),
]


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), RIGHT_ANSWERS)
def test_ticks_are_those_of_the_table_of_right_answers(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    ticks = ticks_after(CronSchedule((expression,), zone), ms(after, zone), count=len(expected))
    assert ticks == [ms(tick) for tick in expected]


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), RIGHT_ANSWERS)
def test_ticks_are_the_same_when_asked_for_one_by_one(
    expression: str, zone: str, after: str, expected: list[str]
) -> None:
    after_ms = ms(after, zone)
    for tick in expected:
        (after_ms,) = ticks_after(CronSchedule((expression,), zone), after_ms, count=1)
        assert after_ms == ms(tick)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu"])
def test_a_schedule_that_never_fires_is_refused_in_any_zone(zone: str) -> None:
    with pytest.raises(InvalidField, match="never fires"):
        ticks_after(CronSchedule(("0 0 31 2 *",), zone), 0, count=1)


def test_many_fixed_ticks_in_one_gap_fire_once() -> None:
    after_ms = ms("2026-03-29T01:59", "Europe/Berlin")
    ticks = ticks_after(CronSchedule(("0,15,30,45 2,3 * * *",), "Europe/Berlin"), after_ms, count=3)
    assert ticks == [ms("2026-03-29T03:00+02:00"), ms("2026-03-29T03:15+02:00"), ms("2026-03-29T03:30+02:00")]


def test_an_elapsed_time_schedule_has_no_tick_in_a_gap() -> None:
    after_ms = ms("2026-03-29T01:30", "Europe/Berlin")
    ticks = ticks_after(CronSchedule(("*/30 * * * *",), "Europe/Berlin"), after_ms, count=2)
    assert ticks == [ms("2026-03-29T03:00+02:00"), ms("2026-03-29T03:30+02:00")]


def test_an_hour_that_does_not_exist_has_no_elapsed_time_tick_that_day() -> None:
    after_ms = ms("2026-03-28T12:00", "Europe/Berlin")
    (tick,) = ticks_after(CronSchedule(("*/30 2 * * *",), "Europe/Berlin"), after_ms, count=1)
    assert tick == ms("2026-03-30T02:00+02:00")


def test_within_the_second_pass_of_a_fold_a_fixed_tick_has_been() -> None:
    (tick,) = ticks_after(CronSchedule(("30 2 * * *",), "Europe/Berlin"), ms("2026-10-25T02:15+01:00"), count=1)
    assert tick == ms("2026-10-26T02:30+01:00")


def test_the_second_pass_of_a_fold_is_not_lost_when_the_next_local_match_is_a_year_away() -> None:
    after_ms = ms("2026-10-25T02:59+02:00")
    ticks = ticks_after(CronSchedule(("*/30 2 25 10 *",), "Europe/Berlin"), after_ms, count=3)
    assert ticks == [ms("2026-10-25T02:00+01:00"), ms("2026-10-25T02:30+01:00"), ms("2027-10-25T02:00+02:00")]


def test_a_day_that_a_zone_left_out_fires_at_its_end() -> None:
    # Samoa went from 29 to 31 December 2011.
    ticks = ticks_after(CronSchedule(("0 9 * * *",), "Pacific/Apia"), ms("2011-12-29T12:00", "Pacific/Apia"), count=2)
    assert ticks == [ms("2011-12-31T00:00+14:00"), ms("2011-12-31T09:00+14:00")]


def test_a_clock_that_is_set_back_over_midnight_repeats_elapsed_times_only() -> None:
    # St. John's set its clocks back at 00:01 until 2011.
    zone, after_ms = "America/St_Johns", ms("2010-11-06T23:30-02:30")
    elapsed = ticks_after(CronSchedule(("*/59 0,23 * * *",), zone), after_ms, count=4)
    assert elapsed == [
        ms("2010-11-06T23:59-02:30"),
        ms("2010-11-07T00:00-02:30"),
        ms("2010-11-06T23:59-03:30"),
        ms("2010-11-07T00:00-03:30"),
    ]
    fixed = ticks_after(CronSchedule(("0,59 0,23 * * *",), zone), after_ms, count=3)
    assert fixed == [ms("2010-11-06T23:59-02:30"), ms("2010-11-07T00:00-02:30"), ms("2010-11-07T00:59-03:30")]


def test_seconds_come_first_in_six_fields() -> None:
    ticks = ticks_after(CronSchedule(("*/20 0 12 * * *",), "UTC"), ms("2026-01-01T00:00"), count=4)
    assert [tick - ms("2026-01-01T12:00") for tick in ticks] == [0, 20_000, 40_000, DAY_MS]


@pytest.mark.parametrize("after_ms", [-1, -1500, 0, 999, 1001])
def test_ticks_are_later_than_the_millisecond_asked_for(after_ms: int) -> None:
    (tick,) = ticks_after(CronSchedule(("* * * * * *",), "UTC"), after_ms, count=1)
    assert after_ms < tick <= after_ms + 1000
    assert tick % 1000 == 0


def test_ticks_stop_at_until() -> None:
    assert ticks_after(CronSchedule(("* * * * *",), "UTC"), 0, count=100, until_ms=3 * MINUTE_MS) == [
        60_000,
        120_000,
        180_000,
    ]


def test_ticks_end_with_the_calendar() -> None:
    assert ticks_after(CronSchedule(("0 0 1 1 *",), "UTC"), ms("9997-06-01T00:00"), count=5) == [ms("9998-01-01T00:00")]


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Europe/berlin", "`Europe/berlin` is not a time zone; did you mean Europe/Berlin?"),
        ("Mars/Olympus", "`Mars/Olympus` is not a time zone; an IANA name such as Europe/Berlin is right"),
        ("../../etc/passwd", "`../../etc/passwd` is not a time zone; an IANA name such as Europe/Berlin is right"),
        ("", "`` is not a time zone; an IANA name such as Europe/Berlin is right"),
        ("x" * 1000, f"`{'x' * 64}` is not a time zone; an IANA name such as Europe/Berlin is right"),
    ],
)
def test_an_unknown_zone_is_refused(zone: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check_cron("0 0 * * *", zone)
    assert caught.value.field == "time_zone"
    assert caught.value.message == message


ZONES = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "Asia/Kathmandu",
]
# Here days begin with a gap or end with a fold, or clocks change by half an hour: cronsim, which walks from hour to
# hour, then finds times that do not exist or misses some.
ODD_ZONES = ["America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe"]
STEP = st.sampled_from(["*", "*/5", "*/17", "*/30"])
MINUTES = st.one_of(STEP, st.sampled_from(["0", "1", "30", "59", "0,30", "15-45/15", "5/10"]))
HOURS = st.one_of(
    st.sampled_from(["*", "*/2", "*/3"]), st.sampled_from(["0", "1", "2", "3", "1-3", "0,2,23", "0-23", "2/4"])
)
DAYS = st.sampled_from(["*", "*/2", "1", "13", "L", "25-31", "1,15"])
MONTHS = st.sampled_from(["*", "3", "10", "3,4,9-11", "*/2"])
WEEKDAYS = st.sampled_from(["*", "0", "7", "1-5", "5L", "0#1", "*/2", "sat,sun"])


def transition_days(zone: str, year: int) -> list[datetime]:
    """The days of a year, at noon, whose offset differs from that of the day after."""
    days = [datetime(year, 1, 1, 12, tzinfo=load_zone(zone)) + timedelta(days=day) for day in range(365)]
    return [day for day in days if day.utcoffset() != (day + timedelta(days=1)).utcoffset()]


def near_transitions(zones: list[str]) -> list[tuple[str, datetime]]:
    return [
        (zone, day + timedelta(minutes=minutes))
        for zone in zones
        for year in (2025, 2026, 2031)
        for day in transition_days(zone, year) or [datetime(year, 3, 1, tzinfo=load_zone(zone))]
        for minutes in (0, 601)
    ]


WHERE = st.sampled_from(near_transitions(ZONES))
ANYWHERE = st.sampled_from(near_transitions(ZONES + ODD_ZONES))
EXPRESSION = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(where=WHERE, expression=EXPRESSION)
def test_ticks_are_those_cronsim_finds(where: tuple[str, datetime], expression: str) -> None:
    zone, after = where
    expected: list[int] = []
    for moment in CronSim(expression, after):
        tick_ms = int(moment.timestamp() * 1000)
        # cronsim names each of several fixed ticks in one gap.
        if not expected or tick_ms > expected[-1]:
            expected.append(tick_ms)
        if len(expected) == 12:
            break
    assert (
        ticks_after(CronSchedule((expression,), zone), int(after.timestamp() * 1000), count=len(expected)) == expected
    )


@settings(max_examples=100, deadline=None)
@given(where=ANYWHERE, expression=EXPRESSION)
def test_ticks_are_those_that_somebody_watching_the_wall_clock_would_see(
    where: tuple[str, datetime], expression: str
) -> None:
    zone, after = where
    tz, window = load_zone(zone), timedelta(hours=36)
    minutes = [after.astimezone(UTC) + timedelta(minutes=minute) for minute in range(36 * 60 + 1)]
    walls = [minute.astimezone(tz).replace(tzinfo=None) for minute in minutes]
    # Without a zone cronsim knows no gaps and folds.
    wanted = list(takewhile(lambda wall: wall <= walls[0] + 2 * window, CronSim(expression, walls[0])))
    expected = []
    if expression.split()[0].startswith("*") or expression.split()[1].startswith("*"):
        wanted_set = {*wanted, *takewhile(lambda wall: wall <= walls[0], CronSim(expression, walls[0] - window))}
        expected = [minute for minute, wall in zip(minutes, walls, strict=True) if wall in wanted_set]
    else:
        reached = walls[0]
        for minute, wall in zip(minutes, walls, strict=True):
            if any(reached < tick <= wall for tick in wanted):
                expected.append(minute)
            reached = max(reached, wall)
    after_ms, until_ms = (int(minute.timestamp() * 1000) for minute in (minutes[0], minutes[-1]))
    ticks = ticks_after(CronSchedule((expression,), zone), after_ms, count=10_000, until_ms=until_ms)
    assert ticks == [int(minute.timestamp() * 1000) for minute in expected if minute > minutes[0]]


@settings(max_examples=50, deadline=None)
@given(where=ANYWHERE, expression=EXPRESSION, cut=st.integers(1, 39))
def test_a_table_extended_from_its_last_tick_is_the_table_made_at_once(
    where: tuple[str, datetime], expression: str, cut: int
) -> None:
    zone, after = where
    after_ms = int(after.timestamp() * 1000)
    whole = ticks_after(CronSchedule((expression,), zone), after_ms, count=40)
    assert all(earlier < later for earlier, later in pairwise(whole))
    head = ticks_after(CronSchedule((expression,), zone), after_ms, count=cut)
    assert head + ticks_after(CronSchedule((expression,), zone), head[-1], count=40 - cut) == whole


NOW_MS = ms("2026-01-01T00:00:30")


def test_a_frequent_schedule_begins_with_a_full_table() -> None:
    ticks = initial_ticks(CronSchedule(("* * * * *",), "UTC"), NOW_MS).ticks_ms
    assert ticks == [ms("2026-01-01T00:01") + index * MINUTE_MS for index in range(INITIAL_TICKS)]


def test_a_monthly_schedule_begins_with_the_ticks_of_the_horizon() -> None:
    ticks = initial_ticks(CronSchedule(("0 0 1 * *",), "UTC"), NOW_MS).ticks_ms
    assert len(ticks) == 13
    assert ticks[-1] <= NOW_MS + TICK_HORIZON_MS


def test_a_rare_schedule_begins_with_a_few_ticks() -> None:
    ticks = initial_ticks(CronSchedule(("0 0 29 2 *",), "UTC"), NOW_MS).ticks_ms
    assert [datetime.fromtimestamp(tick / 1000, UTC).year for tick in ticks] == [2028, 2032, 2036, 2040]
    assert len(ticks) == MIN_TICKS


def test_a_table_is_extended_from_its_last_tick_even_when_that_is_long_ago() -> None:
    last_tick_ms = NOW_MS - 10 * YEAR_MS
    last_tick_ms -= last_tick_ms % MINUTE_MS
    ticks = more_ticks(CronSchedule(("* * * * *",), "UTC"), last_tick_ms, NOW_MS).ticks_ms
    assert ticks == [last_tick_ms + (index + 1) * MINUTE_MS for index in range(EXTEND_TICKS)]


def test_a_table_that_reaches_beyond_the_horizon_still_gets_a_few_ticks() -> None:
    ticks = more_ticks(CronSchedule(("0 0 29 2 *",), "UTC"), ms("2040-02-29T00:00"), NOW_MS).ticks_ms
    assert [datetime.fromtimestamp(tick / 1000, UTC).year for tick in ticks] == [2044, 2048, 2052, 2056]


def test_a_table_at_the_end_of_the_calendar_is_not_extended() -> None:
    assert more_ticks(CronSchedule(("0 0 1 1 *",), "UTC"), ms("9998-01-01T00:00"), NOW_MS) == TickBatch(
        [], is_final=True, searched_ms=ms("9998-01-01T00:00")
    )


def test_an_interval_starts_one_interval_after_registration() -> None:
    assert first_interval_tick(HOUR_MS, None, NOW_MS) == NOW_MS + HOUR_MS


def test_an_interval_starts_at_its_start() -> None:
    assert first_interval_tick(HOUR_MS, NOW_MS + 5, NOW_MS) == NOW_MS + 5
    assert first_interval_tick(HOUR_MS, NOW_MS, NOW_MS) == NOW_MS


@pytest.mark.parametrize("elapsed_ms", [1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1, 1000 * YEAR_MS])
def test_an_interval_whose_start_is_past_stays_anchored_to_it(elapsed_ms: int) -> None:
    start_ms = NOW_MS - elapsed_ms
    tick = first_interval_tick(HOUR_MS, start_ms, NOW_MS)
    assert NOW_MS < tick <= NOW_MS + HOUR_MS
    assert (tick - start_ms) % HOUR_MS == 0


@given(every_ms=st.integers(1000, 10 * YEAR_MS), anchor_ms=st.integers(-(2**50), 2**50), now_ms=st.integers(0, 2**50))
def test_latest_and_next_interval_tick_enclose_now(every_ms: int, anchor_ms: int, now_ms: int) -> None:
    latest, following = (
        latest_interval_tick(every_ms, anchor_ms, now_ms),
        next_interval_tick(every_ms, anchor_ms, now_ms),
    )
    assert latest <= now_ms < following
    assert following - latest == every_ms
    assert (latest - anchor_ms) % every_ms == 0
