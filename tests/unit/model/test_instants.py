"""Schedules with options: policies for gaps and folds, several expressions, exclusions, bounds and calendars."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.model.calendars import Calendar, CalendarUse, calendar_of
from raftsched.model.cron import parse_cron
from raftsched.model.instants import SEARCH_MAX, TickSearch
from raftsched.model.limits import DAY_MS
from raftsched.model.recurrence import CronSchedule, Fold, Gap
from raftsched.model.schedule import TickBatch, initial_ticks, more_ticks, ticks_after
from raftsched.model.zones import zone as load_zone
from raftsched.model.zones import zone_names

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC") -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=load_zone(zone))
    return int(moment.timestamp() * 1000)


def ticks(schedule: CronSchedule, after: str, count: int) -> list[str]:
    found = ticks_after(schedule, ms(after, schedule.time_zone), count=count)
    tz = load_zone(schedule.time_zone)
    return [datetime.fromtimestamp(tick / 1000, tz).isoformat(timespec="minutes") for tick in found]


# --- gap and fold ---

NIGHTLY = ("30 2 * * *",)


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (Gap.SHIFT, ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        (Gap.SKIP, ["2026-03-30T02:30+02:00", "2026-03-31T02:30+02:00"]),
    ],
)
def test_a_fixed_time_that_the_clocks_skip_is_moved_or_left_out(gap: Gap, expected: list[str]) -> None:
    assert ticks(CronSchedule(NIGHTLY, BERLIN, gap=gap), "2026-03-28T12:00", 2) == expected


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (Fold.FIRST, ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        (Fold.LAST, ["2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]),
        (Fold.BOTH, ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"]),
    ],
)
def test_a_fixed_time_that_comes_twice_fires_as_the_schedule_says(fold: Fold, expected: list[str]) -> None:
    schedule = CronSchedule(NIGHTLY, BERLIN, fold=fold)
    assert ticks(schedule, "2026-10-24T12:00", len(expected)) == expected
    # Also when they are asked for one by one.
    after_ms = ms("2026-10-24T12:00", BERLIN)
    for tick in expected:
        (after_ms,) = ticks_after(schedule, after_ms, count=1)
        assert after_ms == ms(tick)


# (expression, zone, after, with gap=skip, with fold=last, with fold=both): the day of each change in the table of right
# answers.
VARIANTS: list[tuple[str, str, str, list[str] | None, list[str] | None, list[str] | None]] = [
    (
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00",
        None,
        ["-01T01:30-05:00"],
        ["-01T01:30-04:00", "-01T01:30-05:00"],
    ),
    ("0 0 * * *", "America/Santiago", "2022-09-10T12:00", ["-12T00:00-03:00"], None, None),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", ["-05T00:00-02:00"], None, None),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["-25T00:00+03:00"], None, None),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["-05T02:15+11:00"], None, None),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00",
        None,
        ["-05T01:45+10:30"],
        ["-05T01:45+11:00", "-05T01:45+10:30"],
    ),
    ("30 1 * * *", "Europe/Dublin", "2026-03-28T12:00", ["-30T01:30+01:00"], None, None),
    (
        "30 1-3 * * *",
        "Europe/Berlin",
        "2026-10-25T00:00",
        None,
        ["-25T01:30+02:00", "-25T02:30+01:00", "-25T03:30+01:00"],
        ["-25T01:30+02:00", "-25T02:30+02:00", "-25T02:30+01:00", "-25T03:30+01:00"],
    ),
    # What follows real time does so under all of them.
    (
        "0 * * * *",
        "America/New_York",
        "2026-11-01T00:30",
        ["-01T01:00-04:00", "-01T01:00-05:00", "-01T02:00-05:00"],
        ["-01T01:00-04:00", "-01T01:00-05:00", "-01T02:00-05:00"],
        ["-01T01:00-04:00", "-01T01:00-05:00", "-01T02:00-05:00"],
    ),
]


@pytest.mark.parametrize(("expression", "zone", "after", "skip", "last", "both"), VARIANTS)
def test_the_table_of_right_answers_under_other_policies(
    expression: str, zone: str, after: str, skip: list[str] | None, last: list[str] | None, both: list[str] | None
) -> None:
    default = CronSchedule((expression,), zone)
    for schedule, expected in (
        (replace(default, gap=Gap.SKIP), skip),
        (replace(default, fold=Fold.LAST), last),
        (replace(default, fold=Fold.BOTH), both),
    ):
        if expected is None:
            # This policy has no say here.
            assert ticks(schedule, after, 4) == ticks(default, after, 4)
        else:
            assert [tick[7:] for tick in ticks(schedule, after, len(expected))] == expected


def test_in_a_fold_of_half_an_hour_the_last_one_is_half_an_hour_later() -> None:
    schedule = CronSchedule(("45 1 * * *",), "Australia/Lord_Howe", fold=Fold.LAST)
    assert ticks(schedule, "2026-04-04T12:00", 2) == ["2026-04-05T01:45+10:30", "2026-04-06T01:45+10:30"]


@pytest.mark.parametrize("fold", Fold)
@pytest.mark.parametrize("gap", Gap)
def test_elapsed_times_follow_real_time_whatever_the_policies_say(gap: Gap, fold: Fold) -> None:
    schedule = CronSchedule(("*/30 * * * *",), BERLIN, gap=gap, fold=fold)
    assert ticks(schedule, "2026-10-25T01:31", 4) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
    ]
    assert ticks(schedule, "2026-03-29T01:31", 2) == ["2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"]


def test_days_that_a_zone_left_out_obey_the_policy_too() -> None:
    # Samoa went from 29 to 31 December 2011.
    schedule = CronSchedule(("0 9 * * *",), "Pacific/Apia", gap=Gap.SKIP)
    assert ticks(schedule, "2011-12-29T12:00", 1) == ["2011-12-31T09:00+14:00"]


# --- several expressions, exclusions, bounds ---


def test_ticks_of_several_expressions_come_once_where_they_coincide() -> None:
    schedule = CronSchedule(("0 */6 * * *", "0 6,7 * * *"))
    assert ticks(schedule, "2026-01-01T00:00", 4) == [
        "2026-01-01T06:00+00:00",
        "2026-01-01T07:00+00:00",
        "2026-01-01T12:00+00:00",
        "2026-01-01T18:00+00:00",
    ]


def test_an_exclusion_of_five_fields_leaves_out_the_minute_and_one_of_six_the_second() -> None:
    every_20_s = ("*/20 * * * * *",)
    found = ticks_after(CronSchedule(every_20_s, exclude=("1 * * * *",)), ms("2026-01-01T00:00"), count=4)
    assert [(tick - ms("2026-01-01T00:00")) // 1000 for tick in found] == [20, 40, 120, 140]
    found = ticks_after(CronSchedule(every_20_s, exclude=("20 1 * * * *",)), ms("2026-01-01T00:00"), count=5)
    assert [(tick - ms("2026-01-01T00:00")) // 1000 for tick in found] == [20, 40, 60, 100, 120]


def test_an_excluded_time_does_not_fire_at_the_end_of_a_gap() -> None:
    # The time it was meant for is excluded: nothing of the schedule is left.
    assert ticks_after(CronSchedule(NIGHTLY, BERLIN, exclude=NIGHTLY), ms("2026-01-01"), count=1) == []
    # So is the time it would fire at.
    schedule = CronSchedule(NIGHTLY, BERLIN, exclude=("0 3 * * *",))
    assert ticks(schedule, "2026-03-28T12:00", 1) == ["2026-03-30T02:30+02:00"]


def test_whole_days_are_excluded_without_a_look_at_their_times() -> None:
    schedule = CronSchedule(("* * * * * *",), exclude=("* * * 1-11 *", "* * * * 0,6"))
    # The first Tuesday of December 2026.
    assert ticks(schedule, "2026-01-01T00:00", 1) == ["2026-12-01T00:00+00:00"]


def test_start_is_inside_and_end_outside() -> None:
    schedule = CronSchedule(("0 * * * *",), start_ms=ms("2026-01-01T05:00"), end_ms=ms("2026-01-01T07:00"))
    found = ["2026-01-01T05:00+00:00", "2026-01-01T06:00+00:00"]
    assert ticks(schedule, "2026-01-01T00:00", 9) == found
    assert ticks(schedule, "2026-01-01T05:00", 9) == found[1:]
    shifted = CronSchedule(("0 * * * *",), start_ms=ms("2026-01-01T05:00") + 1, end_ms=ms("2026-01-01T07:00") + 1)
    assert ticks(shifted, "2026-01-01T00:00", 9) == ["2026-01-01T06:00+00:00", "2026-01-01T07:00+00:00"]


def test_a_table_says_that_nothing_comes_after_it() -> None:
    schedule = CronSchedule(("0 * * * *",), end_ms=ms("2026-01-01T03:00"))
    batch = initial_ticks(schedule, ms("2026-01-01T00:00"))
    assert batch == TickBatch(
        [ms("2026-01-01T01:00"), ms("2026-01-01T02:00")], is_final=True, searched_ms=ms("2026-01-01T03:00")
    )
    assert not initial_ticks(CronSchedule(("0 * * * *",)), 0).is_final


def test_a_schedule_of_which_everything_is_excluded_is_over() -> None:
    batch = initial_ticks(CronSchedule(("0 0 1 * *",), exclude=("* 0-5 * * *",)), 0)
    assert batch.ticks_ms == []
    assert batch.is_final


def test_a_search_in_vain_ends_and_can_be_taken_up_again() -> None:
    schedule = CronSchedule(
        ("* * * * * *",), exclude=("0-29 * * * * *", "30-59 * 0-11 * * *", "30-59 * 12-23 1-30 * *")
    )
    search = TickSearch(schedule, 0)
    assert list(search) == []
    assert not search.is_over
    assert search.searched_s == SEARCH_MAX
    batch = more_ticks(schedule, 0, 0)
    assert (batch.ticks_ms, batch.is_final, batch.searched_ms) == ([], False, SEARCH_MAX * 1000)


# --- calendars ---

# 2026-12-25 is a Friday.
HOLIDAYS = calendar_of(["2026-12-25", "2026-12-26"], [])


def test_a_tick_within_a_calendar_is_left_out() -> None:
    schedule = CronSchedule(("0 9 * * *",), BERLIN, calendars=(CalendarUse(HOLIDAYS),))
    assert ticks(schedule, "2026-12-24T00:00", 2) == ["2026-12-24T09:00+01:00", "2026-12-27T09:00+01:00"]


def test_days_are_those_of_the_schedules_zone_and_windows_are_instants() -> None:
    new_year = calendar_of(["2027-01-01"], [])
    schedule = CronSchedule(("0 */12 * * *",), "Pacific/Auckland", calendars=(CalendarUse(new_year),))
    assert ticks(schedule, "2026-12-31T11:00", 2) == ["2026-12-31T12:00+13:00", "2027-01-02T00:00+13:00"]
    window = calendar_of([], [(ms("2026-12-31T23:00"), ms("2027-01-01T11:00"))])
    schedule = CronSchedule(("0 */12 * * *",), "Pacific/Auckland", calendars=(CalendarUse(window),))
    # 23:00 UTC is the first instant inside and noon here; 11:00 UTC is the first one outside.
    assert ticks(schedule, "2026-12-31T13:00", 3) == [
        "2027-01-01T00:00+13:00",
        "2027-01-02T00:00+13:00",
        "2027-01-02T12:00+13:00",
    ]


def test_a_long_window_costs_one_look() -> None:
    decade = calendar_of([], [(ms("2026-01-01"), ms("2036-01-01"))])
    schedule = CronSchedule(("* * * * * *",), calendars=(CalendarUse(decade),))
    assert ticks(schedule, "2026-01-01T00:00", 1) == ["2036-01-01T00:00+00:00"]


def test_a_tick_moves_to_the_same_time_of_the_next_open_day_once() -> None:
    schedule = CronSchedule(("0 9 * * *",), BERLIN, calendars=(CalendarUse(HOLIDAYS, moves=True),))
    # Those of the 25th and 26th fall together with that of the 27th.
    assert ticks(schedule, "2026-12-24T12:00", 2) == ["2026-12-27T09:00+01:00", "2026-12-28T09:00+01:00"]
    weekly = CronSchedule(("0 9 * * 5",), BERLIN, calendars=(CalendarUse(HOLIDAYS, moves=True),))
    assert ticks(weekly, "2026-12-24T12:00", 2) == ["2026-12-27T09:00+01:00", "2027-01-01T09:00+01:00"]


def test_a_day_is_open_when_no_exclusion_and_no_other_calendar_has_it() -> None:
    monday = calendar_of(["2026-12-28"], [])
    schedule = CronSchedule(
        ("0 9 * * 5",),
        BERLIN,
        exclude=("* * * * 6,0",),
        calendars=(CalendarUse(HOLIDAYS, moves=True), CalendarUse(monday)),
    )
    # Not on the weekend, nor on the Monday that is left out.
    assert ticks(schedule, "2026-12-24T12:00", 2) == ["2026-12-29T09:00+01:00", "2027-01-01T09:00+01:00"]
    # Also for who looks from after the day it is moved from.
    assert ticks(schedule, "2026-12-29T08:59", 1) == ["2026-12-29T09:00+01:00"]


def test_a_tick_moved_into_a_gap_is_a_fixed_time() -> None:
    saturday = calendar_of(["2026-03-28"], [])
    uses = (CalendarUse(saturday, moves=True),)
    shifted = CronSchedule(("30 2 * * 6",), BERLIN, calendars=uses)
    assert ticks(shifted, "2026-03-27T12:00", 1) == ["2026-03-29T03:00+02:00"]
    skipped = CronSchedule(("30 2 * * 6",), BERLIN, gap=Gap.SKIP, calendars=uses)
    assert ticks(skipped, "2026-03-27T12:00", 1) == ["2026-03-30T02:30+02:00"]


def test_a_moved_tick_that_reaches_the_end_is_left_out() -> None:
    schedule = CronSchedule(
        ("0 9 * * 5",), BERLIN, end_ms=ms("2026-12-27T09:00", BERLIN), calendars=(CalendarUse(HOLIDAYS, moves=True),)
    )
    assert ticks(schedule, "2026-12-20T12:00", 9) == []


# --- against a walk over the minutes ---

ZONES = sorted(zone_names())
MINUTES = st.sampled_from(["*", "*/17", "*/30", "0", "30", "0,30", "5/10", "59"])
HOURS = st.sampled_from(["*", "*/2", "*/5", "0", "2", "1-3", "0,2,23", "0-23"])
DAYS = st.sampled_from(["*", "*/2", "1", "L", "25-31", "15W"])
WEEKDAYS = st.sampled_from(["*", "0", "1-5", "5L", "0#1"])
EXPRESSION = st.tuples(MINUTES, HOURS, DAYS, st.sampled_from(["*", "3,4,10,11"]), WEEKDAYS).map(" ".join)
WINDOW = timedelta(hours=36)


@cache
def changes(zone: str) -> list[datetime]:
    """Noons of 2005–2016 before the offset changes; one anyhow."""
    tz = load_zone(zone)
    days = [datetime(2005, 1, 1, 12, tzinfo=UTC) + timedelta(days=day) for day in range(12 * 365)]
    offsets = [day.astimezone(tz).utcoffset() for day in days]
    return [day for day, (one, other) in zip(days, pairwise(offsets), strict=False) if one != other] or [days[9]]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[CronSchedule, datetime]:
    zone = draw(st.sampled_from(ZONES))
    after = draw(st.sampled_from(changes(zone))) + timedelta(minutes=draw(st.integers(-1_000, 1_000)))
    day = after.date().isoformat()
    calendar = draw(st.sampled_from([None, calendar_of([day], [])]))
    return (
        CronSchedule(
            tuple(draw(st.lists(EXPRESSION, min_size=1, max_size=2))),
            zone,
            exclude=tuple(draw(st.lists(EXPRESSION, max_size=1))),
            gap=draw(st.sampled_from(Gap)),
            fold=draw(st.sampled_from(Fold)),
            calendars=(CalendarUse(calendar),) if calendar is not None else (),
        ),
        after,
    )


def matches(expression: str, wall: datetime) -> bool:
    wall_s = int((wall - datetime(1970, 1, 1)).total_seconds())
    return next(parse_cron(expression).local_times(wall_s, wall_s + 1), None) is not None


def walked(schedule: CronSchedule, after: datetime) -> Iterator[datetime]:
    """The ticks within WINDOW, by looking at each minute and what the wall clock shows then."""
    tz = load_zone(schedule.time_zone)
    start = after.replace(second=0) - timedelta(days=2)
    minutes = [
        start + timedelta(minutes=minute)
        for minute in range(int((timedelta(days=2) + WINDOW) / timedelta(minutes=1)) + 1)
    ]
    walls = [minute.astimezone(tz).replace(tzinfo=None) for minute in minutes]
    days = {
        datetime(1970, 1, 1).date() + timedelta(days=day) for use in schedule.calendars for day in use.calendar.days
    }

    def left_out(wall: datetime) -> bool:
        return wall.date() in days or any(matches(expression, wall) for expression in schedule.exclude)

    last_seen = {wall: number for number, wall in enumerate(walls)}
    first_seen = {wall: number for number, wall in reversed(list(enumerate(walls)))}
    for number, (minute, wall) in enumerate(zip(minutes, walls, strict=True)):
        if minute <= after or left_out(wall):
            continue
        before = walls[number - 1]
        for expression in schedule.expressions:
            minute_text, hour_text, *_ = expression.split()
            fires = matches(expression, wall)
            if not (minute_text.startswith("*") or hour_text.startswith("*")):
                first_time = first_seen[wall] == number
                if schedule.fold is Fold.FIRST:
                    fires = fires and first_time
                elif schedule.fold is Fold.LAST:
                    fires = fires and last_seen[wall] == number
                skipped = [before + timedelta(minutes=m) for m in range(1, int((wall - before).total_seconds()) // 60)]
                if schedule.gap is Gap.SHIFT and any(
                    matches(expression, gone) and not left_out(gone) and first_seen.get(gone, number) >= number
                    for gone in skipped
                ):
                    fires = True
            if fires:
                yield minute
                break


@settings(max_examples=30, deadline=None)
@given(case=schedules())
def test_ticks_are_those_that_a_walk_over_the_minutes_finds(case: tuple[CronSchedule, datetime]) -> None:
    schedule, after = case
    after_ms = int(after.timestamp() * 1000)
    expected = [int(minute.timestamp() * 1000) for minute in walked(schedule, after)]
    until_ms = int((after.replace(second=0) + WINDOW).timestamp() * 1000)
    assert ticks_after(schedule, after_ms, count=10_000, until_ms=until_ms) == expected


@settings(max_examples=40, deadline=None)
@given(case=schedules(), moves=st.booleans(), cut=st.integers(1, 30))
def test_ticks_ascend_and_do_not_depend_on_where_a_table_ends(
    case: tuple[CronSchedule, datetime], moves: bool, cut: int
) -> None:
    schedule, after = case
    after_ms = int(after.timestamp() * 1000)
    if moves:
        first = int(after_ms // DAY_MS)
        closed = Calendar(frozenset({first, first + 1, first + 3}), ((after_ms + 5 * DAY_MS, after_ms + 7 * DAY_MS),))
        schedule = CronSchedule(
            schedule.expressions,
            schedule.time_zone,
            schedule.exclude,
            schedule.gap,
            schedule.fold,
            calendars=(*schedule.calendars, CalendarUse(closed, moves=True)),
        )
    whole = ticks_after(schedule, after_ms, count=40)
    assert all(earlier < later for earlier, later in pairwise([after_ms, *whole]))
    head = whole[:cut]
    if len(whole) == 40:
        assert head + ticks_after(schedule, head[-1], count=40 - len(head)) == whole
