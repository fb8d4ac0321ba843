"""N jobs due in one second: how fast they are created, how fast they drain, how late they start, at what cost.

    python -m bench.hot_bucket --jobs 100000 [--nodes 3] [--workers 2] [--recurring] [--kill-leader] ...

Real nodes, real workers, a handler that does nothing, every entry fsynced by a quorum. It ends when every completion
has been confirmed by the quorum. README.md says what the numbers mean.
"""

import argparse
import json
import math
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.drain_curve import draw
from bench.measure import Snapshot, spread_ms, take_snapshot, used_between
from bench.worker_log import read_confirmations, read_starts
from raftsched.v1 import cluster_pb2, execution_pb2, job_pb2
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms, until

RESULTS = Path(__file__).parent / "results"

BATCH = 5_000
# How long creation takes at worst, when nothing better is said: decides how far ahead the jobs are due.
SLOWEST_CREATE_PER_S = 12_000
SAMPLE_EVERY_S = 0.25
SETTLE_BEFORE_DUE_S = 1.0
# Executions read back one by one after the drain.
READ_BACK = 200


def hot_job(arguments: argparse.Namespace, due_ms: int) -> job_pb2.Job:
    """The job that is due at `due_ms`, once or every year then."""
    job = job_pb2.Job(handler="noop", payload=random.randbytes(arguments.payload_bytes))
    if arguments.recurring:
        due = datetime.fromtimestamp(due_ms / 1_000, UTC)
        job.cron.expression = f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *"
    else:
        job.run_at.CopyFrom(timestamp(due_ms))
    return job


def create_jobs(cluster: Cluster, arguments: argparse.Namespace, due_ms: int) -> tuple[list[int], float]:
    """All jobs, in batches over all nodes; returns their ids and the seconds it took."""
    job = hot_job(arguments, due_ms)
    sizes = [min(BATCH, arguments.jobs - first) for first in range(0, arguments.jobs, BATCH)]
    began = time.monotonic()
    with ThreadPoolExecutor(arguments.creators) as pool:
        batches = pool.map(lambda size: cluster.api.create_batch([job] * size, uuid.uuid4().hex), sizes)
        job_ids = [job_id for batch in batches for job_id in batch]
    return job_ids, time.monotonic() - began


def completed(status: cluster_pb2.GetStatusResponse) -> int:
    """Executions that are over: fired, and neither ready nor leased."""
    waiting = sum(queue.ready for queue in status.queues) + sum(worker.leased for worker in status.workers)
    return status.executions - waiting


def is_finished(status: cluster_pb2.GetStatusResponse, jobs: int, due_ms: int) -> bool:
    still_due = status.HasField("oldest_due_time") and status.oldest_due_time.ToMilliseconds() <= due_ms
    return not still_due and status.executions >= jobs and completed(status) >= jobs


def wait_finished(cluster: Cluster, jobs: int, due_ms: int, deadline_s: float) -> None:
    """Waits until the cluster says that all is over. When exactly it was, the workers know better."""

    def finished() -> bool:
        # Any node: what it has applied, a quorum has on disk.
        answers = [status for number in cluster.nodes if (status := cluster.status(number)) is not None]
        newest = max(answers, key=lambda answer: answer.applied_index, default=None)
        return newest is not None and is_finished(newest, jobs, due_ms)

    until(finished, "everything has run", deadline_s, every_s=SAMPLE_EVERY_S)


def kill_leader_at(cluster: Cluster, jobs: int, share: float) -> dict[str, Any]:
    """kill -9 of the leader once that share of the jobs is completed; restarts it at once."""

    def far_enough() -> bool:
        status = cluster.status(leader)
        return status is not None and completed(status) >= share * jobs

    leader = cluster.leader()
    until(far_enough, "the leader may be killed", 600.0, every_s=0.02)
    killed_ms = time.time() * 1_000
    cluster.nodes[leader].kill()
    next_leader = cluster.leader()
    elected_ms = time.time() * 1_000
    cluster.nodes[leader].start()
    return {"killed": leader, "next_leader": next_leader, "new_leader_after_ms": round(elected_ms - killed_ms)}


def read_back(cluster: Cluster, job_ids: Sequence[int]) -> int:
    """Looks at some executions one by one; returns how many. Raises AssertionError for one that has not succeeded."""
    chosen = random.sample(list(job_ids), min(READ_BACK, len(job_ids)))
    for job_id in chosen:
        (execution,) = cluster.api.executions(job_id)
        assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED, execution
    return len(chosen)


