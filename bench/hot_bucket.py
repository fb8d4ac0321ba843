"""N jobs due in one second: how fast they are created, how fast they drain, how late they start, at what cost.

    python -m bench.hot_bucket --jobs 100000 [--nodes 3] [--workers 2] [--runs 3] [--recurring] [--kill-leader] ...

Real nodes, real workers, a handler that does nothing, every entry fsynced by a quorum. It ends when every completion
has been confirmed by the quorum. README.md says what the numbers mean.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.drain import Drain, measure_drain
from bench.drain_curve import draw
from bench.machine import describe_machine

RESULTS = Path(__file__).parent / "results"


def parse(argv: Sequence[str] | None = None, description: str | None = __doc__) -> argparse.Namespace:
    """The options of this and of other benchmarks that drain a hot bucket."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5))
    parser.add_argument("--workers", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--runs", type=int, default=1, help="the whole so many times, on new clusters; medians (1)")
    parser.add_argument("--payload-bytes", type=int, default=0)
    parser.add_argument("--tenants", type=int, default=0, help="jobs belong to so many tenants in turn (none)")
    parser.add_argument("--recurring", action="store_true", help="hourly cron jobs instead of one-offs")
    parser.add_argument(
        "--scattered",
        type=int,
        default=0,
        metavar="REGISTRY",
        help="so many jobs are registered, and a random fifth of them is due; instead of --jobs",
    )
    parser.add_argument("--async-handler-ms", type=float, default=0, help="handlers are coroutines that wait so long")
    parser.add_argument("--concurrency", type=int, help="handlers at once in a worker (its default; 2,000 if async)")
    parser.add_argument("--kill-leader", action="store_true", help="kill -9 of the leader at 30 percent of the drain")
    parser.add_argument("--creators", type=int, default=3, help="concurrent batch creates (3)")
    parser.add_argument("--session-ttl-ms", type=int, default=10_000)
    parser.add_argument("--lead-s", type=float, help="from the first create to the due time (by the number of jobs)")
    parser.add_argument("--patience-s", type=float, default=300.0, help="give up so long after the due time (300)")
    parser.add_argument("--data", type=Path, help="where nodes keep their data meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where JSON and drain curve go (bench/results)")
    arguments = parser.parse_args(argv)
    if arguments.scattered:
        if arguments.recurring or arguments.tenants or arguments.payload_bytes:
            parser.error("--scattered goes with plain one-offs only")
        arguments.jobs = arguments.scattered // 5
    if arguments.async_handler_ms and arguments.concurrency is None:
        arguments.concurrency = 2_000
    return arguments


def name_of(arguments: argparse.Namespace) -> str:
    """Of the files of one variant."""
    parts = [f"hot_bucket_{arguments.jobs}", "recurring" if arguments.recurring else "once"]
    parts += [f"{arguments.nodes}_nodes"] if arguments.nodes != 3 else []
    parts += [f"{arguments.tenants}_tenants"] if arguments.tenants else []
    parts += [f"{arguments.payload_bytes}_bytes"] if arguments.payload_bytes else []
    parts += [f"of_{arguments.scattered}"] if arguments.scattered else []
    parts += [f"wait_{arguments.async_handler_ms:g}_ms"] if arguments.async_handler_ms else []
    parts += ["kill"] if arguments.kill_leader else []
    return "_".join(parts)


def one_run(arguments: argparse.Namespace) -> Drain:
    with tempfile.TemporaryDirectory(prefix="raftsched-hot-", dir=arguments.data) as folder:
        return measure_drain(arguments, Path(folder))


def all_ran(result: dict[str, Any], jobs: int) -> bool:
    return result["executions_started"] == jobs and not result["early_starts"]


def main() -> int:
    arguments = parse()
    drains = [one_run(arguments) for _ in range(arguments.runs)]
    results = [drain.result for drain in drains]
    rates = [result["drain_per_s"] for result in results]
    document = {
        "benchmark": "hot_bucket",
        "command": f"python -m bench.hot_bucket {' '.join(sys.argv[1:])}".strip(),
        **describe_machine(arguments.data),
        "drain_per_s": {"median": round(median(rates)), "min": min(rates), "max": max(rates)},
        "drain_s": median(result["drain_s"] for result in results),
        "create_per_s": median(result["create_per_s"] for result in results),
        "runs": results,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = arguments.out / name_of(arguments)
    # The run whose rate is the median, or the faster of the two in the middle.
    shown = sorted(drains, key=lambda drain: drain.result["drain_per_s"])[len(drains) // 2]
    title = f"{arguments.jobs:,} jobs due at once, {arguments.nodes} nodes"
    draw(files.with_suffix(".png"), title, shown.curves)
    text = json.dumps(document, indent=2)
    files.with_suffix(".json").write_text(text + "\n")
    print(text)
    return 0 if all(all_ran(result, arguments.jobs) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
