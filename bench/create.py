"""Creating jobs: how long one durable create takes, how many a second many clients get, and how fast batches are.

    python -m bench.create [--creates 2000] [--clients 64] [--seconds 10] [--batch-jobs 500000] [--nodes 3]

Every create is confirmed when a quorum has it on disk. README.md says what the numbers mean.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from bench.hot_jobs import create_jobs
from bench.latency import create_latencies_ms, job_due_at
from bench.machine import describe_machine
from bench.measure import spread_ms, take_snapshot, used_between
from raftsched.v1 import job_pb2, job_pb2_grpc
from tests.cluster.harness import Cluster
from tests.cluster.processes import now_ms

RESULTS = Path(__file__).parent / "results"

WARM_UP = 100
LATER_MS = 30 * 86_400_000

SINGLE_P50_AIM_MS = 3.0
SINGLE_P99_AIM_MS = 15.0
CLIENTS_AIM_PER_S = 3_000
BATCH_AIM_PER_S = 50_000


async def many_clients(addresses: Sequence[str], clients: int, seconds: float) -> list[float]:
    """Each client has a connection of its own, to the nodes in turn, and creates one job after the other; how long each
    create took, in ms."""
    durations: list[float] = []
    job = job_due_at(now_ms() + LATER_MS)

    async def client(address: str, end_s: float) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(address, options) as channel:
            jobs = job_pb2_grpc.JobServiceStub(channel)
            while (began := time.perf_counter()) < end_s:
                request = job_pb2.CreateJobRequest(job=job, request_id=uuid.uuid4().hex)
                await jobs.CreateJob(request, timeout=10)
                durations.append((time.perf_counter() - began) * 1_000)

    end_s = time.perf_counter() + seconds
    await asyncio.gather(*(client(addresses[number % len(addresses)], end_s) for number in range(clients)))
    return durations


def batch_create(cluster: Cluster, jobs: int, creators: int) -> dict[str, Any]:
    """Plain one-offs, far from due, in batches over all nodes."""
    plain = argparse.Namespace(
        jobs=jobs, creators=creators, payload_bytes=0, tenants=0, recurring=False, async_handler_ms=0
    )
    before = take_snapshot(cluster)
    _, seconds = create_jobs(cluster, plain, now_ms() + LATER_MS)
    used = used_between(before, take_snapshot(cluster))
    return {
        "jobs": jobs,
        "creators": creators,
        "per_s": round(jobs / seconds),
        "cpu_us_per_job": {name: round(reading.cpu_s / jobs * 1e6, 2) for name, reading in used.items()},
    }


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cluster = Cluster(folder / "cluster", nodes=arguments.nodes, session_ttl_ms=10_000)
    try:
        cluster.start()
        leader = cluster.leader()
        follower = next((number for number in cluster.nodes if number != leader), leader)
        single = {}
        for name, number in (("at_leader", leader), ("at_follower", follower)):
            create_latencies_ms(cluster.node(number), WARM_UP)
            single[name] = spread_ms(create_latencies_ms(cluster.node(number), arguments.creates))
        addresses = list(cluster.addresses.values())
        durations = asyncio.run(many_clients(addresses, arguments.clients, arguments.seconds))
        batch = batch_create(cluster, arguments.batch_jobs, arguments.creators)
        cluster.wait_equal_digests()
    finally:
        cluster.close()
    return {
        "nodes": arguments.nodes,
        "one_client_ms": single,
        "many_clients": {
            "clients": arguments.clients,
            "per_s": round(len(durations) / arguments.seconds),
            "create_ms": spread_ms(durations),
        },
        "batch": batch,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--creates", type=int, default=2_000, help="single creates to time at each of two nodes")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the many clients create (10)")
    parser.add_argument("--batch-jobs", type=int, default=500_000)
    parser.add_argument("--creators", type=int, default=3, help="concurrent batch creates (3)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--data", type=Path, help="where nodes keep their data meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes (bench/results)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-create-", dir=arguments.data) as folder:
        result = run(arguments, Path(folder))
    single = result["one_client_ms"]["at_leader"]
    document = {
        "benchmark": "create",
        "command": f"python -m bench.create {' '.join(sys.argv[1:])}".strip(),
        **describe_machine(arguments.data),
        **result,
        "aims": {
            "one_client_p50_ms": SINGLE_P50_AIM_MS,
            "one_client_p99_ms": SINGLE_P99_AIM_MS,
            "many_clients_per_s": CLIENTS_AIM_PER_S,
            "batch_per_s": BATCH_AIM_PER_S,
        },
        "aims_met": single["p50"] <= SINGLE_P50_AIM_MS
        and single["p99"] <= SINGLE_P99_AIM_MS
        and result["many_clients"]["per_s"] >= CLIENTS_AIM_PER_S
        and result["batch"]["per_s"] >= BATCH_AIM_PER_S,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2)
    (arguments.out / "create.json").write_text(text + "\n")
    print(text)
    return 0 if document["aims_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
