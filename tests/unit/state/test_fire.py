import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.jitter import job_jitter_ms
from raftsched.state.results import Fired
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import (
    ALL_SHARDS,
    FAILED,
    MINUTE_MS,
    PENDING,
    START_MS,
    Node,
    minutely,
)

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
ALL = job_pb2.CATCH_UP_POLICY_ALL
OVERLAP = execution_pb2.SKIP_REASON_OVERLAP
CATCH_UP = execution_pb2.SKIP_REASON_CATCH_UP


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def test_nothing_fires_before_its_time_and_everything_at_it(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS + 500)
    node.now_ms = START_MS + 499
    assert node.fire() == Fired(0, more=False)
    node.now_ms = START_MS + 500
    assert node.fire() == Fired(1, more=False)
    assert node.job(job).state == rows.JOB_FIRED
    (execution,) = node.executions_of(job)
    assert (execution.status, execution.scheduled_for_ms, execution.fired_ms) == (PENDING, START_MS + 500, node.now_ms)
    assert (execution.attempt, execution.token, execution.failures) == (0, 0, 0)


def test_the_clock_never_goes_back(node: Node) -> None:
    node.create(due_ms=START_MS + 500)
    node.now_ms = START_MS + 500
    node.tick()
    node.now_ms = START_MS
    assert node.fire() == Fired(1, more=False)
    assert node.machine.now_ms == START_MS + 500


def test_a_clock_out_of_range_is_ignored(node: Node) -> None:
    node.tick()
    for now_ms in (1 << 48, (1 << 63) - 1, -1):
        node.now_ms = now_ms
        node.tick()
        assert node.machine.now_ms == START_MS


def test_next_due_is_exact_for_the_shards_that_are_asked_for(node: Node) -> None:
    first = node.create(64, due_ms=START_MS + 9_001)
    other = node.create(64, due_ms=START_MS + 8_999)
    shards = [keys.shard_of(first[0]), keys.shard_of(other[-1])]
    assert shards == [0, 2]
    assert node.machine.next_due_ms([1, 2]) == START_MS + 8_999
    assert node.machine.next_due_ms([0]) == START_MS + 9_001
    assert node.machine.next_due_ms([3, 31]) is None
    assert node.machine.next_due_ms([]) is None


def test_only_the_shards_named_are_fired(node: Node) -> None:
    node.create(200)
    assert node.fire(shards=[1]) == Fired(64, more=False)
    assert node.machine.next_due_ms([1]) is None
    assert node.fire() == Fired(136, more=False)


def test_the_oldest_second_goes_first_whichever_shard_it_is_in(node: Node) -> None:
    late = node.create(64, due_ms=START_MS + 2_000)
    early = node.create(64, due_ms=START_MS + 1_000)
    node.advance(10_000)
    assert node.fire(limit=64) == Fired(64, more=True)
    fired = {job for job in early + late if node.job(job).state == rows.JOB_FIRED}
    assert fired - {late[0]} <= set(early)
    assert len(fired & set(early)) >= 63


def test_a_shard_has_its_turn_again_in_a_later_second(node: Node) -> None:
    node.create(due_ms=START_MS + 1_000)
    node.create(due_ms=START_MS + 3_000)
    node.create(62, due_ms=START_MS + 99_000)
    (other,) = node.create(due_ms=START_MS + 2_000)
    assert [keys.shard_of(job) for job in (1, 2, 64, other)] == [0, 0, 1, 1]
    node.advance(10_000)
    assert node.fire(limit=2) == Fired(2, more=True)
    assert node.job(2).state == rows.JOB_WAITING
    node.create(due_ms=START_MS + 2_500)
    assert node.fire(limit=3) == Fired(2, more=False)


def test_a_limit_leaves_the_rest_for_the_next(node: Node) -> None:
    node.create(500)
    assert node.fire(limit=300) == Fired(300, more=True)
    assert node.fire(limit=300) == Fired(200, more=False)
    assert node.fire(limit=0) == Fired(0, more=False)


def test_executions_of_one_command_are_one_run(node: Node) -> None:
    node.create(300)
    node.fire()
    assert len(node.table("ready")) == 1
    assert node.machine.ready_by_queue == {"default": 300}
    assert node.effects.ready_queues == {"default"}


