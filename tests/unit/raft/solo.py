"""One replica of this project, driven by hand: its peers are the test."""

import random
from pathlib import Path
from typing import Any

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.log_records import checksum
from raftsched.raft.replica import Replica
from raftsched.state.results import Effects
from tests.unit.raft.support import ChainMachine, ManualBackground, MemoryTransport, SimClock


def entry(*commands: bytes, now_ms: int = 1) -> bytes:
    """A log entry's command."""
    return b"\x00" + command_pb2.Entry(now_ms=now_ms, commands=commands).SerializeToString()


class Solo:
    """Node 1; the others, 2 and up, are connected. Disk work is done at once unless `is_slow`."""

    def __init__(
        self, folder: Path, *, nodes: int = 3, is_slow: bool = False, joined: bool = True, **settings: Any
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.clock = SimClock()
        self.disk = ManualBackground(is_automatic=not is_slow)
        self.files = ManualBackground(is_automatic=not is_slow)
        self.log = RaftLog(folder / "log", background=self.disk)
        if joined:
            self.log.set_joined()
            self.log.flush()
            self.disk.run_all()
            self.log.poll()
        self.machine = ChainMachine(folder / "state.json")
        self.transport = MemoryTransport()
        self.effects: list[Effects] = []
        self.replica = Replica(
            RaftConfig(node_id=1, peers=range(1, nodes + 1), snapshot_dir=folder / "snapshots", **settings),
            log=self.log,
            machine=self.machine,
            transport=self.transport,
            clock=self.clock,
            rng=random.Random(1),
            on_effects=self.effects.append,
            background=self.files,
        )
        self.peers = range(2, nodes + 1)
        for number in self.peers:
            self.transport.connect(number)

    def receive(self, source: int, *, term: int | None = None, **body: Any) -> None:
        self.replica.receive(source, peer_pb2.PeerMessage(term=self.replica.term if term is None else term, **body))

    def append(
        self,
        *,
        source: int = 2,
        term: int = 1,
        prev: int,
        prev_term: int,
        entries: list[tuple[int, bytes]],
        commit: int = 0,
        tick: bool = True,
    ) -> None:
        """As a leader would: entries are (term, command)."""
        made = [
            peer_pb2.LogEntry(term=of_term, command=command, checksum=checksum(index, of_term, command))
            for index, (of_term, command) in enumerate(entries, prev + 1)
        ]
        self.receive(
            source,
            term=term,
            append=peer_pb2.AppendEntries(prev_index=prev, prev_term=prev_term, entries=made, commit_index=commit),
        )
        if tick:
            self.tick()

    def accept(self, source: int, match: int, *, term: int | None = None, **fields: Any) -> None:
        """A follower's success reply."""
        self.receive(
            source,
            term=term,
            append_reply=peer_pb2.AppendReply(success=True, match_index=match, last_index=match, **fields),
        )

    def vote(
        self,
        source: int,
        *,
        pre_vote: bool,
        for_term: int | None = None,
        granted: bool = True,
        joined: bool = True,
    ) -> None:
        default = self.replica.term + 1 if pre_vote else self.replica.term
        self.receive(
            source,
            vote_reply=peer_pb2.VoteReply(
                pre_vote=pre_vote, for_term=default if for_term is None else for_term, granted=granted, joined=joined
            ),
        )

    def tick(self, *, after_s: float = 0.0) -> float:
        self.clock.now_s += after_s
        return self.replica.tick()

    def settle(self) -> None:
        """Ticks until there is nothing left to do at once."""
        for _ in range(1_000):
            if self.tick() > 0:
                return
        raise AssertionError("the replica never comes to rest")

    def sync(self) -> None:
        """Lets a slow disk finish, and the replica see it."""
        self.disk.run_all()
        self.tick()

    def become_leader(self) -> None:
        self.tick(after_s=5)
        for_term = self.replica.term + 1
        for number in self.peers:
            self.vote(number, pre_vote=True, for_term=for_term)
        self.tick()
        self.disk.run_all()
        self.tick()
        for number in self.peers:
            self.vote(number, pre_vote=False)
        assert self.replica.is_leader
        self.tick()

    def lead_with_quorum(self) -> None:
        """Leads, and its first entry is committed everywhere."""
        self.become_leader()
        for number in self.peers:
            self.accept(number, self.log.last_index)
        self.settle()
        assert self.replica.commit_index == self.log.last_index
        self.transport.take()

    def close(self) -> None:
        self.replica.destroy()
        self.log.close()
