"""Commands that no node proposes, some in one entry: each is refused or carried out, no machine stops, and all agree.

Beside the machine that applies everything there are one that is started anew again and again, so that it knows only
what its store holds, and one that is given snapshots of the first.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Leased, SessionOpened
from raftsched.store import keys
from tests.unit.state.support import MINUTE_MS, Node, create_command, profile

STEPS = 120
OPERATIONS = [
    field.message_type._concrete_class for field in command_pb2.Command.DESCRIPTOR.oneofs_by_name["op"].fields
]
RANGES = {
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
}
NUMBERS = [0, 1, 2, 3, 255, 65_536, (1 << 31) - 1, (1 << 32) - 1, 1 << 48, (1 << 63) - 1, (1 << 64) - 1, -1, -(1 << 63)]
TEXTS = ["", "a", "default", "h", "k", "\0", "\x1b[0m", "é" * 300, "x" * 70_000]
DOUBLES = [0.0, 2.0, -1.0, 1e308, 5e-324, float("inf"), float("nan")]
WAITS_MS = [0, 1, 300, 1_000, 1_000, 61_000, 900_000, 40_000_000]


class World:
    """Makes commands, likely and unlikely ones, and knows a little of what came of them."""

    def __init__(self, seed: int, node: Node) -> None:
        self.random = random.Random(seed)
        self.node = node
        self.tokens = [1]
        self.sessions = [1]

    def entry(self) -> list[Message]:
        pick = self.random
        self.node.now_ms += pick.choice(WAITS_MS)
        commands = [
            pick.choice([self.likely, self.likely, self.unlikely])() for _ in range(pick.choice([1, 1, 2, 3, 6]))
        ]
        # The same again, as when its first answer was late.
        return commands + pick.sample(commands, k=pick.choice([0, 0, 1]))

    def note(self, results: list[Any]) -> None:
        self.sessions += [result.session for result in results if isinstance(result, SessionOpened)]
        self.tokens += [result.token for result in results if isinstance(result, Leased) and result.executions]

    def likely(self) -> Message:
        pick, job = self.random, self._job()
        queues = ["a", "default"]
        return pick.choice(
            [
                self._jobs(),
                self._jobs(),
                command_pb2.OpenSession(worker="w", queues=queues, ttl_ms=pick.choice([5_000, 60_000])),
                command_pb2.Lease(session=self.sessions[-1], queues=queues, limit=pick.choice([1, 50])),
                command_pb2.Fire(shards=range(keys.SHARDS), limit=pick.choice([1, 100])),
                command_pb2.Tick(limit=pick.choice([1, 100])),
                command_pb2.Reclaim(limit=pick.choice([3, 1_000]), age_ms=pick.choice([0, 900_000]), executions=1),
                command_pb2.PauseJob(job=job),
                command_pb2.ResumeJob(job=job),
                command_pb2.TriggerJob(job=job, ignore_overlap=pick.random() < 0.5),
                command_pb2.CancelJob(job=job, dropped_token=pick.choice(self.tokens)),
                command_pb2.DeleteJob(job=job),
                self._more_ticks(),
                self._other_ticks(),
            ]
        )

    def unlikely(self) -> Message:
        return self._filled(self.random.choice(OPERATIONS)())

    def _more_ticks(self) -> command_pb2.ExtendTicks:
        schedule = self._schedule()
        last_ms = self.node.machine._context.ticks.last(schedule)
        final = self.random.random() < 0.3
        return command_pb2.ExtendTicks(
            schedule=schedule, after_ms=last_ms, ticks_ms=self._minutes(), final=final, rules=self._rules(schedule)
        )

    def _other_ticks(self) -> command_pb2.ReplaceTicks:
        schedule = self._schedule()
        ticks_ms = self._minutes()[1:]
        return command_pb2.ReplaceTicks(
            schedule=schedule, ticks_ms=ticks_ms, final=True, replaced=self._rules(schedule)
        )

    def _schedule(self) -> int:
        return self.random.randint(1, max(1, self.node.machine.counters.schedules))

    def _rules(self, schedule: int) -> command_pb2.TickRules:
        rules = self.node.machine._context.ticks.rules.of(schedule)
        return command_pb2.TickRules(
            time_zone_database=rules.time_zone_database, calendars_version=rules.calendars_version
        )

    def _jobs(self) -> command_pb2.CreateJobs:
        pick = self.random
        settings = {
            "queue": pick.choice(["a", "default"]),
            "overlap": pick.choice([1, 2, 3, 4]),
            "catch_up": pick.choice([1, 2, 3]),
            "catch_up_interval_ms": pick.choice([0, 300]),
            "jitter_ms": pick.choice([0, 0, 90_000]),
            "start_deadline_ms": pick.choice([0, 20_000]),
            "max_attempts": pick.choice([1, 2]),
            "pause_after_failures": pick.choice([0, 1]),
            "max_runs": pick.choice([0, 0, 2]),
            "due_ms": pick.choice([0, self.node.now_ms + 700, self.node.now_ms + 700]),
        }
        kind = pick.choice(["once", "interval", "cron"])
        ticks_ms = self._minutes() if kind == "cron" else ()
        settings["expression"] = pick.choice(["* * * * *", "*/1 * * * *", "0-59 * * * *"])
        command = create_command(2, every_ms=1_000 if kind == "interval" else 0, ticks_ms=ticks_ms, **settings)
        if kind == "interval":
            schedule = command_pb2.Schedule(every_ms=1_000, end_ms=pick.choice([0, self.node.now_ms + 500]))
            command.schedules[0].schedule = schedule.SerializeToString()
        if pick.random() < 0.3:
            command.profiles.append(profile(dependency_rule=1, overlap=3).SerializeToString(deterministic=True))
            command.jobs.add(profile=1, upstream_positions=[0, 1])
            command.nodes.extend("abc")
        return command

    def _job(self) -> int:
        """Most likely one of the newest."""
        newest = self.node.machine.counters.jobs
        return max(1, self.random.randint(newest - 6, newest))

    def _minutes(self) -> list[int]:
        first_ms = self.node.now_ms - self.node.now_ms % MINUTE_MS
        return [first_ms + MINUTE_MS * number for number in range(1, self.random.choice([2, 5]))]

    def _filled(self, message: Any) -> Any:
        """With anything in some of its fields."""
        for field in message.DESCRIPTOR.fields:
            count = self.random.choice([0, 1, 1, 1, 3] if field.is_repeated else [0, 1, 1])
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                getattr(message, field.name).update({self.random.choice(TEXTS): "x"} if count else {})
            elif field.message_type is not None:
                for _ in range(count):
                    inner = getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)
                    self._filled(inner).SetInParent()
            elif field.is_repeated:
                getattr(message, field.name).extend([self._value(field) for _ in range(count)])
            elif count:
                setattr(message, field.name, self._value(field))
        return message

    def _value(self, field: FieldDescriptor) -> Any:
        pick = self.random
        values: dict[int, Callable[[], Any]] = {
            FieldDescriptor.TYPE_BOOL: lambda: pick.random() < 0.5,
            FieldDescriptor.TYPE_STRING: lambda: pick.choice(TEXTS),
            FieldDescriptor.TYPE_DOUBLE: lambda: pick.choice(DOUBLES),
            FieldDescriptor.TYPE_BYTES: self._bytes,
        }
        if field.type in values:
            return values[field.type]()
        low, high = RANGES[field.type]
        known = {"job": self._job(), "token": pick.choice(self.tokens), "session": self.sessions[-1]}
        likely = [known.get(field.name, 1), known.get(field.name, 2), self.node.now_ms if high > 1 << 40 else 3]
        return pick.choice(likely + [number for number in NUMBERS if low <= number <= high])

    def _bytes(self) -> bytes:
        executions = self.node.machine.counters.executions
        column = keys.pack_ids([self.random.randint(0, executions + 1) for _ in range(3)])
        return self.random.choice([b"", b"\0", b"\xff" * 7, b"\xff" * 16, bytes(16), column, column, bytes(300_000)])


class Replica:
    """Applies what another machine did, and must become what that is."""

    def __init__(self, path: Path, original: Node) -> None:
        self.node = Node(path, node_id=2)
        self.original = original
        self.uncommitted: list[bytes] = []

    def follow(self) -> None:
        self.uncommitted.append(self.original.entries[-1])
        self.node.apply(self.uncommitted[-1])
        assert self.node.machine.digest == self.original.machine.digest

    def restart(self, *, commit: bool) -> None:
        if commit:
            self.node.machine.commit()
            self.uncommitted.clear()
        self.node.reopen()
        for entry in self.uncommitted:
            self.node.apply(entry)
        assert self.node.machine.digest == self.original.machine.digest


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Replica, Replica]]:
    first = Node(tmp_path / "first")
    others = Replica(tmp_path / "restarted", first), Replica(tmp_path / "installed", first)
    yield first, *others
    for node in (first, *(other.node for other in others)):
        node.machine.close()


@pytest.mark.parametrize("seed", range(12))
def test_no_command_stops_a_machine_and_all_machines_agree(
    nodes: tuple[Node, Replica, Replica], seed: int, tmp_path: Path
) -> None:
    node, restarted, installed = nodes
    world = World(seed, node)
    for step in range(STEPS):
        world.note(node.batch(*world.entry()))
        for replica in (restarted, installed):
            replica.follow()
        if step % 5 == 4:
            node.check()
            restarted.restart(commit=world.random.random() < 0.5)
        if step % 20 == 19:
            node.machine.commit()
            snapshot = tmp_path / f"snapshot-{step}"
            node.machine.snapshot_to(snapshot)
            installed.node.machine.install_snapshot(snapshot)
    assert restarted.node.dump() == node.dump()
    assert installed.node.dump() == node.dump()
