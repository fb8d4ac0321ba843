import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, IllegalTransition, InvalidField, NotDeadLetter
from raftsched.state.results import Replayed
from raftsched.store import keys
from tests.unit.state.support import DEAD_LETTER, MINUTE_MS, PENDING, START_MS, SUCCEEDED, Node, minutely


def replay(*executions: int) -> command_pb2.ReplayDeadLetters:
    return command_pb2.ReplayDeadLetters(executions=keys.pack_ids(executions))


def bury(node: Node, count: int = 1, **settings: object) -> int:
    """Dead letters 1 to `count`; the session that holds nothing more."""
    session = node.open_session(ttl_ms=10_000_000)
    leased = node.run(session, count, **settings)
    node.fail(leased.token, leased.executions, permanent=True)
    return session


def test_a_replay_is_a_new_execution_of_the_same_occurrence(node: Node) -> None:
    session = bury(node, payloads=[b"p"])
    node.advance(5_000)
    assert node.do(replay(1)) == Replayed([2])
    old, new = node.execution(1), node.execution(2)
    assert (old.status, old.replayed_as, old.error) == (DEAD_LETTER, 2, "boom")
    assert (new.status, new.job, new.scheduled_for_ms, new.previous) == (PENDING, 1, START_MS, 1)
    assert (new.failures, new.attempt, new.fired_ms) == (0, 0, START_MS + 5_000)
    assert node.job(1).last_execution == 2
    assert node.table("dead_letters") == []
    leased = node.lease(session)
    assert list(leased.payloads) == [b"p"]
    assert node.ack(leased.token, [2]) == []
    assert node.state_of(2) == SUCCEEDED


def test_replaying_again_names_the_same_execution(node: Node) -> None:
    bury(node)
    node.do(replay(1))
    before = node.dump()
    assert node.do(replay(1)) == Replayed([2])
    assert node.dump() == before


def test_answers_are_in_the_order_of_the_request(node: Node) -> None:
    bury(node, 3)
    node.do(replay(2))
    assert node.do(replay(3, 2, 1, 3)) == Replayed([5, 4, 6, 5])


def test_several_dead_letters_of_one_job_all_join_its_history(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    session = node.open_session(ttl_ms=10_000_000)
    for _ in range(2):
        node.advance(MINUTE_MS)
        node.fire()
        leased = node.lease(session)
        node.fail(leased.token, leased.executions, permanent=True)
    assert node.do(replay(1, 2)) == Replayed([3, 4])
    history = node.executions_of(job)
    assert [row.scheduled_for_ms - START_MS for row in history] == [
        2 * MINUTE_MS,
        MINUTE_MS,
        2 * MINUTE_MS,
        MINUTE_MS,
    ]


def test_a_replay_that_dies_again_is_a_dead_letter_of_its_own(node: Node) -> None:
    session = bury(node)
    node.do(replay(1))
    leased = node.lease(session)
    node.fail(leased.token, [2], permanent=True)
    assert node.machine.counters.dead_letters == 1
    assert node.do(replay(2)) == Replayed([3])


def test_one_bad_execution_refuses_all(node: Node) -> None:
    session = bury(node, 2)
    leased = node.run(session)
    error = node.refused(NotDeadLetter, replay(1, leased.executions[0]))
    assert (error.field, error.metadata) == ("execution_ids[1]", {"execution": "3"})
    error = node.refused(ExecutionNotFound, replay(99, 1))
    assert error.field == "execution_ids[0]"


def test_a_cancelled_job_is_not_started_again(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    session = node.open_session(ttl_ms=10_000_000)
    node.advance(MINUTE_MS)
    node.fire()
    leased = node.lease(session)
    node.fail(leased.token, leased.executions, permanent=True)
    node.do(command_pb2.CancelJob(job=job))
    node.refused(IllegalTransition, replay(1))


def test_dead_letters_of_a_namespace_are_in_order_of_their_death(node: Node) -> None:
    session = node.open_session(ttl_ms=10_000_000)
    for namespace in ("b", "a", "b"):
        node.create(namespace=namespace)
    node.fire()
    leased = node.lease(session)
    for execution in (2, 3, 1):
        node.fail(leased.token, [execution], permanent=True)
        node.advance(10)
    found = [keys.unpack_dead_letter(key) for key, _ in node.table("dead_letters")]
    assert [(namespace, execution) for namespace, _, execution in found] == [(1, 2), (1, 1), (2, 3)]


@pytest.mark.parametrize("column", [b"", b"1234567", bytes(8 * 1_001)])
def test_a_malformed_replay_is_refused_whole(node: Node, column: bytes) -> None:
    bury(node)
    node.refused(InvalidField, command_pb2.ReplayDeadLetters(executions=column))
