"""What becomes of ticks that came due while nothing could fire: in a pause, an outage, or under overload."""

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.jitter import job_jitter_ms
from raftsched.model.limits import CATCH_UP_MAX, DAY_MS, HOUR_MS, YEAR_MS
from raftsched.state.results import Fired, JobChanged
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, minutely

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
LATEST = job_pb2.CATCH_UP_POLICY_LATEST
ALL = job_pb2.CATCH_UP_POLICY_ALL
NONE = job_pb2.CATCH_UP_POLICY_NONE
CATCH_UP = execution_pb2.SKIP_REASON_CATCH_UP
PAUSED = execution_pb2.SKIP_REASON_PAUSED
OVERLAP = execution_pb2.SKIP_REASON_OVERLAP


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def make(node: Node, *, cron: bool, ticks: int = 200, **settings: object) -> int:
    """A minutely job whose first tick is at minute 1."""
    if cron:
        (job,) = node.create(ticks_ms=minutely(ticks), **settings)
    else:
        (job,) = node.create(every_ms=MINUTE_MS, due_ms=minute(1), **settings)
    return job


def ran(node: Node, job: int) -> list[int]:
    """Minutes that have an execution, oldest first."""
    return [(row.scheduled_for_ms - START_MS) // MINUTE_MS for row in reversed(node.executions_of(job))]


def skips(node: Node, job: int) -> list[tuple[int, int, int, int]]:
    """(first minute, last minute, count, reason)."""
    return [
        ((first - START_MS) // MINUTE_MS, (last - START_MS) // MINUTE_MS, count, reason)
        for first, last, count, reason in node.skipped(job)
    ]


def fire_all(node: Node) -> int:
    """Fires until nothing is due; how many commands that took."""
    for commands in range(1, 1_000):
        result = node.fire()
        assert isinstance(result, Fired)
        if not result.more:
            node.check()
            return commands
    raise AssertionError("there is always more")


@pytest.mark.parametrize("cron", [False, True])
def test_latest_within_a_window_runs_the_latest_tick_or_none(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, catch_up=LATEST, catch_up_window_ms=20_000, overlap=ALLOW)
    node.now_ms = minute(5) + 20_000
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([5], [(1, 4, 4, CATCH_UP)])
    node.now_ms = minute(9) + 20_001
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([5], [(1, 4, 4, CATCH_UP), (6, 9, 4, CATCH_UP)])
    node.now_ms = minute(10)
    fire_all(node)
    assert ran(node, job) == [5, 10]


@pytest.mark.parametrize("cron", [False, True])
def test_all_runs_each_tick_within_the_window(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, catch_up=ALL, overlap=ALLOW, catch_up_window_ms=3 * MINUTE_MS)
    node.now_ms = minute(8) + 1
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([6, 7, 8], [(1, 5, 5, CATCH_UP)])


@pytest.mark.parametrize("cron", [False, True])
def test_all_with_a_limit_runs_the_latest_ones(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, catch_up=ALL, overlap=ALLOW, catch_up_limit=2)
    node.now_ms = minute(9) + 1
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([8, 9], [(1, 7, 7, CATCH_UP)])
    node.now_ms = minute(10)
    fire_all(node)
    assert ran(node, job) == [8, 9, 10]


@pytest.mark.parametrize("cron", [False, True])
def test_none_runs_only_what_is_a_little_late(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, catch_up=NONE, overlap=ALLOW, catch_up_window_ms=10_000)
    node.now_ms = minute(3) + 10_001
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([], [(1, 3, 3, CATCH_UP)])
    node.now_ms = minute(4) + 9_000
    fire_all(node)
    assert ran(node, job) == [4]


def test_none_without_a_window_allows_a_minute(node: Node) -> None:
    (job,) = node.create(every_ms=HOUR_MS, due_ms=START_MS, catch_up=NONE, overlap=ALLOW)
    node.now_ms = START_MS + MINUTE_MS
    fire_all(node)
    node.now_ms = START_MS + HOUR_MS + MINUTE_MS + 1
    fire_all(node)
    assert ran(node, job) == [0]
    assert node.skipped(job) == [(START_MS + HOUR_MS, START_MS + HOUR_MS, 1, CATCH_UP)]


@pytest.mark.parametrize("cron", [False, True])
def test_missed_ticks_fire_at_a_pace(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, catch_up=ALL, overlap=ALLOW, catch_up_interval_ms=90_000)
    node.now_ms = minute(5)
    fire_all(node)
    assert ran(node, job) == [1]
    node.advance(89_999)
    fire_all(node)
    assert ran(node, job) == [1]
    for minutes in ([1, 2], [1, 2, 3]):
        node.advance(1 if len(minutes) == 2 else 90_000)
        fire_all(node)
        assert ran(node, job) == minutes
    node.machine.commit()
    node.reopen()
    node.do(command_pb2.CancelJob(job=job))
    node.check()


def test_a_paced_job_whose_tick_is_only_just_not_late_waits_for_its_next_one(node: Node) -> None:
    """It fires as one that was never late, though the pace has moved it: nothing of that may be left."""
    settings = {"overlap": ALLOW, "catch_up": ALL, "catch_up_interval_ms": 1_000}
    (job,) = node.create(every_ms=2_000, due_ms=START_MS + 2_000, **settings)
    node.advance(4_000)
    node.fire()
    node.advance(1_000)
    assert node.fire() == Fired(1, more=False)
    assert [row.scheduled_for_ms - START_MS for row in node.executions_of(job)] == [4_000, 2_000]
    node.check()
    node.want(JobChanged, command_pb2.PauseJob(job=job))


def test_a_paced_job_is_on_time_again_once_it_has_caught_up(node: Node) -> None:
    (job,) = node.create(
        every_ms=10 * MINUTE_MS, due_ms=minute(10), catch_up=ALL, overlap=ALLOW, catch_up_interval_ms=MINUTE_MS
    )
    node.now_ms = minute(35)
    for _ in range(3):
        fire_all(node)
        node.advance(MINUTE_MS)
    assert ran(node, job) == [10, 20, 30]
    node.now_ms = minute(40) - 1
    fire_all(node)
    node.now_ms = minute(40)
    fire_all(node)
    assert ran(node, job) == [10, 20, 30, 40]
    assert node.table("extras") == []


def test_a_skip_job_that_is_busy_passes_all_missed_ticks_at_once(node: Node) -> None:
    job = make(node, cron=False, catch_up=ALL)
    node.now_ms = minute(1)
    node.fire()
    node.now_ms = minute(5_000)
    assert fire_all(node) <= 2
    assert (ran(node, job), skips(node, job)) == ([1], [(2, 5_000, 4_999, OVERLAP)])


def test_a_table_that_ends_too_early_fires_nothing_before_it_goes_on(node: Node) -> None:
    """An outage of a day, after a table of an hour: one run, of the latest tick, and one range."""
    job = make(node, cron=True, ticks=60)
    (all_job,) = node.create(ticks_ms=minutely(60), catch_up=ALL, overlap=ALLOW, catch_up_limit=3)
    node.now_ms = minute(1_440) + 5_000
    fire_all(node)
    assert ran(node, job) == ran(node, all_job) == []
    for first in range(61, 1_500, 500):
        last_ms = node.machine._context.ticks.last(node.job(job).schedule)
        node.do(command_pb2.ExtendTicks(schedule=1, after_ms=last_ms, ticks_ms=minutely(500, first=first)))
        fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([1_440], [(1, 1_439, 1_439, CATCH_UP)])
    assert (ran(node, all_job), skips(node, all_job)) == ([1_438, 1_439, 1_440], [(1, 1_437, 1_437, CATCH_UP)])


@pytest.mark.parametrize("cron", [False, True])
def test_ten_years_of_minutes_with_none_cost_a_few_steps_and_leave_one_range(node: Node, *, cron: bool) -> None:
    job = make(node, cron=cron, ticks=512, catch_up=NONE)
    node.do(command_pb2.PauseJob(job=job))
    minutes = 10 * YEAR_MS // MINUTE_MS
    node.now_ms = minute(minutes) + 30_000
    if cron:
        # As the leader does: it counts what it leaves out.
        kept = minutely(20, first=minutes - 10)
        extend = command_pb2.ExtendTicks(schedule=1, after_ms=minute(512), ticks_ms=kept, omitted=minutes - 11 - 512)
        node.do(extend)
    node.do(command_pb2.ResumeJob(job=job))
    assert fire_all(node) <= 2
    assert (ran(node, job), skips(node, job)) == ([], [(1, minutes, minutes, PAUSED)])
    node.now_ms = minute(minutes + 1)
    fire_all(node)
    assert ran(node, job) == [minutes + 1]


def test_all_catches_up_with_a_bounded_number_after_ten_years(node: Node) -> None:
    job = make(node, cron=False, catch_up=ALL, overlap=job_pb2.OVERLAP_POLICY_QUEUE, overlap_limit=10)
    minutes = 10 * YEAR_MS // MINUTE_MS
    node.now_ms = minute(minutes)
    assert fire_all(node) < 20
    first = minutes - CATCH_UP_MAX + 1
    assert skips(node, job) == [
        (1, first - 1, first - 1, CATCH_UP),
        (first + 11, minutes, CATCH_UP_MAX - 11, OVERLAP),
    ]
    assert ran(node, job) == [first]


def test_a_pause_while_the_table_goes_on_is_counted_exactly(node: Node) -> None:
    job = make(node, cron=True, ticks=100)
    node.create(ticks_ms=minutely(100))
    node.do(command_pb2.PauseJob(job=job))
    for last in range(100, 1_500, 100):
        node.now_ms = minute(last - 5)
        fire_all(node)
        node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(last), ticks_ms=minutely(100, first=last + 1)))
    assert keys.unpack_tick(node.table("ticks")[0][0])[1] > minute(1_000), "old ticks are gone"
    node.do(command_pb2.ResumeJob(job=job))
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([1_395], [(1, 1_394, 1_394, PAUSED)])


