"""Compares this node's state digest with the others': a node that differs from the quorum must stop serving.

Each node tells the others its applied index and digest now and then. Equal indexes must have equal digests, so one
look decides whether two nodes agree; a node that disagrees with a majority, or with the leader while nobody agrees
with it, is the one that is wrong.
"""

from collections import OrderedDict
from collections.abc import Collection

# Digests kept for peers that report an index this node has passed: some seconds of entries under full load.
HISTORY = 4_096


class DivergenceWatch:
    """`members` counts all nodes, this one included. Runs on the core thread."""

    def __init__(self, *, members: int) -> None:
        self._members = members
        self._digests: OrderedDict[int, bytes] = OrderedDict()
        # Peer -> (index, digest) that this node has not applied yet.
        self._ahead: dict[int, tuple[int, bytes]] = {}
        self._agrees: dict[int, bool] = {}

    def follow_members(self, members: int, peers: Collection[int]) -> None:
        """The cluster has so many nodes now, and these of them, which are others, have a say."""
        self._members = members
        for known in (self._ahead, self._agrees):
            for gone in known.keys() - set(peers):
                del known[gone]

    def applied(self, index: int, digest: bytes) -> None:
        """This node's state at `index`."""
        self._digests[index] = digest
        if len(self._digests) > HISTORY:
            self._digests.popitem(last=False)
        for peer, (peer_index, peer_digest) in list(self._ahead.items()):
            if peer_index <= index:
                del self._ahead[peer]
                self._compare(peer, peer_index, peer_digest)

    def reported(self, peer: int, index: int, digest: bytes) -> None:
        """A peer's state at `index`."""
        newest = next(reversed(self._digests), 0)
        if index > newest:
            self._ahead[peer] = (index, digest)
        else:
            self._compare(peer, index, digest)

    def restarted_from_snapshot(self) -> None:
        """The state was replaced: what was compared before says nothing about it."""
        self._digests.clear()
        self._ahead.clear()
        self._agrees.clear()

    def _compare(self, peer: int, index: int, digest: bytes) -> None:
        own = self._digests.get(index)
        if own is not None:
            self._agrees[peer] = own == digest

    def differs_from(self) -> list[int]:
        """Peers whose newest comparable digest is not this node's."""
        return [peer for peer, agrees in self._agrees.items() if not agrees]

    def is_diverged(self, leader: int | None) -> bool:
        """Whether it is this node that is wrong."""
        different = self.differs_from()
        majority = self._members // 2 + 1
        if len(different) >= majority:
            return True
        nobody_agrees = len(different) == len(self._agrees)
        return bool(different) and nobody_agrees and leader in different
