"""A cluster in one process under one seed: its clocks, disks, network and crashes are all this file's."""

import hashlib
import heapq
import itertools
import json
import os
import random
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pysyncobj.node import Node

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import ImpossibleState, StoreCorrupt
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.ports import PeerNode, PeerTransport
from raftsched.raft.replica import Replica
from raftsched.state.results import Effects

WALL_START_MS = 1_700_000_000_000


class SimClock:
    """One node's clocks; `skew_ms` moves its wall clock alone."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.skew_ms = 0

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self.now_s * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self.now_s


class ManualBackground:
    """Work waits until a test lets it run; what has not run when the process dies never happened."""

    def __init__(self, *, is_automatic: bool = False) -> None:
        self.is_automatic = is_automatic
        self.waiting: deque[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = deque()
        self.ended: deque[tuple[Callable[[Any, Exception | None], None], Any, Exception | None]] = deque()
        self.on_submit: Callable[[], None] = lambda: None

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self.waiting.append((work, done))
        self.on_submit()
        if self.is_automatic:
            self.run_all()
            self.poll()

    def run_one(self) -> None:
        if self.waiting:
            work, done = self.waiting.popleft()
            try:
                self.ended.append((done, work(), None))
            except Exception as error:  # noqa: BLE001  handed over, as a thread does
                self.ended.append((done, None, error))

    def run_all(self) -> None:
        while self.waiting:
            self.run_one()

    def poll(self) -> None:
        while self.ended:
            done, result, error = self.ended.popleft()
            done(result, error)

    def close(self) -> None:
        self.waiting.clear()
        self.ended.clear()


class ChainMachine:
    """A state machine that is one hash over everything applied, kept in a file that `commit` replaces.

    Like the real one, a crash may undo the latest commit, never the one before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commands: list[bytes] = []
        self.history: list[tuple[int, int, bytes]] = []
        self.dirty_ops = 0
        self.fail_at: int | None = None
        self._load()

    def _load(self) -> None:
        state = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.applied_index = state.get("index", 0)
        self.applied_term = state.get("term", 0)
        self.now_ms = state.get("now_ms", 0)
        self.chain = state.get("chain", "")
        self.count = state.get("count", 0)
        self.membership = state.get("membership_index", 0), bytes.fromhex(state.get("membership", ""))
        self.committed_index = self.applied_index

    def _dump(self) -> str:
        return json.dumps(
            {
                "index": self.applied_index,
                "term": self.applied_term,
                "now_ms": self.now_ms,
                "chain": self.chain,
                "count": self.count,
                "membership_index": self.membership[0],
                "membership": self.membership[1].hex(),
            }
        )

    def apply_entry(self, index: int, term: int, entry: bytes) -> Effects:
        if index == self.fail_at:
            raise ImpossibleState(f"entry {index} cannot be")
        assert index == self.applied_index + 1
        assert term >= self.applied_term
        self.applied_index, self.applied_term = index, term
        if entry:
            content = command_pb2.Entry.FromString(entry)
            assert content.now_ms >= self.now_ms, "the replicated clock went back"
            self.now_ms = content.now_ms
            if content.membership:
                self.membership = index, content.membership
            self.commands += content.commands
            self.count += len(content.commands)
            self.dirty_ops += len(content.commands)
        self.history.append((index, term, hashlib.sha256(entry).digest()))
        self.chain = hashlib.sha256(self.chain.encode() + entry + b"%d" % index).hexdigest()
        return Effects()

    def commit(self) -> None:
        if self.path.exists():
            shutil.copyfile(self.path, self.path.with_suffix(".before"))
        self._write(self._dump())
        self.committed_index = self.applied_index
        self.dirty_ops = 0

    def _write(self, text: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.path)

    def lose_last_commit(self) -> None:
        """What a power loss may do."""
        with suppress(FileNotFoundError):
            os.replace(self.path.with_suffix(".before"), self.path)

    def snapshot_to(self, path: Path) -> tuple[int, int, bytes]:
        # Padded, so that it takes several chunks.
        text = self.path.read_text() if self.path.exists() else "{}"
        path.write_text(text + " " * 3_000)
        state = json.loads(text)
        return state.get("index", 0), state.get("term", 0), state.get("chain", "").encode()

    def install_snapshot(self, path: Path) -> None:
        try:
            json.loads(path.read_text())
        except ValueError as error:
            raise StoreCorrupt("the snapshot is no state") from error
        self.path.with_suffix(".before").unlink(missing_ok=True)
        self._write(path.read_text())
        self._load()
        self.history.clear()
        self.dirty_ops = 0


