"""Proposes Fire for the shards this node owns, when the next row is due and workers can use more.

Driven by the next due time: it sleeps until then, or until something is applied. Runs on the core thread.
"""

from collections.abc import Callable, Collection

from raftsched.dispatch.ports import Clock, MachineViews, Submit
from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Fired, Result

# Rows a command moves: enough to be batch-wise, little enough that an entry applies in some 10 ms.
FIRE_LIMIT = 2_000
# More than this ready in every served queue serves nobody: it would only make LMDB's working set larger.
READY_ENOUGH = 8_192
# In a queue of several priorities or tenants, what is due later may have to go first; only what is ready is dealt out.
READY_ENOUGH_SHARED = 1_000_000
# After a Fire that moved nothing: the replicated clock is behind this node's, and catches up with every entry.
CLOCK_BEHIND_WAIT_S = 0.01


class FirePump:
    """`served_queues` gives the queues that some live worker of the cluster serves."""

    def __init__(
        self,
        *,
        node_id: int,
        machine: MachineViews,
        submit: Submit,
        clock: Clock,
        served_queues: Callable[[], Collection[str]],
    ) -> None:
        self._node_id = node_id
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._served_queues = served_queues
        self._in_flight = False
        self._not_before_s = 0.0
        self._owners: tuple[int, ...] = ()
        self._shards: list[int] = []
        self._next_due_ms: int | None = None
        self._looked_at_index = -1

    def step(self) -> float | None:
        """Proposes if it is time. Returns the seconds to the next call; None: when something applied."""
        if self._in_flight or not self._backlog_is_low():
            return None
        due_ms = self._due_ms()
        if due_ms is None:
            return None
        now_s = self._clock.monotonic()
        now_ms = max(self._clock.wall_ms(), self._machine.now_ms)
        wait_s = max((due_ms - now_ms) / 1000, self._not_before_s - now_s)
        if wait_s > 0:
            return wait_s
        self._in_flight = True
        fire = command_pb2.Fire(shards=self._shards, limit=FIRE_LIMIT)
        self._submit(command_pb2.Command(fire=fire), FIRE_LIMIT, self._on_result)
        return None

    def _on_result(self, result: Result) -> None:
        self._in_flight = False
        self._looked_at_index = -1
        if not isinstance(result, Fired) or result.count == 0:
            self._not_before_s = self._clock.monotonic() + CLOCK_BEHIND_WAIT_S

    def _due_ms(self) -> int | None:
        """Earliest due row of this node's shards, looked up once per applied entry."""
        owners = self._machine.shard_owners
        if owners is not self._owners:
            self._owners = owners
            self._shards = [shard for shard, owner in enumerate(owners) if owner == self._node_id]
            self._looked_at_index = -1
        if self._looked_at_index != self._machine.applied_index:
            self._looked_at_index = self._machine.applied_index
            self._next_due_ms = self._machine.next_due_ms(self._shards) if self._shards else None
        return self._next_due_ms

    def _backlog_is_low(self) -> bool:
        """Whether any served queue could use more. Neither a queue that nobody serves nor what a limit holds back must
        hold up the others."""
        served = self._served_queues()
        if not served:
            return sum(self._machine.ready_by_queue.values()) < READY_ENOUGH
        return any(self._machine.leasable(queue) < self._enough(queue) for queue in served)

    def _enough(self, queue: str) -> int:
        return READY_ENOUGH_SHARED if self._machine.is_shared(queue) else READY_ENOUGH
