"""A node's way to the other nodes, in place of gRPC: one connection out to each, made again whenever it is lost."""

from collections.abc import Callable, Mapping
from functools import partial

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.ports import PeerNode, PeerTransport
from tests.sim.network import Connection, Network
from tests.sim.timeline import MILLISECOND_US, SECOND_US

FIRST_BACKOFF_US = 100 * MILLISECOND_US
LONGEST_BACKOFF_US = SECOND_US


class SimPeers(PeerTransport):
    """For one life of a node. As raft.grpc_peers.GrpcPeers, it reaches the core through `deliver` alone, and lets in
    members and guests."""

    def __init__(
        self,
        node_id: int,
        others: list[int],
        network: Network,
        *,
        deliver: Callable[[Callable[[], None]], None],
        on_report: Callable[[int, bytes], None],
        accept: Callable[[int, Connection], bool],
    ) -> None:
        """`accept(to, connection)` asks a node to take this node's connection; False when it cannot."""
        super().__init__()
        self.node_id = node_id
        self._network = network
        self._deliver = deliver
        self._on_report = on_report
        self._accept = accept
        self._members = frozenset(others)
        # Of the entries of the membership that counts for this node, and of the last one applied.
        self.own_index = self.index = 0
        # The own_index of each node whose connection was taken.
        self._callers: dict[int, int] = {}
        self._trying: set[int] = set()
        self._is_started = False
        self._connected: set[int] = set()
        self._outbox: list[tuple[int, bytes]] = []
        self._out: dict[int, Connection] = {}
        self._in: dict[int, Connection] = {}
        self._is_dead = False
        # Sees each message that leaves, (from, to, message), and each that is taken, by the last argument.
        self.on_sent: Callable[[int, int, peer_pb2.PeerMessage], None] = lambda *_: None
        self.on_taken: Callable[[int, int, peer_pb2.PeerMessage, Callable[[], None]], None] = lambda *_: _[-1]()

    def start(self) -> None:
        self._is_started = True
        self._follow_members()

    def stop(self) -> None:
        """The process is gone, and its connections with it."""
        self._is_dead = True
        for connection in [*self._out.values(), *self._in.values()]:
            connection.shut(self.node_id)

    # --- connections ------------------------------------------------------------------------------------------------

    def _follow_members(self) -> None:
        if not self._is_started or self._is_dead:
            return
        for number, connection in list(self._in.items()):
            if not self.welcomes(number, self._callers[number]):
                del self._in[number], self._callers[number]
                connection.shut(self.node_id)
        wanted = self._wanted()
        for number in sorted(self._out.keys() - wanted):
            self._out.pop(number).shut(self.node_id)
            self._deliver(partial(self._down, number))
        for number in sorted(wanted - self._out.keys() - self._trying):
            self._try_later(number, FIRST_BACKOFF_US, self._network.rng.randint(500, 5_000))

    def _wanted(self) -> set[int]:
        return (self._members | self._callers.keys()) - {self.node_id}

    def welcomes(self, number: int, own_index: int) -> bool:
        """Whether that node's connection is taken; `own_index` says which membership counts for it."""
        return number in self._members or own_index > self.index

    def refused(self, number: int, index: int) -> None:
        """That node has not taken this one's connection."""
        self._deliver(partial(self.on_refused, number, index))

    def _try_later(self, number: int, backoff_us: int, wait_us: int) -> None:
        self._trying.add(number)
        self._network.timeline.after(wait_us, lambda: self._try(number, backoff_us))

    def _try(self, number: int, backoff_us: int) -> None:
        self._trying.discard(number)
        if self._is_dead or number in self._out or number not in self._wanted():
            return
        if self._network.can_reach(self.node_id, number):
            connection = self._network.open(self.node_id, number)
            connection.listen(self.node_id, lambda _: None, partial(self._lost, number, connection))
            if self._accept(number, connection):
                self._out[number] = connection
                self._deliver(partial(self._up, number))
                return
            self._network.forget(connection)
        self._try_later(number, min(2 * backoff_us, LONGEST_BACKOFF_US), backoff_us)

    def _lost(self, number: int, connection: Connection) -> None:
        if self._is_dead or self._out.get(number) is not connection:
            return
        del self._out[number]
        self._deliver(partial(self._down, number))
        self._try_later(number, FIRST_BACKOFF_US, FIRST_BACKOFF_US)

    def take_connection(self, connection: Connection, own_index: int) -> None:
        """A connection to this node from one that it welcomes; an older one of that node says nothing more."""
        number = connection.other(self.node_id)
        before = self._in.get(number)
        if before is not None:
            before.shut(self.node_id)
        self._in[number], self._callers[number] = connection, own_index
        connection.listen(self.node_id, partial(self._arrived, number), partial(self._caller_lost, number, connection))
        self._follow_members()

    def _caller_lost(self, number: int, connection: Connection) -> None:
        if self._in.get(number) is connection:
            del self._in[number], self._callers[number]
            self._follow_members()

    def _arrived(self, number: int, data: bytes) -> None:
        if not self._is_dead:
            self._deliver(partial(self._take, number, data))

    # --- on the core ------------------------------------------------------------------------------------------------

    def set_peers(self, addresses: Mapping[int, str], own_index: int, index: int) -> None:
        self._members, self.own_index, self.index = frozenset(addresses), own_index, index
        self._follow_members()

    def _up(self, number: int) -> None:
        self._connected.add(number)
        self._onNodeConnected(PeerNode(number))

    def _down(self, number: int) -> None:
        self._connected.discard(number)
        self._onNodeDisconnected(PeerNode(number))

    def _take(self, number: int, data: bytes) -> None:
        message = peer_pb2.PeerMessage.FromString(data)
        if message.HasField("report"):
            self._on_report(number, message.report)
        else:
            take = partial(self._onMessageReceived, PeerNode(number), message)
            self.on_taken(number, self.node_id, message, take)

    def send(self, node: PeerNode, message: peer_pb2.PeerMessage) -> bool:
        if node.number not in self._connected:
            return False
        self.on_sent(self.node_id, node.number, message)
        self._outbox.append((node.number, message.SerializeToString()))
        return True

    def flush(self) -> None:
        batch, self._outbox = self._outbox, []
        for number, data in batch:
            connection = self._out.get(number)
            if connection is not None:
                connection.send(self.node_id, data)

    def send_report(self, node_id: int, data: bytes) -> bool:
        sent = self.send(PeerNode(node_id), peer_pb2.PeerMessage(report=data))
        self.flush()
        return sent
