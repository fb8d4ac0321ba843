"""When a failed attempt is followed by another, when it is put off, and when there is none any more."""

from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.limits import BACKOFF_MAX_MS, MAX_ATTEMPTS_MAX, MAX_LOST_LEASES
from raftsched.state.results import Settled
from raftsched.store import keys
from raftsched.v1 import job_pb2
from tests.unit.state.support import (
    CANCELLED,
    DEAD_LETTER,
    FAILED,
    MINUTE_MS,
    PENDING,
    SNOOZED,
    START_MS,
    SUCCEEDED,
    Node,
    replayed,
)

LONG_MS = 1_000_000_000


def end(node: Node, token: int, execution: int = 1, **says: Any) -> list[int]:
    """The attempt under this token ends as the worker says."""
    command = command_pb2.Fail()
    command.failures.add(token=token, execution=execution, started_ms=5, ended_ms=6, **says)
    return list(node.want(Settled, command).stale)


def test_a_fixed_backoff_stays_and_a_linear_one_grows_by_its_first(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    waits: dict[int, list[int]] = {}
    for backoff in (job_pb2.BACKOFF_FIXED, job_pb2.BACKOFF_LINEAR):
        (job,) = node.create(due_ms=node.now_ms, backoff=backoff, max_attempts=4, max_backoff_ms=2_500)
        for _ in range(3):
            node.fire()
            leased = node.lease(session)
            execution = node.job(job).last_execution
            node.fail(leased.token, [execution])
            waits.setdefault(backoff, []).append(node.execution(execution).changed_ms - node.now_ms)
            node.now_ms = node.execution(execution).changed_ms
    assert waits == {
        job_pb2.BACKOFF_FIXED: [1_000, 1_000, 1_000],
        # Never above the longest.
        job_pb2.BACKOFF_LINEAR: [1_000, 2_000, 2_500],
    }


def test_no_attempt_begins_later_than_max_elapsed_after_the_first(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    node.create(due_ms=START_MS, max_attempts=100, backoff=job_pb2.BACKOFF_FIXED, max_elapsed_ms=3_500)
    node.fire()
    first_began_ms = node.now_ms
    begins = []
    while node.state_of(1) != DEAD_LETTER:
        leased = node.lease(session)
        begins.append(node.now_ms - first_began_ms)
        node.fail(leased.token, [1], error="no route")
        node.now_ms = node.execution(1).changed_ms
        node.fire()
    assert begins == [0, 1_000, 2_000, 3_000]
    assert node.execution(1).error == "not tried again: max_elapsed of 3500 ms is over; the last error was: no route"
    assert node.execution(1).failures == 4


def test_an_execution_that_waited_too_long_for_a_worker_becomes_a_dead_letter_when_its_turn_comes(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    node.create(due_ms=START_MS, max_elapsed_ms=60_000)
    node.create(due_ms=START_MS, max_attempts=9)
    node.fire()
    leased = node.lease(session)
    node.fail(leased.token, [1, 2])
    node.advance(60_001)
    node.fire()
    assert (node.state_of(1), node.state_of(2)) == (PENDING, PENDING)
    assert list(node.lease(session).executions) == [2]
    assert node.state_of(1) == DEAD_LETTER
    assert "max_elapsed of 60000 ms" in node.execution(1).error
    assert node.execution(1).failures == 1


def test_what_was_lost_counts_as_begun(node: Node) -> None:
    session = node.open_session()
    node.run(session, max_elapsed_ms=30_000)
    node.advance(10_001)
    node.tick()
    assert node.state_of(1) == PENDING
    node.advance(19_999)
    leased = node.lease(node.open_session())
    assert list(leased.executions) == [1]
    node.fail(leased.token, [1])
    assert node.state_of(1) == DEAD_LETTER


def test_nothing_elapses_before_the_first_attempt(node: Node) -> None:
    node.create(due_ms=START_MS, max_elapsed_ms=1_000)
    node.fire()
    node.advance(LONG_MS)
    assert list(node.lease(node.open_session()).executions) == [1]


@pytest.mark.parametrize("classes", [["app.Declined", "ValueError"], ["app.Special", "app.Declined"], ["KeyError"]])
def test_an_error_whose_class_or_base_is_not_retried_is_given_up(node: Node, classes: list[str]) -> None:
    leased = node.run(node.open_session(), non_retryable_errors=["app.Declined", "KeyError"])
    end(node, leased.token, error_classes=classes, error="declined")
    assert (node.state_of(1), node.execution(1).error) == (DEAD_LETTER, "declined")


def test_other_errors_are_retried(node: Node) -> None:
    leased = node.run(node.open_session(), non_retryable_errors=["app.Declined"])
    end(node, leased.token, error_classes=["app.DeclinedSoftly", "Exception"])
    assert node.state_of(1) == FAILED


def test_a_run_timeout_is_an_error_of_a_class_too(node: Node) -> None:
    node.run(node.open_session(ttl_ms=80_000), run_timeout_ms=2_000, non_retryable_errors=["raftsched.RunTimeout"])
    node.advance(2_000)
    node.tick()
    assert node.state_of(1) == DEAD_LETTER


def test_the_handler_says_when_to_try_again(node: Node) -> None:
    leased = node.run(node.open_session())
    end(node, leased.token, retry_after_ms=77_000)
    row = node.execution(1)
    assert (row.status, row.failures, row.changed_ms) == (FAILED, 1, START_MS + 77_000)


def test_the_handlers_delay_does_not_reach_beyond_max_elapsed_or_the_last_attempt(node: Node) -> None:
    leased = node.run(node.open_session(), 2, max_elapsed_ms=60_000)
    end(node, leased.token, 1, retry_after_ms=60_001)
    end(node, leased.token, 2, retry_after_ms=60_000)
    assert (node.state_of(1), node.state_of(2)) == (DEAD_LETTER, FAILED)
    last = node.run(node.open_session(), max_attempts=1)
    end(node, last.token, 3, retry_after_ms=1_000)
    assert node.state_of(3) == DEAD_LETTER


def test_a_snooze_runs_again_later_and_uses_no_attempt(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    node.create(due_ms=START_MS, max_attempts=1)
    node.fire()
    for _ in range(50):
        leased = node.lease(session)
        assert list(leased.attempts) == [1]
        assert end(node, leased.token, snooze=True, retry_after_ms=5_000) == []
        row = node.execution(1)
        assert (row.status, row.failures, row.lost_leases) == (SNOOZED, 0, 0)
        assert row.changed_ms == node.now_ms + 5_000
        node.advance(4_999)
        node.fire()
        assert node.state_of(1) == SNOOZED
        node.advance(1)
        node.fire()
        assert node.state_of(1) == PENDING
    leased = node.lease(session)
    node.ack(leased.token, [1])
    assert node.state_of(1) == SUCCEEDED
    assert node.machine.counters.dead_letters == 0


def test_a_snooze_that_is_repeated_changes_nothing(node: Node) -> None:
    leased = node.run(node.open_session())
    end(node, leased.token, snooze=True, retry_after_ms=5_000)
    before = node.dump()
    assert end(node, leased.token, snooze=True, retry_after_ms=5_000) == []
    assert node.dump() == before
    # Nor does any other word on that attempt.
    assert node.ack(leased.token, [1]) == [1]
    assert node.dump() == before


def test_a_snooze_keeps_failures_and_the_time_of_the_first_attempt(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    leased = node.run(session, max_elapsed_ms=60_000, max_attempts=2)
    node.fail(leased.token, [1], error="first")
    node.advance(1_000)
    node.fire()
    leased = node.lease(session)
    end(node, leased.token, snooze=True, retry_after_ms=30_000)
    row = node.execution(1)
    assert (row.status, row.failures, row.attempt, row.error) == (SNOOZED, 1, 2, "first")
    node.advance(30_000)
    node.fire()
    leased = node.lease(session)
    assert list(leased.attempts) == [2]
    end(node, leased.token, snooze=True, retry_after_ms=30_000)
    assert node.state_of(1) == DEAD_LETTER
    assert node.execution(1).error.startswith("not tried again: max_elapsed of 60000 ms is over")


def test_a_job_is_cancelled_while_its_execution_is_put_off(node: Node) -> None:
    leased = node.run(node.open_session())
    end(node, leased.token, snooze=True, retry_after_ms=5_000)
    node.do(command_pb2.CancelJob(job=1))
    assert (node.state_of(1), node.table("due")) == (CANCELLED, [])


def test_what_waits_or_backs_off_never_times_out(node: Node) -> None:
    """Whatever the run timeout says: it counts from a lease on."""
    session = node.open_session(ttl_ms=80_000_000)
    leased = node.run(session, 3, run_timeout_ms=1_000)
    node.fail(leased.token, [1])
    end(node, leased.token, 2, snooze=True, retry_after_ms=BACKOFF_MAX_MS)
    node.release(leased.token, [3])
    node.advance(LONG_MS)
    node.tick()
    assert [node.state_of(execution) for execution in (1, 2, 3)] == [FAILED, SNOOZED, PENDING]
    assert [node.execution(execution).failures for execution in (1, 2, 3)] == [1, 0, 0]


def test_attempt_ten_thousand_waits_the_longest_backoff_and_the_job_is_still_there(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    settings: dict[str, Any] = {"max_attempts": MAX_ATTEMPTS_MAX, "max_backoff_ms": BACKOFF_MAX_MS, "multiplier": 100.0}
    node.create(due_ms=START_MS, **settings)
    node.fire()
    number = keys.pack_id(1)
    # As if it had failed so often: the rest of its life is the real one.
    row = node.store.write.get(number, db=node.store.tables.executions)
    assert row is not None
    failures = MAX_ATTEMPTS_MAX - 2
    row = row[:40] + failures.to_bytes(2, "big") + row[42:44] + failures.to_bytes(2, "big") + row[46:]
    node.store.write.put(number, row + bytes(24), db=node.store.tables.executions)
    leased = node.lease(session)
    assert list(leased.attempts) == [MAX_ATTEMPTS_MAX - 1]
    node.fail(leased.token, [1])
    assert (node.state_of(1), node.execution(1).changed_ms) == (FAILED, node.now_ms + BACKOFF_MAX_MS)
    node.now_ms = node.execution(1).changed_ms
    node.fire()
    leased = node.lease(node.open_session())
    assert list(leased.attempts) == [MAX_ATTEMPTS_MAX]
    node.fail(leased.token, [1])
    assert node.state_of(1) == DEAD_LETTER
    assert node.job(1).last_execution == 1


def test_lost_leases_are_bounded_whatever_is_put_off(node: Node) -> None:
    node.create(due_ms=START_MS)
    node.fire()
    for _ in range(MAX_LOST_LEASES):
        session = node.open_session()
        leased = node.lease(session)
        end(node, leased.token, snooze=True, retry_after_ms=1)
        node.advance(1)
        node.fire()
        node.lease(session)
        node.do(command_pb2.CloseSession(session=session))
    assert node.state_of(1) == DEAD_LETTER
    assert node.execution(1).lost_leases == MAX_LOST_LEASES


@pytest.mark.parametrize(
    ("says", "field"),
    [
        ({"snooze": True}, "failures[0].snooze"),
        ({"snooze": True, "permanent": True, "retry_after_ms": 1}, "failures[0].snooze"),
        ({"retry_after_ms": -1}, "failures[0].retry_after_ms"),
        ({"retry_after_ms": BACKOFF_MAX_MS + 1}, "failures[0].retry_after_ms"),
        ({"error_classes": ["x"] * 17}, "failures[0].error_classes"),
        ({"error_classes": ["x" * 201]}, "failures[0].error_classes"),
    ],
)
def test_what_a_worker_cannot_say_is_refused(node: Node, says: dict[str, Any], field: str) -> None:
    leased = node.run(node.open_session())
    command = command_pb2.Fail()
    command.failures.add(token=leased.token, execution=1, **says)
    assert node.refused(InvalidField, command).field == field


def test_retries_are_the_same_on_every_replica(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    node.create(3, due_ms=START_MS, backoff_jitter=1.0, max_elapsed_ms=10 * MINUTE_MS)
    for _ in range(4):
        node.fire()
        leased = node.lease(session)
        for execution in leased.executions:
            snooze = execution == 2
            end(node, leased.token, execution, snooze=snooze, retry_after_ms=50 if snooze else 0)
        node.advance(5_000)
    other = replayed(node, tmp_path_factory.mktemp("other"), commit_after=(2, 5))
    assert other.dump() == node.dump()
    assert other.machine.digest == node.machine.digest
    other.machine.close()
