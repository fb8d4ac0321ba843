from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import DependencyCycle, InvalidField, JobNotFound
from raftsched.state import graph
from raftsched.state.results import JobChanged, JobsCreated, Leased
from raftsched.state.upstreams import BYTES_EACH
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2
from tests.unit.state.graph_support import (
    ALL_DONE,
    ALL_SUCCESS,
    ANY_SUCCESS,
    BLOCKED,
    FIRED,
    NONE_FAILED,
    UPSTREAM_FAILED,
    Graph,
    graph_command,
)
from tests.unit.state.support import Node, ack_command, create_command, replayed


@pytest.fixture
def world(node: Node) -> Graph:
    return Graph(node)


def cancel(job: int) -> command_pb2.CancelJob:
    return command_pb2.CancelJob(job=job)


def replay(*executions: int) -> command_pb2.ReplayDeadLetters:
    return command_pb2.ReplayDeadLetters(executions=keys.pack_ids(executions))


def test_a_job_waits_for_the_success_of_all_it_depends_on(world: Graph) -> None:
    first, second = world.node.create(2)
    (join,) = world.create([[]], outside={0: [first, second]})
    assert world.state(join) == BLOCKED
    world.finish(second)
    assert (world.state(join), world.fired(join)) == (BLOCKED, 0)
    world.node.advance(500)
    world.finish(first)
    assert (world.state(join), world.fired(join)) == (FIRED, 1)
    (run,) = world.node.executions_of(join)
    assert (run.cause, run.scheduled_for_ms) == (execution_pb2.EXECUTION_CAUSE_DEPENDENCY, world.node.now_ms)
    assert world.node.job(join).scheduled_for_ms == world.node.now_ms
    world.node.check()
    world.finish(join)
    assert world.work() == 0


def test_a_chain_of_one_command_runs_in_order(world: Graph) -> None:
    a, b, c = world.create([[], [0], [1]])
    for job in (a, b, c):
        assert list(world.take()) == [job]
        world.finish(job)
    assert world.take() == {}
    world.node.check()


def test_jobs_of_one_command_may_stand_before_those_they_depend_on(world: Graph) -> None:
    last, first = world.create([[1], []])
    world.finish(first)
    world.finish(last)


def test_what_ended_before_counts_at_once(world: Graph) -> None:
    done, dead = world.node.create(2, max_attempts=1)
    world.finish(done)
    world.finish(dead, fail=True)
    (after,) = world.create([[]], outside={0: [done]})
    (broken,) = world.create([[]], outside={0: [done, dead]})
    (anyhow,) = world.create([[]], outside={0: [done, dead]}, rules={0: ALL_DONE})
    assert [world.state(job) for job in (after, broken, anyhow)] == [FIRED, UPSTREAM_FAILED, FIRED]
    (below,) = world.create([[]], outside={0: [broken]})
    assert world.state(below) == UPSTREAM_FAILED
    world.node.check()


@pytest.mark.parametrize(
    ("rule", "state"), [(ALL_SUCCESS, UPSTREAM_FAILED), (ALL_DONE, FIRED), (ANY_SUCCESS, FIRED), (NONE_FAILED, FIRED)]
)
def test_a_cancelled_upstream_counts_as_skipped(world: Graph, rule: int, state: int) -> None:
    kept, dropped = world.node.create(2, due_ms=world.node.now_ms + 1_000)
    (join,) = world.create([[]], outside={0: [kept, dropped]}, rules={0: rule})
    world.node.do(cancel(dropped))
    world.node.advance(2_000)
    world.finish(kept)
    assert world.state(join) == state
    # One that is cancelled already when it is named.
    (late,) = world.create([[]], outside={0: [kept, dropped]}, rules={0: rule})
    assert world.state(late) == state
    world.node.check()


