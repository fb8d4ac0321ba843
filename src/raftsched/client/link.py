"""A worker's side of the cluster: its streams to all nodes, its session over them, and the work it asks for."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Sequence
from typing import Any

import grpc

from raftsched.client.context import StopReason
from raftsched.client.credit import CreditPolicy, spread
from raftsched.client.dedup import HandlerCalls
from raftsched.client.errors import RaftschedError
from raftsched.client.handlers import HandlerRegistry
from raftsched.client.outbox import OutboxCounts, Route
from raftsched.client.runners import RunnerPool, Running
from raftsched.client.session import Session
from raftsched.client.streams import NodeStream, SessionOver
from raftsched.v1 import worker_pb2

logger = logging.getLogger(__name__)

# Results that may wait for confirmation before no more work is asked for: without a quorum, they only pile up.
_MOST_UNCONFIRMED = 65_536
# A stream's credit is raised by at least a fourth of its share, or by whatever is free after so long.
_CREDIT_STEPS = 4
_CREDIT_WAIT_S = 0.02
# Work that has waited here for a handler slot for so long is given back for others: handlers have become slower since
# it was asked for, and its run timeout counts.
_LONGEST_WAIT_S = 2.0
_SHORTEST_SLEEP_S = 0.005
_CONFIRM_TIMEOUT_S = 10.0
_GOODBYE_TIMEOUT_S = 2.0


class Link:
    """`start` it on the event loop, then `drain` it; `failed` is set if it cannot go on."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        name: str,
        queues: Sequence[str],
        handlers: HandlerRegistry,
        concurrency: int,
        processes: int,
        prefetch_limit: int,
        credentials: grpc.ChannelCredentials | None,
    ) -> None:
        self.session: Session | None = None
        # Of the first node that welcomed this worker.
        self._cluster_id = ""
        self.opening = asyncio.Lock()
        self.counts = OutboxCounts()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.pool = RunnerPool(concurrency=concurrency, processes=processes, watcher=self)
        self._name = name
        self._queues = tuple(queues)
        self._handlers = handlers
        self._policy = CreditPolicy(concurrency=concurrency, limit=prefetch_limit)
        self._calls = HandlerCalls(addresses, credentials)
        self._streams = [NodeStream(address, self, credentials) for address in addresses]
        self._turn = 0
        self._heartbeat_turn = 0
        self._draining = False
        # Goodbye has been said.
        self._left = False
        self._stream_tasks: dict[NodeStream, asyncio.Task[None]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._credit_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._stream_tasks = {stream: self._begin(stream.run()) for stream in self._streams}
        self._keeper = self._begin(self._keep())

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """None of them may end by itself: without it the worker would be only half alive."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_result(error)

    async def drain(self, grace: Coroutine[Any, Any, None]) -> None:
        """Takes no more work, lets handlers run until `grace` returns, reports all results and says goodbye."""
        self._draining = True
        if self.session is not None:
            self.session.give_back_unbegun()
        idle = asyncio.create_task(self.pool.wait_idle())
        enough = asyncio.create_task(grace)
        try:
            await asyncio.wait((idle, enough), return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
            enough.cancel()
        left = self.pool.stop_all(StopReason.SHUTDOWN)
        if left:
            logger.warning("%d handlers did not end in time: they run again elsewhere", len(left))
        if self.session is not None:
            await self._say_goodbye(self.session)

    async def close(self) -> None:
        """Ends everything at once."""
        self._draining = True
        if self._credit_timer is not None:
            self._credit_timer.cancel()
        tasks = [*self._stream_tasks.values()]
        if self._keeper is not None:
            tasks.append(self._keeper)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pool.close()
        await self._calls.close()
        if self.session is not None:
            self.session.outbox.close()

    # What the streams tell.

    def hello(self) -> worker_pb2.Hello:
        return worker_pb2.Hello(
            worker=self._name,
            session=self.session.id if self.session else 0,
            queues=self._queues,
            cluster_id=self._cluster_id,
        )

    def welcomed(self, stream: NodeStream, welcome: worker_pb2.Welcome, hello_s: float) -> None:
        if self.session is None:
            self.session = Session(
                welcome,
                opened_s=hello_s,
                handlers=self._handlers,
                pool=self.pool,
                choose_route=self._choose_route,
                on_flush=self._ask_for_work,
                counts=self.counts,
                calls=self._calls,
            )
            self._opened.set()
        elif welcome.session != self.session.id:
            raise SessionOver("the node welcomed another one")
        stream.session = self.session
        # From now on: a node of another cluster among the addresses would end the session for all.
        self._cluster_id = welcome.cluster_id
        fields = {"session": welcome.session, "node": welcome.node, "node_address": stream.address}
        logger.info("connected to node %d, session %d", welcome.node, welcome.session, extra=fields)
        self.session.route_gained()
        if self.session.heartbeat_due_s() <= time.monotonic():
            self._beat(self.session, stream)
        self._ask_for_work()

    def received(self, stream: NodeStream, message: worker_pb2.ServerMessage) -> None:
        kind = message.WhichOneof("message")
        session = self.session
        if session is None or stream.session is not session or self._left:
            # Of a session that this worker has given up.
            return
        if kind == "session_lost":
            self._lose_session(session)
            raise SessionOver(message.session_lost.reason)
        if kind == "lease_batch":
            stream.unanswered_since_s = None
            stream.credit.received += len(message.lease_batch.execution_ids)
            if self._draining:
                session.give_back_batch(message.lease_batch, stream)
            else:
                session.take(message.lease_batch)
        elif kind == "confirm":
            session.outbox.confirm(stream, message.confirm)
        elif kind == "renewed":
            self._heard(stream, session)
            session.renewed(stream, message.renewed.sequence)
        elif kind == "cancel_execution":
            session.cancel(stream, message.cancel_execution)
        elif kind == "drain":
            logger.info("node %d is going away", stream.node, extra={"node": stream.node})
            stream.leave()
            self._ask_for_work()

    def _heard(self, stream: NodeStream, session: Session) -> None:
        """A heartbeat is answered. After a time without any, that says nothing against the other streams."""
        stream.unanswered_since_s = None
        if time.monotonic() - session.renewed_s > 2 * session.heartbeat_interval_s:
            for other in self._streams:
                other.unanswered_since_s = None

    def ended(self, stream: NodeStream) -> None:
        if self.session is not None:
            self.session.route_lost(stream)
            self._ask_for_work()

    def refused(self, stream: NodeStream, error: RaftschedError) -> None:
        logger.error("%s refuses this worker: %s", stream.address, error)
        if not self.failed.done():
            self.failed.set_result(error)

    # What the runners tell.

    @property
    def started_after_s(self) -> float:
        return self.session.started_after_s if self.session is not None else 0.0

    def report_started(self, running: Sequence[Running]) -> None:
        if self.session is None or not self.session.report_started(running):
            self.pool.report_again()

    def _choose_route(self, avoid: Route | None) -> NodeStream | None:
        """The usable stream with the least to write, by turns; another than `avoid` if there is one."""
        streams = [stream for stream in self._streams if stream.usable]
        others = [stream for stream in streams if stream is not avoid]
        candidates = others or streams
        if not candidates:
            return None
        self._turn += 1
        start = self._turn % len(candidates)
        return min(candidates[start:] + candidates[:start], key=lambda stream: stream.queued)

    def _lose_session(self, session: Session) -> None:
        self.session = None
        self._opened.clear()
        logger.error("session %d is lost: stopping its handlers", session.id, extra={"session": session.id})
        session.end()
        # They all belong to that session; the first to connect again opens a new one.
        for stream in self._streams:
            stream.abort()

    def _ask_for_work(self) -> None:
        """Grants credit for what the worker can take on: much of it at once, the rest a little later."""
        streams = sum(stream.usable for stream in self._streams)
        if streams and self._credit_timer is None and self._free_credit() > 0:
            self._grant(max(1, self._target() // (_CREDIT_STEPS * streams)))
            if self._free_credit() > 0:
                self._credit_timer = asyncio.get_running_loop().call_later(_CREDIT_WAIT_S, self._grant_rest)

    def _target(self) -> int:
        return self._policy.target(self.pool.finished)

    def _free_credit(self) -> int:
        session = self.session
        if session is None or session.lapsed or self._draining or session.outbox.unconfirmed > _MOST_UNCONFIRMED:
            return 0
        outstanding = sum(stream.credit.outstanding for stream in self._streams if stream.usable)
        return self._target() - self.pool.unfinished - outstanding

    def _grant_rest(self) -> None:
        self._credit_timer = None
        self._grant(1)

    def _grant(self, least: int) -> None:
        free = self._free_credit()
        streams = [stream for stream in self._streams if stream.usable]
        if free <= 0 or not streams:
            return
        raised = spread(free, [stream.credit for stream in streams], least=least)
        for stream in streams:
            if any(line is stream.credit for line in raised):
                message = worker_pb2.WorkerMessage()
                message.credit.total = stream.credit.granted
                stream.send(message)

    async def _keep(self) -> None:
        """Renews the session and watches over what is on its way."""
        while True:
            await self._opened.wait()
            session = self.session
            if session is None:
                continue
            now_s = time.monotonic()
            if now_s >= session.stop_at_s:
                session.lapse()
            if now_s >= session.heartbeat_due_s():
                self._send_heartbeat(session)
            session.outbox.repeat_overdue()
            self._probe_slow_streams(session, now_s)
            self._drop_silent_streams(session, now_s)
            self._give_back_what_waits(session)
            self._ask_for_work()
            # Without any stream the heartbeat stays due.
            wait_s = max(session.heartbeat_due_s() - now_s, session.patience_s / 4)
            if not session.lapsed:
                wait_s = min(wait_s, session.stop_at_s - now_s)
            await asyncio.sleep(max(min(wait_s, session.patience_s), _SHORTEST_SLEEP_S))

    def _send_heartbeat(self, session: Session) -> None:
        """On each stream in turn, so that each proves now and then that it is alive; first on those that are."""
        streams = [stream for stream in self._streams if stream.usable]
        if streams:
            answering = [stream for stream in streams if stream.unanswered_since_s is None] or streams
            self._heartbeat_turn += 1
            self._beat(session, answering[self._heartbeat_turn % len(answering)])

    def _beat(self, session: Session, stream: NodeStream) -> None:
        if stream.unanswered_since_s is None:
            stream.unanswered_since_s = time.monotonic()
        session.heartbeat(stream)

    def _probe_slow_streams(self, session: Session, now_s: float) -> None:
        """A stream that is slow to confirm is asked for a sign of life before its turn."""
        for stream in self._streams:
            slow = session.outbox.waits_on(stream, now_s - session.patience_s)
            if slow and stream.usable and stream.unanswered_since_s is None:
                self._beat(session, stream)

    def _drop_silent_streams(self, session: Session, now_s: float) -> None:
        """A stream whose heartbeat has no answer, while a later one on another stream had, leads nowhere."""
        for stream in self._streams:
            since_s = stream.unanswered_since_s
            if since_s is not None and session.renewed_s > since_s and now_s - since_s > session.heartbeat_interval_s:
                logger.warning("node %d does not answer", stream.node, extra={"node": stream.node})
                stream.unanswered_since_s = None
                stream.abort()

    def _give_back_what_waits(self, session: Session) -> None:
        if self.pool.waiting_for_s() > _LONGEST_WAIT_S:
            count = session.give_back_unbegun()
            logger.info("gave back %d executions: no handler slot came free in time", count)

    async def _say_goodbye(self, session: Session) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONFIRM_TIMEOUT_S):
                await session.outbox.wait_confirmed()
        stream = self._choose_route(None)
        if stream is None or self.session is not session:
            return
        self._left = True
        for other in self._streams:
            if other is not stream:
                self._stream_tasks[other].cancel()
        stream.send(worker_pb2.WorkerMessage(goodbye=worker_pb2.Goodbye()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_TIMEOUT_S):
                await stream.wait_ended()
