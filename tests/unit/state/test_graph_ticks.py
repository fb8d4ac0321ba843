"""Graphs under recurring jobs: an instance for each tick."""

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.dag import Rule
from raftsched.state import instances
from raftsched.store import keys
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.graph_support import (
    ALL_DONE,
    ALL_SUCCESS,
    ANY_SUCCESS,
    BLOCKED,
    NONE_FAILED,
    Graph,
)
from tests.unit.state.support import MINUTE_MS, SUCCEEDED, Node, create_command

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
UPSTREAM = execution_pb2.SKIP_REASON_UPSTREAM


@pytest.fixture
def world(node: Node) -> Graph:
    return Graph(node)


def start_minute(world: Graph) -> int:
    return world.node.now_ms // MINUTE_MS


def recurring(world: Graph) -> int:
    """A job that runs each minute from the next one on, with an attempt each."""
    (job,) = world.node.create(every_ms=MINUTE_MS, due_ms=world.node.now_ms + MINUTE_MS, max_attempts=1, overlap=ALLOW)
    return job


def next_minute(world: Graph) -> int:
    world.node.advance(MINUTE_MS)
    world.take()
    return start_minute(world)


def kept(world: Graph, job: int) -> int:
    """Instances of the job that are kept."""
    found = {key[8:16] for key, _ in world.node.table("waits") if key[:8] == keys.pack_id(job) and len(key) == 16}
    return len(found - {keys.LAST_ID, keys.NO_INSTANCE})


def instance_rows(world: Graph, job: int) -> int:
    special = (keys.LAST_ID, keys.NO_INSTANCE)
    return sum(
        key[:8] == keys.pack_id(job) and len(key) > 8 and key[8:16] not in special
        for key, _ in world.node.table("waits")
    )


def test_a_dependent_runs_once_for_each_successful_tick(world: Graph) -> None:
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]})
    expected = []
    for number in range(5):
        minute = next_minute(world)
        world.finish(ticks, fail=number == 2)
        if number != 2:
            expected.append(minute)
            world.finish(below)
        assert world.times(below) == expected
        assert world.state(below) == BLOCKED
    failed_ms = (expected[0] + 2) * MINUTE_MS
    assert world.node.skipped(below) == [(failed_ms, failed_ms, 1, UPSTREAM)]
    # What ran well is not kept.
    assert kept(world, below) == 1
    world.node.check()


def test_a_replay_of_a_tick_revives_its_instance_alone(world: Graph) -> None:
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]})
    (last,) = world.create([[]], outside={0: [below]})
    minute = next_minute(world)
    dead = world.finish(ticks, fail=True)
    assert [len(world.node.skipped(job)) for job in (below, last)] == [1, 1]
    next_minute(world)
    world.finish(ticks)
    world.finish(below)
    assert world.times(last) == [minute + 1]
    world.finish(last)
    replay = command_pb2.ReplayDeadLetters(executions=keys.pack_ids([dead]))
    world.node.do(replay)
    world.finish(ticks)
    assert world.node.skipped(below) == world.node.skipped(last) == []
    assert world.times(below) == [minute + 1, minute]
    world.finish(below)
    world.finish(last)
    assert world.times(last) == [minute + 1, minute]
    assert instance_rows(world, below) == instance_rows(world, last) == 0
    # What came to its end is not run again, whatever is replayed or repeated.
    world.node.do(replay)
    world.run_all()
    assert [world.fired(job) for job in (below, last)] == [2, 2]
    world.node.check()


def test_what_has_run_and_is_forgotten_does_not_run_again_for_a_replay(world: Graph) -> None:
    ticks = recurring(world)
    (anyhow,) = world.create([[]], outside={0: [ticks]}, rules={0: ALL_DONE})
    next_minute(world)
    dead = world.finish(ticks, fail=True)
    world.finish(anyhow)
    assert kept(world, anyhow) == 0
    world.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids([dead])))
    world.finish(ticks)
    assert (world.fired(anyhow), kept(world, anyhow)) == (1, 0)


def test_what_has_run_and_is_forgotten_does_not_run_again_for_what_was_revived(world: Graph) -> None:
    first, second = recurring(world), recurring(world)
    middle, anyhow = world.create([[], [0]], outside={0: [first, second]}, rules={1: ALL_DONE})
    next_minute(world)
    dead = world.finish(first, fail=True)
    # For it the middle one has failed.
    world.finish(anyhow)
    assert kept(world, anyhow) == 0
    world.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids([dead])))
    world.finish(first)
    # The middle one waits again, fails again, is revived again, and runs.
    dead = world.finish(second, fail=True)
    assert world.fired(anyhow) == 1
    world.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids([dead])))
    world.finish(second)
    world.finish(middle)
    assert (world.fired(middle), world.fired(anyhow), kept(world, anyhow)) == (1, 1, 0)


def test_several_recurring_upstreams_meet_at_equal_times(world: Graph) -> None:
    first, second = recurring(world), recurring(world)
    (join,) = world.create([[]], outside={0: [first, second]})
    one = next_minute(world)
    world.finish(first)
    two = next_minute(world)
    world.finish(first)
    assert world.times(join) == []
    held = world.take()[second]
    later = max(held, key=lambda execution: world.node.execution(execution).scheduled_for_ms)
    world.node.ack(world.held.pop(later), [later])
    assert world.times(join) == [two]
    world.finish(second)
    assert world.times(join) == [two, one]