def test_a_failure_runs_down_the_graph_and_a_replay_that_succeeds_revives_it(world: Graph) -> None:
    top, left, right, bottom, free = world.create([[], [0], [0], [1, 2], [1]], rules={4: ALL_DONE})
    dead = world.finish(top, fail=True)
    assert [world.state(job) for job in (left, right, bottom)] == [UPSTREAM_FAILED] * 3
    # For it the failure is an end like any other.
    assert (world.state(free), world.fired(free)) == (FIRED, 1)
    world.node.do(replay(dead))
    world.node.do(replay(dead))
    assert [world.state(job) for job in (left, right, bottom)] == [UPSTREAM_FAILED] * 3
    world.finish(top)
    assert [world.state(job) for job in (left, right, bottom)] == [FIRED, FIRED, BLOCKED]
    world.finish(right)
    world.finish(left)
    assert [world.fired(job) for job in (left, right, bottom, free)] == [1, 1, 1, 1]
    world.node.check()


def test_a_replay_that_fails_changes_nothing(world: Graph) -> None:
    top, join = world.create([[], [0]])
    dead = world.finish(top, fail=True)
    world.node.do(replay(dead))
    dead = world.finish(top, fail=True)
    assert world.state(join) == UPSTREAM_FAILED
    world.node.do(replay(dead))
    world.finish(top)
    assert (world.state(join), world.fired(join)) == (FIRED, 1)


def test_of_two_failures_both_have_to_be_made_good(world: Graph) -> None:
    first, second, join, below = world.create([[], [], [0, 1], [2]])
    dead = [world.finish(first, fail=True), world.finish(second, fail=True)]
    world.node.do(replay(*dead))
    world.finish(first)
    assert [world.state(job) for job in (join, below)] == [UPSTREAM_FAILED] * 2
    world.finish(second)
    assert [world.state(job) for job in (join, below)] == [FIRED, BLOCKED]


