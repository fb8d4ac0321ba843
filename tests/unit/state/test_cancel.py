import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import JobFinished, JobNotFound, JobRunning
from raftsched.state import cancel as cancelling
from raftsched.state.results import CancelNeedsWorker, JobCancelled
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import (
    ALL_SHARDS,
    CANCELLED,
    FAILED,
    LEASED,
    MINUTE_MS,
    START_MS,
    SUCCEEDED,
    Node,
    minutely,
)

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW


def cancel(job: int, dropped_token: int = 0) -> command_pb2.CancelJob:
    return command_pb2.CancelJob(job=job, dropped_token=dropped_token)


def test_a_job_that_waits_never_fires(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS + 1_000)
    assert node.do(cancel(job)) == JobCancelled(job)
    assert (node.job(job).state, node.job(job).cancelled_ms) == (rows.JOB_CANCELLED, START_MS)
    assert node.machine.next_due_ms(ALL_SHARDS) is None
    assert node.skipped(job) == []


def test_cancelling_again_changes_nothing(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS + 1_000)
    node.do(cancel(job))
    node.advance(500)
    before = node.dump()
    assert node.do(cancel(job)) == JobCancelled(job)
    assert node.dump() == before


def test_an_unknown_job_is_not_found(node: Node) -> None:
    node.create()
    for job in (0, 2, keys.MAX_ID):
        assert node.refused(JobNotFound, cancel(job)).metadata == {"job": str(job)}


def test_a_pending_execution_is_taken_out_of_the_ready_queue(node: Node) -> None:
    jobs = node.create(5)
    node.fire()
    for place in (2, 0, 4):
        assert node.do(cancel(jobs[place])) == JobCancelled(jobs[place])
        node.check()
    assert [node.state_of(number) for number in (1, 3, 5)] == [CANCELLED] * 3
    assert list(node.lease(node.open_session()).executions) == [2, 4]


def test_a_backoff_is_ended(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1])
    assert node.state_of(1) == FAILED
    assert node.do(cancel(1)) == JobCancelled(1)
    row = node.execution(1)
    assert (row.status, row.error, row.changed_ms) == (CANCELLED, "boom", 0)
    assert node.table("due") == []


def test_a_leased_execution_is_for_its_worker_to_say(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    before = node.dump()
    assert node.do(cancel(1)) == CancelNeedsWorker(1, 1, leased.token, session)
    assert node.dump() == before


def test_an_execution_that_its_worker_dropped_is_cancelled(node: Node) -> None:
    leased = node.run(node.open_session(), 3)
    assert node.do(cancel(2, leased.token)) == JobCancelled(2)
    assert [node.state_of(number) for number in (1, 2, 3)] == [LEASED, CANCELLED, LEASED]
    assert node.ack(leased.token, [1, 2, 3]) == [2]


def test_what_was_dropped_under_an_older_lease_is_asked_for_again(node: Node) -> None:
    session = node.open_session()
    first = node.run(session)
    node.release(first.token, [1])
    second = node.lease(session)
    assert node.do(cancel(1, first.token)) == CancelNeedsWorker(1, 1, second.token, session)


def test_a_running_execution_refuses(node: Node) -> None:
    leased = node.run(node.open_session())
    node.start(leased.token, [1])
    error = node.refused(JobRunning, cancel(1))
    assert error.metadata == {"job": "1", "execution": "1"}
    node.refused(JobRunning, cancel(1, leased.token))


def test_a_finished_one_off_refuses(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    node.ack(leased.token, [1])
    node.refused(JobFinished, cancel(1))
    leased = node.run(session)
    node.fail(leased.token, [2], permanent=True)
    node.refused(JobFinished, cancel(2))


def test_a_recurring_job_is_never_finished(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    session = node.open_session(ttl_ms=1_000_000)
    node.advance(MINUTE_MS)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    assert node.do(cancel(job)) == JobCancelled(job)
    assert node.state_of(1) == SUCCEEDED
    assert node.machine.next_due_ms(ALL_SHARDS) is None


def test_a_starved_job_is_cancelled(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(1))
    node.advance(MINUTE_MS)
    node.fire()
    assert node.job(job).state == rows.JOB_STARVED
    assert node.do(cancel(job)) == JobCancelled(job)
    assert node.table("starved") == []


def test_a_jittered_job_is_found_in_due(node: Node) -> None:
    for job in node.create(20, due_ms=START_MS + 5, jitter_ms=60_000):
        node.do(cancel(job))
    assert node.table("due") == []


def test_an_overdue_occurrence_is_recorded_as_skipped(node: Node) -> None:
    (one_off,) = node.create(due_ms=START_MS)
    (recurring,) = node.create(ticks_ms=minutely(10))
    node.advance(3 * MINUTE_MS)
    for job in (one_off, recurring):
        node.do(cancel(job))
    reason = execution_pb2.SKIP_REASON_CANCELLED
    assert node.skipped(one_off) == [(START_MS, START_MS, 1, reason)]
    assert node.skipped(recurring) == [(START_MS + MINUTE_MS, START_MS + 3 * MINUTE_MS, 3, reason)]


def overlapping(node: Node) -> tuple[int, int]:
    """A job with three executions, the middle one leased; and the session that holds it."""
    (job,) = node.create(ticks_ms=minutely(10), overlap=ALLOW)
    session = node.open_session(ttl_ms=1_000_000)
    for _ in range(3):
        node.advance(MINUTE_MS)
        node.fire()
    first = node.lease(session, 1)
    node.lease(session, 1)
    node.fail(first.token, [1])
    return job, session


def test_every_execution_under_way_is_cancelled(node: Node) -> None:
    job, session = overlapping(node)
    answer = node.do(cancel(job))
    assert isinstance(answer, CancelNeedsWorker)
    assert (answer.execution, answer.session) == (2, session)
    assert node.do(cancel(job, answer.token)) == JobCancelled(job)
    assert [node.state_of(number) for number in (1, 2, 3)] == [CANCELLED] * 3


def test_one_running_execution_of_several_refuses(node: Node) -> None:
    job, _ = overlapping(node)
    node.start(node.execution(2).token, [2])
    node.refused(JobRunning, cancel(job))


def test_an_answer_of_the_worker_that_comes_late_finds_the_job_running(node: Node) -> None:
    leased = node.run(node.open_session())
    node.do(cancel(1))
    node.start(leased.token, [1])
    node.refused(JobRunning, cancel(1, leased.token))
    assert node.ack(leased.token, [1]) == []
    node.refused(JobFinished, cancel(1, leased.token))


def test_what_one_command_cannot_look_at_is_cancelled_when_its_turn_comes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "MAX_EXECUTIONS", 2)
    (job,) = node.create(ticks_ms=minutely(10), overlap=ALLOW)
    for _ in range(5):
        node.advance(MINUTE_MS)
        node.fire()
    assert node.do(command_pb2.CancelJob(job=job)) == JobCancelled(job)
    node.machine.commit()
    node.reopen()
    session = node.open_session()
    assert list(node.lease(session).executions) == []
    assert {row.status for row in node.executions_of(job)} == {CANCELLED}
    assert node.machine.ready_by_queue.get("default", 0) == 0