def test_a_mixed_batch_becomes_one_run_for_each_lane(node: Node) -> None:
    for number in range(12):
        node.create(queue=f"q{number % 3}")
    node.fire()
    assert node.machine.ready_by_queue == {"q0": 4, "q1": 4, "q2": 4}
    assert len(node.table("ready")) == 3


def test_firing_stamps_the_next_tick_of_the_schedule(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    node.now_ms = minute(1) + 37
    node.fire()
    row = node.job(job)
    assert (row.state, row.scheduled_for_ms) == (rows.JOB_WAITING, minute(2))
    assert node.executions_of(job)[0].scheduled_for_ms == minute(1)
    assert node.machine.next_due_ms(ALL_SHARDS) == minute(2)


def test_an_interval_stays_on_its_anchor_however_late_it_fires(node: Node) -> None:
    (job,) = node.create(every_ms=60_000, due_ms=START_MS + 7)
    node.now_ms = START_MS + 31_000
    node.fire()
    assert node.job(job).scheduled_for_ms == START_MS + 60_007


def test_jitter_delays_every_occurrence_alike_and_leaves_the_ticks(node: Node) -> None:
    jobs = node.create(5, ticks_ms=minutely(10), jitter_ms=20_000)
    node.now_ms = minute(1) + 20_000
    assert node.fire() == Fired(5, more=False)
    for job in jobs:
        assert node.job(job).scheduled_for_ms == minute(2)
        jitter_ms = job_jitter_ms(job, 20_000)
        assert node.machine.next_due_ms([keys.shard_of(job)]) is not None
        assert node.executions_of(job)[0].scheduled_for_ms == minute(1)
        assert keys.due(job, minute(2) + jitter_ms) in dict(node.table("due"))


def test_the_history_of_a_job_is_a_chain(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10), overlap=ALLOW)
    for number in range(1, 4):
        node.now_ms = minute(number)
        node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [minute(3), minute(2), minute(1)]


# --- catch-up ---


def test_latest_fires_the_last_missed_tick_and_records_the_others_as_one_range(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    node.now_ms = minute(5) + 1
    assert node.fire() == Fired(1, more=False)
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [minute(5)]
    assert node.skipped(job) == [(minute(1), minute(4), 4, CATCH_UP)]
    assert node.job(job).scheduled_for_ms == minute(6)


def test_latest_with_an_interval_is_arithmetic(node: Node) -> None:
    (job,) = node.create(every_ms=1_000, due_ms=START_MS + 1)
    node.advance(3_600_000)
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [START_MS + 3_599_001]
    assert node.skipped(job) == [(START_MS + 1, START_MS + 3_598_001, 3_599, CATCH_UP)]
    assert node.job(job).scheduled_for_ms == START_MS + 3_600_001


def test_all_fires_each_missed_tick_one_a_pass(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10), overlap=ALLOW, catch_up=ALL)
    node.now_ms = minute(3)
    assert [node.fire() for _ in range(4)] == [
        Fired(1, more=True),
        Fired(1, more=True),
        Fired(1, more=False),
        Fired(0, more=False),
    ]
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [minute(3), minute(2), minute(1)]
    assert node.skipped(job) == []


def test_a_tick_whose_jitter_is_not_over_is_not_the_latest(node: Node) -> None:
    jobs = node.create(30, ticks_ms=minutely(10), jitter_ms=30_000)
    node.now_ms = minute(3) + 15_000
    node.fire()
    for job in jobs:
        over = job_jitter_ms(job, 30_000) <= 15_000
        latest = minute(3) if over else minute(2)
        assert node.executions_of(job)[0].scheduled_for_ms == latest
        assert node.skipped(job) == [(minute(1), latest - MINUTE_MS, 2 if over else 1, CATCH_UP)]
        assert node.job(job).scheduled_for_ms == latest + MINUTE_MS


# --- overlap ---


