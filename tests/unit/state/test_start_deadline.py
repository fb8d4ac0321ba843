"""Start deadlines: what no worker has taken in time never starts."""

from raftsched.state.results import Leased
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import CANCELLED, MINUTE_MS, PENDING, RUNNING, START_MS, SUCCEEDED, Node

DEADLINE = execution_pb2.SKIP_REASON_START_DEADLINE
LATE = 10_000


def test_an_execution_that_nobody_takes_is_recorded_without_a_worker(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, start_deadline_ms=LATE)
    node.fire()
    assert node.machine.next_deadline_ms() == START_MS + LATE
    node.advance(LATE)
    node.tick()
    (execution,) = node.executions_of(job)
    assert (execution.status, execution.attempt) == (CANCELLED, 0)
    assert node.skipped(job) == [(START_MS, START_MS, 1, DEADLINE)]
    assert node.machine.next_deadline_ms() is None
    node.check()


def test_a_lease_that_comes_too_late_gets_nothing(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS, start_deadline_ms=LATE)
    (other,) = node.create(due_ms=START_MS)
    node.fire()
    session = node.open_session(ttl_ms=100_000)
    node.advance(LATE)
    leased = node.lease(session)
    assert [node.execution(number).job for number in leased.executions] == [other]
    assert node.skipped(job) == [(START_MS, START_MS, 1, DEADLINE)]
    node.tick()
    node.check()


def test_what_has_started_is_never_too_late(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS, start_deadline_ms=LATE, initial_backoff_ms=1_000)
    node.fire()
    session = node.open_session(ttl_ms=1_000_000)
    node.advance(LATE - 1)
    leased = node.lease(session)
    assert isinstance(leased, Leased)
    node.fail(leased.token, leased.executions)
    node.advance(5_000)
    node.tick()
    node.fire()
    assert node.executions_of(job)[0].status == PENDING
    again = node.lease(session)
    assert again.executions == leased.executions
    node.start(again.token, again.executions)
    node.advance(MINUTE_MS)
    node.tick()
    assert node.executions_of(job)[0].status == RUNNING
    node.ack(again.token, again.executions)
    assert node.skipped(job) == []
    assert node.executions_of(job)[0].status == SUCCEEDED


def test_an_occurrence_that_fires_too_late_has_no_execution(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, start_deadline_ms=LATE)
    node.advance(LATE)
    node.fire()
    assert node.executions_of(job) == []
    assert node.skipped(job) == [(START_MS, START_MS, 1, DEADLINE)]
    node.check()


def test_a_one_off_that_fires_too_late_is_cancelled(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS, start_deadline_ms=LATE, names=["n"])
    node.advance(LATE)
    node.fire()
    assert node.job(job).state == rows.JOB_FIRED
    (execution,) = node.executions_of(job)
    assert execution.status == CANCELLED
    assert node.skipped(job) == [(START_MS, START_MS, 1, DEADLINE)]
    node.check()


def test_the_deadline_also_counts_in_the_overlap_queue(node: Node) -> None:
    (job,) = node.create(
        every_ms=MINUTE_MS, due_ms=START_MS, start_deadline_ms=LATE, overlap=job_pb2.OVERLAP_POLICY_QUEUE
    )
    node.fire()
    leased = node.lease(node.open_session(ttl_ms=1_000_000))
    node.advance(MINUTE_MS)
    node.fire()
    prefix = keys.extra(keys.pack_id(job), keys.EXTRA_WAITING)
    assert [key for key, _ in node.table("extras") if key.startswith(prefix)]
    node.advance(LATE)
    node.tick()
    assert node.table("extras") == []
    assert node.skipped(job) == [(START_MS + MINUTE_MS, START_MS + MINUTE_MS, 1, DEADLINE)]
    node.ack(leased.token, leased.executions)
    assert len(node.executions_of(job)) == 1
