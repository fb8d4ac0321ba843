"""Executions that ran out of attempts: kept with their error, and replayed once however often that is asked."""

import uuid

import grpc
import pytest

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.api import error_of
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms, until
from tests.cluster.raw_worker import RawWorker


def failing_job(max_attempts: int) -> job_pb2.Job:
    job = job_pb2.Job(handler="failing", queue=f"dead-{uuid.uuid4().hex[:8]}", run_at=timestamp(now_ms()))
    job.namespace = f"n-{uuid.uuid4().hex[:8]}"
    job.retry.max_attempts = max_attempts
    job.retry.initial_backoff.FromMilliseconds(100)
    return job


def dead_letters(cluster: Cluster, namespace: str) -> list[execution_pb2.DeadLetter]:
    request = execution_pb2.ListDeadLettersRequest(namespace=namespace, read=job_pb2.ReadOptions(linearizable=True))
    return list(cluster.api.call(lambda n: n.executions.ListDeadLetters(request, timeout=10)).dead_letters)


def test_attempts_that_ran_out_end_among_the_dead_letters_and_a_replay_runs_once(calm_cluster: Cluster) -> None:
    job = failing_job(max_attempts=3)
    job_id = calm_cluster.api.create(job).job.id
    with RawWorker(calm_cluster.node(1)) as worker:
        worker.hello("failing", job.queue)
        worker.credit(10)
        tokens = []
        for attempt in (1, 2, 3):
            lease = worker.lease()
            assert list(lease.attempts or [1]) == [attempt]
            assert not worker.fail(lease.token, lease.execution_ids[0], f"attempt {attempt} failed").stale_execution_ids
            tokens.append(lease.token)
        assert tokens == sorted(set(tokens))
        (letter,) = dead_letters(calm_cluster, job.namespace)
        assert (letter.execution.job_id, letter.execution.attempt) == (job_id, 3)
        assert letter.execution.error == "attempt 3 failed"

        # Asked through every node at once, as an impatient operator may.
        replays = [
            node.executions.ReplayDeadLetters.future(
                execution_pb2.ReplayDeadLettersRequest(
                    execution_ids=[letter.execution.id], request_id=uuid.uuid4().hex
                ),
                timeout=15,
            )
            for node in calm_cluster.api.nodes
        ]
        (replayed,) = {tuple(replay.result().new_execution_ids) for replay in replays}
        lease = worker.lease()
        assert tuple(lease.execution_ids) == replayed
        assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids

    executions = calm_cluster.api.executions(job_id)
    assert [execution.state for execution in executions] == [
        execution_pb2.EXECUTION_STATE_DEAD_LETTER,
        execution_pb2.EXECUTION_STATE_SUCCEEDED,
    ]
    assert (executions[0].replayed_as,) == replayed
    assert executions[0].scheduled_for == executions[1].scheduled_for
    assert not dead_letters(calm_cluster, job.namespace)


def test_only_dead_letters_can_be_replayed(calm_cluster: Cluster) -> None:
    job = failing_job(max_attempts=1)
    job_id = calm_cluster.api.create(job).job.id
    (execution,) = until(lambda: calm_cluster.api.executions(job_id), "it has fired")
    request = execution_pb2.ReplayDeadLettersRequest(execution_ids=[execution.id])
    with pytest.raises(grpc.RpcError) as refused:
        calm_cluster.node(1).executions.ReplayDeadLetters(request, timeout=10)
    assert error_of(refused.value)[:2] == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_DEAD_LETTER")