def test_a_paused_job_that_catches_up_with_all_finds_its_ticks(node: Node) -> None:
    job = make(node, cron=True, ticks=100, catch_up=ALL, overlap=ALLOW)
    node.create(ticks_ms=minutely(100))
    node.do(command_pb2.PauseJob(job=job))
    for last in range(100, 600, 100):
        node.now_ms = minute(last - 5)
        fire_all(node)
        node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(last), ticks_ms=minutely(100, first=last + 1)))
    node.do(command_pb2.ResumeJob(job=job))
    while ran(node, job)[-1:] != [495]:
        node.fire()
    assert (ran(node, job), skips(node, job)) == (list(range(1, 496)), [])
    node.now_ms = minute(596)
    while ran(node, job)[-1] != 596:
        node.fire()
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(600), ticks_ms=minutely(100, first=601)))
    assert keys.unpack_tick(node.table("ticks")[0][0])[1] > minute(500), "they are not needed any more"


def test_ticks_before_in_and_after_a_pause_have_their_own_reasons(node: Node) -> None:
    job = make(node, cron=False)
    node.now_ms = minute(3) + 1
    node.do(command_pb2.PauseJob(job=job))
    node.now_ms = minute(6) + 1
    node.do(command_pb2.ResumeJob(job=job))
    node.now_ms = minute(9) + 1
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == (
        [9],
        [(1, 3, 3, CATCH_UP), (4, 6, 3, PAUSED), (7, 8, 2, CATCH_UP)],
    )


