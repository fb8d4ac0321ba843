from raftsched.state.results import LeaseEnded
from raftsched.v1 import worker_pb2
from tests.unit.state.support import DEAD_LETTER, FAILED, LEASED, START_MS, SUCCEEDED, Node


def test_a_run_timeout_counts_as_a_failure_and_tells_the_worker(node: Node) -> None:
    session = node.open_session(ttl_ms=1_000_000)
    leased = node.run(session, 2, run_timeout_ms=30_000)
    node.start(leased.token, [1], started_ms=START_MS + 5)
    assert node.machine.next_deadline_ms() == START_MS + 30_000
    node.now_ms = START_MS + 29_999
    node.tick()
    assert node.state_of(2) == LEASED
    node.now_ms = START_MS + 30_000
    node.tick()
    assert node.effects.leases_ended == [
        LeaseEnded(session, leased.token, [1, 2], worker_pb2.CANCEL_REASON_RUN_TIMEOUT)
    ]
    first, second = node.execution(1), node.execution(2)
    assert (first.status, first.failures, first.error) == (FAILED, 1, "run timeout of 30000 ms exceeded")
    assert (first.started_ms, first.ended_ms) == (START_MS + 5, START_MS + 30_000)
    assert second.status == FAILED
    assert node.ack(leased.token, [1, 2]) == [1, 2]


def test_a_run_timeout_of_the_last_attempt_ends_in_the_dead_letters(node: Node) -> None:
    node.run(node.open_session(ttl_ms=1_000_000), run_timeout_ms=30_000, max_attempts=1)
    node.advance(30_000)
    node.tick()
    assert node.state_of(1) == DEAD_LETTER


def test_what_was_settled_in_time_is_not_touched(node: Node) -> None:
    session = node.open_session(ttl_ms=1_000_000)
    leased = node.run(session, 3, run_timeout_ms=30_000)
    node.ack(leased.token, [1, 2])
    node.advance(30_000)
    node.tick()
    assert [node.state_of(number) for number in (1, 2, 3)] == [SUCCEEDED, SUCCEEDED, FAILED]


def test_a_settled_block_leaves_no_deadline(node: Node) -> None:
    leased = node.run(node.open_session(), 3, run_timeout_ms=30_000)
    assert len(node.table("deadlines")) == 2
    node.ack(leased.token, [2])
    node.ack(leased.token, [1, 3])
    assert len(node.table("deadlines")) == 1


def test_a_new_lease_has_its_own_deadline(node: Node) -> None:
    session = node.open_session(ttl_ms=1_000_000)
    leased = node.run(session, run_timeout_ms=30_000)
    node.advance(20_000)
    node.release(leased.token, [1])
    node.lease(session)
    node.advance(10_000)
    node.tick()
    assert node.state_of(1) == LEASED
    assert node.machine.next_deadline_ms() == START_MS + 50_000


def test_timeouts_of_one_block_end_each_at_its_own_time(node: Node) -> None:
    session = node.open_session(ttl_ms=1_000_000)
    node.create(2, run_timeout_ms=10_000)
    node.create(2, run_timeout_ms=20_000)
    node.create(2)
    node.fire()
    assert len(node.lease(session).executions) == 6
    node.advance(10_000)
    node.tick()
    assert sorted(node.state_of(number) for number in range(1, 7)) == [LEASED] * 4 + [FAILED] * 2
    node.advance(10_000)
    node.tick()
    assert sorted(node.state_of(number) for number in range(1, 7)) == [LEASED] * 2 + [FAILED] * 4


def test_a_tick_with_nothing_to_do_changes_nothing(node: Node) -> None:
    node.run(node.open_session(), run_timeout_ms=30_000)
    before = node.dump()
    node.tick()
    assert node.dump() == before
