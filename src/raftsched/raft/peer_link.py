"""The outgoing stream to one peer: connects, introduces this node, sends in order, and connects again."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc

from raftsched.internal.v1 import peer_pb2, peer_pb2_grpc

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 64 << 20
# What may wait for the network. More means that the peer does not keep up: the stream is then begun anew, and Raft
# sends again what is still missing by then.
QUEUE_MAX_BYTES = 64 << 20
QUEUE_MAX_MESSAGES = 10_000
WELCOME_TIMEOUT_S = 5.0
FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 1.0
# How long a link that is to end may still send what waits.
LAST_WORDS_S = 1.0
# In the trailing metadata of a refusal: the entry of the membership by which the caller is no member.
REFUSED_BY = "raftsched-membership-index"

_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A dead machine answers nothing; without pings the stream to it would stay open for many minutes.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", int(FIRST_BACKOFF_S * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(LONGEST_BACKOFF_S * 1000)),
    ("grpc.min_reconnect_backoff_ms", int(LONGEST_BACKOFF_S * 1000)),
    # Two links to one address must not share a connection, nor its fate.
    ("grpc.use_local_subchannel_pool", 1),
)


class PeerLink:
    """Everything on the event loop. `on_up` when messages can be sent, `on_down` when some may have been lost.

    `hello` makes the introduction; `on_refused` is told when the peer says that this node is no member, with the index
    of the entry by which it says so.
    """

    def __init__(
        self,
        *,
        to: int,
        address: str,
        hello: Callable[[], peer_pb2.Hello],
        credentials: grpc.ChannelCredentials | None,
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_refused: Callable[[int], None],
    ) -> None:
        self._hello = hello
        self._to = to
        self._address = address
        self._credentials = credentials
        self._on_up = on_up
        self._on_down = on_down
        self._on_refused = on_refused
        self._is_up = False
        self._waiting: deque[tuple[peer_pb2.PeerMessage, int]] = deque()
        self._waiting_bytes = 0
        self._has_some = asyncio.Event()
        self._call: grpc.aio.StreamStreamCall[peer_pb2.PeerMessage, peer_pb2.PeerMessage] | None = None
        self._task: asyncio.Task[None] | None = None
        self._told = ""

    @property
    def address(self) -> str:
        return self._address

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"peer-{self._to}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def finish(self) -> None:
        """Stops once what waits is sent, or soon."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + LAST_WORDS_S
        try:
            while self._waiting and loop.time() < end_s:  # noqa: ASYNC110  nobody else waits for this
                await asyncio.sleep(LAST_WORDS_S / 100)
        finally:
            await self.stop()

    def put(self, message: peer_pb2.PeerMessage) -> None:
        """Queues a message; dropped while the link is down."""
        if not self._is_up:
            return
        size = message.ByteSize()
        is_full = self._waiting_bytes + size > QUEUE_MAX_BYTES and self._waiting
        if is_full or len(self._waiting) >= QUEUE_MAX_MESSAGES:
            logger.warning(
                "peer does not keep up, connecting anew",
                extra={"peer": self._to, "messages": len(self._waiting), "bytes": self._waiting_bytes},
            )
            self._set_down()
            if self._call is not None:
                self._call.cancel()
            return
        self._waiting.append((message, size))
        self._waiting_bytes += size
        self._has_some.set()

    def _set_down(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._is_up:
            self._is_up = False
            self._on_down()

    async def _run(self) -> None:
        channel = (
            grpc.aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS)
            if self._credentials is None
            else grpc.aio.secure_channel(self._address, self._credentials, options=_CHANNEL_OPTIONS)
        )
        backoff_s = FIRST_BACKOFF_S
        try:
            while True:
                try:
                    await self._connect(channel)
                    backoff_s = FIRST_BACKOFF_S
                    self._told = ""
                    await self._send_all()
                except (grpc.RpcError, asyncio.InvalidStateError, TimeoutError) as error:
                    self._tell(error)
                    self._look_for_refusal(error)
                except asyncio.CancelledError:
                    # The call was cancelled, by `put` or by gRPC, unless it is this task that was.
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                finally:
                    self._set_down()
                    if self._call is not None:
                        self._call.cancel()
                        self._call = None
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)
        finally:
            await channel.close(None)

    async def _connect(self, channel: grpc.aio.Channel) -> None:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        self._call = stub.Exchange()
        async with asyncio.timeout(WELCOME_TIMEOUT_S):
            await self._call.write(peer_pb2.PeerMessage(hello=self._hello()))
            welcome = await self._call.read()
        if not isinstance(welcome, peer_pb2.PeerMessage) or not welcome.HasField("welcome"):
            raise asyncio.InvalidStateError("the peer did not answer with Welcome")
        self._is_up = True
        self._on_up()

    async def _send_all(self) -> None:
        """Until the stream ends: that shows in a read, since the peer sends nothing after its welcome."""
        assert self._call is not None
        call = self._call
        ended = asyncio.ensure_future(call.read())
        ended.add_done_callback(lambda _: self._has_some.set())
        try:
            while not ended.done():
                if not self._waiting:
                    self._has_some.clear()
                    await self._has_some.wait()
                    continue
                message, size = self._waiting.popleft()
                self._waiting_bytes -= size
                await call.write(message)
            await ended
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

    def _look_for_refusal(self, error: BaseException) -> None:
        if isinstance(error, grpc.aio.AioRpcError):
            # A sequence of pairs, whatever its type says.
            metadata: Any = error.trailing_metadata()
            for key, value in metadata or ():
                if key == REFUSED_BY and str(value).isdecimal():
                    self._on_refused(int(value))

    def _tell(self, error: BaseException) -> None:
        text = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else str(error)
        # Once for each reason: the next try comes soon.
        level = logging.DEBUG if text == self._told else logging.WARNING
        self._told = text
        logger.log(level, "no stream to peer", extra={"peer": self._to, "address": self._address, "error": text})