def test_one_run_after_an_outage_across_a_spring_gap(node: Node) -> None:
    """Daily at 02:30 Europe/Berlin; the cluster is down from 01:59 to 04:10 local time on the day of the gap."""
    gap_ms = 1_774_746_000_000  # 2026-03-29T01:00Z: 03:00+02:00
    node.now_ms = gap_ms - MINUTE_MS
    ticks = [gap_ms, gap_ms + DAY_MS - HOUR_MS + HOUR_MS // 2]
    (job,) = node.create(ticks_ms=ticks, catch_up=LATEST)
    node.now_ms = gap_ms + 70 * MINUTE_MS
    fire_all(node)
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [gap_ms]
    assert node.skipped(job) == []
    assert node.job(job).scheduled_for_ms == ticks[1]


def test_a_job_is_completed_after_its_last_run_and_its_name_is_free(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, max_runs=2, names=["n"])
    session = node.open_session(ttl_ms=DAY_MS)
    node.fire()
    node.now_ms = minute(1)
    node.fire()
    assert node.job(job).state == rows.JOB_WAITING, "a skipped occurrence is no run"
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    node.now_ms = minute(2)
    fire_all(node)
    assert ran(node, job) == [0, 2]
    assert node.job(job).state == rows.JOB_COMPLETED
    assert node.table("due") == []
    node.create(every_ms=MINUTE_MS, due_ms=minute(3), names=["n"])
    node.check()


def test_what_waits_when_a_job_is_completed_still_runs(node: Node) -> None:
    job = make(node, cron=False, max_runs=2, overlap=job_pb2.OVERLAP_POLICY_QUEUE)
    node.now_ms = minute(1)
    node.fire()
    node.now_ms = minute(2)
    node.fire()
    assert node.job(job).state == rows.JOB_COMPLETED
    leased = node.lease(node.open_session())
    node.ack(leased.token, leased.executions)
    assert ran(node, job) == [1, 2]


def test_jobs_of_one_schedule_catch_up_with_their_own_share(node: Node) -> None:
    """They are fired in one command, from one look at the table."""
    wide = make(node, cron=True, catch_up=ALL, overlap=ALLOW, catch_up_limit=3)
    narrow = make(node, cron=True, catch_up=ALL, overlap=ALLOW, catch_up_limit=1)
    late = make(node, cron=True, catch_up=ALL, overlap=ALLOW, catch_up_limit=2, jitter_ms=MINUTE_MS)
    jitter_ms = job_jitter_ms(late, MINUTE_MS)
    node.now_ms = minute(9) + jitter_ms - 1
    fire_all(node)
    assert (ran(node, wide), ran(node, narrow), ran(node, late)) == ([7, 8, 9], [9], [7, 8])
    node.advance(1)
    fire_all(node)
    assert ran(node, late) == [7, 8, 9]


@pytest.mark.parametrize("policy", [NONE, LATEST, ALL])
def test_ticks_that_the_table_leaves_out_after_an_outage_are_recorded_too(node: Node, policy: int) -> None:
    """The job fires before the table goes on, as far as it reaches; the leader counts what it leaves out."""
    window_ms = 70 * MINUTE_MS if policy == ALL else 0
    job = make(node, cron=True, ticks=64, catch_up=policy, overlap=ALLOW, catch_up_window_ms=window_ms)
    minutes = 10_000
    node.now_ms = minute(minutes)
    node.fire()
    assert node.job(job).state == rows.JOB_STARVED
    first = minutes - 60
    kept = minutely(124, first=first)
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(64), ticks_ms=kept, omitted=first - 65))
    fire_all(node)
    started = list(range(first, minutes + 1)) if policy == ALL else [minutes]
    assert ran(node, job) == started
    assert [(first, count) for first, _, count, _ in skips(node, job)] == [(1, minutes - len(started))]
    assert node.job(job).scheduled_for_ms == minute(minutes + 1)


