"""The way to the other nodes over gRPC: one stream out and one in for each, on the event loop; Raft stays outside.

The core thread calls `send`, `flush` and `send_report`; everything that comes from the loop reaches it through the
callable `deliver`, which must run what it is given on the core thread, in order.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from raftsched.internal.v1 import peer_pb2, peer_pb2_grpc
from raftsched.raft.peer_link import MAX_MESSAGE_BYTES, REFUSED_BY, PeerLink
from raftsched.raft.ports import PeerNode, PeerTransport

logger = logging.getLogger(__name__)

# For a server that PeerService is added to, beside its own.
SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)

HELLO_TIMEOUT_S = 5.0
# What a read yields when the stream has ended.
_EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]
# Messages of one peer that the core thread has not taken yet; above this the stream is not read.
INBOUND_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Members:
    """What `set_peers` was told, as one value that both threads read."""

    addresses: Mapping[int, str]
    own_index: int
    index: int


class GrpcPeers(PeerTransport):
    """Made anywhere; `add_to_server`, `start` and `stop` on the event loop. Until started every peer is unreachable.

    A node that is no member as far as is known here is a guest when it knows a newer membership: this node has been
    away. It is heard and answered as long as its stream lasts. Any other such node is told that it is no member.
    """

    def __init__(
        self,
        *,
        node_id: int,
        peers: Mapping[int, str],
        cluster_id: str,
        deliver: Callable[[Callable[[], None]], None],
        on_report: Callable[[int, bytes], None] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        routes: Mapping[int, str] | None = None,
    ) -> None:
        """`peers`: "host:port" by node id, this node may be among them; until `set_peers` says otherwise.
        `on_report(node, data)` is called on the core thread. Without `credentials` nothing is encrypted and nobody
        authenticated. `routes`: where this node reaches others, when that is not where everybody does."""
        super().__init__()
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._deliver = deliver
        self._on_report = on_report
        self._credentials = credentials
        self._routes = dict(routes or {})
        self._own_address = peers.get(node_id, "")
        self._members = _Members(dict(peers), 0, 0)
        # On the core thread: over which link each peer is believed to be reachable, and what goes to the loop with the
        # next flush.
        self._connected: dict[int, PeerLink] = {}
        self._outbox: list[tuple[int, peer_pb2.PeerMessage]] = []
        # On the loop.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callers: dict[int, _Caller] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._refused: set[str] = set()
        self._links: dict[int, PeerLink] = {}
        self._ending: set[asyncio.Task[None]] = set()

    # --- on the event loop ------------------------------------------------------------------------------------------

    def add_to_server(self, server: grpc.aio.Server) -> None:
        peer_pb2_grpc.add_PeerServiceServicer_to_server(_PeerService(self), server)

    async def start(self) -> None:
        """Connects to the peers, and again whenever a connection is lost."""
        self._loop = asyncio.get_running_loop()
        self._follow_members()

    async def stop(self) -> None:
        """Ends every stream, those that the peers opened too."""
        self._loop = None
        for stream in self._serving:
            stream.cancel()
        for ending in self._ending:
            ending.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        for link in self._links.values():
            await link.stop()
        self._links.clear()

    def _follow_members(self) -> None:
        """One link to each member and guest, and no stream from anybody else."""
        if self._loop is None:
            return
        for caller in self._callers.values():
            if not self._is_welcome(caller.hello):
                caller.stream.cancel()
        wanted = {number: caller.hello.address for number, caller in self._callers.items()}
        wanted |= self._members.addresses
        wanted |= {number: address for number, address in self._routes.items() if number in wanted}
        wanted.pop(self._node_id, None)
        for number, link in list(self._links.items()):
            if wanted.get(number) != link.address:
                del self._links[number]
                ending = asyncio.create_task(link.finish())
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
        for number, address in wanted.items():
            if number not in self._links:
                self._links[number] = self._link(number, address)
                self._links[number].start()

    def _is_welcome(self, hello: peer_pb2.Hello) -> bool:
        """A member, or a guest: see the class."""
        members = self._members
        is_guest = hello.membership_index > members.index and hello.address
        return hello.node in members.addresses or bool(is_guest)

    def _link(self, number: int, address: str) -> PeerLink:
        link = PeerLink(
            to=number,
            address=address,
            hello=partial(self._hello_to, number),
            credentials=self._credentials,
            on_up=lambda: self._deliver(partial(self._up, number, link)),
            on_down=lambda: self._deliver(partial(self._down, number, link)),
            on_refused=lambda index: self._deliver(partial(self.on_refused, number, index)),
        )
        return link

    def _hello_to(self, number: int) -> peer_pb2.Hello:
        members = self._members
        return peer_pb2.Hello(
            node=self._node_id,
            cluster=self._cluster_id,
            to=number,
            address=members.addresses.get(self._node_id) or self._own_address,
            membership_index=members.own_index,
        )

    def _enqueue(self, batch: list[tuple[int, peer_pb2.PeerMessage]]) -> None:
        for number, message in batch:
            if (link := self._links.get(number)) is not None:
                link.put(message)

    async def serve_until_stopped(self, context: Any) -> None:
        """One incoming stream, until it ends, this node stops, or the caller is no member any more."""
        stream = asyncio.create_task(self._serve(context))
        self._serving.add(stream)
        try:
            await asyncio.wait([stream])
            if stream.cancelled() and self._loop is not None:
                await self._refuse(context, "the caller is no member any more")
            if stream.cancelled():
                await context.abort(grpc.StatusCode.UNAVAILABLE, "this node stops")
            stream.result()
        finally:
            stream.cancel()
            self._serving.discard(stream)

    async def _serve(self, context: Any) -> None:
        hello = await self._hello(context)
        node = PeerNode(hello.node)
        stream = asyncio.current_task()
        assert stream is not None
        caller = self._callers[hello.node] = _Caller(hello, stream, _Inbound(asyncio.get_running_loop()))
        self._follow_members()
        await context.write(peer_pb2.PeerMessage(welcome=peer_pb2.Welcome(node=self._node_id)))
        logger.info("peer connected to this node", extra={"peer": hello.node})
        try:
            while (message := await context.read()) is not _EOF:
                if self._callers.get(hello.node) is not caller:
                    # The peer has connected anew. What it said before must not come after what it says now.
                    await context.abort(grpc.StatusCode.ABORTED, "superseded by a newer stream of the same node")
                size = message.ByteSize()
                self._deliver(partial(self._take, node, message, caller.inbound, size))
                await caller.inbound.put(size)
        finally:
            if self._callers.get(hello.node) is caller:
                del self._callers[hello.node]
                self._follow_members()

    async def _refuse(self, context: Any, problem: str) -> None:
        """As no member."""
        metadata = ((REFUSED_BY, str(self._members.index)),)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, problem, trailing_metadata=metadata)

    async def _hello(self, context: Any) -> peer_pb2.Hello:
        try:
            first = await asyncio.wait_for(context.read(), HELLO_TIMEOUT_S)
        except TimeoutError:
            first = None
        hello = first.hello if isinstance(first, peer_pb2.PeerMessage) and first.HasField("hello") else None
        problem = None
        if hello is None:
            problem = "the stream did not begin with Hello"
        elif hello.cluster != self._cluster_id:
            problem = f"node {hello.node} is of cluster {hello.cluster!r}, this one of {self._cluster_id!r}"
        elif hello.to != self._node_id:
            problem = f"node {hello.node} wanted to reach node {hello.to}, this is {self._node_id}"
        elif hello.node == self._node_id or not self._is_welcome(hello):
            problem = f"node {hello.node} is no other member of this cluster"
        if problem is not None:
            # Once for each kind: whoever is refused tries again and again.
            level = logging.DEBUG if problem in self._refused else logging.WARNING
            if len(self._refused) < 1_000:
                self._refused.add(problem)
            logger.log(level, "refused a peer: %s", problem, extra={"peer": context.peer()})
            if hello is not None and hello.cluster == self._cluster_id and hello.to == self._node_id:
                await self._refuse(context, problem)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, problem)
        assert hello is not None
        return hello

    # --- on the core thread -----------------------------------------------------------------------------------------

    def set_peers(self, addresses: Mapping[int, str], own_index: int, index: int) -> None:
        self._members = _Members(dict(addresses), own_index, index)
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._follow_members)

    def send(self, node: PeerNode, message: peer_pb2.PeerMessage) -> bool:
        if node.number not in self._connected:
            return False
        self._outbox.append((node.number, message))
        return True

    def flush(self) -> None:
        """Hands everything to the loop in one call."""
        if not self._outbox:
            return
        batch, self._outbox = self._outbox, []
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._enqueue, batch)

    def send_report(self, node_id: int, data: bytes) -> bool:
        """Sends bytes to another node's `on_report`. They arrive once or not at all. False: not now."""
        sent = self.send(PeerNode(node_id), peer_pb2.PeerMessage(report=data))
        self.flush()
        return sent

    def _up(self, number: int, link: PeerLink) -> None:
        self._connected[number] = link
        logger.info("connected to peer", extra={"peer": number})
        self._onNodeConnected(PeerNode(number))

    def _down(self, number: int, link: PeerLink) -> None:
        if self._connected.get(number) is not link:
            # That node has another address by now, and is reached there.
            return
        del self._connected[number]
        logger.info("lost connection to peer", extra={"peer": number})
        self._onNodeDisconnected(PeerNode(number))

    def _take(self, node: PeerNode, message: peer_pb2.PeerMessage, inbound: "_Inbound", size: int) -> None:
        inbound.taken(size)
        if not message.HasField("report"):
            self._onMessageReceived(node, message)
        elif self._on_report is not None:
            self._on_report(node.number, message.report)


