"""How much CPU a cluster without work uses: `python -m bench.idle [--registered N]`. Exit code 1 above the bound."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from bench.bulk import Registry, give_state
from bench.machine import describe_machine
from bench.measure import take_snapshot, used_between
from tests.cluster.harness import Cluster

# Of one core, all nodes together.
BOUND_PERCENT = 3.0
SETTLE_S = 5.0
LATER_MS = 30 * 86_400_000


def idle_percent(cluster: Cluster, seconds: float) -> dict[str, float]:
    """CPU of each process in percent of one core, over so many seconds."""
    before, began = take_snapshot(cluster), time.monotonic()
    time.sleep(seconds)
    after, ended = take_snapshot(cluster), time.monotonic()
    return {name: 100 * used.cpu_s / (ended - began) for name, used in used_between(before, after).items()}


def register(cluster: Cluster, jobs: int, folder: Path) -> None:
    """Gives every node the same registry, none of which is due for a month."""
    registry = Registry(folder)
    try:
        registry.add(jobs, later_ms=registry.now_ms + LATER_MS)
    finally:
        registry.close()
    give_state(folder, [cluster.data_dir(number) for number in cluster.nodes])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure (20)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--workers", type=int, default=0, help="idle workers beside them (0)")
    parser.add_argument("--registered", type=int, default=0, help="jobs that are registered and not due (0)")
    parser.add_argument("--data", type=Path, help="where nodes keep their data meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, help="where the JSON goes too (nowhere)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-idle-", dir=arguments.data) as folder:
        cluster = Cluster(
            Path(folder) / "cluster", nodes=arguments.nodes, session_ttl_ms=10_000, worker_app="bench.handlers:app"
        )
        try:
            if arguments.registered:
                register(cluster, arguments.registered, Path(folder) / "registry")
            cluster.start()
            for number in range(arguments.workers):
                cluster.start_worker(f"worker-{number + 1}")
            time.sleep(SETTLE_S)
            used = idle_percent(cluster, arguments.seconds)
        finally:
            cluster.close()
    nodes_percent = sum(percent for name, percent in used.items() if name.startswith("node-"))
    result = {
        "benchmark": "idle",
        **describe_machine(arguments.data),
        "registered": arguments.registered,
        "seconds": arguments.seconds,
        "percent_of_a_core": {name: round(percent, 2) for name, percent in used.items()},
        "nodes_percent_of_a_core": round(nodes_percent, 2),
        "bound_percent": BOUND_PERCENT,
        "within_bound": nodes_percent < BOUND_PERCENT,
    }
    text = json.dumps(result, indent=2)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"idle_{arguments.registered}.json").write_text(text + "\n")
    print(text)
    return 0 if result["within_bound"] else 1


if __name__ == "__main__":
    sys.exit(main())
