"""One run of the hot bucket: a cluster, its workers, the jobs, the drain, and what was seen of it."""

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.bulk import Registry, give_state
from bench.drain_statistics import first_starts, flatness, spread, start_order
from bench.hot_jobs import create_jobs
from bench.measure import Snapshot, take_snapshot, used_between
from bench.memory import PeakWatch, memory_of
from bench.worker_log import WAIT_VARIABLE, read_confirmations, start_columns
from raftsched.v1 import cluster_pb2, execution_pb2
from tests.cluster.harness import Cluster
from tests.cluster.processes import now_ms, until

# How long creation takes at worst, when nothing better is said: decides how far ahead the jobs are due.
SLOWEST_CREATE_PER_S = 15_000
SLOWEST_LOAD_PER_S = 50_000
SAMPLE_EVERY_S = 0.25
SETTLE_BEFORE_DUE_S = 1.0
# Executions read back one by one after the drain.
READ_BACK = 200

Curve = Sequence[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Drain:
    """What came out, and executions over seconds since the due time."""

    result: dict[str, Any]
    curves: dict[str, Curve]


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
    chosen = random.sample(job_ids, min(READ_BACK, len(job_ids)))
    for job_id in chosen:
        (execution,) = cluster.api.executions(job_id)
        assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED, execution
    return len(chosen)


def node_pids(cluster: Cluster) -> dict[str, int]:
    return {process.name: process.pid for process in cluster.nodes.values() if process.alive}


def due_time_ms(arguments: argparse.Namespace) -> int:
    """A whole second, late enough for all that has to be done before."""
    lead_s = 4 + arguments.jobs / SLOWEST_CREATE_PER_S
    if arguments.scattered:
        lead_s = 25 + arguments.scattered / SLOWEST_LOAD_PER_S
    return (now_ms() // 1_000 + math.ceil(arguments.lead_s or lead_s)) * 1_000


def load_registry(cluster: Cluster, arguments: argparse.Namespace, due_ms: int, folder: Path) -> list[int]:
    """Gives every node the same registry; returns the ids of the jobs that are due."""
    registry = Registry(folder)
    try:
        handler = "wait" if arguments.async_handler_ms else "noop"
        later_ms = due_ms + 86_400_000
        due = registry.add(arguments.scattered, due=arguments.jobs, due_ms=due_ms, later_ms=later_ms, handler=handler)
    finally:
        registry.close()
    give_state(folder, [cluster.data_dir(number) for number in cluster.nodes])
    (folder / "data.mdb").unlink()
    return due


def start(cluster: Cluster, arguments: argparse.Namespace) -> None:
    cluster.start()
    options = [f"--concurrency={arguments.concurrency}"] if arguments.concurrency else []
    environment = {WAIT_VARIABLE: str(arguments.async_handler_ms)} if arguments.async_handler_ms else {}
    for number in range(arguments.workers):
        cluster.start_worker(f"worker-{number + 1}", *options, environment=environment)


def measure_drain(
    arguments: argparse.Namespace,
    folder: Path,
    beside: Callable[[Cluster], AbstractContextManager[Any]] = nullcontext,
) -> Drain:
    """`beside` is entered just before the due time and left when all is over."""
    cluster = Cluster(
        folder / "cluster",
        nodes=arguments.nodes,
        session_ttl_ms=arguments.session_ttl_ms,
        worker_app="bench.handlers:app",
    )
    job_ids: Sequence[int]
    with ExitStack() as stack:
        stack.callback(cluster.close)
        due_ms, create_s, began = 0, 0.0, time.monotonic()
        if arguments.scattered:
            due_ms = due_time_ms(arguments)
            job_ids = load_registry(cluster, arguments, due_ms, folder / "registry")
            create_s = time.monotonic() - began
        start(cluster, arguments)
        empty = take_snapshot(cluster)
        if not arguments.scattered:
            due_ms = due_time_ms(arguments)
            job_ids, create_s = create_jobs(cluster, arguments, due_ms)
        settled_ms = due_ms - SETTLE_BEFORE_DUE_S * 1_000
        if now_ms() > settled_ms:
            raise SystemExit(f"creating took {create_s:.1f} s, too long before the due time: give --lead-s")
        until(lambda: now_ms() >= settled_ms, "it is almost due", due_ms / 1_000 - time.time() + 10)
        before = take_snapshot(cluster)

        pool = stack.enter_context(ThreadPoolExecutor(1))
        with beside(cluster), PeakWatch(lambda: node_pids(cluster)).watching() as memory:
            killing = pool.submit(kill_leader_at, cluster, arguments.jobs, 0.3) if arguments.kill_leader else None
            wait_finished(cluster, arguments.jobs, due_ms, arguments.patience_s)
        after = take_snapshot(cluster)
        memory_after = {name: memory_of(pid) for name, pid in node_pids(cluster).items()}

        cluster.wait_serving()
        cluster.wait_equal_digests()
        checked = read_back(cluster, job_ids)
        for worker in cluster.workers.values():
            worker.terminate()

    drain = summarize(arguments, cluster.runs_folder, due_ms)
    drain.result.update(
        {
            "create_per_s": round((arguments.scattered or arguments.jobs) / create_s),
            "read_back": checked,
            "memory_mib": {"own_peak_while_draining": memory.peaks_mib(), "afterwards": memory_after},
            **costs(arguments.jobs, empty, before, after),
        }
    )
    if killing is not None:
        drain.result["leader_kill"] = killing.result()
    return drain


def summarize(arguments: argparse.Namespace, runs_folder: Path, due_ms: int) -> Drain:
    """From what the workers wrote down."""
    executions, started_ms = start_columns(runs_folder)
    confirmed = [((at_ms - due_ms) / 1_000, count) for at_ms, count in read_confirmations(runs_folder)]
    ids, first_ms = first_starts(executions, started_ms)
    delays_ms = started_ms - due_ms
    drain_s = confirmed[-1][0]
    settings = ("jobs", "nodes", "workers", "payload_bytes", "tenants", "recurring", "scattered", "async_handler_ms")
    result: dict[str, Any] = {
        **{name: getattr(arguments, name) for name in settings},
        "drain_s": round(drain_s, 3),
        "drain_per_s": round(arguments.jobs / drain_s),
        "flatness": flatness(confirmed, arguments.jobs),
        "start_delay_ms": spread(delays_ms),
        "start_order": start_order(ids, first_ms),
        "early_starts": int((delays_ms < 0).sum()),
        "executions_started": len(ids),
        "extra_runs": len(executions) - len(ids),
        "completions_confirmed": confirmed[-1][1],
    }
    step = max(1, len(delays_ms) // 2_000)
    delays_ms.sort()
    started = [(float(delays_ms[at]) / 1_000, at + 1) for at in range(0, len(delays_ms), step)]
    return Drain(result, {"started": started, "completion confirmed": confirmed})


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
