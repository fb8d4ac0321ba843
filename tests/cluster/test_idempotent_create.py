"""One request id is one job, however often and wherever it is asked for."""

import uuid

import grpc
import pytest

from raftsched.v1 import job_pb2
from tests.cluster.api import RETRYABLE, error_of
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms


def future_job(handler: str) -> job_pb2.Job:
    return job_pb2.Job(handler=handler, run_at=timestamp(now_ms() + 3_600_000))


def test_a_thousand_concurrent_creates_with_one_key_over_all_nodes_make_one_job(calm_cluster: Cluster) -> None:
    handler = f"concurrent-{uuid.uuid4().hex[:8]}"
    request = job_pb2.CreateJobRequest(job=future_job(handler), request_id=uuid.uuid4().hex)
    nodes = calm_cluster.api.nodes
    calls = [nodes[index % 3].jobs.CreateJob.future(request, timeout=30) for index in range(1_000)]
    answers = []
    for call in calls:
        try:
            answers.append(call.result())
        except grpc.RpcError as error:
            # A node may say that it has too much to do, never anything else.
            if error.code() not in RETRYABLE:
                raise
            answers.append(calm_cluster.api.create(request.job, request.request_id))
    assert len({answer.job.id for answer in answers}) == 1
    assert sum(not answer.existed for answer in answers) == 1
    assert [job.id for job in calm_cluster.api.list_jobs(handler=handler)] == [answers[0].job.id]


def test_the_same_key_for_another_job_is_refused_with_the_difference_named(calm_cluster: Cluster) -> None:
    key = uuid.uuid4().hex
    job = future_job("first")
    calm_cluster.api.create(job, key)
    job.priority = 7
    with pytest.raises(grpc.RpcError) as refused:
        calm_cluster.api.create(job, key)
    code, reason, _ = error_of(refused.value)
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")
    assert "priority" in str(refused.value)


def test_a_batch_with_one_key_is_made_once_and_a_taken_name_undoes_all_of_it(calm_cluster: Cluster) -> None:
    handler = f"batch-{uuid.uuid4().hex[:8]}"
    key = uuid.uuid4().hex
    jobs = [future_job(handler) for _ in range(100)]
    first = calm_cluster.api.create_batch(jobs, key)
    assert list(calm_cluster.api.create_batch(jobs, key)) == list(first)

    named = [future_job(handler) for _ in range(50)]
    named[17].name = named[33].name = f"{handler}-twice"
    with pytest.raises(grpc.RpcError) as refused:
        calm_cluster.api.create_batch(named)
    code, _, fields = error_of(refused.value)
    assert code in (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.INVALID_ARGUMENT)
    assert fields == ["jobs[33].name"]
    assert len(calm_cluster.api.list_jobs(handler=handler)) == 100


def test_what_one_node_confirmed_the_others_show_when_asked_to(calm_cluster: Cluster) -> None:
    """Linearizable reads, and reads at the index that the create was answered with."""
    for index in range(20):
        created = calm_cluster.api.create(future_job("read-back"), node=calm_cluster.api.nodes[index % 3])
        other = calm_cluster.api.nodes[(index + 1) % 3]
        for read in (job_pb2.ReadOptions(linearizable=True), job_pb2.ReadOptions(min_index=created.index)):
            answer = other.jobs.GetJob(job_pb2.GetJobRequest(id=created.job.id, read=read), timeout=10)
            assert answer.job.id == created.job.id
            assert answer.index >= created.index
