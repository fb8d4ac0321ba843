"""What the pumps and worker streams need of their node; node/core.py provides it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Result

OnResult = Callable[[Result], None]


class MachineViews(Protocol):
    """The parts of state.machine.Machine that pumps read. Values are as of `applied_index`."""

    applied_index: int
    now_ms: int
    ready_by_queue: Mapping[str, int]
    shard_owners: tuple[int, ...]

    def next_due_ms(self, shards: Sequence[int]) -> int | None: ...

    def leasable(self, queue: str) -> int:
        """Executions that are ready and that no limit is known to hold back."""

    def is_shared(self, queue: str) -> bool:
        """Whether it ever had jobs of more than one priority or tenant."""

    def refill_ms(self, queue: str) -> int | None:
        """When a rate that holds executions of the queue back lets the next one through; None: none does."""

    def next_deadline_ms(self) -> int | None: ...


class Submit(Protocol):
    """Proposes a command from the core thread and calls back there, once, with its result."""

    def __call__(
        self, command: command_pb2.Command, ops: int, on_result: OnResult, *, timeout_s: float = 5.0
    ) -> None: ...


class Clock(Protocol):
    """The node's clocks, injected so that a simulator can own time."""

    def wall_ms(self) -> int: ...

    def monotonic(self) -> float: ...
