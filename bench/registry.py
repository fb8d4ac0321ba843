"""What a large registry costs one node: finding and firing what is due, disk, and the time of a restart.

    python -m bench.registry --sizes 1000000,10000000,100000000 [--due 100000] [--data DISK]

One store grows from size to size. At each, the same number of jobs, scattered over it by chance, comes due and is
fired, leased and acknowledged by the real state machine; then a real node is started on the store. 100 million jobs
take some 20 GB of disk and half an hour. README.md says what the numbers mean.
"""

import argparse
import json
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.bulk import QUEUE, Registry
from bench.machine import describe_machine
from bench.measure import bytes_on_disk
from bench.memory import memory_of
from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Leased
from tests.cluster.harness import Cluster, Machine
from tests.cluster.processes import until

RESULTS = Path(__file__).parent / "results"

# Executions per command, as the pumps do it.
BATCH = 1_500
COMMIT_EVERY = 20
SHARDS = range(32)
DAY_MS = 86_400_000
# A cost is the median over so many parts of a drain, so that a single disturbance does not count.
PARTS = 5
RESTARTS = 3

GROWTH_AIM = 1.25
BYTES_AIM = 220
RESTART_AIM_S = 5.0


class Stages:
    """Processor time of this process by stage, for one part of a drain."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.cpu_s[stage] = self.cpu_s.get(stage, 0.0) + time.process_time() - began

    def us(self, executions: int) -> dict[str, float]:
        return {stage: cpu_s * 1e6 / executions for stage, cpu_s in self.cpu_s.items()}


def run_part(registry: Registry, session: int, count: int) -> dict[str, float]:
    """Fires, leases and acknowledges `count` executions that are due; microseconds for one, by stage."""
    stages, done, rounds = Stages(), 0, 0
    while done < count:
        batch = min(BATCH, count - done)
        registry.now_ms += 1
        with stages.timed("find"):
            assert registry.machine.next_due_ms(SHARDS) is not None
        with stages.timed("fire"):
            registry.apply(command_pb2.Command(fire=command_pb2.Fire(shards=SHARDS, limit=batch)))
        lease = command_pb2.Lease(session=session, queues=[QUEUE], limit=batch, payload_bytes_limit=1 << 20)
        with stages.timed("lease"):
            leased = registry.apply(command_pb2.Command(lease=lease))
        assert isinstance(leased, Leased)
        assert leased.executions, "nothing was ready"
        with stages.timed("ack"):
            registry.apply(command_pb2.Command(ack=command_pb2.Ack(blocks=[completed(leased, registry.now_ms)])))
        done, rounds = done + len(leased.executions), rounds + 1
        if rounds % COMMIT_EVERY == 0:
            with stages.timed("commit"):
                registry.machine.commit()
    with stages.timed("commit"):
        registry.machine.commit()
    return stages.us(done)


def completed(leased: Leased, now_ms: int) -> command_pb2.CompletedBlock:
    count = len(leased.executions)
    times = struct.pack(f">{count}Q", *[now_ms] * count)
    ids = struct.pack(f">{count}Q", *leased.executions)
    return command_pb2.CompletedBlock(token=leased.token, executions=ids, started_ms=times, ended_ms=times)


def drain(registry: Registry, due: int, due_ms: int) -> dict[str, float]:
    """Medians of the parts."""
    opened = registry.apply(
        command_pb2.Command(open_session={"worker": "bench", "queues": [QUEUE], "ttl_ms": 3_600_000})
    )
    session = opened.session  # type: ignore[union-attr]
    registry.now_ms = max(registry.now_ms, due_ms + 1_000)
    parts = [run_part(registry, session, due // PARTS) for _ in range(PARTS)]
    registry.apply(command_pb2.Command(close_session={"session": session}))
    registry.machine.commit()
    stages = {stage: round(median(part[stage] for part in parts), 3) for stage in parts[0]}
    return {**stages, "find_and_fire": round(median(part["find"] + part["fire"] for part in parts), 3)}


def restarts_s(folder: Path, data_dir: Path) -> dict[str, Any]:
    """How long a node takes from the start of its process until it serves, on this state: when it has no log yet, and
    killed and started again; and what memory it has of its own then. The state is left without a log."""
    cluster = Cluster(folder, nodes=1, session_ttl_ms=10_000, machines={1: Machine(data_dir=data_dir)})
    try:
        first_s = seconds_to_serve(cluster)
        again_s = []
        for _ in range(RESTARTS):
            cluster.nodes[1].kill()
            again_s.append(seconds_to_serve(cluster))
        memory = memory_of(cluster.nodes[1].pid)
    finally:
        cluster.close()
    for path in data_dir.iterdir():
        if path.name != "state":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (data_dir / "state" / "lock.mdb").unlink(missing_ok=True)
    return {"first_s": round(first_s, 2), "restart_s": round(median(again_s), 2), "memory_mib": memory}


def seconds_to_serve(cluster: Cluster) -> float:
    began = time.monotonic()
    cluster.nodes[1].start()

    def serving() -> bool:
        cluster.nodes[1].require_alive()
        status = cluster.status(1)
        return status is not None and status.leader == 1 and status.has_quorum

    until(serving, "the node serves", 600.0, every_s=0.01)
    return time.monotonic() - began


def measure(folder: Path, data_dir: Path, size: int, due: int) -> dict[str, Any]:
    """Grows the registry to this size and measures it."""
    began = time.monotonic()
    registry = Registry(data_dir / "state")
    before = registry.jobs
    due_ms = registry.now_ms + 1_000
    registry.add(size - before, due=due, due_ms=due_ms, later_ms=due_ms + DAY_MS)
    load_s = time.monotonic() - began
    size_bytes = bytes_on_disk(registry.folder)
    costs = drain(registry, due, due_ms)
    registry.close()
    return {
        "jobs": size,
        "loaded_per_s": round((size - before) / load_s),
        "bytes_per_job": round(size_bytes / size, 1),
        "cpu_us_per_execution": costs,
        **restarts_s(folder / f"cluster-{size}", data_dir),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000000,10000000", help="ascending, with commas (1 and 10 million)")
    parser.add_argument("--due", type=int, default=100_000, help="jobs that come due at each size (100,000)")
    parser.add_argument("--data", type=Path, help="where the store is meanwhile (a temporary folder)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes (bench/results)")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if sizes != sorted(sizes) or sizes[0] < arguments.due:
        parser.error("--sizes ascend, and the first is not below --due")
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="raftsched-registry-", dir=arguments.data) as folder:
        for size in sizes:
            results.append(measure(Path(folder), Path(folder) / "node", size, arguments.due))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    fire_us = [result["cpu_us_per_execution"]["find_and_fire"] for result in results]
    document = {
        "benchmark": "registry",
        "command": f"python -m bench.registry {' '.join(sys.argv[1:])}".strip(),
        **describe_machine(arguments.data),
        "sizes": results,
        "find_and_fire_growth": round(fire_us[-1] / fire_us[0], 2),
        "aims": {"find_and_fire_growth": GROWTH_AIM, "bytes_per_job": BYTES_AIM, "restart_s": RESTART_AIM_S},
    }
    document["aims_met"] = (
        document["find_and_fire_growth"] <= GROWTH_AIM
        and max(result["bytes_per_job"] for result in results) <= BYTES_AIM
        and max(result["restart_s"] for result in results) <= RESTART_AIM_S
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2)
    (arguments.out / f"registry_{sizes[-1]}.json").write_text(text + "\n")
    print(text)
    return 0 if document["aims_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
