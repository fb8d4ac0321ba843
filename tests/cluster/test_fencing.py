"""One valid lease per execution: what a stale token may not do, spoken over bare worker streams."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pytest

from raftsched.v1 import execution_pb2, job_pb2, worker_pb2
from tests.cluster.api import error_of
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms, until
from tests.cluster.raw_worker import Message, RawWorker


@pytest.fixture
def streams() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def queued_jobs(cluster: Cluster, count: int = 1, **fields: int) -> tuple[str, list[int]]:
    """Jobs due now in a queue of their own, which no other worker serves."""
    queue = f"raw-{uuid.uuid4().hex[:8]}"
    job = job_pb2.Job(handler="raw", queue=queue, run_at=timestamp(now_ms()))
    if "run_timeout_ms" in fields:
        job.run_timeout.FromMilliseconds(fields["run_timeout_ms"])
    return queue, list(cluster.api.create_batch([job] * count))


def only_execution(cluster: Cluster, job_id: int) -> execution_pb2.Execution:
    (execution,) = cluster.api.executions(job_id)
    return execution


def state_of(cluster: Cluster, job_id: int) -> str:
    executions = cluster.api.executions(job_id)
    return (
        execution_pb2.ExecutionState.Name(executions[-1].state).removeprefix("EXECUTION_STATE_") if executions else ""
    )


def test_a_stale_token_is_refused_and_the_worker_is_told(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    first = streams.enter_context(RawWorker(calm_cluster.node(1)))
    first.hello("silent", queue)
    first.credit(1)
    lease = first.lease()
    (execution_id,) = lease.execution_ids

    # It never sends a heartbeat; its session ends, and the stream says so.
    assert first.receive("session_lost", 30.0).session_lost.reason
    second = streams.enter_context(RawWorker(calm_cluster.node(2)))
    second.hello("heir", queue)
    second.credit(1)
    new_lease = second.lease()
    assert list(new_lease.execution_ids) == [execution_id]
    assert new_lease.token > lease.token

    returned = streams.enter_context(RawWorker(calm_cluster.node(3)))
    returned.hello("silent", queue)
    assert list(returned.ack(lease.token, execution_id).stale_execution_ids) == [execution_id]
    assert list(returned.fail(lease.token, execution_id, "too late").stale_execution_ids) == [execution_id]
    assert state_of(calm_cluster, job_id) == "LEASED"

    assert not second.ack(new_lease.token, execution_id).stale_execution_ids
    assert list(returned.ack(lease.token, execution_id).stale_execution_ids) == [execution_id]
    execution = only_execution(calm_cluster, job_id)
    assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
    assert (execution.token, execution.lost_leases, execution.attempt) == (new_lease.token, 1, 1)


def test_a_duplicate_ack_is_confirmed_again_through_any_node(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    worker = streams.enter_context(RawWorker(calm_cluster.node(1)))
    session = worker.hello("repeater", queue).session
    worker.credit(1)
    lease = worker.lease()
    assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
    before = only_execution(calm_cluster, job_id)
    assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
    for number in (2, 3):
        other = streams.enter_context(RawWorker(calm_cluster.node(number)))
        other.hello("repeater", queue, session)
        assert not other.ack(lease.token, *lease.execution_ids).stale_execution_ids
    assert only_execution(calm_cluster, job_id) == before
    assert before.state == execution_pb2.EXECUTION_STATE_SUCCEEDED


def test_one_ack_may_hold_stale_and_valid_executions(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, job_ids = queued_jobs(calm_cluster, 3)
    worker = streams.enter_context(RawWorker(calm_cluster.node(1)))
    worker.hello("mixed", queue)
    worker.credit(3)
    leases: dict[int, int] = {}
    while len(leases) < 3:
        batch = worker.lease()
        leases.update(dict.fromkeys(batch.execution_ids, batch.token))
    executions = list(leases)
    unknown = 1 << 60
    assert list(worker.ack(leases[executions[0]], unknown, executions[0]).stale_execution_ids) == [unknown]
    assert list(worker.ack(1, *executions[1:]).stale_execution_ids) == executions[1:]
    assert sorted(state_of(calm_cluster, job_id) for job_id in job_ids) == ["LEASED", "LEASED", "SUCCEEDED"]


def test_a_lease_that_did_not_arrive_is_given_to_another(calm_cluster: Cluster, streams: ExitStack) -> None:
    """A worker whose heartbeats do not list a lease does not know of it."""
    queue, (job_id,) = queued_jobs(calm_cluster)
    forgetful = streams.enter_context(RawWorker(calm_cluster.node(1)))
    forgetful.hello("forgetful", queue)
    forgetful.credit(1)
    lease = forgetful.lease()

    def given_back() -> bool:
        forgetful.heartbeat()
        return state_of(calm_cluster, job_id) == "PENDING"

    until(given_back, "the lease is given back", every_s=0.3)
    forgetful.credit(2)
    again = forgetful.lease()
    assert list(again.execution_ids) == list(lease.execution_ids)
    assert again.token > lease.token
    assert list(forgetful.ack(lease.token, *lease.execution_ids).stale_execution_ids) == list(lease.execution_ids)
    assert not forgetful.ack(again.token, *again.execution_ids).stale_execution_ids


def test_heartbeats_keep_a_lease_beyond_the_session_ttl(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    worker = streams.enter_context(RawWorker(calm_cluster.node(2)))
    welcome = worker.hello("faithful", queue)
    worker.credit(1)
    lease = worker.lease()
    end_ms = now_ms() + 2 * welcome.session_ttl_ms

    def held_long_enough() -> bool:
        worker.heartbeat(lease.token)
        return now_ms() > end_ms

    until(held_long_enough, "twice the session's ttl has passed", every_s=welcome.heartbeat_interval_ms / 1000)
    assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
    assert only_execution(calm_cluster, job_id).lost_leases == 0


def test_a_run_timeout_ends_the_lease_and_tells_the_worker(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster, run_timeout_ms=1_000)
    worker = streams.enter_context(RawWorker(calm_cluster.node(3)))
    worker.hello("slow", queue)
    worker.credit(1)
    lease = worker.lease()
    cancel = worker.receive("cancel_execution").cancel_execution
    assert (cancel.execution_id, cancel.token) == (lease.execution_ids[0], lease.token)
    assert cancel.reason == worker_pb2.CANCEL_REASON_RUN_TIMEOUT
    assert list(worker.ack(lease.token, *lease.execution_ids).stale_execution_ids) == list(lease.execution_ids)
    assert "timeout" in only_execution(calm_cluster, job_id).error


def test_cancel_is_refused_while_the_execution_runs_and_harmless_when_repeated(
    calm_cluster: Cluster, streams: ExitStack
) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    worker = streams.enter_context(RawWorker(calm_cluster.node(1)))
    worker.hello("runner", queue)
    worker.credit(1)
    lease = worker.lease()
    started = worker_pb2.LeasedExecutions(token=lease.token, execution_ids=lease.execution_ids)
    worker.send(Message(started=worker_pb2.Started(leases=[started], started_ms=now_ms())))
    until(lambda: state_of(calm_cluster, job_id) == "RUNNING", "it is RUNNING")
    with pytest.raises(grpc.RpcError) as refused:
        calm_cluster.api.cancel(job_id)
    assert error_of(refused.value)[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
    assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids

    _, (waiting,) = queued_jobs(calm_cluster)
    for _ in range(2):
        assert calm_cluster.api.cancel(waiting).state == job_pb2.JOB_STATE_CANCELLED


@pytest.mark.parametrize("begun", [False, True])
def test_cancel_of_a_leased_execution_asks_its_worker(calm_cluster: Cluster, streams: ExitStack, begun: bool) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    worker = streams.enter_context(RawWorker(calm_cluster.node(2)))
    worker.hello("asked", queue)
    worker.credit(1)
    lease = worker.lease()
    request = job_pb2.CancelJobRequest(id=job_id, request_id=uuid.uuid4().hex)
    call = calm_cluster.node(2).jobs.CancelJob.future(request, timeout=15)
    question = worker.receive("cancel_execution").cancel_execution
    assert question.token == lease.token
    assert question.question
    worker.send(Message(cancel_answer=worker_pb2.CancelAnswer(question=question.question, begun=begun)))
    if begun:
        with pytest.raises(grpc.RpcError) as refused:
            call.result()
        assert error_of(refused.value)[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
        assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
    else:
        assert call.result().job.state == job_pb2.JOB_STATE_CANCELLED
        assert list(worker.ack(lease.token, *lease.execution_ids).stale_execution_ids) == list(lease.execution_ids)


def test_cancel_at_a_node_that_cannot_ask_the_worker_is_refused(calm_cluster: Cluster, streams: ExitStack) -> None:
    queue, (job_id,) = queued_jobs(calm_cluster)
    worker = streams.enter_context(RawWorker(calm_cluster.node(2)))
    worker.hello("elsewhere", queue)
    worker.credit(1)
    lease = worker.lease()
    with pytest.raises(grpc.RpcError) as refused:
        calm_cluster.api.cancel(job_id, calm_cluster.node(1))
    assert error_of(refused.value)[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
    assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
