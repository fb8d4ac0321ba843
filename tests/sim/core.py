"""A node's core and engine without threads, on a disk of the simulation, and watched."""

from collections.abc import Callable
from functools import partial

from raftsched.dispatch.cluster_view import ClusterView
from raftsched.node.config import NodeConfig
from raftsched.node.core import Core, LoopSide
from raftsched.node.engine import Engine, Outside
from raftsched.raft.log import RaftLog
from raftsched.raft.replica import Replica
from tests.sim.disk import MAP_BYTES, Disk, SimStore
from tests.sim.loop import SimLoop
from tests.sim.peers import SimPeers
from tests.sim.timeline import Violation
from tests.sim.witness import SimMachine, Witness

# Kept small, so that entries are read back from the disk.
LOG_CACHE_BYTES = 20_000
# What it takes to wake a core.
WAKE_US = 30


class SimEngine(Engine):
    """An engine on a disk of the simulation, watched."""

    def __init__(self, config: NodeConfig, outside: Outside, disk: Disk, witness: Witness) -> None:
        self._store_type = partial(SimStore, disk=disk)
        self._machine_type = partial(SimMachine, witness=witness, disk=disk)
        self._log_type = partial(LOG_TYPES[-1], map_size=MAP_BYTES, cache_bytes=LOG_CACHE_BYTES)
        self._replica_type = REPLICA_TYPES[-1]
        super().__init__(config, outside)
        self._watch_truncations()

    def _watch_truncations(self) -> None:
        log, truncate_from = self._log, self._log.truncate_from

        def watched(index: int) -> None:
            # A leader never takes back an entry of its own term, and this log's term is the newest leader's.
            if index <= log.last_index and log.last_term == log.term:
                raise Violation(f"node {self._config.node_id} drops {index}, of the term of the present leader")
            truncate_from(index)

        log.truncate_from = watched  # type: ignore[method-assign]

    @property
    def has_diverged(self) -> bool:
        """Whether it serves nothing any more, since its state cannot be right."""
        return self._diverged

    @property
    def log(self) -> RaftLog:
        return self._log


# The last ones are used: bugs.py puts faulty ones there.
LOG_TYPES: list[type[RaftLog]] = [RaftLog]
REPLICA_TYPES: list[type[Replica]] = [Replica]


class SimCore(Core):
    """The real core without its thread: the timeline runs its rounds."""

    def __init__(
        self, config: NodeConfig, peers: SimPeers, loop: SimLoop, loop_side: LoopSide, wake: Callable[[int], None]
    ) -> None:
        """`wake(in_us)` has a round happen soon."""
        super().__init__(config, peers, loop, loop_side)  # type: ignore[arg-type]  # peers stand in for gRPC's
        self._wake_node = wake
        self.is_dead = False

    def post(self, call: Callable[[], None]) -> None:
        if not self.is_dead:
            super().post(call)
            self._wake_node(WAKE_US)

    def call_on_loop(self, call: Callable[[], None]) -> None:
        if not self.is_dead:
            super().call_on_loop(call)

    def open(self, engine: SimEngine) -> None:
        self._engine = engine

    def status(self) -> ClusterView:
        return self._engine.view()

    @property
    def engine(self) -> SimEngine:
        assert isinstance(self._engine, SimEngine)
        return self._engine

    def round(self) -> float:
        """One round, as the core's own but for the view, which is made when it is asked for; the seconds until the
        next is due."""
        self._wait_s = 0.0
        self._take_calls()
        wait_s = self._engine.step()
        self._answer_committed()
        self._flush_to_loop()
        return wait_s if self._inbox.empty() else 0.0
