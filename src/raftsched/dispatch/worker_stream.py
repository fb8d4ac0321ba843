"""One worker stream: what each message of worker.proto means, without the gRPC around it. Lives on the asyncio loop."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from raftsched.dispatch.lease_encoding import lease_batch
from raftsched.dispatch.lease_pump import LeasePump
from raftsched.dispatch.worker_hub import WorkerHub, cancel_message
from raftsched.dispatch.worker_messages import (
    ack_command,
    fail_command,
    release_command,
    renew_command,
    started_command,
)
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import Code, ProtocolViolation, RaftschedError, TooManyRequests, WrongCluster
from raftsched.state.results import Leased, Rejected, Renewed, Result, SessionOpened, Settled
from raftsched.v1 import worker_pb2

logger = logging.getLogger(__name__)
# Follows executions: failures at INFO, every lease and acknowledgement, by the batch, at DEBUG.
execution_log = logging.getLogger("raftsched.execution")

# Messages of one stream that wait for the quorum; the stream is not read while it has more, so TCP slows its sender.
MAX_UNANSWERED = 256
# A stream that sends more than this is broken or hostile: 4,000 messages of one execution each already fill a core.
MAX_MESSAGES_PER_S = 4_000
# A stream that has more messages than this unread is leased nothing more; if it has not taken one of them for so
# long, its worker does not read, and the stream ends.
MAX_UNREAD = 256
UNREAD_TIMEOUT_S = 10.0
SUBMIT_TIMEOUT_S = 5.0

_stream_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How long workers may be silent and when they report; milliseconds."""

    node_id: int
    cluster_id: str
    session_ttl_ms: int
    heartbeat_interval_ms: int
    grant_timeout_ms: int
    started_after_ms: int


class StreamCore(Protocol):
    """What a stream needs of the core thread; all of it is called on the loop."""

    @property
    def lease_pump(self) -> LeasePump: ...

    def submit_nowait(
        self, command: command_pb2.Command, ops: int, on_result: Callable[[Result], None], timeout_s: float
    ) -> None:
        """Proposes; `on_result` is called on the loop."""
        ...

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result: ...

    def post(self, call: Callable[[], None]) -> None:
        """Runs `call` on the core thread, in order."""
        ...

    def call_on_loop(self, call: Callable[[], None]) -> None:
        """From the core thread: runs `call` on the loop, in order."""
        ...

    async def session_exists(self, session: int) -> bool:
        """Linearizable: whether the session is open."""
        ...

    def profile(self, profile_id: int) -> command_pb2.Profile: ...


