"""One worker stream to one node: connects, says hello, carries messages both ways, and connects again when it ends."""

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from typing import Any, Protocol

import grpc
import grpc.aio

from raftsched.client.channels import open_channel
from raftsched.client.credit import CreditLine
from raftsched.client.errors import InvalidField, RaftschedError, from_rpc
from raftsched.client.session import Session
from raftsched.v1 import worker_pb2

logger = logging.getLogger(__name__)

_METHOD = "/raftsched.v1.WorkerService/Connect"
# Missing in the type stubs, hence by name.
_END_OF_STREAM = vars(grpc.aio)["EOF"]
# A machine that vanished is noticed by these pings; a node allows one every 5 s.
_KEEPALIVE = (("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000))
_CONNECT_TIMEOUT_S = 5.0
_WELCOME_TIMEOUT_S = 5.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 2.0
# A stream that lasted for less was of no use: a node that is going away welcomes and dismisses at once.
_USEFUL_S = 2.0


class StreamOwner(Protocol):
    """The worker that the streams belong to."""

    session: Session | None
    # Held by the stream that opens a session, so that one worker opens one.
    opening: asyncio.Lock

    def hello(self) -> worker_pb2.Hello:
        """The first message: opens a session, or joins the present one."""

    def welcomed(self, stream: "NodeStream", welcome: worker_pb2.Welcome, hello_s: float) -> None:
        """The node has answered the Hello that was sent at `hello_s` (monotonic)."""

    def received(self, stream: "NodeStream", message: worker_pb2.ServerMessage) -> None: ...

    def ended(self, stream: "NodeStream") -> None:
        """The stream had been welcomed and is over."""

    def refused(self, stream: "NodeStream", error: RaftschedError) -> None:
        """The node will never take this worker's hello."""


class SessionOver(Exception):
    """The node does not know the session (any more)."""


class NodeStream:
    """A Route for messages while `usable`."""

    def __init__(self, address: str, owner: StreamOwner, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.node = 0
        # The session this stream has joined.
        self.session: Session | None = None
        self.credit = CreditLine()
        # Since when a heartbeat of this stream has had no answer.
        self.unanswered_since_s: float | None = None
        self._owner = owner
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None
        self._call: Any = None
        self._queue: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._welcomed = False
        self._leaving = False
        self._ended = asyncio.Event()
        # Whether, and when, the newest attempt to connect was welcomed.
        self._was_welcomed = False
        self._welcomed_s = 0.0
        # Whether the log says already that this node cannot be reached.
        self._told = False
        self._backoff_s = _FIRST_BACKOFF_S

    def __repr__(self) -> str:
        return f"<NodeStream {self.address}>"

    @property
    def usable(self) -> bool:
        """Whether messages can be sent, and leases expected."""
        return self._welcomed and not self._leaving

    @property
    def queued(self) -> int:
        """Messages that wait to be written: bounded by what the worker holds."""
        return len(self._queue)

    def send(self, message: worker_pb2.WorkerMessage) -> None:
        """Queues the message; it may be changed afterwards."""
        self._queue.append(message.SerializeToString())
        self._wake.set()

    def leave(self) -> None:
        """Sends what is queued, then nothing more; the node ends the stream once it has answered."""
        self._leaving = True
        self._wake.set()

    def abort(self) -> None:
        """Ends the stream at once; it connects anew."""
        if self._call is not None:
            self._call.cancel()

    async def wait_ended(self) -> None:
        """Until the present connection is over."""
        await self._ended.wait()

    async def run(self) -> None:
        """Keeps the stream connected until cancelled."""
        try:
            while True:
                await self._serve_and_log()
                await asyncio.sleep(self._backoff_s * random.uniform(0.5, 1.0))
                self._backoff_s = min(self._backoff_s * 2, _LONGEST_BACKOFF_S)
        finally:
            if self._channel is not None:
                await self._channel.close(None)

    async def _serve_and_log(self) -> None:
        fields: dict[str, object] = {"node_address": self.address}
        try:
            await self._serve()
            logger.info("the node at %s ended the stream", self.address, extra=fields)
        except SessionOver as over:
            logger.warning("%s says that the session is over: %s", self.address, over, extra=fields)
        except TimeoutError:
            self._tell("no answer from %s", self.address, extra=fields)
        except grpc.aio.AioRpcError as failure:
            error = from_rpc(failure)
            self._tell("stream to %s: %s", self.address, error, extra={**fields, "reason": error.reason})
            if isinstance(error, InvalidField) and not self._was_welcomed:
                self._owner.refused(self, error)
        except asyncio.CancelledError:
            # Cancelling the call looks the same as cancelling this task.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            logger.info("gave up the stream to %s", self.address, extra=fields)

    def _tell(self, message: str, *arguments: object, extra: dict[str, object]) -> None:
        """Warns when a node is lost, not each time it is tried again."""
        logger.log(logging.DEBUG if self._told else logging.WARNING, message, *arguments, extra=extra)
        self._told = True

    async def _serve(self) -> None:
        self._was_welcomed = False
        if self._channel is None:
            self._channel = open_channel(self.address, self._credentials, *_KEEPALIVE)
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await self._channel.channel_ready()
        connect: Any = self._channel.stream_stream(
            _METHOD, request_serializer=None, response_deserializer=worker_pb2.ServerMessage.FromString
        )
        self._call = call = connect()
        writer: asyncio.Task[None] | None = None
        try:
            await self._shake_hands(call)
            writer = asyncio.create_task(self._write(call))
            while (message := await call.read()) is not _END_OF_STREAM:
                self._owner.received(self, message)
        finally:
            call.cancel()
            if writer is not None:
                writer.cancel()
                await asyncio.wait((writer,))
            self._close()

    async def _shake_hands(self, call: Any) -> None:
        if self._owner.session is not None:
            await self._hello(call)
            return
        async with self._owner.opening:
            # Another stream may have opened it while this one waited.
            await self._hello(call)

    async def _hello(self, call: Any) -> None:
        hello_s = time.monotonic()
        self.session = self._owner.session
        async with asyncio.timeout(_WELCOME_TIMEOUT_S):
            # The call may have failed while it waited for its turn to say hello: the read says why.
            with contextlib.suppress(asyncio.InvalidStateError):
                await call.write(worker_pb2.WorkerMessage(hello=self._owner.hello()).SerializeToString())
            answer = await call.read()
        if answer is _END_OF_STREAM:
            raise SessionOver("the node ended the stream")
        if answer.WhichOneof("message") == "session_lost":
            self._owner.received(self, answer)
        if answer.WhichOneof("message") != "welcome":
            raise SessionOver("the node did not welcome the worker")
        self._welcomed = self._was_welcomed = True
        self._leaving = False
        self._ended.clear()
        self._welcomed_s = time.monotonic()
        self._told = False
        self.node = answer.welcome.node
        self.credit = CreditLine()
        self.unanswered_since_s = None
        self._owner.welcomed(self, answer.welcome, hello_s)

    async def _write(self, call: Any) -> None:
        # A failed write is told by the read as well, with the reason.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    await call.write(self._queue.popleft())
                if self._leaving:
                    await call.done_writing()
                    return

    def _close(self) -> None:
        welcomed, self._welcomed = self._welcomed, False
        if welcomed and time.monotonic() - self._welcomed_s >= _USEFUL_S:
            self._backoff_s = _FIRST_BACKOFF_S
        self._call = None
        self._queue.clear()
        self.credit = CreditLine()
        self.unanswered_since_s = None
        self._ended.set()
        if welcomed:
            self._owner.ended(self)
