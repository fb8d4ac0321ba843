"""What is kept of the attempts of an execution."""

from raftsched.internal.v1 import command_pb2
from raftsched.state.queries_executions import attempts_of, get_execution
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2
from tests.unit.state.support import START_MS, Node

FAILED = execution_pb2.ATTEMPT_OUTCOME_FAILED
LOST = execution_pb2.ATTEMPT_OUTCOME_LEASE_LOST
SNOOZED = execution_pb2.ATTEMPT_OUTCOME_SNOOZED
SUCCEEDED = execution_pb2.ATTEMPT_OUTCOME_SUCCEEDED
TIMED_OUT = execution_pb2.ATTEMPT_OUTCOME_TIMED_OUT
UNDER_WAY = execution_pb2.ATTEMPT_OUTCOME_UNSPECIFIED


def attempts(node: Node, execution: int = 1) -> list[rows.AttemptRow]:
    node.machine.commit()
    with node.store.read() as view:
        record = get_execution(view, execution)
        assert record is not None
        return attempts_of(view, record)


def test_an_execution_that_succeeds_at_once_has_one_attempt_and_costs_no_row(node: Node) -> None:
    leased = node.run(node.open_session(worker="w-1"))
    assert attempts(node) == [rows.AttemptRow(1, UNDER_WAY, START_MS, 0, 0, "w-1", "", "")]
    node.ack(leased.token, [1])
    assert attempts(node) == [rows.AttemptRow(1, SUCCEEDED, START_MS, 5, 6, "w-1", "", "")]
    assert node.table("attempts") == []


def test_every_way_to_end_is_kept_with_worker_times_and_error(node: Node) -> None:
    node.create(due_ms=START_MS, max_attempts=5, run_timeout_ms=5_000)
    node.fire()
    # Lost.
    node.lease(node.open_session(worker="w-1"))
    node.do(command_pb2.CloseSession(session=1))
    # Put off.
    session = node.open_session(worker="w-2", ttl_ms=80_000)
    leased = node.lease(session)
    command = command_pb2.Fail()
    command.failures.add(token=leased.token, execution=1, started_ms=5, ended_ms=6, snooze=True, retry_after_ms=100)
    node.do(command)
    node.advance(100)
    node.fire()
    # Failed.
    leased = node.lease(session)
    command = command_pb2.Fail()
    command.failures.add(
        token=leased.token, execution=1, started_ms=7, ended_ms=8, error="é" * 2_000, error_classes=["E", "Base"]
    )
    node.do(command)
    node.advance(1_000)
    node.fire()
    # Timed out.
    leased = node.lease(session)
    node.start(leased.token, [1], started_ms=9)
    node.advance(5_000)
    node.tick()
    node.advance(2_000)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, [1], 10, 11)
    found = attempts(node)
    assert [(row.number, row.outcome, row.worker, row.started_ms, row.ended_ms) for row in found] == [
        (1, LOST, "w-1", 0, START_MS),
        (1, SNOOZED, "w-2", 5, 6),
        (1, FAILED, "w-2", 7, 8),
        (2, TIMED_OUT, "w-2", 9, START_MS + 6_100),
        (3, SUCCEEDED, "w-2", 10, 11),
    ]
    assert [row.leased_ms - START_MS for row in found] == [0, 0, 100, 1_100, 8_100]
    assert (found[2].error_class, found[2].error) == ("E", "é" * 512)
    assert found[3].error_class == "raftsched.RunTimeout"


def test_the_newest_ten_are_kept_however_many_there_were(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    node.create(2, due_ms=START_MS, max_attempts=100, max_backoff_ms=1_000)
    for number in range(1, 26):
        node.fire()
        leased = node.lease(session)
        node.fail(leased.token, [1], error=f"failure {number}")
        if 2 in leased.executions:
            node.ack(leased.token, [2])
        node.advance(1_000)
    assert [(row.number, row.error) for row in attempts(node)] == [(n, f"failure {n}") for n in range(16, 26)]
    assert [key[: keys.ID_BYTES] for key, _ in node.table("attempts")] == [keys.pack_id(1)] * 10


def test_a_failure_that_is_reported_twice_is_one_attempt(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1, 1])
    node.fail(leased.token, [1], error="again")
    assert [row.error for row in attempts(node)] == ["boom"]
