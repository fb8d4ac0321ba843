import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import (
    IdempotencyConflict,
    InvalidField,
    JobNotFound,
    JobStateForbids,
    OverlapRefused,
)
from raftsched.state.results import Replayed, Triggered
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import CANCELLED, MINUTE_MS, PENDING, START_MS, Node, minutely

TRIGGER = execution_pb2.EXECUTION_CAUSE_TRIGGER
OVERLAP = execution_pb2.SKIP_REASON_OVERLAP
SKIP = job_pb2.OVERLAP_POLICY_SKIP
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
REPLACE = job_pb2.OVERLAP_POLICY_REPLACE


def trigger(job: int, **fields: object) -> command_pb2.TriggerJob:
    return command_pb2.TriggerJob(job=job, **fields)


def test_it_runs_now_and_the_schedule_goes_on(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    node.advance(1_234)
    assert node.do(trigger(job)) == Triggered(1, START_MS + 1_234, skipped=False)
    row = node.execution(1)
    assert (row.status, row.scheduled_for_ms, row.cause) == (PENDING, START_MS + 1_234, TRIGGER)
    leased = node.lease(node.open_session())
    assert list(leased.executions) == [1]
    node.ack(leased.token, [1])
    node.now_ms = START_MS + MINUTE_MS
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [START_MS + MINUTE_MS, START_MS + 1_234]
    node.check()


def test_each_trigger_has_a_time_of_its_own_that_no_tick_has(node: Node) -> None:
    node.create(ticks_ms=minutely(5), overlap=ALLOW)
    node.create(every_ms=1_500, due_ms=START_MS + 1_500, overlap=ALLOW)
    node.create(due_ms=START_MS + MINUTE_MS)
    node.now_ms = START_MS + MINUTE_MS
    for job in (1, 2, 3):
        times = [node.want(Triggered, trigger(job)).scheduled_for_ms for _ in range(3)]
        assert times == [node.now_ms + 1, node.now_ms + 2, node.now_ms + 3]
    node.check()


def test_a_paused_job_a_finished_one_off_and_one_that_waits_can_be_triggered(node: Node) -> None:
    session = node.open_session()
    node.run(session)
    node.ack(node.machine.sessions and node.execution(1).token, [1])
    (paused,) = node.create(ticks_ms=minutely(5))
    node.do(command_pb2.PauseJob(job=paused))
    (waiting,) = node.create(due_ms=START_MS + MINUTE_MS)
    for job in (1, paused, waiting):
        started = node.want(Triggered, trigger(job))
        assert node.execution(started.execution).job == job
        node.check()
    assert node.job(paused).state == rows.JOB_PAUSED
    node.advance(MINUTE_MS)
    node.fire()
    assert len(node.executions_of(waiting)) == 2
    node.check()


def test_a_cancelled_job_cannot_be_triggered(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    node.do(command_pb2.CancelJob(job=job))
    node.refused(JobStateForbids, trigger(job))
    node.refused(JobNotFound, trigger(7))
    node.refused(InvalidField, trigger(job, payload=bytes(256 * 1024 + 1)))


def test_on_a_running_skip_job_it_is_recorded_as_skipped(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS)
    node.fire()
    node.lease(session)
    node.advance(10)
    assert node.do(trigger(job)) == Triggered(0, START_MS + 10, skipped=True)
    assert node.skipped(job) == [(START_MS + 10, START_MS + 10, 1, OVERLAP)]
    assert len(node.executions_of(job)) == 1
    node.check()


def test_it_is_refused_instead_if_the_caller_asks_for_that(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS)
    node.fire()
    node.refused(OverlapRefused, trigger(job, refuse_overlap=True))
    assert node.skipped(job) == []
    started = node.want(Triggered, trigger(job, ignore_overlap=True))
    assert node.state_of(started.execution) == PENDING
    node.check()


def test_it_waits_in_the_overlap_queue_with_its_payload(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, overlap=QUEUE, overlap_limit=5, payloads=[b"job's"])
    node.fire()
    leased = node.lease(session)
    node.advance(10)
    assert node.do(trigger(job, payload=b"own")) == Triggered(0, START_MS + 10, skipped=False)
    node.check()
    node.ack(leased.token, leased.executions)
    again = node.lease(session)
    assert (list(again.payloads), list(again.scheduled_for_ms)) == ([b"own"], [START_MS + 10])
    node.check()


def test_it_replaces_what_runs(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, overlap=REPLACE)
    node.fire()
    node.lease(session)
    node.do(trigger(job))
    assert [row.status for row in node.executions_of(job)] == [PENDING, CANCELLED]
    node.check()


def test_a_payload_is_for_that_execution_only(node: Node) -> None:
    session = node.open_session()
    node.create(2, every_ms=MINUTE_MS, overlap=ALLOW, payloads=[b"one", b"two"])
    node.fire()
    node.do(trigger(1, payload=b"other"))
    node.do(trigger(2, payload=b""))
    node.do(trigger(1))
    leased = node.lease(session)
    assert dict(zip(leased.executions, leased.payloads, strict=True)) == {
        1: b"one",
        2: b"two",
        3: b"other",
        4: b"",
        5: b"one",
    }


def test_a_replay_has_the_payload_of_what_it_replays(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(due_ms=START_MS + MINUTE_MS, payloads=[b"job's"])
    node.do(trigger(job, payload=b"own"))
    leased = node.lease(session)
    node.fail(leased.token, [1], permanent=True)
    node.want(Replayed, command_pb2.ReplayDeadLetters(executions=keys.pack_id(1)))
    assert list(node.lease(session).payloads) == [b"own"]


def test_the_same_key_starts_one_execution(node: Node) -> None:
    jobs = node.create(2, every_ms=MINUTE_MS, due_ms=START_MS + MINUTE_MS, overlap=ALLOW)
    first = node.do(trigger(jobs[0], key="k", payload=b"p"))
    node.advance(5_000)
    before = node.dump()
    assert node.do(trigger(jobs[0], key="k", payload=b"p")) == first
    assert node.dump() == before
    node.refused(IdempotencyConflict, trigger(jobs[0], key="k"))
    node.refused(IdempotencyConflict, trigger(jobs[0], key="k", payload=b"q"))
    # Keys are the job's own, and no keys of creates.
    assert node.do(trigger(jobs[1], key="k", payload=b"p")) != first
    node.create(key="k")


@pytest.mark.parametrize("policy", [SKIP, ALLOW, QUEUE, REPLACE])
def test_ignoring_the_policy_runs_it_beside_what_runs(node: Node, policy: int) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, overlap=policy, overlap_limit=1)
    node.fire()
    node.lease(session)
    started = node.want(Triggered, trigger(job, ignore_overlap=True))
    assert list(node.lease(session).executions) == [started.execution]
    node.check()
