"""CPU time of the state machine per execution: Create, Fire, Lease and Ack on one machine, without Raft or gRPC.

Run `python bench/apply_hot_path.py` (a few seconds); prints one JSON object per case, times in microseconds of this
process's CPU per job or execution.
"""

import argparse
import json
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raftsched.internal.v1 import command_pb2
from raftsched.state.machine import Machine
from raftsched.state.results import Leased, Result
from raftsched.store.environment import Store
from raftsched.v1 import job_pb2

if TYPE_CHECKING:
    import cProfile

START_MS = 1_800_000_000_000
NODE = 1
QUEUE = "default"
CASES = {
    "one_off": {},
    "recurring": {"every_ms": 60_000},
    "cron": {"expression": "* * * * *"},
    "jitter": {"every_ms": 60_000, "jitter_ms": 1_000},
    "payload_100_bytes": {"payload": bytes(100)},
    "run_timeout": {"run_timeout_ms": 60_000},
    "four_profiles": {"profiles": 4},
}


class Bench:
    """One machine, driven entry by entry; commits as a node under load does."""

    def __init__(self, directory: Path, commit_every: int) -> None:
        self.machine = Machine(Store(directory), node_id=NODE)
        self._commit_every = commit_every
        self._index = 0
        self._since_commit = 0
        self.now_ms = START_MS
        self.cpu_s: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.cpu_s[stage] = self.cpu_s.get(stage, 0.0) + time.process_time() - began

    def apply(self, stage: str, command: command_pb2.Command, ops: int) -> Result:
        command.origin, command.request = NODE, self._index + 1
        entry = command_pb2.Entry(now_ms=self.now_ms, commands=[command.SerializeToString()]).SerializeToString()
        self._index += 1
        with self.timed(stage):
            effects = self.machine.apply_entry(self._index, 1, entry)
        self._since_commit += ops
        if self._since_commit >= self._commit_every:
            self.commit()
        return effects.results[0][1]

    def commit(self) -> None:
        with self.timed("commit"):
            self.machine.commit()
        self._since_commit = 0


def create_command(
    count: int,
    *,
    profiles: int = 1,
    every_ms: int = 0,
    expression: str = "",
    payload: bytes = b"",
    run_timeout_ms: int = 0,
    jitter_ms: int = 0,
) -> command_pb2.CreateJobs:
    create = command_pb2.CreateJobs()
    for number in range(profiles):
        profile = command_pb2.Profile(
            namespace="default",
            handler=f"bench.{number}",
            queue=QUEUE,
            max_attempts=3,
            multiplier=2.0,
            run_timeout_ms=run_timeout_ms,
            jitter_ms=jitter_ms,
            overlap=job_pb2.OVERLAP_POLICY_SKIP,
            catch_up=job_pb2.CATCH_UP_POLICY_LATEST,
        )
        create.profiles.append(profile.SerializeToString())
    recurring = bool(every_ms or expression)
    if recurring:
        schedule = command_pb2.Schedule(expression=expression, every_ms=every_ms, time_zone="UTC" if expression else "")
        ticks_ms = [START_MS + 60_000 * number for number in range(1, 65)] if expression else []
        create.schedules.add(schedule=schedule.SerializeToString(), ticks_ms=ticks_ms)
    for number in range(count):
        create.jobs.add(profile=number % profiles, schedule=int(recurring), due_ms=START_MS + 60_000, payload=payload)
    return create


def run(jobs: int, batch: int, commit_every: int, settings: dict[str, object]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), commit_every)
        opened = bench.apply(
            "other", command_pb2.Command(open_session={"worker": "bench", "queues": [QUEUE], "ttl_ms": 3_600_000}), 1
        )
        session = opened.session  # type: ignore[union-attr]
        create = create_command(min(jobs, 10_000), **settings)  # type: ignore[arg-type]
        for _ in range(0, jobs, 10_000):
            bench.apply("create", command_pb2.Command(create_jobs=create), len(create.jobs))
        bench.commit()
        bench.cpu_s.pop("commit")
        bench.now_ms += 60_000 + 1_000
        drain(bench, session, jobs, batch)
        bench.commit()
        bench.machine.close()
        result = {stage: round(cpu_s * 1e6 / jobs, 2) for stage, cpu_s in bench.cpu_s.items() if stage != "other"}
        result["fire_lease_ack_commit"] = round(sum(value for key, value in result.items() if key != "create"), 2)
        return result


def drain(bench: Bench, session: int, jobs: int, batch: int) -> None:
    """Fires, leases and acknowledges in turn, as the pumps do."""
    done = 0
    fire = command_pb2.Fire(shards=range(32), limit=batch)
    lease = command_pb2.Lease(session=session, queues=[QUEUE], limit=batch, payload_bytes_limit=1 << 20)
    while done < jobs:
        bench.now_ms += 1
        bench.apply("fire", command_pb2.Command(fire=fire), batch)
        leased = bench.apply("lease", command_pb2.Command(lease=lease), batch)
        assert isinstance(leased, Leased)
        count = len(leased.executions)
        times = struct.pack(f">{count}Q", *[bench.now_ms] * count)
        block = command_pb2.CompletedBlock(
            token=leased.token,
            executions=struct.pack(f">{count}Q", *leased.executions),
            started_ms=times,
            ended_ms=times,
        )
        bench.apply("ack", command_pb2.Command(ack=command_pb2.Ack(blocks=[block])), batch)
        done += count


def profiler() -> "cProfile.Profile":
    """Python's own. Run as a script, this folder comes first, and its profile.py would be taken for Python's."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]
    import cProfile

    return cProfile.Profile()


def print_profile(profile: "cProfile.Profile") -> None:
    import pstats

    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_500, help="executions per command")
    parser.add_argument("--commit-every", type=int, default=100_000, help="operations between commits of the store")
    parser.add_argument("--case", choices=CASES, action="append", help="all when not given; may be repeated")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    arguments = parser.parse_args()
    for case in arguments.case or CASES:
        profile = profiler() if arguments.profile else None
        if profile:
            profile.enable()
        result = run(arguments.jobs, arguments.batch, arguments.commit_every, CASES[case])
        if profile:
            profile.disable()
            print_profile(profile)
        print(json.dumps({"case": case, "jobs": arguments.jobs, "batch": arguments.batch, "us": result}), flush=True)


if __name__ == "__main__":
    main()