class _Inbound:
    """Counts what the loop has handed over and the core thread has taken, and slows the stream to that."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._room = asyncio.Event()
        self._put = 0
        self._taken = 0
        self._is_waiting = False

    async def put(self, size: int) -> None:
        """On the loop: waits while too much is on its way."""
        self._put += size
        while self._put - self._taken > INBOUND_MAX_BYTES:
            self._room.clear()
            # Set before the second look: either that look sees what was taken, or the taker sees this.
            self._is_waiting = True
            if self._put - self._taken > INBOUND_MAX_BYTES:
                await self._room.wait()
            self._is_waiting = False

    def taken(self, size: int) -> None:
        """On the core thread."""
        self._taken += size
        if self._is_waiting and self._put - self._taken <= INBOUND_MAX_BYTES and not self._loop.is_closed():
            self._is_waiting = False
            self._loop.call_soon_threadsafe(self._room.set)


@dataclass(frozen=True, slots=True, eq=False)
class _Caller:
    """A stream from another node, and what serves it."""

    hello: peer_pb2.Hello
    stream: asyncio.Task[None]
    inbound: _Inbound


class _PeerService(peer_pb2_grpc.PeerServiceServicer):
    def __init__(self, peers: GrpcPeers) -> None:
        self._peers = peers

    async def Exchange(self, request_iterator: Any, context: Any) -> None:  # noqa: ARG002  read through the context
        await self._peers.serve_until_stopped(context)