def test_what_runs_once_counts_in_every_instance(world: Graph) -> None:
    ticks = recurring(world)
    (gate,) = world.node.create(due_ms=world.node.now_ms, max_attempts=1)
    (join,) = world.create([[]], outside={0: [gate, ticks]})
    one = next_minute(world)
    world.finish(ticks)
    next_minute(world)
    world.finish(ticks)
    assert world.times(join) == []
    world.finish(gate)
    world.drain()
    assert world.times(join) == [one, one + 1]
    next_minute(world)
    world.finish(ticks)
    assert world.times(join) == [one, one + 1, one + 2]
    world.run_all()
    assert instance_rows(world, join) == 0


def test_a_recurring_graph_hands_its_time_down(world: Graph) -> None:
    left, right, join, last = world.create([[], [], [0, 1], [2]], every_ms=MINUTE_MS, names=["l", "r", "j", "z"])
    world.node.advance(MINUTE_MS)
    expected = []
    for _ in range(4):
        world.node.fire()
        expected.append(world.node.job(left).scheduled_for_ms // MINUTE_MS - 1)
        world.run_all()
        world.node.advance(MINUTE_MS)
    assert all(world.times(job) == expected for job in (left, right, join, last))
    assert instance_rows(world, join) == instance_rows(world, last) == 0


@pytest.mark.parametrize(("rule", "runs"), [(ALL_SUCCESS, 0), (NONE_FAILED, 1), (ALL_DONE, 1), (ANY_SUCCESS, 0)])
def test_a_cancelled_execution_counts_as_skipped_in_its_instance(world: Graph, rule: Rule, runs: int) -> None:
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]}, rules={0: rule})
    world.node.advance(MINUTE_MS)
    world.node.fire()
    world.node.do(command_pb2.CancelJob(job=ticks))
    assert world.fired(below) == runs
    assert len(world.node.skipped(below)) == 1 - runs


def test_what_is_kept_of_instances_is_bounded(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "KEPT_INSTANCES_MAX", 10)
    first, second = recurring(world), recurring(world)
    (join,) = world.create([[]], outside={0: [first, second]})
    (below,) = world.create([[]], outside={0: [join]})
    minutes = []
    for _ in range(25):
        minutes.append(next_minute(world))
        world.finish(first)
    assert kept(world, join) == 10
    dropped = [minute * MINUTE_MS for minute in minutes[:15]]
    assert world.node.skipped(join) == [(ms, ms, 1, UPSTREAM) for ms in dropped]
    # The others come too late for these, and in time for those that are kept.
    while world.take().get(second):
        world.finish(second)
    assert world.times(join) == minutes[15:]
    world.run_all()
    assert instance_rows(world, join) == instance_rows(world, below) == 0
    assert world.times(below) == minutes[15:]
    world.node.check()


def test_an_instance_that_was_dropped_does_not_run_twice(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "KEPT_INSTANCES_MAX", 3)
    first, second = recurring(world), recurring(world)
    (either,) = world.create([[]], outside={0: [first, second]}, rules={0: ANY_SUCCESS})
    for number in range(8):
        next_minute(world)
        world.finish(first)
        world.finish(either)
        assert world.fired(either) == number + 1
    assert kept(world, either) == 3
    while world.take().get(second):
        world.finish(second)
        assert world.fired(either) == 8


def test_instances_whose_execution_is_under_way_are_not_dropped(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "KEPT_INSTANCES_MAX", 3)
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]})
    for _ in range(6):
        next_minute(world)
        world.finish(ticks)
    assert kept(world, below) == 6
    world.run_all()
    assert kept(world, below) == 0


def test_a_failed_dependent_is_kept_for_its_replay(world: Graph) -> None:
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]})
    next_minute(world)
    world.finish(ticks)
    dead = world.finish(below, fail=True)
    assert kept(world, below) == 1
    world.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids([dead])))
    world.finish(below)
    assert kept(world, below) == 0


def test_a_job_in_the_middle_of_two_series_is_recurring(world: Graph) -> None:
    """Also where it is named only later, and whatever its own row says."""
    ticks = recurring(world)
    (middle,) = world.create([[]], outside={0: [ticks]})
    (last,) = world.create([[]], outside={0: [middle]})
    for _ in range(2):
        next_minute(world)
        world.run_all()
    assert world.times(last) == world.times(middle) == world.times(ticks)
    assert all(row.status == SUCCEEDED for row in world.node.executions_of(last))


def test_ticks_that_ended_before_do_not_count(world: Graph) -> None:
    ticks = recurring(world)
    next_minute(world)
    world.finish(ticks)
    (below,) = world.create([[]], outside={0: [ticks]})
    assert world.fired(below) == 0
    minute = next_minute(world)
    world.finish(ticks)
    assert world.times(below) == [minute]


def test_graphs_of_a_store_that_is_opened_again_go_on(world: Graph) -> None:
    ticks = recurring(world)
    (below,) = world.create([[]], outside={0: [ticks]})
    world.node.machine.commit()
    world.node.reopen()
    world.node.do(create_command())
    next_minute(world)
    world.finish(ticks)
    assert world.fired(below) == 1


def test_a_lease_names_the_upstreams_of_its_tick(world: Graph) -> None:
    ticks = recurring(world)
    (gate,) = world.node.create(due_ms=world.node.now_ms, max_attempts=1)
    (join,) = world.create([[]], outside={0: [gate, ticks]})
    of_gate = world.finish(gate)
    expected = {}
    for _ in range(3):
        minute = next_minute(world)
        expected[minute] = [(gate, of_gate), (ticks, world.finish(ticks))]
    for execution, token in world.held.items():
        world.node.release(token, [execution])
    leased = world.node.lease(world.session)
    assert list(leased.jobs) == [join] * 3
    found = dict(leased.upstreams)
    assert {
        scheduled_for_ms // MINUTE_MS: [(upstream.job, upstream.execution) for upstream in found[execution]]
        for execution, scheduled_for_ms in zip(leased.executions, leased.scheduled_for_ms, strict=True)
    } == expected
