"""Fills a node's store with jobs without a cluster: the same CreateJobs commands, applied by the real state machine,
at some hundred thousand jobs a second. A node that finds such a store and no log takes it for its state, as it does
with a restored backup; so do the nodes of a new cluster that are all given the same.
"""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from raftsched.api.job_settings import job_settings, profile_bytes
from raftsched.internal.v1 import command_pb2
from raftsched.state.machine import Machine
from raftsched.state.results import Result
from raftsched.store.environment import Store
from raftsched.v1 import job_pb2

NODE = 1
QUEUE = "default"
BATCH = 10_000
# As a node under load commits.
COMMIT_EVERY = 200_000

# Jobs that are not due are due one after the other from then on, each up to so much later by chance: neighbours in the
# due index were created at different times, and a commit still touches a bounded part of the index.
LATER_STEP_MS = 20
LATER_SPREAD_MS = 3_600_000


def profile(handler: str) -> bytes:
    """What all jobs share, as the API makes it of a one-off that says nothing but its handler."""
    return profile_bytes(job_settings(job_pb2.Job(handler=handler), recurring=False))


class Registry:
    """One store that grows. `folder` becomes the store's folder: a node's data folder / "state"."""

    def __init__(self, folder: Path, *, seed: int = 1) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self.machine = Machine(Store(folder), node_id=NODE)
        self.now_ms = max(self.machine.now_ms, time.time_ns() // 1_000_000)
        self.jobs = self.machine.counters.jobs

    def apply(self, command: command_pb2.Command) -> Result:
        """One entry with this command; returns its result."""
        index = self.machine.applied_index + 1
        command.origin, command.request = NODE, index
        entry = command_pb2.Entry(now_ms=self.now_ms, commands=[command.SerializeToString()])
        effects = self.machine.apply_entry(index, max(1, self.machine.applied_term), entry.SerializeToString())
        return effects.results[0][1]

    def add(self, count: int, *, due: int = 0, due_ms: int = 0, later_ms: int, handler: str = "noop") -> list[int]:
        """Adds jobs, `due` of them, picked at random, due at `due_ms` and the others from `later_ms` on; returns the
        ids of those that are due, and commits."""
        shared, due_ids, written = profile(handler), [], 0
        for size, due_here in _portions(count, due):
            create = command_pb2.CreateJobs(profiles=[shared])
            is_due = set(self._random.sample(range(size), due_here))
            for number in range(size):
                step_ms = LATER_STEP_MS * (self.jobs + number)
                at_ms = due_ms if number in is_due else later_ms + step_ms + self._random.randrange(LATER_SPREAD_MS)
                create.jobs.add(due_ms=at_ms)
            created = self.apply(command_pb2.Command(create_jobs=create))
            first = created.job_ids.start  # type: ignore[union-attr]
            due_ids += [first + number for number in sorted(is_due)]
            self.jobs += size
            written += size
            if written >= COMMIT_EVERY:
                self.machine.commit()
                written = 0
        self.machine.commit()
        return due_ids

    def close(self) -> None:
        self.machine.commit()
        self.machine.close()


def _portions(count: int, due: int) -> Iterator[tuple[int, int]]:
    """(jobs, due ones among them) of each batch; the due ones are spread evenly over the batches."""
    given = done = 0
    while done < count:
        size = min(BATCH, count - done)
        done += size
        due_here = due * done // count - given
        given += due_here
        yield size, due_here


def give_state(store: Path, data_dirs: list[Path]) -> None:
    """Copies a closed store to nodes that have no data yet."""
    for data_dir in data_dirs:
        (data_dir / "state").mkdir(parents=True)
        shutil.copyfile(store / "data.mdb", data_dir / "state" / "data.mdb")
