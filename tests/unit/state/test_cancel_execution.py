from collections.abc import Sequence

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionFinished, ExecutionNotFound
from raftsched.state.results import CancelNeedsWorker, ExecutionCancelled, Leased, LeaseEnded, Settled
from raftsched.store import rows
from raftsched.v1 import worker_pb2
from tests.unit.state.support import (
    CANCELLED,
    FAILED,
    LEASED,
    PENDING,
    RUNNING,
    START_MS,
    SUCCEEDED,
    Node,
    ack_command,
)

REQUESTED = worker_pb2.CANCEL_REASON_REQUESTED


def cancel(execution: int, *, dropped: int = 0, begun: int = 0) -> command_pb2.CancelExecution:
    return command_pb2.CancelExecution(execution=execution, dropped_token=dropped, begun_token=begun)


def running(node: Node, session: int, **settings: object) -> Leased:
    leased = node.run(session, **settings)
    node.start(leased.token, leased.executions)
    return leased


def asked_to_stop(node: Node, session: int, **settings: object) -> Leased:
    """One execution that runs, and that a caller wants cancelled."""
    leased = running(node, session, **settings)
    assert node.do(cancel(leased.executions[0])) == ExecutionCancelled(leased.executions[0])
    return leased


def flags(node: Node, executions: Sequence[int]) -> list[bool]:
    return [node.execution(number).cancel_requested for number in executions]


def test_what_waits_is_cancelled_at_once(node: Node) -> None:
    node.create(3)
    node.fire()
    assert node.do(cancel(2)) == ExecutionCancelled(2)
    assert [node.state_of(number) for number in (1, 2, 3)] == [PENDING, CANCELLED, PENDING]
    assert list(node.lease(node.open_session()).executions) == [1, 3]
    node.check()


def test_what_waits_for_its_backoff_is_cancelled_at_once(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1])
    assert node.state_of(1) == FAILED
    node.do(cancel(1))
    assert (node.state_of(1), node.table("due")) == (CANCELLED, [])
    node.check()


def test_cancelling_again_changes_nothing(node: Node) -> None:
    node.create()
    node.fire()
    node.do(cancel(1))
    before = node.dump()
    assert node.do(cancel(1)) == ExecutionCancelled(1)
    assert node.dump() == before


def test_what_is_not_there_or_over_cannot_be_cancelled(node: Node) -> None:
    node.refused(ExecutionNotFound, cancel(1))
    leased = node.run(node.open_session())
    node.ack(leased.token, [1])
    assert node.refused(ExecutionFinished, cancel(1)).metadata == {"execution": "1", "state": "SUCCEEDED"}


def test_what_is_leased_is_for_its_worker_to_say(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 2)
    before = node.dump()
    assert node.do(cancel(1)) == CancelNeedsWorker(1, 1, leased.token, session)
    assert node.do(cancel(1, dropped=7, begun=8)) == CancelNeedsWorker(1, 1, leased.token, session)
    assert node.dump() == before
    assert node.do(cancel(1, dropped=leased.token)) == ExecutionCancelled(1)
    assert node.do(cancel(2, begun=leased.token)) == ExecutionCancelled(2)
    assert [node.state_of(number) for number in (1, 2)] == [CANCELLED, LEASED]
    assert flags(node, (1, 2)) == [False, True]
    node.check()


def test_the_worker_of_one_that_runs_is_told_each_time(node: Node) -> None:
    session = node.open_session()
    leased = running(node, session)
    for _ in range(2):
        assert node.do(cancel(1)) == ExecutionCancelled(1)
        assert node.effects.leases_ended == [LeaseEnded(session, leased.token, [1], REQUESTED)]
        assert (node.state_of(1), flags(node, [1])) == (RUNNING, [True])
        node.check()


def test_one_that_succeeds_all_the_same_has_succeeded(node: Node) -> None:
    leased = asked_to_stop(node, node.open_session())
    assert node.ack(leased.token, [1]) == []
    assert node.state_of(1) == SUCCEEDED
    node.check()


@pytest.mark.parametrize("permanent", [False, True])
def test_one_that_fails_is_cancelled_and_not_tried_again(node: Node, permanent: bool) -> None:
    leased = asked_to_stop(node, node.open_session())
    assert node.fail(leased.token, [1], error="stopped", permanent=permanent) == []
    row = node.execution(1)
    assert (row.status, row.error, row.started_ms, row.ended_ms) == (CANCELLED, "stopped", 5, 6)
    assert (node.table("due"), node.table("ready"), node.table("dead_letters")) == ([], [], [])
    node.check()


def test_a_failure_reported_twice_is_stale_the_second_time_or_harmless(node: Node) -> None:
    leased = asked_to_stop(node, node.open_session())
    node.fail(leased.token, [1])
    before = node.dump()
    node.fail(leased.token, [1])
    assert node.dump() == before


def test_the_run_timeout_ends_one_that_does_not_stop(node: Node) -> None:
    session = node.open_session(ttl_ms=60_000)
    asked_to_stop(node, session, run_timeout_ms=30_000)
    node.advance(30_000)
    node.tick()
    assert node.state_of(1) == CANCELLED
    assert [ended.reason for ended in node.effects.leases_ended] == [worker_pb2.CANCEL_REASON_RUN_TIMEOUT]
    node.check()


def test_a_lost_lease_ends_it_too(node: Node) -> None:
    session = node.open_session()
    leased = asked_to_stop(node, session)
    node.do(command_pb2.CloseSession(session=session))
    row = node.execution(1)
    assert (row.status, row.ended_ms, row.lost_leases) == (CANCELLED, START_MS, 1)
    assert node.ack(leased.token, [1]) == [1]
    node.check()


def test_one_that_is_given_back_unrun_is_cancelled(node: Node) -> None:
    leased = node.run(node.open_session(), 3)
    node.do(cancel(2, begun=leased.token))
    assert node.release(leased.token, [1, 2]) == []
    assert [node.state_of(number) for number in (1, 2, 3)] == [PENDING, CANCELLED, LEASED]
    node.check()


@pytest.mark.parametrize("cancel_first", [False, True])
def test_of_a_cancel_and_an_end_in_one_entry_the_first_decides(node: Node, cancel_first: bool) -> None:
    leased = node.run(node.open_session())
    both = [cancel(1, dropped=leased.token), ack_command(leased.token, [1])]
    cancelled, acked = node.batch(*both) if cancel_first else reversed(node.batch(*reversed(both)))
    assert isinstance(acked, Settled)
    assert list(acked.stale) == ([1] if cancel_first else [])
    assert (cancelled == ExecutionCancelled(1)) == cancel_first
    assert node.state_of(1) == (CANCELLED if cancel_first else SUCCEEDED)
    node.check()


def test_its_job_goes_on(node: Node) -> None:
    (job,) = node.create(every_ms=60_000)
    node.fire()
    node.do(cancel(1))
    assert node.job(job).state == rows.JOB_WAITING
    node.advance(60_000)
    node.fire()
    assert [row.status for row in node.executions_of(job)] == [PENDING, CANCELLED]