def test_a_tick_before_those_that_are_left_out_is_not_among_the_latest(node: Node) -> None:
    """The leader keeps as many as run at most up to now; jobs with a jitter are some minutes behind that."""
    job = make(node, cron=True, ticks=64, catch_up=ALL, jitter_ms=30 * MINUTE_MS)
    # It skips what overlaps, all of it.
    node.do(command_pb2.TriggerJob(job=job))
    minutes = CATCH_UP_MAX + 5_000
    node.now_ms = minute(minutes)
    node.fire()
    kept = minutely(CATCH_UP_MAX + 64, first=5_001)
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(64), ticks_ms=kept, omitted=5_000 - 64))
    fire_all(node)
    next_minute = (node.job(job).scheduled_for_ms - START_MS) // MINUTE_MS
    assert skips(node, job) == [
        (1, 5_000, 5_000, CATCH_UP),
        (5_001, next_minute - 1, next_minute - 5_001, OVERLAP),
    ]


def test_what_a_pause_has_made_the_table_forget_is_recorded_as_paused(node: Node) -> None:
    """Also when the first of it was due a moment before the pause."""
    job = make(node, cron=True, ticks=60)
    node.create(ticks_ms=minutely(60))
    node.now_ms = minute(1) + 500
    node.do(command_pb2.PauseJob(job=job))
    for last in (60, 120, 180):
        node.now_ms = minute(last) - MINUTE_MS
        fire_all(node)
        node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(last), ticks_ms=minutely(60, first=last + 1)))
    assert keys.unpack_tick(node.table("ticks")[0][0])[1] > minute(2), "old ticks are gone"
    node.do(command_pb2.ResumeJob(job=job))
    node.now_ms = minute(200)
    fire_all(node)
    assert (ran(node, job), skips(node, job)) == ([200], [(1, 179, 179, PAUSED), (180, 199, 20, CATCH_UP)])


def test_a_trigger_that_was_skipped_is_no_part_of_a_range_of_ticks(node: Node) -> None:
    job = make(node, cron=True, ticks=10)
    node.now_ms = minute(1)
    node.fire()
    node.advance(500)
    node.do(command_pb2.TriggerJob(job=job))
    node.now_ms = minute(2)
    node.fire()
    skipped = [(first_ms, last_ms, count) for first_ms, last_ms, count, _ in node.skipped(job)]
    assert skipped == [(minute(1) + 500, minute(1) + 500, 1), (minute(2), minute(2), 1)]
