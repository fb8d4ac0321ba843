"""A command that was refused is not carried out by a second copy of it, which a late answer may have sent after it."""

from pathlib import Path

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, JobRunning, NameTaken
from raftsched.state.refusals import REMEMBERED_MS
from raftsched.state.results import Effects, JobCancelled, JobsCreated, Rejected, Result
from raftsched.store import keys
from tests.unit.state.support import MINUTE_MS, Node, create_command, replayed


def command(operation: command_pb2.CreateJobs | command_pb2.CancelJob, request: int) -> bytes:
    wrapped = command_pb2.Command(origin=1, request=request)
    name = "create_jobs" if isinstance(operation, command_pb2.CreateJobs) else "cancel_job"
    getattr(wrapped, name).CopyFrom(operation)
    return wrapped.SerializeToString()


def apply(node: Node, *commands: bytes) -> Effects:
    return node.apply(command_pb2.Entry(now_ms=node.now_ms, commands=commands).SerializeToString())


def results(effects: Effects) -> list[Result]:
    return [result for _, result in effects.results]


def test_a_name_that_was_taken_stays_refused_to_a_second_copy(node: Node) -> None:
    (holder,) = node.create(names=["n"], due_ms=node.now_ms + MINUTE_MS)
    again = command(create_command(names=["n"], due_ms=node.now_ms + MINUTE_MS), 1_000)
    (first,) = results(apply(node, again))
    assert isinstance(first, Rejected)
    assert isinstance(first.error, NameTaken)
    node.want(JobCancelled, command_pb2.CancelJob(job=holder))
    assert results(apply(node, again)) == []
    assert len(node.table("jobs")) == 1
    (second,) = results(apply(node, command(create_command(names=["n"], due_ms=node.now_ms + MINUTE_MS), 1_001)))
    assert isinstance(second, JobsCreated), "another request is another matter"


def test_a_running_job_is_not_cancelled_by_a_second_copy_once_it_no_longer_runs(node: Node) -> None:
    leased = node.run(node.open_session())
    node.start(leased.token, leased.executions)
    cancel = command(command_pb2.CancelJob(job=leased.jobs[0]), 1_000)
    (first,) = results(apply(node, cancel))
    assert isinstance(first, Rejected)
    assert isinstance(first.error, JobRunning)
    node.fail(leased.token, leased.executions)
    before = node.dump()
    apply(node, cancel)
    assert node.dump() == before


def test_bad_input_is_not_remembered(node: Node) -> None:
    (refused,) = results(apply(node, command(create_command(priority=99), 1_000)))
    assert isinstance(refused, Rejected)
    assert isinstance(refused.error, InvalidField)
    assert not [key for key, _ in node.table("meta") if key.startswith(keys.META_REFUSED)]


def test_refusals_are_forgotten_in_time_the_same_on_a_node_that_was_restarted(node: Node, tmp_path: Path) -> None:
    node.create(names=["n"], due_ms=node.now_ms + 10 * REMEMBERED_MS)
    taken = create_command(names=["n"], due_ms=node.now_ms)
    # Several in one millisecond, not in the order of their numbers.
    apply(node, *[command(taken, request) for request in (1_005, 1_003, 1_004, 1_001, 1_002)])
    node.advance(REMEMBERED_MS + 1)
    node.machine.commit()
    for request in range(2_000, 2_004):
        apply(node, command(taken, request))
    kept = [keys.refused_request(key)[1] for key, _ in node.table("meta") if key.startswith(keys.META_REFUSED)]
    assert kept == [2_000, 2_001, 2_002, 2_003]
    other = replayed(node, tmp_path / "other")
    restarted = Node(tmp_path / "restarted", node_id=9)
    for entry in node.entries:
        restarted.apply(entry)
        restarted.machine.commit()
        restarted.reopen()
    assert node.machine.digest == other.machine.digest == restarted.machine.digest
