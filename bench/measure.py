"""What benchmarks read from the outside of running processes: CPU, disk, commits. The nodes know nothing of it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lmdb
import psutil

from tests.cluster.harness import Cluster


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment: CPU seconds since its start, and bytes it sent towards the disk."""

    pid: int
    cpu_s: float
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All processes of a cluster, and what each node has on disk: bytes and commits of its log and of its store."""

    processes: Mapping[str, Reading]
    log_bytes: int
    store_bytes: int
    # Each commit of an LMDB environment is at least one flush of the disk; by node.
    commits: Mapping[str, int]


def read_process(pid: int) -> Reading:
    """Children included: a worker may have some. Raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    cpu_s, written = 0.0, 0
    for one in (process, *process.children(recursive=True)):
        times = one.cpu_times()
        cpu_s += times.user + times.system
        written += one.io_counters().write_bytes
    return Reading(pid, cpu_s, written)


def environments(data_dir: Path) -> Iterable[Path]:
    """The LMDB environments below a node's folder."""
    return sorted(path.parent for path in data_dir.rglob("data.mdb"))


def commits_of(environment: Path) -> int:
    """Write transactions committed since the environment was made."""
    # Only the meta page is read, so no lock is needed beside the process that owns it.
    opened = lmdb.open(str(environment), readonly=True, lock=False, create=False, max_dbs=0, lib_version=0)
    try:
        return int(opened.info()["last_txnid"])
    finally:
        opened.close()


def bytes_on_disk(environment: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in environment.iterdir() if path.is_file())


def take_snapshot(cluster: Cluster) -> Snapshot:
    """Of all that lives; sizes are those of one node, the one with the lowest number."""
    alive = {process.name: process for process in cluster.processes if process.alive}
    commits = {}
    for number in cluster.nodes:
        for environment in environments(cluster.data_dir(number)):
            commits[f"node-{number} {environment.name}"] = commits_of(environment)
    first = environments(cluster.data_dir(min(cluster.nodes)))
    sizes = {environment.name: bytes_on_disk(environment) for environment in first}
    log_bytes = sum(size for name, size in sizes.items() if "log" in name)
    return Snapshot(
        processes={name: read_process(process.pid) for name, process in alive.items()},
        log_bytes=log_bytes,
        store_bytes=sum(sizes.values()) - log_bytes,
        commits=commits,
    )


def used_between(before: Snapshot, after: Snapshot) -> dict[str, Reading]:
    """What the processes that lived from one moment to the other used; one that was restarted is not among them."""
    used = {}
    for name, first in before.processes.items():
        last = after.processes.get(name)
        if last is not None and last.pid == first.pid:
            used[name] = Reading(first.pid, last.cpu_s - first.cpu_s, last.written_bytes - first.written_bytes)
    return used


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0–1) of the ascending values do not pass. NaN when there is none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def spread_ms(values_ms: Iterable[float]) -> dict[str, float]:
    """p50, p99 and the largest of some durations, rounded to hundredths of a millisecond."""
    ordered = sorted(values_ms)
    return {
        "p50": round(percentile(ordered, 0.50), 2),
        "p99": round(percentile(ordered, 0.99), 2),
        "max": round(ordered[-1], 2) if ordered else math.nan,
    }
