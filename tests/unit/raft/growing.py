"""A SimCluster whose nodes come and go, and what its operator asks of it."""

from pathlib import Path
from typing import Any

from raftsched.model.errors import RaftschedError
from raftsched.raft.config import RaftConfig
from tests.unit.raft.support import SimCluster, SimNode


class Asked:
    """A change that was asked for: how it ended, once it has."""

    def __init__(self) -> None:
        self.is_over = False
        self.error: RaftschedError | None = None

    def __call__(self, error: RaftschedError | None) -> None:
        assert not self.is_over, "told twice"
        self.is_over, self.error = True, error

    @property
    def is_done(self) -> bool:
        return self.is_over and self.error is None


class GrowingCluster(SimCluster):
    """`join` starts a node that was not there before; `add` and `remove` ask a node for a change."""

    def __init__(self, folder: Path, *, nodes: int, seed: int, **settings: Any) -> None:
        self._folder = folder
        self._settings = settings
        super().__init__(folder, nodes=nodes, seed=seed, **settings)

    def join(self, number: int) -> None:
        folder = self._folder / f"n{number}"
        peers = [*self.nodes, number]
        config = RaftConfig(node_id=number, peers=peers, snapshot_dir=folder / "snapshots", **self._settings)
        self.nodes[number] = SimNode(number, folder, config)
        self.start(number)

    def take_away(self, number: int) -> None:
        """The machine of a node that is no member is used for something else."""
        if self.nodes[number].is_up:
            self.crash(number)
        del self.nodes[number]

    def add(self, number: int, *, at: SimNode | None = None, timeout_s: float = 10.0) -> Asked:
        asked = Asked()
        self._at_node(at).live.add_node(number, f"n{number}:1", asked, timeout_s=timeout_s)
        return asked

    def remove(self, number: int, *, at: SimNode | None = None, timeout_s: float = 10.0) -> Asked:
        asked = Asked()
        self._at_node(at).live.remove_node(number, asked, timeout_s=timeout_s)
        return asked

    def _at_node(self, at: SimNode | None) -> SimNode:
        return at if at is not None else next(self.up())

    def until_done(self, asked: Asked, seconds: float = 15) -> None:
        assert self.run_until(lambda: asked.is_over, seconds)
        assert asked.error is None, repr(asked.error)

    def voters(self) -> set[int]:
        """As the leader has it."""
        leader = self.leader()
        return set() if leader is None else set(leader.live.membership.voters)

    def members_applied_the_same(self) -> bool:
        """As all_applied_the_same, of those that belong to the cluster; who does not is not looked at."""
        leader = self.leader()
        if leader is None or leader.live.membership.learners or leader.live.last_log_index > leader.live.commit_index:
            return False
        members = leader.live.membership.members
        others = {number: node for number, node in self.nodes.items() if number not in members}
        for number in others:
            del self.nodes[number]
        try:
            return set(members) == set(self.nodes) and self.all_applied_the_same()
        finally:
            self.nodes |= others

    def _deliver(self, source: int, to: int, data: bytes) -> None:
        if to in self.nodes and source in self.nodes:
            super()._deliver(source, to, data)