def test_an_end_that_a_job_began_with_is_not_told_to_it_again(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is created while the others that wait for that end are still being told."""
    monkeypatch.setattr(graph, "MAX_STEPS", 10)
    (other,) = world.node.create(due_ms=world.node.now_ms + 60_000)
    top, *_ = world.create([[], *([[0]] * 100)])
    world.finish(top)
    assert world.work()
    (join,) = world.create([[]], outside={0: [top, other]})
    world.drain()
    assert (world.state(join), world.fired(join)) == (BLOCKED, 0)
    world.node.advance(60_000)
    world.finish(other)
    world.drain()
    assert world.fired(join) == 1


def test_an_older_end_that_is_still_to_be_told_does_not_undo_a_newer_one(
    world: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "MAX_STEPS", 5)
    top, *_ = world.create([[], *([[0]] * 200)])
    dead = world.finish(top, fail=True)
    world.node.do(replay(dead))
    world.finish(top)
    assert world.work() == 2
    join, below = world.create([[], [0]], outside={0: [top]}, rules={1: ALL_DONE})
    world.drain()
    assert [world.fired(job) for job in (join, below)] == [1, 0]


def test_a_repeated_end_counts_once(world: Graph) -> None:
    first, second, join = world.create([[], [], [0, 1]])
    by_job = world.take()
    (execution,) = by_job[first]
    ack = ack_command(world.held[execution], [execution])
    world.node.batch(ack, ack, ack)
    world.node.do(ack)
    assert world.state(join) == BLOCKED
    world.finish(second)
    assert world.fired(join) == 1
    # A second run of an upstream that has succeeded starts nothing again.
    world.node.do(ack)
    assert world.fired(join) == 1


def test_any_success_runs_once_whatever_the_others_do(world: Graph) -> None:
    first, second, third, join = world.create([[], [], [], [0, 1, 2]], rules={3: ANY_SUCCESS})
    world.finish(first, fail=True)
    assert world.state(join) == BLOCKED
    world.finish(second)
    world.finish(third)
    assert (world.state(join), world.fired(join)) == (FIRED, 1)


def test_a_waiting_job_can_be_cancelled_and_those_below_are_told(world: Graph) -> None:
    top, middle, after, strict = world.create([[], [0], [1], [1]], rules={2: NONE_FAILED})
    world.node.do(cancel(middle))
    assert [world.state(job) for job in (middle, after, strict)] == [rows.JOB_CANCELLED, FIRED, UPSTREAM_FAILED]
    world.finish(top)
    assert world.fired(middle) == 0
    world.node.do(cancel(strict))
    assert world.state(strict) == rows.JOB_CANCELLED
    world.node.check()


@pytest.mark.parametrize("cancel_first", [True, False])
def test_of_a_completion_and_a_cancel_in_one_entry_the_first_wins(world: Graph, cancel_first: bool) -> None:
    top, join = world.create([[], [0]], rules={1: NONE_FAILED})
    strict = world.create([[]], outside={0: [top]})[0]
    (execution,) = world.take()[top]
    token = world.held[execution]
    ack = ack_command(token, [execution])
    dropped = command_pb2.CancelJob(job=top, dropped_token=token)
    results = world.node.batch(*((dropped, ack) if cancel_first else (ack, dropped)))
    world.drain()
    # The answers tell which.
    if cancel_first:
        assert [type(result).__name__ for result in results] == ["JobCancelled", "Settled"]
        assert list(results[1].stale) == [execution]  # type: ignore[union-attr]
        assert [world.state(job) for job in (join, strict)] == [FIRED, UPSTREAM_FAILED]
    else:
        assert [type(result).__name__ for result in results] == ["Settled", "Rejected"]
        assert [world.state(job) for job in (join, strict)] == [FIRED, FIRED]


def test_a_join_of_500_with_ten_failures_runs_once(node: Node) -> None:
    world = Graph(node)
    *upstreams, join = world.create([[]] * 500 + [list(range(500))], rules={500: ALL_DONE})
    strict = world.create([[]], outside={0: upstreams})[0]
    held = world.take()
    failing = [held[job][0] for job in upstreams[::50]]
    for number, job in enumerate(upstreams):
        (execution,) = held[job]
        if execution not in failing:
            ack = ack_command(world.held[execution], [execution])
            # As when a leader dies between the two: the command is proposed again, later.
            node.batch(ack, ack)
            if number % 97 == 0:
                node.machine.commit()
                node.reopen()
            node.do(ack)
        assert world.fired(join) == 0
    for execution in failing:
        for _ in range(2):
            node.fail(world.held[execution], [execution], permanent=True)
    world.drain()
    assert (world.state(join), world.fired(join), world.state(strict)) == (FIRED, 1, UPSTREAM_FAILED)
    node.check()


def test_a_fan_out_is_told_in_bounded_steps(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MAX_STEPS", 100)
    top, *below = world.create([[], *([[0]] * 1_500)])
    world.finish(top)
    assert world.work() == 1
    assert world.node.machine.next_deadline_ms() == world.node.now_ms
    counts = [sum(world.state(job) == FIRED for job in below)]
    assert 0 < counts[0] <= 100
    while world.work():
        if len(counts) % 3 == 0:
            # What is left of the list is in the store.
            world.node.machine.commit()
            world.node.reopen()
        world.node.tick()
        counts.append(sum(world.state(job) == FIRED for job in below))
        assert counts[-1] - counts[-2] <= 101
    assert counts[-1] == 1_500
    assert len(counts) >= 15
    world.node.check()


def test_a_failure_goes_down_a_chain_of_10_000_in_bounded_steps(world: Graph) -> None:
    jobs = world.create([[], *([number] for number in range(9_999))])
    world.finish(jobs[0], fail=True)
    written = []
    while world.work():
        before = world.node.machine.dirty_ops
        world.node.tick()
        written.append(world.node.machine.dirty_ops - before)
    assert len(written) >= 9
    assert max(written) <= 6 * graph.MAX_STEPS
    assert {world.state(job) for job in jobs[1:]} == {UPSTREAM_FAILED}
    assert {row.state for row in (world.node.job(job) for job in jobs[1:])} == {UPSTREAM_FAILED}
    world.node.do(replay(1))
    world.finish(jobs[0])
    world.drain()
    assert [world.state(job) for job in jobs[1:3]] == [FIRED, BLOCKED]
    assert {world.state(job) for job in jobs[2:]} == {BLOCKED}


def test_a_store_without_edges_is_not_touched(node: Node) -> None:
    world = Graph(node)
    jobs = node.create(3)
    for job in jobs:
        world.finish(job)
    assert node.table("waits") == node.table("edges") == []


def test_what_is_deleted_leaves_nothing_behind(world: Graph) -> None:
    top, middle, bottom = world.create([[], [0], [1]], rules={2: NONE_FAILED}, names=["a", "b", "c"])
    world.node.do(command_pb2.DeleteJob(job=middle))
    # It was told that the one above it had been skipped.
    assert world.fired(bottom) == 1
    world.finish(bottom)
    world.finish(top)
    for job in (top, bottom):
        world.node.want(JobChanged, command_pb2.DeleteJob(job=job))
    world.drain()
    assert world.node.table("waits") == world.node.table("edges") == world.node.table("workflows") == []
    before = world.node.machine.digest
    world.node.machine.commit()
    world.node.reopen()
    assert world.node.machine.digest == before


def test_what_is_remembered_follows_from_the_store(world: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Deletions, too, leave every replica with the same rows, wherever it has been opened again."""
    for _ in range(2):
        jobs = world.create([[], [0]], names=["a", "b"])
        for job in jobs:
            world.node.do(command_pb2.DeleteJob(job=job))
        world.drain()
        (alone,) = world.node.create()
        world.node.do(command_pb2.DeleteJob(job=alone))
    other = Node(tmp_path_factory.mktemp("other"), node_id=9)
    for entry in world.node.entries:
        other.apply(entry)
        other.machine.commit()
        other.reopen()
    assert other.machine.digest == world.node.machine.digest


def test_a_large_workflow_is_forgotten_in_bounded_steps(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = world.create([[], *([[0]] * 49)], names=[f"n{number}" for number in range(50)])
    monkeypatch.setattr(graph, "MAX_STEPS", 10)
    world.node.batch(*(command_pb2.DeleteJob(job=job) for job in jobs))
    assert world.work() > 1
    assert world.drain() > 5
    assert world.node.table("waits") == world.node.table("edges") == world.node.table("workflows") == []


def test_replicas_agree_wherever_they_commit(world: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    top, _, _, bottom = world.create([[], [0], [0], [1, 2]])
    dead = world.finish(top, fail=True)
    world.node.do(replay(dead))
    world.run_all()
    assert world.fired(bottom) == 1
    other = replayed(world.node, tmp_path_factory.mktemp("other"), commit_after=[2, 5, 6])
    assert other.machine.digest == world.node.machine.digest
    assert other.dump() == world.node.dump()


def test_a_cycle_is_refused_with_its_path(world: Graph) -> None:
    command = graph_command([[2], [0], [1]], names=["a", "b", "c"])
    error = world.node.refused(DependencyCycle, command)
    assert error.metadata["path"] == "a -> c -> b -> a"
    world.node.refused(DependencyCycle, graph_command([[0]]))


def test_what_makes_no_graph_is_refused(world: Graph) -> None:
    (job,) = world.node.create()
    node = world.node
    error = node.refused(JobNotFound, graph_command([[]], outside={0: [job, 77]}))
    assert (error.field, error.metadata) == ("jobs[0].dependencies.job_ids[1]", {"job_id": "77"})
    node.refused(InvalidField, graph_command([[]], outside={0: [job, job]}))
    node.refused(InvalidField, graph_command([[5]]))
    node.refused(InvalidField, graph_command([[], [0, 0]]))
    node.refused(InvalidField, graph_command([[]] * 501 + [list(range(501))]))
    node.refused(InvalidField, graph_command([[]] * 500 + [list(range(500))] * 101))
    node.refused(InvalidField, graph_command([[], [0]], names=["a"]))
    node.refused(InvalidField, graph_command([[], [0]], names=["a", "a"]))
    node.refused(InvalidField, graph_command([[], [0]], names=["a", ""]))
    without_jobs = create_command(dependency_rule=ALL_SUCCESS)
    node.refused(InvalidField, without_jobs)
    unknown_rule = create_command(dependency_rule=9)
    unknown_rule.jobs[0].upstreams = keys.pack_id(job)
    node.refused(InvalidField, unknown_rule)
    without_rule = create_command()
    without_rule.jobs[0].upstreams = keys.pack_id(job)
    node.refused(InvalidField, without_rule)
    torn = graph_command([[]], outside={0: [job]})
    torn.jobs[0].upstreams = b"123"
    node.refused(InvalidField, torn)
    both = graph_command([[]], outside={0: [job]}, every_ms=60_000)
    both.jobs[0].schedule = 1
    node.refused(InvalidField, both)


def test_a_graph_is_created_once_under_its_key(world: Graph) -> None:
    command = graph_command([[], [0]], names=["a", "b"], node=world.node)
    command.key_namespace, command.key, command.fingerprint = "default", "k", bytes(16)
    first = world.node.want(JobsCreated, command)
    before = world.node.dump()
    again = world.node.want(JobsCreated, command)
    assert (list(again.job_ids), again.existed) == (list(first.job_ids), True)
    assert world.node.dump() == before


def follows(leased: Leased) -> dict[int, list[tuple[str, int, int]]]:
    return {
        execution: [(upstream.node, upstream.job, upstream.execution) for upstream in found]
        for execution, found in leased.upstreams
    }


def test_a_lease_names_the_executions_that_an_execution_follows(world: Graph) -> None:
    node = world.node
    top, left, right, join = world.create([[], [0], [0], [2, 1]], names=["top", "left", "right", "join"])
    node.fire()
    first = node.lease(world.session)
    assert follows(first) == {}
    node.ack(first.token, first.executions)
    sides = node.lease(world.session)
    of_left, of_right = sides.executions
    assert follows(sides) == {of_left: [("top", top, 1)], of_right: [("top", top, 1)]}
    node.ack(sides.token, sides.executions)
    last = node.lease(world.session)
    assert follows(last) == {last.executions[0]: [("right", right, of_right), ("left", left, of_left)]}
    # As often as it is leased.
    node.release(last.token, last.executions)
    last = node.lease(world.session)
    assert follows(last) == {last.executions[0]: [("right", right, of_right), ("left", left, of_left)]}
    # And outside of a workflow, without names; those that never had an execution are left out.
    (waiting,) = node.create(due_ms=node.now_ms + 1_000)
    node.do(cancel(waiting))
    world.create([[]], outside={0: [waiting, left]}, rules={0: ALL_DONE})
    outside = node.lease(world.session)
    assert follows(outside) == {outside.executions[0]: [("", left, of_left)]}
    assert join == last.jobs[0]


def test_a_lease_holds_no_more_upstreams_than_fit(world: Graph) -> None:
    upstreams = world.node.create(100)
    world.create([[]] * 20, outside=dict.fromkeys(range(20), upstreams))
    world.take()
    for token in set(world.held.values()):
        world.node.ack(token, list(world.held))
    world.drain()
    limit = 5 * 101 * BYTES_EACH
    leased = world.node.lease(world.session, payload_bytes_limit=limit)
    assert len(leased.executions) == 5
    assert len(world.node.lease(world.session, payload_bytes_limit=1).executions) == 1
    world.node.check()


def test_a_node_that_starts_while_a_graph_is_removed_goes_on_as_the_others(
    world: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether jobs depend on others is known in memory: it has to be what the store says at every entry."""
    monkeypatch.setattr(graph, "MAX_STEPS", 1)
    node = world.node
    first, another = node.create(2)
    (waits,) = world.create([[]], outside={0: [first]})
    node.do(command_pb2.DeleteJob(job=waits))
    while node.table("edges"):
        node.tick()
    assert node.table("waits"), "the last step is to come"
    node.machine.commit()
    other = replayed(node, tmp_path / "other", [len(node.entries)])
    other.reopen()
    for machine in (node, other):
        machine.do(command_pb2.DeleteJob(job=another))
    assert other.machine.digest == node.machine.digest
    other.machine.close()
