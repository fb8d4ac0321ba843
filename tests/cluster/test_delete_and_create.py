"""Names that are given up and taken again all the time: whoever asks sees the last write, on every node."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc

from raftsched.v1 import job_pb2
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms

# Side by side, so that they share the rounds of the quorum.
NAMES = 5
ROUNDS = 200


def test_jobs_are_deleted_and_created_again_under_their_names_a_thousand_times(calm_cluster: Cluster) -> None:
    names = [f"again-{uuid.uuid4().hex[:8]}" for _ in range(NAMES)]
    with ThreadPoolExecutor(NAMES) as pool:
        for done in [pool.submit(delete_and_create, calm_cluster, name) for name in names]:
            done.result()


def delete_and_create(cluster: Cluster, name: str) -> None:
    """Through another node each time."""
    job = job_pb2.Job(handler="h", name=name, run_at=timestamp(now_ms() + 3_600_000))
    read = job_pb2.GetJobRequest(name=job_pb2.JobName(name=name), read=job_pb2.ReadOptions(linearizable=True))
    nodes = cluster.api.nodes
    for number in range(ROUNDS):
        create = job_pb2.CreateJobRequest(job=job, request_id=f"{name}-{number}")
        created = nodes[number % 3].jobs.CreateJob(create, timeout=30).job.id
        found = [node.jobs.GetJob.future(read, timeout=30) for node in nodes]
        assert [call.result().job.id for call in found] == [created] * 3
        nodes[(number + 1) % 3].jobs.DeleteJob(job_pb2.DeleteJobRequest(id=created), timeout=30)
        gone = [node.jobs.GetJob.future(read, timeout=30) for node in nodes]
        assert [call.exception().code() for call in gone] == [grpc.StatusCode.NOT_FOUND] * 3
