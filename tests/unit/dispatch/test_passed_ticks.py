"""Ticks that nobody can run any more are counted exactly, in slices."""

from raftsched.dispatch.passed_ticks import AT_ONCE, SLICE, Jump, PassedTicks
from raftsched.model.limits import CATCH_UP_MAX, DAY_MS, MINUTE_MS, SECOND_MS
from raftsched.model.recurrence import CronSchedule
from raftsched.model.zones import TZDATA

START_MS = 1_800_000_000_000
MINUTELY = CronSchedule(("* * * * *",))


def test_a_table_that_is_not_far_behind_goes_on_where_it_ends() -> None:
    now_ms = START_MS + CATCH_UP_MAX * SECOND_MS
    assert PassedTicks().jump(1, MINUTELY, START_MS, now_ms, TZDATA) == Jump(START_MS, 0)


def test_ticks_before_the_latest_that_may_run_are_left_out_and_counted() -> None:
    passed = PassedTicks()
    minutes = 30_000
    now_ms = START_MS + minutes * MINUTE_MS
    calls = 1
    while (jump := passed.jump(1, MINUTELY, START_MS, now_ms + calls, TZDATA)) is None:
        calls += 1
    assert calls == minutes // SLICE + 1
    assert jump == Jump(START_MS + (minutes - CATCH_UP_MAX) * MINUTE_MS, minutes - CATCH_UP_MAX)
    # What follows is replicated whole.
    assert passed.jump(1, MINUTELY, jump.after_ms + 512 * MINUTE_MS, now_ms, TZDATA) == Jump(
        jump.after_ms + 512 * MINUTE_MS, 0
    )


def test_only_a_few_schedules_are_counted_at_a_time_and_all_get_their_turn() -> None:
    passed = PassedTicks()
    now_ms = START_MS + 11_000 * MINUTE_MS
    jumps: dict[int, Jump] = {}
    for _ in range(20):
        passed.begin_step()
        for number in range(AT_ONCE + 3):
            if number not in jumps:
                jump = passed.jump(number, MINUTELY, START_MS, now_ms, TZDATA)
                if jump is not None:
                    jumps[number] = jump
        assert len(passed._counts) <= AT_ONCE
    assert [jump.omitted for jump in jumps.values()] == [1_000] * (AT_ONCE + 3)
    passed.jump(1, MINUTELY, START_MS - MINUTE_MS, now_ms, TZDATA)
    passed.begin_step()
    passed.begin_step()
    assert passed._counts == {}, "what is not asked for is forgotten"


def test_few_ticks_in_a_long_time_are_kept() -> None:
    daily = CronSchedule(("0 0 * * *",))
    assert PassedTicks().jump(1, daily, START_MS, START_MS + 900 * DAY_MS, TZDATA) == Jump(START_MS, 0)


def test_a_schedule_that_has_ended_is_counted_to_its_end() -> None:
    ended = CronSchedule(("* * * * *",), end_ms=START_MS + 100 * MINUTE_MS)
    assert PassedTicks().jump(1, ended, START_MS, START_MS + 900 * DAY_MS, TZDATA) == Jump(START_MS, 0)