class WorkerStream:
    """`outbox` receives ServerMessages, None ends the stream. The caller awaits `handle` for each message it reads."""

    def __init__(self, core: StreamCore, hub: WorkerHub, settings: WorkerSettings, *, draining: bool = False) -> None:
        self.session = 0
        # Bounded by what the worker may hold: credits for leases, its own messages for answers.
        self.outbox: asyncio.Queue[worker_pb2.ServerMessage | None] = asyncio.Queue()
        self._id = next(_stream_ids)
        self._core = core
        self._hub = hub
        self._settings = settings
        self._draining = draining
        self._unanswered = 0
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._refusal: RaftschedError | None = None
        self._written_s = asyncio.get_running_loop().time()
        self._held_credit = 0
        self._window_began_s = 0.0
        self._window_messages = 0
        self.worker = ""

    def send(self, message: worker_pb2.ServerMessage) -> None:
        self.outbox.put_nowait(message)

    def end(self) -> None:
        """Ends the stream after what was sent."""
        self.outbox.put_nowait(None)

    async def hello(self, message: worker_pb2.WorkerMessage) -> bool:
        """Takes the first message: opens or joins a session. False: the session is over, and the stream ends."""
        if message.WhichOneof("message") != "hello":
            raise ProtocolViolation("the first message of a stream must be hello", field="hello")
        hello = message.hello
        self.worker = hello.worker
        if hello.cluster_id not in ("", self._settings.cluster_id):
            raise WrongCluster(field="hello.cluster_id", this_cluster=self._settings.cluster_id)
        if hello.session:
            if not await self._core.session_exists(hello.session):
                lost = worker_pb2.SessionLost(reason="the session is unknown or has expired")
                self.send(worker_pb2.ServerMessage(session_lost=lost))
                self.end()
                return False
            self.session = hello.session
        else:
            self.session = await self._open_session(hello)
        self._hub.add(self)
        session, queues = self.session, tuple(hello.queues)
        self._core.post(lambda: self._core.lease_pump.open(self._id, session, queues, self._on_leased))
        settings = self._settings
        welcome = worker_pb2.Welcome(
            session=session,
            node=settings.node_id,
            session_ttl_ms=settings.session_ttl_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            started_after_ms=settings.started_after_ms,
            cluster_id=settings.cluster_id,
        )
        self.send(worker_pb2.ServerMessage(welcome=welcome))
        if self._draining:
            self.send(worker_pb2.ServerMessage(drain=worker_pb2.Drain()))
        logger.info("worker connected", extra={"worker": hello.worker, "session": session, "queues": queues})
        return True

    async def _open_session(self, hello: worker_pb2.Hello) -> int:
        open_session = command_pb2.OpenSession(
            worker=hello.worker, queues=hello.queues, ttl_ms=self._settings.session_ttl_ms
        )
        result = await self._core.submit(command_pb2.Command(open_session=open_session))
        if isinstance(result, Rejected):
            raise result.error
        if not isinstance(result, SessionOpened):
            raise TypeError(f"OpenSession yielded {result!r}")
        return result.session

    async def all_answered(self) -> None:
        """Returns once nothing the worker sent waits for the quorum."""
        await self._idle.wait()

    def closed(self) -> None:
        """The stream is gone. What it was granted stays with the session."""
        if self.session:
            self._hub.remove(self)
            self._core.post(lambda: self._core.lease_pump.close(self._id))
            logger.info("worker disconnected", extra={"worker": self.worker, "session": self.session})

    async def handle(self, message: worker_pb2.WorkerMessage) -> None:
        """Takes one message after hello. Raises ProtocolViolation, or TooManyRequests when the stream floods."""
        if self._refusal is not None:
            raise self._refusal
        self._count_message()
        self._refuse_if_unread()
        await self._room.wait()
        kind = message.WhichOneof("message")
        if kind == "ack":
            command, ops = ack_command(message.ack)
            self._settle(command, ops, message.ack.sequence)
            if execution_log.isEnabledFor(logging.DEBUG):
                for completed in message.ack.leases:
                    self._log_executions("acknowledged", completed.token, completed.execution_ids)
        elif kind == "credit":
            self._credit(message.credit.total)
        elif kind == "fail":
            command, ops = fail_command(message.fail)
            self._settle(command, ops, message.fail.sequence)
            self._log_failures(message.fail)
        elif kind == "heartbeat":
            self._heartbeat(message.heartbeat)
        elif kind == "started":
            self._started(message.started)
        elif kind == "release":
            command, ops = release_command(message.release)
            self._submit(command, ops, lambda _result: None)
        elif kind == "cancel_answer":
            self._hub.answer(self.session, message.cancel_answer.question, message.cancel_answer.begun)
        elif kind == "goodbye":
            close = command_pb2.CloseSession(session=self.session)
            self._submit(command_pb2.Command(close_session=close), 1, lambda _result: self.end())
        elif kind == "hello":
            raise ProtocolViolation("hello may be sent once, as the first message", field="hello")
        else:
            raise ProtocolViolation("the message is empty or of a kind this node does not know", field="message")

    def written(self) -> None:
        """A message was taken off the outbox and written."""
        self._written_s = asyncio.get_running_loop().time()
        if self._held_credit and self.outbox.qsize() <= MAX_UNREAD:
            self._credit(self._held_credit)

    def _refuse_if_unread(self) -> None:
        unread = self.outbox.qsize()
        if unread > MAX_UNREAD and asyncio.get_running_loop().time() - self._written_s > UNREAD_TIMEOUT_S:
            raise TooManyRequests(
                f"{unread} messages to the worker are unread, none was taken for {UNREAD_TIMEOUT_S:g} s", field="stream"
            )

    def _count_message(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._window_began_s >= 1.0:
            self._window_began_s = now_s
            self._window_messages = 0
        self._window_messages += 1
        if self._window_messages > MAX_MESSAGES_PER_S:
            raise TooManyRequests(
                f"more than {MAX_MESSAGES_PER_S} messages in a second; put more executions into each", field="stream"
            )

    def _submit(self, command: command_pb2.Command, ops: int, on_result: Callable[[Result], None]) -> None:
        self._unanswered += 1
        self._idle.clear()
        if self._unanswered >= MAX_UNANSWERED:
            self._room.clear()

        def answered(result: Result) -> None:
            self._unanswered -= 1
            self._room.set()
            on_result(result)
            if not self._unanswered:
                self._idle.set()

        self._core.submit_nowait(command, ops, answered, SUBMIT_TIMEOUT_S)

    def _credit(self, total: int) -> None:
        if self.outbox.qsize() > MAX_UNREAD:
            # It waits until the worker has read some of what it was sent.
            self._held_credit = total
            return
        self._held_credit = 0
        self._core.post(lambda: self._core.lease_pump.credit(self._id, total))

    def _settle(self, command: command_pb2.Command, ops: int, sequence: int) -> None:
        def on_result(result: Result) -> None:
            confirm = worker_pb2.Confirm(sequence=sequence)
            if isinstance(result, Settled):
                confirm.stale_execution_ids.extend(result.stale)
            elif isinstance(result, Rejected) and not _may_be_repeated(result.error):
                self._refuse(result.error)
                return
            else:
                confirm.retry = True
            self.send(worker_pb2.ServerMessage(confirm=confirm))

        self._submit(command, ops, on_result)

    def _refuse(self, error: RaftschedError) -> None:
        """The state machine refused what the stream sent: the stream ends with that error."""
        self._refusal = error
        self.end()

    @property
    def refusal(self) -> RaftschedError | None:
        """Why the stream ends, when it is the worker's fault."""
        return self._refusal

    def _heartbeat(self, heartbeat: worker_pb2.Heartbeat) -> None:
        def on_result(result: Result) -> None:
            if isinstance(result, Renewed) and self.session not in result.lost:
                renewed = worker_pb2.Renewed(sequence=heartbeat.sequence)
                self.send(worker_pb2.ServerMessage(renewed=renewed))
            elif isinstance(result, Renewed):
                self._hub.session_ended(self.session, "the session has expired")
            # Anything else: no Renewed, so the worker sends another heartbeat and stops its handlers in time.

        self._submit(renew_command(self.session, heartbeat, self._settings.grant_timeout_ms), 1, on_result)

    def _started(self, started: worker_pb2.Started) -> None:
        command, ops = started_command(started)
        token_of = {execution: lease.token for lease in started.leases for execution in lease.execution_ids}

        def on_result(result: Result) -> None:
            if isinstance(result, Settled):
                for execution in result.stale:
                    reason = worker_pb2.CANCEL_REASON_LEASE_LOST
                    self.send(cancel_message(execution, token_of.get(execution, 0), reason))

        self._submit(command, ops, on_result)

    def _log_executions(self, event: str, token: int, executions: Sequence[int]) -> None:
        execution_log.debug(
            event,
            extra={"session": self.session, "worker": self.worker, "token": token, "executions": list(executions)},
        )

    def _log_failures(self, fail: worker_pb2.Fail) -> None:
        for failure in fail.failures:
            execution_log.info(
                "attempt put off" if failure.snooze else "attempt failed",
                extra={
                    "session": self.session,
                    "worker": self.worker,
                    "token": failure.token,
                    "execution": failure.execution_id,
                    "permanent": failure.permanent,
                    "error": failure.error.partition("\n")[0][:200],
                },
            )

    def _on_leased(self, leased: Leased) -> None:
        """On the core thread: a block for this stream."""
        self._core.call_on_loop(lambda: self._send_lease(leased))

    def _send_lease(self, leased: Leased) -> None:
        if execution_log.isEnabledFor(logging.DEBUG):
            self._log_executions("leased", leased.token, leased.executions)
        self.send(worker_pb2.ServerMessage(lease_batch=lease_batch(leased, self._core.profile)))


def _may_be_repeated(error: RaftschedError) -> bool:
    return error.code in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED)
