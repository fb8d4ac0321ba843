"""Latency on a cluster with nothing else to do: one durable create after the other, and from due to started.

python -m bench.latency [--creates 500] [--starts 200]
"""

import argparse
import json
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path

from bench.measure import spread_ms
from bench.worker_log import read_starts
from raftsched.v1 import job_pb2
from tests.cluster.api import Node
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms, until

CREATE_P50_AIM_MS = 5.0
START_P99_AIM_MS = 250.0


def job_due_at(time_ms: int) -> job_pb2.Job:
    return job_pb2.Job(handler="noop", run_at=timestamp(time_ms))


def create_latencies_ms(node: Node, count: int) -> list[float]:
    """Each create begins when the one before is confirmed."""
    far_ms = now_ms() + 30 * 86_400_000
    latencies = []
    for _ in range(count):
        request = job_pb2.CreateJobRequest(job=job_due_at(far_ms), request_id=uuid.uuid4().hex)
        began = time.perf_counter()
        node.jobs.CreateJob(request, timeout=10)
        latencies.append((time.perf_counter() - began) * 1_000)
    return latencies


def schedule_starts(cluster: Cluster, count: int) -> dict[int, int]:
    """One job every 50 ms or so, each due two seconds after; returns job ids with their due times in ms."""
    due_ms: dict[int, int] = {}
    for _ in range(count):
        time_ms = now_ms() + 2_000 + random.randrange(50)
        due_ms[cluster.api.create(job_due_at(time_ms)).job.id] = time_ms
        time.sleep(0.05)
    return due_ms


def start_delays_ms(cluster: Cluster, due_ms: dict[int, int]) -> list[float]:
    execution_due = {cluster.api.executions(job_id)[0].id: time_ms for job_id, time_ms in due_ms.items()}
    for worker in cluster.workers.values():
        worker.terminate()
    return [start - execution_due[execution] for execution, start in read_starts(cluster.runs_folder)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--creates", type=int, default=500, help="creates to time at each of leader and follower (500)")
    parser.add_argument("--starts", type=int, default=200, help="jobs whose start is timed (200)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-latency-") as folder:
        cluster = Cluster(
            Path(folder) / "cluster", nodes=arguments.nodes, session_ttl_ms=10_000, worker_app="bench.handlers:app"
        )
        try:
            cluster.start()
            cluster.start_worker("worker-1")
            leader = cluster.leader()
            follower = next((number for number in cluster.nodes if number != leader), leader)
            for number in (leader, follower):
                create_latencies_ms(cluster.node(number), 50)
            at_leader = create_latencies_ms(cluster.node(leader), arguments.creates)
            at_follower = create_latencies_ms(cluster.node(follower), arguments.creates)
            due_ms = schedule_starts(cluster, arguments.starts)
            last_due_ms = max(due_ms.values())
            until(lambda: now_ms() > last_due_ms, "all are due")
            cluster.wait_drained()
            delays = start_delays_ms(cluster, due_ms)
        finally:
            cluster.close()
    starts = spread_ms(delays)
    create = spread_ms(at_leader)
    result = {
        "benchmark": "latency",
        "nodes": arguments.nodes,
        "create_ms": {"at_leader": create, "at_follower": spread_ms(at_follower), "aim_p50": CREATE_P50_AIM_MS},
        "start_after_due_ms": {**starts, "count": len(delays), "aim_p99": START_P99_AIM_MS},
        "early_starts": sum(delay < 0 for delay in delays),
        "aims_met": create["p50"] <= CREATE_P50_AIM_MS
        and starts["p99"] <= START_P99_AIM_MS
        and len(delays) == arguments.starts,
    }
    print(json.dumps(result, indent=2))
    return 0 if result["aims_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
