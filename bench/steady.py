"""A cluster under constant load for minutes: recurring jobs and new one-offs; how late they start, and what grows.

    python -m bench.steady --minutes 10 [--rate 10000] [--creates-per-s 200] [--nodes 3] [--workers 2]

Cron jobs come due at every whole second, together at the rate given. One-offs are created beside them one by one, each
due a second later. README.md says what the numbers mean.
"""

import argparse
import json
import math
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.drain_curve import draw
from bench.drain_statistics import Numbers, spread
from bench.machine import describe_machine
from bench.measure import bytes_on_disk, environments, take_snapshot, used_between
from bench.memory import own_bytes
from bench.pages import pages_of
from bench.trend import growth_per_minute
from bench.worker_log import start_columns
from raftsched.v1 import job_pb2
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import let_last, now_ms, until

RESULTS = Path(__file__).parent / "results"

BATCH = 5_000
SAMPLE_EVERY_S = 5.0
# Caches fill at first; growth is looked for after that.
WARM_UP_SHARE = 0.25
CREATORS = 4
CREATED_AHEAD_MS = 1_000
DELAY_P99_AIM_MS = 500.0
# Of the mean, from the warm-up to the end; what is less cannot be told from noise.
GROWTH_AIM = 0.05
MIB = 1 << 20


def cron_batches(rate: int, period_s: int) -> Iterator[job_pb2.BatchCreateJobsRequest]:
    """`rate` jobs for each second of the period, so that together as many are due every second."""
    for second in range(period_s):
        expression = f"{','.join(map(str, range(second, 60, period_s)))} * * * * *"
        for first in range(0, rate, BATCH):
            job = job_pb2.Job(handler="timed", overlap=job_pb2.OVERLAP_POLICY_ALLOW)
            job.cron.expression = expression
            size = min(BATCH, rate - first)
            yield job_pb2.BatchCreateJobsRequest(jobs=[job] * size, request_id=uuid.uuid4().hex)


class Creator:
    """Creates one-offs at an even rate and notes how long each took."""

    def __init__(self, cluster: Cluster, per_s: float) -> None:
        self._cluster = cluster
        self._per_s = per_s
        self._stopped = threading.Event()
        self.create_ms: list[float] = []
        self.due_ms: list[int] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(CREATORS) as pool:
            threads: list[Future[None]] = []
            if self._per_s:
                threads = [pool.submit(self._run, number) for number in range(CREATORS)]
            try:
                yield
            finally:
                self._stopped.set()
        for thread in threads:
            thread.result()

    def _run(self, number: int) -> None:
        every_s = CREATORS / self._per_s
        next_s = time.monotonic() + every_s * number / CREATORS
        while not self._stopped.wait(max(0.0, next_s - time.monotonic())):
            next_s += every_s
            due_ms = now_ms() + CREATED_AHEAD_MS
            began = time.perf_counter()
            self._cluster.api.create(job_pb2.Job(handler="timed", run_at=timestamp(due_ms)))
            self.create_ms.append((time.perf_counter() - began) * 1_000)
            self.due_ms.append(due_ms)


def sample(cluster: Cluster) -> dict[str, float]:
    """Of all nodes together: memory beyond the page cache, and what is on disk."""
    result = {"own_mib": 0.0, "log_mib": 0.0, "log_free_mib": 0.0, "store_mib": 0.0, "store_free_mib": 0.0}
    for number, process in cluster.nodes.items():
        result["own_mib"] += own_bytes(process.pid) / MIB
        for environment in environments(cluster.data_dir(number)):
            kind = "log" if "log" in environment.name else "store"
            pages = pages_of(environment)
            result[f"{kind}_free_mib"] += pages.free * pages.page_bytes / MIB
            result[f"{kind}_mib"] += bytes_on_disk(environment) / MIB
    return {name: round(value, 2) for name, value in result.items()}


def watch(cluster: Cluster, seconds: float) -> list[dict[str, float]]:
    """Samples until it is over; `second` is since it began."""
    began, samples = time.monotonic(), []
    while (second := time.monotonic() - began) < seconds:
        samples.append({"second": round(second, 1), **sample(cluster)})
        let_last("the load until the next sample", min(SAMPLE_EVERY_S, max(0.0, began + seconds - time.monotonic())))
    return samples