class MemoryTransport(PeerTransport):
    """One node's end of a MemoryNetwork, or of nothing: then it only keeps what was sent."""

    def __init__(self, network: "MemoryNetwork | None" = None, number: int = 0) -> None:
        super().__init__()
        self.network = network
        self.number = number
        self.sent: list[tuple[int, peer_pb2.PeerMessage]] = []
        self.connected: set[int] = set()

    def send(self, node: PeerNode, message: peer_pb2.PeerMessage) -> bool:
        if node.number not in self.connected:
            return False
        if self.network is None:
            self.sent.append((node.number, message))
        else:
            self.network.send(self.number, node.number, message.SerializeToString())
        return True

    def connect(self, number: int) -> None:
        self.connected.add(number)
        self._onNodeConnected(PeerNode(number))

    def disconnect(self, number: int) -> None:
        self.connected.discard(number)
        self._onNodeDisconnected(PeerNode(number))

    def take(self, *, to: int | None = None, body: str | None = None) -> list[peer_pb2.PeerMessage]:
        """Sent messages, forgotten by this: those to one node, of one kind."""
        found, kept = [], []
        for node, message in self.sent:
            is_wanted = to in (None, node) and body in (None, message.WhichOneof("body"))
            (found if is_wanted else kept).append((node, message))
        self.sent = kept
        return [message for _, message in found]