def run(arguments: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Sequence[tuple[float, int]]]]:
    cluster = Cluster(
        folder / "cluster",
        nodes=arguments.nodes,
        session_ttl_ms=arguments.session_ttl_ms,
        worker_app="bench.handlers:app",
    )
    with ExitStack() as stack:
        stack.callback(cluster.close)
        cluster.start()
        for number in range(arguments.workers):
            cluster.start_worker(f"worker-{number + 1}")
        empty = take_snapshot(cluster)

        lead_s = arguments.lead_s or 4 + arguments.jobs / SLOWEST_CREATE_PER_S
        due_ms = (now_ms() // 1_000 + math.ceil(lead_s)) * 1_000
        job_ids, create_s = create_jobs(cluster, arguments, due_ms)
        if now_ms() > due_ms - SETTLE_BEFORE_DUE_S * 1_000:
            raise SystemExit(f"creating took {create_s:.1f} s, too long before the due time: give --lead-s")
        until(lambda: now_ms() >= due_ms - SETTLE_BEFORE_DUE_S * 1_000, "it is almost due", lead_s + 10)
        before = take_snapshot(cluster)

        pool = stack.enter_context(ThreadPoolExecutor(1))
        killing = pool.submit(kill_leader_at, cluster, arguments.jobs, 0.3) if arguments.kill_leader else None
        wait_finished(cluster, arguments.jobs, due_ms, arguments.patience_s)
        after = take_snapshot(cluster)

        cluster.wait_serving()
        cluster.wait_equal_digests()
        checked = read_back(cluster, job_ids)
        for worker in cluster.workers.values():
            worker.terminate()
        starts = list(read_starts(cluster.runs_folder))
        confirmations = read_confirmations(cluster.runs_folder)

    drain_s = (confirmations[-1][0] - due_ms) / 1_000
    delays = sorted((start - due_ms) / 1_000 for _, start in starts)
    executions = len({execution for execution, _ in starts})
    result: dict[str, Any] = {
        "benchmark": "hot_bucket",
        "jobs": arguments.jobs,
        "nodes": arguments.nodes,
        "workers": arguments.workers,
        "payload_bytes": arguments.payload_bytes,
        "recurring": arguments.recurring,
        "create_per_s": round(arguments.jobs / create_s),
        "drain_s": round(drain_s, 3),
        "drain_per_s": round(arguments.jobs / drain_s),
        "start_delay_ms": spread_ms(delay * 1_000 for delay in delays),
        "early_starts": sum(delay < 0 for delay in delays),
        "executions_started": executions,
        "extra_runs": len(starts) - executions,
        "completions_confirmed": confirmations[-1][1],
        "read_back": checked,
        **costs(arguments.jobs, empty, before, after),
    }
    if killing is not None:
        result["leader_kill"] = killing.result()
    started = [(delay, count + 1) for count, delay in enumerate(delays)]
    confirmed = [((moment_ms - due_ms) / 1_000, count) for moment_ms, count in confirmations]
    return result, {"started": started, "completion confirmed": confirmed}


def costs(jobs: int, empty: Snapshot, before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What the drain used, for one execution."""
    used = used_between(before, after)
    cpu = {name: round(reading.cpu_s / jobs * 1e6, 2) for name, reading in used.items()}
    written = {name: round(reading.written_bytes / jobs) for name, reading in used.items() if name.startswith("node-")}
    return {
        "cpu_us_per_execution": {**cpu, "total": round(sum(cpu.values()), 2)},
        "disk_bytes_per_job_created": {
            "log": round((before.log_bytes - empty.log_bytes) / jobs),
            "store": round((before.store_bytes - empty.store_bytes) / jobs),
        },
        "disk_bytes_per_execution": {
            "log": round((after.log_bytes - before.log_bytes) / jobs),
            "store": round((after.store_bytes - before.store_bytes) / jobs),
        },
        "written_bytes_per_execution": written,
        "commits": {name: count - before.commits.get(name, 0) for name, count in after.commits.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--workers", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--payload-bytes", type=int, default=0)
    parser.add_argument("--recurring", action="store_true", help="cron jobs instead of one-offs")
    parser.add_argument("--kill-leader", action="store_true", help="kill -9 of the leader at 30 percent of the drain")
    parser.add_argument("--creators", type=int, default=3, help="concurrent batch creates (3)")
    parser.add_argument("--session-ttl-ms", type=int, default=10_000)
    parser.add_argument("--lead-s", type=float, help="from the first create to the due time (by the number of jobs)")
    parser.add_argument("--patience-s", type=float, default=300.0, help="give up so long after the due time (300)")
    parser.add_argument("--data", type=Path, help="where nodes keep their data meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the drain curve goes (bench/results)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-hot-", dir=arguments.data) as folder:
        result, curves = run(arguments, Path(folder))
    arguments.out.mkdir(parents=True, exist_ok=True)
    kind = "recurring" if arguments.recurring else "once"
    picture = arguments.out / f"hot_bucket_{arguments.jobs}_{kind}{'_kill' if arguments.kill_leader else ''}.png"
    draw(picture, f"{arguments.jobs:,} jobs due at once, {arguments.nodes} nodes", curves)
    result["drain_curve"] = str(picture)
    print(json.dumps(result, indent=2))
    all_ran = result["executions_started"] == arguments.jobs and not result["early_starts"]
    return 0 if all_ran else 1


if __name__ == "__main__":
    sys.exit(main())
