"""The core thread: runs a node's engine, and is its door to the event loop.

Work reaches the thread through one queue and leaves it through one: calls posted to the inbox, and calls collected
for the event loop, handed over once per round.
"""

import asyncio
import logging
import queue
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from raftsched.dispatch.cluster_view import ClusterView
from raftsched.dispatch.lease_pump import LeasePump
from raftsched.dispatch.pending import OnResult
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ClockUnsure, NoQuorum, RaftschedError, TooManyRequests
from raftsched.node.clock import SystemClock
from raftsched.node.cluster_clock import BOUND_MS
from raftsched.node.config import NodeConfig
from raftsched.node.engine import Engine, Outside
from raftsched.raft.background import ThreadBackground
from raftsched.raft.grpc_peers import GrpcPeers
from raftsched.state.machine import Machine
from raftsched.state.results import LeaseEnded, Result
from raftsched.store.environment import Store

logger = logging.getLogger(__name__)

# Calls taken from the inbox before the engine gets its turn.
CALLS_PER_ROUND = 256
# Of one processor's time, what reading the whole state and log may take.
VERIFY_SHARE = 0.25
T = TypeVar("T")
OnChanged = Callable[[RaftschedError | None], None]


class LoopSide(Protocol):
    """What the core thread tells the event loop; every call runs there."""

    def lease_ended(self, ended: LeaseEnded) -> None: ...

    def session_ended(self, session: int, reason: str) -> None: ...

    def health_changed(self) -> None: ...

    async def ask_to_drop(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None: ...

    def core_stopped(self, error: BaseException | None) -> None: ...


class Core:
    """Made on the event loop; `start` runs the thread, `stop` ends it. `call_on_loop`, `lease_ended`, `session_ended`
    and `on_report` belong to the core thread, the rest to the loop."""

    def __init__(
        self, config: NodeConfig, peers: GrpcPeers, loop: asyncio.AbstractEventLoop, loop_side: LoopSide
    ) -> None:
        self._config = config
        self._peers = peers
        self._loop = loop
        self._loop_side = loop_side
        # Bounded by those who post: calls under way, streams' unanswered messages, peers' unread bytes.
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._to_loop: list[Callable[[], None]] = []
        self._wait_s = 0.0
        self._stopping = False
        self._commit_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._thread = threading.Thread(target=self._run, name="raftsched-core", daemon=True)
        self._opened: Future[None] = Future()

    # --- called on the event loop -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens log and state and joins the cluster. Raises what the opening raises, such as StoreCorrupt."""
        self._thread.start()
        await asyncio.wrap_future(self._opened)

    async def stop(self) -> None:
        """Ends the thread: commits, closes; who still waits is answered with NodeDraining."""
        self.post(self._stop)
        await asyncio.to_thread(self._thread.join)

    @property
    def store(self) -> Store:
        return self._engine.store

    @property
    def machine(self) -> Machine:
        return self._engine.machine

    @property
    def lease_pump(self) -> LeasePump:
        return self._engine.lease_pump

    def wall_ms(self) -> int:
        """The time of day by the cluster's clocks, never behind the replicated one. Raises ClockUnsure."""
        clock, replicated_ms = self._engine.clock, self._engine.machine.now_ms
        now_ms = max(clock.wall_ms(), replicated_ms)
        if not clock.is_judged and now_ms > replicated_ms + BOUND_MS:
            raise ClockUnsure()
        return now_ms

    def post(self, call: Callable[[], None]) -> None:
        """Runs `call` on the core thread, after all posted before. Any thread."""
        self._inbox.put(call)

    def submit_nowait(
        self, command: command_pb2.Command, ops: int, on_result: OnResult, timeout_s: float = 5.0
    ) -> None:
        """Proposes `command`; `on_result` is called on the loop with its result."""

        def hand_over(result: Result) -> None:
            self.call_on_loop(partial(on_result, result))

        self.post(lambda: self._engine.submit_for_caller(command, ops, hand_over, timeout_s=timeout_s))

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result:
        """See api.ports.Core. Errors come back as Rejected."""
        future: asyncio.Future[Result] = self._loop.create_future()
        self.submit_nowait(command, ops, partial(_resolve, future), timeout_s)
        return await future

    async def read_barrier(self) -> int:
        """An index at which all that was confirmed anywhere before this call is applied.

        Raises NoQuorum, TooManyRequests.
        """
        future: asyncio.Future[int | None] = self._loop.create_future()

        def done(index: int | None) -> None:
            self.call_on_loop(partial(_resolve, future, index))

        def ask() -> None:
            try:
                self._engine.replica.read_barrier(done)
            except TooManyRequests as error:
                self.call_on_loop(partial(_refuse, future, error))

        self.post(ask)
        index = await future
        if index is None:
            raise NoQuorum()
        return index

    async def committed(self, index: int) -> None:
        """Returns once read transactions see everything up to `index`."""
        future: asyncio.Future[None] = self._loop.create_future()

        def wait() -> None:
            self._commit_waiters.append((index, future))
            self._engine.replica.request_commit()

        self.post(wait)
        await future

    async def session_exists(self, session: int) -> bool:
        """Linearizable: whether the worker session is open."""
        await self.read_barrier()
        return session in self.machine.sessions

    def profile(self, profile_id: int) -> command_pb2.Profile:
        return self.machine.profile(profile_id)

    def status(self) -> ClusterView:
        """As of the core thread's last round."""
        return self._view

    async def add_node(self, node_id: int, address: str, timeout_s: float) -> None:
        """See api.ports.Core."""
        await self._change(lambda done: self._engine.replica.add_node(node_id, address, done, timeout_s=timeout_s))

    async def remove_node(self, node_id: int, timeout_s: float) -> None:
        """See api.ports.Core."""
        await self._change(lambda done: self._engine.replica.remove_node(node_id, done, timeout_s=timeout_s))

    async def transfer_leadership(self, target: int | None, timeout_s: float) -> None:
        """See api.ports.Core."""
        await self._change(lambda done: self._engine.replica.request_transfer(target, done, timeout_s=timeout_s))

    async def _change(self, ask: Callable[[OnChanged], None]) -> None:
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: RaftschedError | None) -> None:
            self.call_on_loop(partial(_resolve, future, None) if error is None else partial(_refuse, future, error))

        def begin() -> None:
            try:
                ask(done)
            except TooManyRequests as error:
                done(error)

        self.post(begin)
        await future

    async def ask_worker(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        """See api.ports.Core."""
        return await self._loop_side.ask_to_drop(session, execution, token, timeout_s)

    def drain(self) -> None:
        """Leases and fires nothing more; what is under way goes on."""
        self.post(lambda: self._engine.drain())

    # --- on the core thread -------------------------------------------------------------------------------------

    def call_on_loop(self, call: Callable[[], None]) -> None:
        """Runs `call` on the event loop at the end of this round, in order."""
        self._to_loop.append(call)

    def lease_ended(self, ended: LeaseEnded) -> None:
        self.call_on_loop(partial(self._loop_side.lease_ended, ended))

    def session_ended(self, session: int) -> None:
        self.call_on_loop(partial(self._loop_side.session_ended, session, "the session is over"))

    def on_report(self, node_id: int, data: bytes) -> None:
        """A peer's report."""
        self._engine.on_report(node_id, data)

    def _run(self) -> None:
        try:
            self._open()
        except Exception as error:  # noqa: BLE001 - whatever it is, `start` raises it on the loop
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        failure: Exception | None = None
        try:
            while not self._stopping:
                self._round()
        except Exception as error:
            # An impossible state or a damaged disk: this node stops, the others go on.
            logger.critical("the node stops: %s", error, exc_info=True)
            failure = error
        try:
            self._engine.close(commit=failure is None)
        except Exception as error:
            # A disk that is full, say. Nothing is lost: the log has what the state has not.
            logger.critical("the node could not close its state: %s", error, exc_info=True)
            failure = failure or error
        self.call_on_loop(partial(self._loop_side.core_stopped, failure))
        self._flush_to_loop()

    def _open(self) -> None:
        outside = Outside(
            clock=SystemClock(),
            rng=random.Random(),
            transport=self._peers,
            send_report=self._peers.send_report,
            log_background=ThreadBackground(self._wake, name="raftsched-log"),
            snapshot_background=ThreadBackground(self._wake, name="raftsched-snapshots"),
            listener=self,
            verify_background=ThreadBackground(self._wake, name="raftsched-verify"),
            verify_share=VERIFY_SHARE,
        )
        self._engine = Engine(self._config, outside)
        self._view = self._engine.view()

    def _wake(self) -> None:
        """From a background thread: its work has ended, and the engine should look."""
        self.post(_nothing)

    def _round(self) -> None:
        self._take_calls()
        self._wait_s = self._engine.step()
        self._answer_committed()
        self._look()
        self._flush_to_loop()

    def _look(self) -> None:
        """Shows the loop how this node sees the cluster now."""
        before, self._view = self._view.health, self._engine.view()
        if self._view.health != before:
            self.call_on_loop(self._loop_side.health_changed)

    def _take_calls(self) -> None:
        try:
            if self._wait_s > 0:
                self._inbox.get(timeout=self._wait_s)()
            for _ in range(CALLS_PER_ROUND):
                self._inbox.get_nowait()()
        except queue.Empty:
            pass

    def _answer_committed(self) -> None:
        if not self._commit_waiters:
            return
        committed = self.machine.committed_index
        waiting = []
        for index, future in self._commit_waiters:
            if index <= committed:
                self.call_on_loop(partial(_resolve, future, None))
            elif not future.done():
                # Those who gave up are dropped.
                waiting.append((index, future))
        self._commit_waiters = waiting

    def _flush_to_loop(self) -> None:
        if self._to_loop:
            calls, self._to_loop = self._to_loop, []
            self._loop.call_soon_threadsafe(_run_all, calls)

    def _stop(self) -> None:
        self._stopping = True


def _resolve(future: asyncio.Future[T], value: T) -> None:
    """Sets the result unless the waiter has given up."""
    if not future.done():
        future.set_result(value)


def _refuse(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _nothing() -> None:
    """Wakes the core thread."""


def _run_all(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()
