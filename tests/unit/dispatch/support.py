"""A pump's surroundings under a test's control: time stands still and commands are kept until they are answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from raftsched.dispatch.ports import OnResult
from raftsched.internal.v1 import command_pb2
from raftsched.model.retention import RetentionSettings
from raftsched.state.results import Result
from raftsched.store import rows


@dataclass
class ManualClock:
    now_s: float = 1_000.0
    wall: int = 1_000_000

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Session:
    queues: tuple[str, ...]


@dataclass
class Views:
    """State as the pumps see it."""

    applied_index: int = 1
    now_ms: int = 0
    ready_by_queue: dict[str, int] = field(default_factory=dict)
    shard_owners: tuple[int, ...] = (1,) * 32
    due_ms: int | None = None
    deadline_ms: int | None = None
    needs: list[object] = field(default_factory=list)

    # What limits let through, when that is not all that is ready.
    leasable_by_queue: dict[str, int] | None = None
    refill_by_queue: dict[str, int] = field(default_factory=dict)

    def leasable(self, queue: str) -> int:
        counts = self.ready_by_queue if self.leasable_by_queue is None else self.leasable_by_queue
        return counts.get(queue, 0)

    shared: set[str] = field(default_factory=set)

    def is_shared(self, queue: str) -> bool:
        return queue in self.shared

    def refill_ms(self, queue: str) -> int | None:
        return self.refill_by_queue.get(queue)

    def next_due_ms(self, shards: Sequence[int]) -> int | None:
        return self.due_ms if shards else None

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    outdated: list[object] = field(default_factory=list)
    counters: rows.StateRow = field(default_factory=rows.StateRow)
    calendars: dict[tuple[str, str], bytes] = field(default_factory=dict)

    reclaim_due: bool = False

    def reclaim_is_due(self, _settings: RetentionSettings, _now_ms: int) -> bool:
        return self.reclaim_due

    def schedules_to_extend(self, _now_ms: int) -> list[object]:
        return self.needs

    def schedules_to_replace(self, _database: str, limit: int) -> list[object]:
        return self.outdated[:limit]

    def outdated_schedules(self, _database: str) -> int:
        return len(self.outdated)

    def find_calendar(self, namespace: str, name: str) -> bytes | None:
        return self.calendars.get((namespace, name))


@dataclass
class Submitted:
    """Keeps what a pump proposes; `answer` gives the oldest its result."""

    commands: list[command_pb2.Command] = field(default_factory=list)
    waiting: list[OnResult] = field(default_factory=list)

    def __call__(self, command: command_pb2.Command, _ops: int, on_result: OnResult, *, timeout_s: float = 5.0) -> None:
        assert timeout_s > 0
        self.commands.append(command)
        self.waiting.append(on_result)

    def answer(self, result: Result) -> None:
        self.waiting.pop(0)(result)

    def kinds(self) -> list[str | None]:
        return [command.WhichOneof("op") for command in self.commands]
