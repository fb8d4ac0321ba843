"""What a replica needs from outside: the state machine, clocks, work off the core thread, a way to its peers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftsched.internal.v1 import peer_pb2
from raftsched.state.results import Effects

T = TypeVar("T")


class StateMachine(Protocol):
    """The replicated state. All on the core thread, except `snapshot_to`."""

    applied_index: int
    applied_term: int
    now_ms: int
    # The index of the last entry applied that held a membership, and what it held; 0 and b"" when there was none.
    membership: tuple[int, bytes]
    # How far the last commit reaches.
    committed_index: int
    dirty_ops: int

    def apply_entry(self, index: int, term: int, entry: bytes) -> Effects:
        """Applies a serialized internal.v1.Entry; b"" for an entry without commands. Raises only what is fatal."""
        ...

    def commit(self) -> None:
        """Makes what was applied durable and visible to readers; a power loss may undo the latest commit alone."""
        ...

    def snapshot_to(self, path: Path) -> tuple[int, int, bytes]:
        """Writes a copy of the committed state to a new file. Any thread. Returns its index, term and digest."""
        ...

    def install_snapshot(self, path: Path) -> None:
        """Replaces the state by that file's, durably: when this returns, no crash brings the old state back."""
        ...


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...


class Background(Protocol):
    """Runs work in order, off the core thread if it can."""

    def submit(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        """Has `work` run; `done(result, error)` is called on the core thread, in `poll` or before this returns."""
        ...

    def poll(self) -> None:
        """Calls `done` for the work that has ended. What `done` raises passes through."""
        ...

    def close(self) -> None:
        """Waits for the work that has begun; the rest is dropped. No `done` is called any more."""
        ...


class PeerNode(Node):  # type: ignore[misc]
    """A member of the cluster as pysyncobj wants it; the id is the node's number."""

    @property
    def number(self) -> int:
        return int(self.id)

    def __str__(self) -> str:
        return str(self.id)


class PeerTransport(Transport):  # type: ignore[misc]
    """A pysyncobj transport for PeerMessage. Everything is called on the core thread, and calls back on it.

    Messages to one node arrive in order or not at all. After a loss it reports the node as disconnected, then as
    connected again.
    """

    def __init__(self) -> None:
        super().__init__(None, None, [])
        # Called when a peer refuses this node: by the membership of that entry it is no member.
        self.on_refused: Callable[[int, int], None] = lambda _peer, _index: None

    def set_peers(self, addresses: Mapping[int, str], own_index: int, index: int) -> None:
        """Who the peers are from now on, and where, this node perhaps among them.

        `own_index`: the entry of the membership that counts for this node. `index`: that of the last one applied, by
        which peers that are not among these are told that they are no members.
        """

    def send(self, node: Node, message: peer_pb2.PeerMessage) -> bool:
        """Queues a message. False when it surely will not arrive."""
        raise NotImplementedError

    def flush(self) -> None:
        """Lets go of what `send` queued."""
