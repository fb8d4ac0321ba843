"""The leader is killed again and again at random moments under load: how long nothing is dispatched, and what is lost.

    python -m bench.failover [--kills 50]

Real nodes, real workers, kill -9. Jobs come due every few milliseconds, others are created due now, some recur every
second. The killed node is restarted and has caught up before the next kill. README.md says what the numbers mean.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import spread_ms
from raftsched.v1 import job_pb2
from tests.checker import Kind, Report, Run
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.load import ALLOWANCE_MS
from tests.cluster.processes import let_last, now_ms, until

DISPATCH_P50_AIM_MS = 1_500.0
DISPATCH_P99_AIM_MS = 3_000.0

RECURRING = 5
# Accepted long before they are due, so that what delays them is their dispatch alone.
DUE_EVERY_MS = 20
ACCEPTED_AHEAD_MS = 8_000
AHEAD_BATCH_MS = 1_000
# Between creates of jobs that are due now.
CREATE_EVERY_S = 0.05
# From when the cluster is whole to the next kill, at random.
SHORTEST_PEACE_S = 0.3
LONGEST_PEACE_S = 2.5


class Load:
    """Work for a cluster, until it is stopped. Creates are timed, retries included."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stopped = threading.Event()
        self.create_ms: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        for number in range(RECURRING):
            self._ledger.recurring(
                f"second-{number}",
                1,
                catch_up=job_pb2.CATCH_UP_POLICY_ALL,
                overlap=job_pb2.OVERLAP_POLICY_ALLOW,
            )
        with ThreadPoolExecutor(2) as pool:
            threads: list[Future[None]] = [pool.submit(self._accept_ahead), pool.submit(self._create_due_now)]
            try:
                yield
            finally:
                self._stopped.set()
        for thread in threads:
            thread.result()

    def _accept_ahead(self) -> None:
        next_ms = now_ms() + 500
        while not self._stopped.is_set():
            due_ms = range(next_ms, next_ms + AHEAD_BATCH_MS, DUE_EVERY_MS)
            next_ms += AHEAD_BATCH_MS
            self._ledger.batch({f"ahead-{time_ms}": time_ms for time_ms in due_ms})
            self._stopped.wait(max(0.0, (next_ms - now_ms() - ACCEPTED_AHEAD_MS) / 1_000))

    def _create_due_now(self) -> None:
        while not self._stopped.wait(CREATE_EVERY_S):
            began = time.perf_counter()
            self._ledger.once(f"now-{len(self.create_ms)}", now_ms())
            self.create_ms.append((time.perf_counter() - began) * 1_000)


def leases_in_flight(cluster: Cluster) -> int:
    """Leased executions, as any node last said."""
    counts = [sum(worker.leased for worker in status.workers) for status in cluster.statuses().values()]
    return max(counts, default=0)


def wait_caught_up(cluster: Cluster, number: int) -> None:
    """Waits until the node has applied all that any node had when it was asked first."""
    goal = max(status.applied_index for status in cluster.statuses().values())

    def reached() -> bool:
        status = cluster.status(number)
        return status is not None and status.applied_index >= goal

    until(reached, f"node {number} has caught up")


def kill_leader(cluster: Cluster, rng: random.Random) -> dict[str, int]:
    """Once, at a random moment; returns when the cluster is whole again."""
    let_last("peace before the next kill", rng.uniform(SHORTEST_PEACE_S, LONGEST_PEACE_S))
    leader = cluster.leader()
    in_flight = leases_in_flight(cluster)
    killed_ms = now_ms()
    cluster.nodes[leader].kill()
    until(lambda: cluster.leader() != leader, "another node leads", every_s=0.01)
    led_ms = now_ms()
    cluster.nodes[leader].start()
    cluster.wait_serving()
    wait_caught_up(cluster, leader)
    return {
        "killed": leader,
        "killed_ms": killed_ms,
        "leases_in_flight": in_flight,
        "new_leader_after_ms": led_ms - killed_ms,
        "whole_after_ms": now_ms() - killed_ms,
    }


def first_dispatches_ms(runs: Sequence[Run], killed_ms: Sequence[int]) -> list[int]:
    """For each kill, how long after it the first execution started that came due after it."""
    scheduled = sorted((run.scheduled_for_ms, run.started_ms) for run in runs if run.scheduled_for_ms is not None)
    result = []
    for moment_ms in killed_ms:
        after = scheduled[bisect_right(scheduled, (moment_ms, sys.maxsize)) :]
        # What comes due later than the earliest start so far cannot have started earlier.
        first = sys.maxsize
        for due_ms, started_ms in after:
            if due_ms >= first:
                break
            first = min(first, started_ms)
        result.append(first - moment_ms)
    return result


def run(kills: int, workers: int, seed: int, folder: Path) -> dict[str, Any]:
    rng = random.Random(seed)
    cluster = Cluster(folder / "cluster", session_ttl_ms=10_000)
    try:
        cluster.start()
        for number in range(workers):
            cluster.start_worker(f"worker-{number + 1}")
        ledger = Ledger(cluster)
        load = Load(ledger)
        with load.running():
            done = [kill_leader(cluster, rng) for _ in range(kills)]
        failed_creates = dict(cluster.api.retried)
        until(ledger.one_offs_done, "every one-off has run to its end", 60.0, every_s=1.0)
        ledger.cancel_recurring()
        cluster.wait_drained()
        report = ledger.report(ALLOWANCE_MS)
        cluster.wait_equal_digests()
        dispatches = first_dispatches_ms(cluster.runs(), [kill["killed_ms"] for kill in done])
    finally:
        cluster.close()
    return {
        "benchmark": "failover",
        "kills": kills,
        "seed": seed,
        "workers": workers,
        "first_dispatch_after_kill_ms": spread_ms(dispatches),
        "new_leader_after_kill_ms": spread_ms(kill["new_leader_after_ms"] for kill in done),
        "whole_after_kill_ms": spread_ms(kill["whole_after_ms"] for kill in done),
        "create_ms": spread_ms(load.create_ms),
        "create_errors": failed_creates,
        **verdict(report, sum(kill["leases_in_flight"] for kill in done)),
    }


def verdict(report: Report, in_flight: int) -> dict[str, Any]:
    """What the checker found."""
    kinds = Counter(finding.kind for finding in report.findings)
    lost = kinds.pop(Kind.UNMATCHED_TARGET, 0)
    return {
        "targets": report.targets,
        "runs": report.runs,
        "lost": lost,
        "unexpected": sum(kinds.values()),
        "findings": [str(finding) for finding in report.findings[:20]],
        "duplicates": report.extra_runs,
        "leases_in_flight_at_kills": in_flight,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--seed", type=int, default=1, help="decides when to kill (1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-failover-") as folder:
        result = run(arguments.kills, arguments.workers, arguments.seed, Path(folder))
    dispatch = result["first_dispatch_after_kill_ms"]
    result["aims_met"] = (
        dispatch["p50"] <= DISPATCH_P50_AIM_MS
        and dispatch["p99"] <= DISPATCH_P99_AIM_MS
        and not result["lost"]
        and not result["unexpected"]
        and result["duplicates"] <= result["leases_in_flight_at_kills"]
    )
    print(json.dumps(result, indent=2))
    return 0 if result["aims_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