class StockTransport(PeerTransport):
    """For stock SyncObj: keeps the dicts it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[Node, dict[str, Any]]] = []

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        self.sent.append((node, message))
        return True


class MemoryNetwork:
    """Delivers in order for each direction, after a random time, or not at all."""

    def __init__(self, rng: random.Random, at: Callable[[float, Callable[[], None]], None]) -> None:
        self.rng = rng
        self.at = at
        self.loss = 0.0
        self.delay_s = (0.0002, 0.002)
        self.blocked: set[tuple[int, int]] = set()
        self.deliver: Callable[[int, int, bytes], None] = lambda *_: None
        self._latest: dict[tuple[int, int], float] = {}
        self.now: Callable[[], float] = lambda: 0.0

    def send(self, source: int, to: int, data: bytes) -> None:
        if (source, to) in self.blocked or self.rng.random() < self.loss:
            return
        arrives = max(self.now() + self.rng.uniform(*self.delay_s), self._latest.get((source, to), 0.0))
        self._latest[source, to] = arrives

        def arrive() -> None:
            if (source, to) not in self.blocked:
                self.deliver(source, to, data)

        self.at(arrives, arrive)


@dataclass
class SimNode:
    """One node over its crashes: its folder stays, the rest is made anew."""

    number: int
    folder: Path
    config: RaftConfig
    clock: SimClock = field(default_factory=SimClock)
    lives: int = 0
    replica: Replica | None = None
    machine: ChainMachine | None = None
    log: RaftLog | None = None
    transport: MemoryTransport | None = None
    background: ManualBackground | None = None
    files: ManualBackground | None = None

    @property
    def is_up(self) -> bool:
        return self.replica is not None

    @property
    def live(self) -> Replica:
        assert self.replica is not None
        return self.replica


class Violation(AssertionError):
    """A promise of Raft was broken."""


class SimCluster:
    """Runs nodes under one seed and checks what Raft promises at every step."""

    def __init__(self, folder: Path, *, nodes: int, seed: int, **settings: Any) -> None:
        self.rng = random.Random(seed)
        self.now_s = 100.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self.network = MemoryNetwork(self.rng, self._at)
        self.network.now = lambda: self.now_s
        self.network.deliver = self._deliver
        self.flush_s = (0.0002, 0.003)
        self.leaders: dict[int, int] = {}
        # What any node has applied, by index: the same everywhere or a promise is broken.
        self.applied: dict[int, tuple[int, bytes]] = {}
        self.chains: dict[int, str] = {}
        self.acknowledged: set[bytes] = set()
        members = range(1, nodes + 1)
        self.nodes = {
            number: SimNode(
                number,
                folder / f"n{number}",
                RaftConfig(node_id=number, peers=members, snapshot_dir=folder / f"n{number}" / "snapshots", **settings),
            )
            for number in members
        }
        for number in members:
            self.start(number)

    def _at(self, time_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_s, next(self._sequence), call))

    # --- nodes --------------------------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        node = self.nodes[number]
        node.lives += 1
        life = node.lives
        node.folder.mkdir(parents=True, exist_ok=True)
        node.clock.now_s = self.now_s
        node.background, node.files = ManualBackground(), ManualBackground()
        for background in (node.background, node.files):
            background.on_submit = lambda background=background: self._at(
                self.now_s + self.rng.uniform(*self.flush_s), lambda: self._work(node, life, background)
            )
        node.machine = ChainMachine(node.folder / "state.json")
        node.log = RaftLog(node.folder / "log", background=node.background, cache_bytes=2_000)
        node.transport = MemoryTransport(self.network, number)
        node.replica = Replica(
            node.config,
            log=node.log,
            machine=node.machine,
            transport=node.transport,
            clock=node.clock,
            rng=random.Random(self.rng.random()),
            on_effects=lambda _: None,
            background=node.files,
        )
        for other in self.nodes.values():
            if other is not node and other.is_up:
                assert other.transport is not None
                node.transport.connect(other.number)
                other.transport.disconnect(number)
                other.transport.connect(number)
        self._at(self.now_s, lambda: self._tick(node, life))

    def crash(self, number: int, *, loses_power: bool = False) -> None:
        """What was not synced is lost: flushes that did not run, and with the power perhaps the latest commit."""
        node = self.nodes[number]
        assert node.log is not None
        assert node.machine is not None
        node.log.close()
        incoming = node.live._receiver._incoming
        if incoming is not None and incoming.file is not None:
            # The file stays, as after a crash; only the descriptor goes.
            incoming.file.close()
        if loses_power and self.rng.random() < 0.5:
            node.machine.lose_last_commit()
        node.replica = None
        node.lives += 1
        for other in self.nodes.values():
            if other.is_up:
                assert other.transport is not None
                other.transport.disconnect(number)

    def wipe(self, number: int) -> None:
        shutil.rmtree(self.nodes[number].folder)

    def partition(self, *groups: set[int]) -> None:
        self.network.blocked = {
            (a, b) for a in self.nodes for b in self.nodes if not any({a, b} <= group for group in groups)
        }

    def heal(self) -> None:
        self.network.blocked = set()

    def up(self) -> Iterator[SimNode]:
        return (node for node in self.nodes.values() if node.is_up)

    def leader(self) -> SimNode | None:
        """The leader of the highest term, if any."""
        leading = [node for node in self.up() if node.live.is_leader]
        return max(leading, key=lambda node: node.live.term, default=None)

    def close(self) -> None:
        for node in self.up():
            assert node.log is not None
            node.live.destroy()
            node.log.close()

    # --- time ---------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition came true within simulated seconds."""
        end_s = self.now_s + seconds
        while self._events and self._events[0][0] <= end_s:
            time_s, _, call = heapq.heappop(self._events)
            self.now_s = max(self.now_s, time_s)
            call()
            if condition():
                return True
        self.now_s = end_s
        return condition()

    def _deliver(self, source: int, to: int, data: bytes) -> None:
        node = self.nodes[to]
        if node.is_up and self.nodes[source].is_up:
            node.clock.now_s = self.now_s
            node.live.receive(source, peer_pb2.PeerMessage.FromString(data))
            self._at(self.now_s, lambda life=node.lives: self._tick(node, life))

    def _work(self, node: SimNode, life: int, background: ManualBackground) -> None:
        if node.lives == life:
            background.run_one()
            self._at(self.now_s, lambda: self._tick(node, life))

    def _tick(self, node: SimNode, life: int) -> None:
        if node.lives != life:
            return
        assert node.machine is not None
        node.clock.now_s = self.now_s
        before = len(node.machine.history)
        wait_s = node.live.tick()
        self._check(node, before)
        # A thread takes a while for everything.
        self._at(self.now_s + max(wait_s, 0.0001), lambda: self._tick(node, life))

    # --- promises -----------------------------------------------------------------------------------------------

    def _check(self, node: SimNode, before: int) -> None:
        replica, log, machine = node.live, node.log, node.machine
        assert log is not None
        assert machine is not None
        if replica.is_leader and self.leaders.setdefault(replica.term, node.number) != node.number:
            raise Violation(f"two leaders in term {replica.term}")
        if replica.is_leader and self.leaders.get(-replica.term) is None:
            self.leaders[-replica.term] = node.number
            for index, (term, _) in self.applied.items():
                if index > log.base_index and log.term_at(index) != term:
                    raise Violation(f"leader {node.number} of term {replica.term} lacks committed entry {index}")
        if before > len(machine.history):
            before = 0
        for index, term, digest in machine.history[before:]:
            if self.applied.setdefault(index, (term, digest)) != (term, digest):
                raise Violation(f"node {node.number} applied another entry {index}")
        if self.chains.setdefault(machine.applied_index, machine.chain) != machine.chain:
            raise Violation(f"node {node.number} has another state at {machine.applied_index}")

    def check_logs_match(self) -> None:
        """Where two logs have an entry of one index and term, all before it is the same."""
        contents: dict[tuple[int, int], bytes] = {}
        for node in self.up():
            assert node.log is not None
            for command, index, term in node.log[:]:
                if contents.setdefault((index, term), command) != command:
                    raise Violation(f"two entries {index} of term {term}")

    def all_applied_the_same(self) -> bool:
        indexes = {node.machine.applied_index for node in self.up() if node.machine is not None}
        chains = {node.machine.chain for node in self.up() if node.machine is not None}
        leader = self.leader()
        return (
            len(indexes) == len(chains) == 1
            and leader is not None
            and all(node.live.commit_index in indexes and node.live.leader_id == leader.number for node in self.up())
        )