def test_an_occurrence_is_skipped_while_the_one_before_is_not_finished(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    node.now_ms = minute(1)
    node.fire()
    node.now_ms = minute(2)
    assert node.fire() == Fired(1, more=False)
    assert node.skipped(job) == [(minute(2), minute(2), 1, OVERLAP)]
    assert node.job(job).scheduled_for_ms == minute(3)
    assert len(node.executions_of(job)) == 1


def test_neighbouring_skipped_occurrences_are_one_range(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    for number in range(1, 5):
        node.now_ms = minute(number)
        node.fire()
    assert node.skipped(job) == [(minute(2), minute(4), 3, OVERLAP)]
    session = node.open_session()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    for number in range(5, 7):
        node.now_ms = minute(number)
        node.fire()
    assert node.skipped(job) == [(minute(2), minute(4), 3, OVERLAP), (minute(6), minute(6), 1, OVERLAP)]


def test_a_finished_execution_does_not_hold_up_the_next(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    session = node.open_session()
    for number in range(1, 4):
        node.now_ms = minute(number)
        node.fire()
        node.renew(session)
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
    assert len(node.executions_of(job)) == 3
    assert node.skipped(job) == []


def test_a_backoff_still_counts_as_not_finished(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10), initial_backoff_ms=3_600_000, max_backoff_ms=3_600_000)
    session = node.open_session()
    node.now_ms = minute(1)
    node.fire()
    leased = node.lease(session)
    node.fail(leased.token, leased.executions)
    node.now_ms = minute(2)
    node.fire()
    assert node.skipped(job) == [(minute(2), minute(2), 1, OVERLAP)]


def test_allow_fires_while_the_one_before_still_runs(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10), overlap=ALLOW)
    for number in (1, 2):
        node.now_ms = minute(number)
        node.fire()
    assert [row.status for row in node.executions_of(job)] == [PENDING, PENDING]


def test_missed_ticks_and_an_overlap_are_recorded_apart(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    node.now_ms = minute(1)
    node.fire()
    node.now_ms = minute(4)
    node.fire()
    assert node.skipped(job) == [
        (minute(2), minute(3), 2, CATCH_UP),
        (minute(4), minute(4), 1, OVERLAP),
    ]


def test_busy_and_free_jobs_of_one_batch_go_their_own_ways(node: Node) -> None:
    busy = node.create(3, ticks_ms=minutely(10))
    node.now_ms = minute(1)
    node.fire()
    free = node.create(3, ticks_ms=minutely(10))
    node.now_ms = minute(2)
    assert node.fire() == Fired(6, more=False)
    assert [len(node.executions_of(job)) for job in busy + free] == [1] * 6
    assert [len(node.skipped(job)) for job in busy + free] == [1] * 3 + [0] * 3


# --- retries ---


def test_the_end_of_a_backoff_makes_the_same_execution_ready_again(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    node.fail(leased.token, leased.executions)
    (execution,) = leased.executions
    assert node.execution(execution).changed_ms == START_MS + 1_000
    node.now_ms = START_MS + 999
    assert node.fire() == Fired(0, more=False)
    assert node.state_of(execution) == FAILED
    node.now_ms = START_MS + 1_000
    assert node.fire() == Fired(1, more=False)
    assert (node.state_of(execution), node.execution(execution).changed_ms) == (PENDING, 0)
    again = node.lease(session)
    assert (again.executions, list(again.attempts)) == ((execution,), [2])


def test_first_fires_ticks_and_retries_share_a_batch(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 3)
    node.fail(leased.token, leased.executions)
    node.create(3, due_ms=START_MS + 500)
    node.create(3, every_ms=60_000, due_ms=START_MS + 700)
    node.advance(5_000)
    assert node.fire() == Fired(9, more=False)
    assert node.machine.ready_by_queue == {"default": 9}


@pytest.mark.parametrize("shards", [[32], [0, 4_000_000_000]])
def test_an_unknown_shard_is_refused(node: Node, shards: list[int]) -> None:
    node.create()
    node.refused(InvalidField, command_pb2.Fire(shards=shards, limit=10))


def test_a_replay_does_not_hide_an_older_execution_that_still_runs(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    session = node.open_session(ttl_ms=10_000_000)
    node.advance(MINUTE_MS)
    node.fire()
    first = node.lease(session)
    node.fail(first.token, first.executions, permanent=True)
    node.advance(MINUTE_MS)
    node.fire()
    running = node.lease(session)
    node.start(running.token, running.executions)
    node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids(first.executions)))
    replay = node.lease(session)
    node.ack(replay.token, replay.executions)
    node.advance(MINUTE_MS)
    node.fire()
    assert len(node.skipped(job)) == 1
    node.ack(running.token, running.executions)
    node.advance(MINUTE_MS)
    node.fire()
    assert node.execution(node.job(job).last_execution).status == PENDING
