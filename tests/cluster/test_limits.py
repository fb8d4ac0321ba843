"""A tenant with far more to do than its limit lets through, beside one that has a single job now and then."""

import uuid

from raftsched.v1 import limit_pb2, limit_pb2_grpc
from tests.checker import Run
from tests.cluster.harness import Cluster
from tests.cluster.ledger import recorded_job, timestamp
from tests.cluster.processes import now_ms, until

# More than pumps let become ready while workers could use it.
BACKLOG = 20_000
BATCH = 10_000
PROBES = 5
STARTS_WITHIN_MS = 1_000


def put_limit(cluster: Cluster, **fields: object) -> None:
    limit = limit_pb2.Limit(**fields)  # type: ignore[arg-type]
    request = limit_pb2.PutLimitRequest(limit=limit, request_id=uuid.uuid4().hex)
    cluster.api.call(lambda node: limit_pb2_grpc.LimitServiceStub(node.channel).PutLimit(request, timeout=10))


def create(cluster: Cluster, tenant: str, keys: list[str], sleep_ms: int) -> int:
    """One-offs that are due at once; when they were asked for."""
    jobs = []
    for key in keys:
        job = recorded_job(key, sleep_ms=sleep_ms)
        job.tenant = tenant
        job.run_at.CopyFrom(timestamp(1))
        jobs.append(job)
    asked_ms = now_ms()
    cluster.api.create_batch(jobs)
    return asked_ms


def started_ms(cluster: Cluster, key: str) -> int:
    """When the job began, once it has."""
    runs = until(lambda: [run for run in cluster.runs() if run.key == key], f"{key} has started")
    return runs[0].started_ms


def most_at_once(runs: list[Run]) -> int:
    """How many of these overlapped at most, in the eyes of who ran them."""
    moments = [(run.started_ms, 1) for run in runs] + [(run.ended_ms, -1) for run in runs if run.ended_ms is not None]
    under_way = most = 0
    for _, change in sorted(moments):
        under_way += change
        most = max(most, under_way)
    return most


def test_a_tenants_job_starts_within_a_second_beside_thousands_of_another(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name, "--concurrency=8")
    put_limit(cluster, scope=limit_pb2.LIMIT_SCOPE_TENANT, name="noisy", concurrency=1)
    for first in range(0, BACKLOG, BATCH):
        create(cluster, "noisy", [f"noisy-{number}" for number in range(first, first + BATCH)], sleep_ms=50)

    delays_ms = []
    for probe in range(PROBES):
        asked_ms = create(cluster, "quiet", [f"quiet-{probe}"], sleep_ms=0)
        delays_ms.append(started_ms(cluster, f"quiet-{probe}") - asked_ms)
    # The machine may be busy with other things once, but not every time.
    assert min(delays_ms) <= STARTS_WITHIN_MS, delays_ms

    runs = cluster.runs()
    noisy = [run for run in runs if run.key.startswith("noisy")]
    assert 1 <= len(noisy) < BACKLOG
    assert most_at_once(noisy) == 1
