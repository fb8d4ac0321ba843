"""The hot bucket, drained by raftsched and by peers: N jobs that do nothing, due at one instant.

    python -m bench.compare graphile-worker --jobs 100000
    python -m bench.compare all --jobs 100000 --runs 3

The first time a peer is installed into a cache folder outside the repository ($RAFTSCHED_BENCH_CACHE). A round runs
every system once, one after the other, so that what the machine does meanwhile meets all alike. README.md says what is
measured and where each peer's settings come from.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.compare.packages import CannotInstall
from bench.compare.peer import Load, measure
from bench.compare.peers import PEERS
from bench.compare.table import markdown, summarize, with_ratios
from bench.machine import describe_machine
from tests.cluster.processes import ROOT

OWN = "raftsched"
RESULTS = Path(__file__).parents[1] / "results"


def run_own(jobs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same with raftsched, in processes of its own. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="raftsched-compare-") as folder:
        command = [sys.executable, "-m", "bench.hot_bucket", f"--jobs={jobs}", f"--nodes={arguments.nodes}"]
        command += [f"--workers={arguments.workers}", f"--out={folder}"]
        command += [f"--lead-s={arguments.lead_s}"] if arguments.lead_s else []
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"raftsched's own run failed: {(done.stdout + done.stderr)[-2_000:]}")
    result: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    return {**result, "cpu_us_per_execution": result["cpu_us_per_execution"]["total"]}


def run_peer(name: str, jobs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Raises CannotInstall, RuntimeError or AssertionError."""
    peer = PEERS[name]()
    peer.install()
    with tempfile.TemporaryDirectory(prefix="raftsched-compare-", ignore_cleanup_errors=True) as folder:
        load = Load(jobs, arguments.workers, arguments.lead_s, arguments.patience_s)
        return measure(peer, load, Path(folder))


def describe(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    if name == OWN:
        return {"copies": arguments.nodes, "store": "LMDB, every entry synced by a quorum"}
    peer = PEERS[name]
    return {
        "copies": 1,
        "store": peer.store,
        "packages": list(peer.packages),
        "settings": {"workers": dict(peer.worker_settings), "server": dict(peer.server_settings)},
    }


def rounds(names: list[str], arguments: argparse.Namespace) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(round, system, result or error) of every run, as it ends."""
    impossible: set[str] = set()
    for number in range(1, arguments.runs + 1):
        for name in names:
            if name in impossible:
                continue
            slow = name != OWN and PEERS[name].is_slow
            jobs = min(arguments.jobs, arguments.slow_jobs) if slow else arguments.jobs
            try:
                result = run_own(jobs, arguments) if name == OWN else run_peer(name, jobs, arguments)
            except CannotInstall as error:
                impossible.add(name)
                result = {"error": f"could not be installed: {error}"}
            except (RuntimeError, AssertionError) as error:
                result = {"error": f"round {number} failed: {error}"}
            yield number, name, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=["all", OWN, *PEERS], nargs="+", help="which to run, in this order")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--slow-jobs", type=int, default=20_000, help="at most so many for the slow peers (20,000)")
    parser.add_argument("--runs", type=int, default=1, help="rounds; the table has medians (1)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes of each system (2)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 3, 5), help="of raftsched (3)")
    parser.add_argument("--lead-s", type=float, help="from the first create to the due time (by the number of jobs)")
    parser.add_argument("--patience-s", type=float, default=600.0, help="give a peer up so long after the due time")
    parser.add_argument("--out", type=Path, help="folder for JSON and table (bench/results when all are run)")
    arguments = parser.parse_args()
    # Ended from outside, it stops what it started all the same.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    names = [OWN, *PEERS] if "all" in arguments.system else list(dict.fromkeys(arguments.system))

    systems: dict[str, dict[str, Any]] = {name: {**describe(name, arguments), "each": []} for name in names}
    for number, name, result in rounds(names, arguments):
        print(f"round {number}: {name}: {result.get('error') or result['drain_per_s']}", file=sys.stderr, flush=True)
        if "error" in result:
            systems[name].setdefault("errors", []).append(result["error"])
        else:
            systems[name]["each"].append({"round": number, **result})
    for system in systems.values():
        if system["each"]:
            system.update(summarize(system["each"]))
    with_ratios(systems, OWN)
    table = markdown(systems)
    out = arguments.out or (RESULTS if "all" in arguments.system else None)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        command = f"python -m bench.compare {' '.join(sys.argv[1:])}"
        document = {"benchmark": "compare", "command": command, **describe_machine(), "systems": systems}
        (out / f"compare_{arguments.jobs}.json").write_text(json.dumps(document, indent=2) + "\n")
        (out / f"compare_{arguments.jobs}.md").write_text(table)
    print(table)
    return 1 if any("errors" in system for system in systems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