def growth(samples: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Of each measure after the warm-up: its mean, its trend in a minute, and that up to the end by the mean."""
    after = [one for one in samples if one["second"] >= WARM_UP_SHARE * samples[-1]["second"]]
    seconds = [one["second"] for one in after]
    minutes = (seconds[-1] - seconds[0]) / 60
    result = {}
    for name in sorted(samples[0].keys() - {"second"}):
        values = [one[name] for one in after]
        per_minute, mean = growth_per_minute(seconds, values), sum(values) / len(values)
        share = round(per_minute * minutes / mean, 3) if mean else 0.0
        result[name] = {"mean": round(mean, 1), "per_minute": round(per_minute, 3), "in_all_by_mean": share}
    return result


def occurrences(scheduled_ms: Numbers, from_ms: int, to_ms: int, rate: int, created_due_ms: Sequence[int]) -> int:
    """How many occurrences of the time in between are missing among the starts; negative when some ran twice."""
    inside = (scheduled_ms >= from_ms) & (scheduled_ms < to_ms)
    created = sum(from_ms <= due_ms < to_ms for due_ms in created_due_ms)
    return (to_ms - from_ms) // 1_000 * rate + created - int(inside.sum())


def run(arguments: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], list[dict[str, float]]]:
    cluster = Cluster(folder / "cluster", nodes=arguments.nodes, session_ttl_ms=10_000, worker_app="bench.handlers:app")
    seconds = arguments.minutes * 60
    try:
        cluster.start()
        for number in range(arguments.workers):
            cluster.start_worker(f"worker-{number + 1}")
        for request in cron_batches(arguments.rate, arguments.period_s):
            cluster.api.call(lambda node, request=request: node.jobs.BatchCreateJobs(request, timeout=60.0))
        # From now on every second has its jobs.
        let_last("every job has begun to recur", arguments.period_s)
        cluster.wait_caught_up()
        from_ms = (now_ms() // 1_000 + 1) * 1_000
        before = take_snapshot(cluster)
        creator = Creator(cluster, arguments.creates_per_s)
        with creator.running():
            samples = watch(cluster, seconds)
        to_ms = now_ms() // 1_000 * 1_000
        after = take_snapshot(cluster)
        until(lambda: now_ms() > to_ms + 2 * CREATED_AHEAD_MS, "what was created last is due")
        for worker in cluster.workers.values():
            worker.terminate(60.0)
    finally:
        cluster.close()
    scheduled_ms, started_ms = start_columns(cluster.runs_folder)
    scheduled_ms = scheduled_ms.astype(np.int64)
    inside = (scheduled_ms >= from_ms) & (scheduled_ms < to_ms)
    delays_ms = (started_ms - scheduled_ms)[inside]
    minute = ((scheduled_ms[inside] - from_ms) // 60_000).astype(np.int64)
    used = used_between(before, after)
    executions = len(delays_ms)
    result = {
        **{name: getattr(arguments, name) for name in ("nodes", "workers", "minutes", "rate", "creates_per_s")},
        "executions": executions,
        "executions_per_s": round(executions / ((to_ms - from_ms) / 1_000)),
        "missing": occurrences(scheduled_ms, from_ms, to_ms, arguments.rate, creator.due_ms),
        "start_delay_ms": spread(delays_ms),
        "start_delay_p99_ms_by_minute": [
            spread(delays_ms[minute == number])["p99"] for number in range(math.ceil(arguments.minutes))
        ],
        "early_starts": int((delays_ms < 0).sum()),
        "created": len(creator.create_ms),
        "create_ms": spread(np.array(creator.create_ms)),
        "growth": growth(samples),
        "cpu_percent_of_a_core": {
            name: round(100 * reading.cpu_s / ((to_ms - from_ms) / 1_000), 1) for name, reading in used.items()
        },
    }
    return result, samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=10_000, help="executions a second of recurring jobs (10,000)")
    parser.add_argument("--period-s", type=int, default=10, choices=(1, 2, 5, 10, 20, 30, 60))
    parser.add_argument("--creates-per-s", type=float, default=200.0, help="one-offs created beside them (200)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", type=Path, help="where nodes keep their data meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where JSON and picture go (bench/results)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-steady-", dir=arguments.data) as folder:
        result, samples = run(arguments, Path(folder))
    # The store holds every execution and so grows by them; nothing else may.
    grows = [
        name
        for name in ("own_mib", "log_mib", "log_free_mib", "store_free_mib")
        if result["growth"][name]["in_all_by_mean"] > GROWTH_AIM
    ]
    document = {
        "benchmark": "steady",
        "command": f"python -m bench.steady {' '.join(sys.argv[1:])}".strip(),
        **describe_machine(arguments.data),
        **result,
        "aims": {"start_delay_p99_ms": DELAY_P99_AIM_MS, "growth_in_all_by_mean": GROWTH_AIM},
        "grows": grows,
        "aims_met": result["start_delay_ms"]["p99"] <= DELAY_P99_AIM_MS
        and not grows
        and not result["missing"]
        and not result["early_starts"],
        "samples": samples,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = arguments.out / f"steady_{arguments.rate}"
    text = json.dumps(document, indent=2)
    files.with_suffix(".json").write_text(text + "\n")
    shown = ("own_mib", "log_mib", "store_free_mib")
    curves = {name: [(one["second"], one[name]) for one in samples] for name in shown}
    title = f"{arguments.rate:,} executions/s"
    draw(files.with_suffix(".png"), title, curves, across="seconds", up="MiB, all nodes together")
    print(json.dumps({name: value for name, value in document.items() if name != "samples"}, indent=2))
    return 0 if document["aims_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
