"""The core thread: it alone runs Raft, the state machine and every LMDB write, and drives the pumps.

Work reaches it through one queue and leaves it through one: calls posted to the inbox, and calls collected for the
event loop, handed over once per round.
"""

import asyncio
import logging
import queue
import random
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from raftsched.dispatch.cluster_view import ClusterView, PeerView
from raftsched.dispatch.fire_pump import FirePump
from raftsched.dispatch.leader_duties import LeaderDuties
from raftsched.dispatch.lease_pump import LeasePump
from raftsched.dispatch.pending import OnResult, PendingTable
from raftsched.internal.v1 import command_pb2, report_pb2
from raftsched.model.errors import NodeDiverged, NodeDraining, NoQuorum, TooManyRequests
from raftsched.node.clock import SystemClock
from raftsched.node.config import NodeConfig
from raftsched.node.divergence import DivergenceWatch
from raftsched.raft.background import ThreadBackground
from raftsched.raft.config import RaftConfig
from raftsched.raft.grpc_peers import GrpcPeers
from raftsched.raft.log import RaftLog
from raftsched.raft.replica import Replica
from raftsched.state.machine import Machine
from raftsched.state.results import Effects, Leased, LeaseEnded, Rejected, Result, SessionOpened
from raftsched.store.environment import Store
from raftsched.v1 import cluster_pb2
from raftsched.version import VERSION

logger = logging.getLogger(__name__)

# The thread looks up at least this often; everything it waits for wakes it.
LONGEST_WAIT_S = 1.0
# Calls taken from the inbox before Raft gets its turn.
CALLS_PER_ROUND = 256
REPORT_EVERY_S = 0.5
# A peer that has not reported for so long does not dispatch: its shards go to the others.
SILENT_AFTER_S = 2.0


T = TypeVar("T")


class LoopSide(Protocol):
    """What the core thread tells the event loop; every call runs there."""

    def lease_ended(self, ended: LeaseEnded) -> None: ...

    def session_ended(self, session: int, reason: str) -> None: ...

    async def ask_to_drop(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None: ...

    def core_stopped(self, error: BaseException | None) -> None: ...


@dataclass(slots=True)
class _Peer:
    credit: int
    heard_s: float


class Core:
    """Made on the event loop; `start` runs the thread, `stop` ends it."""

    store: Store
    machine: Machine
    lease_pump: LeasePump

    def __init__(
        self, config: NodeConfig, peers: GrpcPeers, loop: asyncio.AbstractEventLoop, loop_side: LoopSide
    ) -> None:
        self._config = config
        self._peers = peers
        self._loop = loop
        self._loop_side = loop_side
        self._clock = SystemClock()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._to_loop: list[Callable[[], None]] = []
        self._stopping = False
        self._draining = False
        self._diverged = False
        self._watch = DivergenceWatch(members=len(config.peers))
        self._peer_reports: dict[int, _Peer] = {}
        self._next_report_s = 0.0
        self._last_report = b""
        self._was_leader = False
        self._leader_seen: int | None = None
        self._commit_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._served: tuple[int, frozenset[str]] = (-1, frozenset())
        self._thread = threading.Thread(target=self._run, name="raftsched-core", daemon=True)
        self._opened: Future[None] = Future()

    # --- called on the event loop -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens log and state and joins the cluster. Raises what the opening raises, such as StoreCorrupt."""
        self._thread.start()
        await asyncio.wrap_future(self._opened)

    async def stop(self) -> None:
        """Hands leadership over if this node has it, commits, closes. Waiters are answered with NodeDraining."""
        self.post(self._stop)
        await asyncio.to_thread(self._thread.join)

    def post(self, call: Callable[[], None]) -> None:
        """Runs `call` on the core thread, after all posted before."""
        self._inbox.put(call)

    def submit_nowait(
        self, command: command_pb2.Command, ops: int, on_result: OnResult, timeout_s: float = 5.0
    ) -> None:
        """Proposes `command`; `on_result` is called on the loop with its result."""
        self.post(
            lambda: self._submit(
                command, ops, lambda result: self.call_on_loop(lambda: on_result(result)), timeout_s=timeout_s
            )
        )

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result:
        """See api.ports.Core. Errors come back as Rejected."""
        future: asyncio.Future[Result] = self._loop.create_future()
        self.submit_nowait(command, ops, lambda result: _resolve(future, result), timeout_s)
        return await future

    async def read_barrier(self) -> int:
        """An index at which all that was confirmed anywhere before this call is applied.

        Raises NoQuorum, TooManyRequests.
        """
        future: asyncio.Future[int | None] = self._loop.create_future()

        def done(index: int | None) -> None:
            self.call_on_loop(lambda: _resolve(future, index))

        def ask() -> None:
            try:
                self._replica.read_barrier(done)
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
            self._replica.request_commit()

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

    async def ask_worker(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        """See api.ports.Core."""
        return await self._loop_side.ask_to_drop(session, execution, token, timeout_s)

    def drain(self) -> None:
        """Leases and fires nothing more; what is under way goes on."""
        self.post(self._drain)

    # --- on the core thread -------------------------------------------------------------------------------------

    def call_on_loop(self, call: Callable[[], None]) -> None:
        """Runs `call` on the event loop at the end of this round, in order."""
        self._to_loop.append(call)

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
        self._close(failure)

    def _open(self) -> None:
        config = self._config
        config.data_dir.mkdir(parents=True, exist_ok=True)
        self.store = Store(config.data_dir / "state")
        self.machine = Machine(self.store, node_id=config.node_id)
        flusher = ThreadBackground(self._wake, name="raftsched-log")
        self._log = RaftLog(config.data_dir / "log", background=flusher)
        self._replica = Replica(
            RaftConfig(
                node_id=config.node_id,
                peers=config.peers,
                log_keep_entries=config.log_keep_entries,
                snapshot_dir=config.data_dir / "snapshots",
            ),
            log=self._log,
            machine=self.machine,
            transport=self._peers,
            clock=self._clock,
            rng=random.Random(),
            on_effects=self._on_effects,
            background=ThreadBackground(self._wake, name="raftsched-snapshots"),
        )
        self._pending = PendingTable(
            node_id=config.node_id, first_request=self._clock.wall_ms() << 20, propose=self._replica.propose
        )
        self.lease_pump = LeasePump(machine=self.machine, submit=self._submit, clock=self._clock)
        self._fire_pump = FirePump(
            node_id=config.node_id,
            machine=self.machine,
            submit=self._submit,
            clock=self._clock,
            served_queues=self._served_queues,
        )
        self._duties = LeaderDuties(
            node_id=config.node_id,
            machine=self.machine,
            submit=self._submit,
            clock=self._clock,
            session_grace_ms=config.session_ttl_ms,
        )
        self._wait_s = 0.0
        self._take_view()

    def _wake(self) -> None:
        """From a background thread: its work has ended, and the replica should look."""
        self.post(_nothing)

    def _round(self) -> None:
        self._take_calls()
        waits: list[float | None] = [LONGEST_WAIT_S]
        if not self._diverged:
            waits.append(self._replica.tick())
            self._follow_leadership()
            now_s = self._clock.monotonic()
            if not self._draining:
                waits.append(self._fire_pump.step())
                waits.append(self.lease_pump.step())
            if self._replica.is_leader:
                waits.append(self._duties.step(self._live_nodes(now_s)))
            alarm_s = self._pending.step(now_s)
            waits.append(None if alarm_s is None else max(0.0, alarm_s - now_s))
            self._report(now_s)
            self._answer_committed()
        self._take_view()
        self._flush_to_loop()
        self._wait_s = min(wait for wait in waits if wait is not None)

    def _take_calls(self) -> None:
        try:
            if self._wait_s > 0:
                self._inbox.get(timeout=self._wait_s)()
            for _ in range(CALLS_PER_ROUND):
                self._inbox.get_nowait()()
        except queue.Empty:
            pass

    def _flush_to_loop(self) -> None:
        if self._to_loop:
            calls, self._to_loop = self._to_loop, []
            self._loop.call_soon_threadsafe(_run_all, calls)

    def _submit(self, command: command_pb2.Command, ops: int, on_result: OnResult, *, timeout_s: float = 5.0) -> None:
        if self._diverged or self._stopping:
            on_result(Rejected(NodeDiverged() if self._diverged else NodeDraining()))
            return
        self._pending.submit(command, ops, on_result, now_s=self._clock.monotonic(), timeout_s=timeout_s)

    def _on_effects(self, effects: Effects) -> None:
        self._watch.applied(self.machine.applied_index, self.machine.digest)
        for request, result in effects.results:
            if not self._pending.resolve(request, result):
                self._orphaned(result)
        for ended in effects.leases_ended:
            self.call_on_loop(partial(self._loop_side.lease_ended, ended))
        for session in effects.sessions_ended:
            self.call_on_loop(partial(self._loop_side.session_ended, session, "the session is over"))

    def _orphaned(self, result: Result) -> None:
        """A command that had been proposed twice was applied twice: what the second one took is given back."""
        if isinstance(result, Leased) and result.executions:
            self.lease_pump.give_back(result)
        elif isinstance(result, SessionOpened):
            close = command_pb2.CloseSession(session=result.session)
            self._submit(command_pb2.Command(close_session=close), 1, lambda _result: None)

    def _follow_leadership(self) -> None:
        is_leader, leader = self._replica.is_leader, self._replica.leader_id
        if is_leader and not self._was_leader:
            self._duties.lead(self._replica.term)
        self._was_leader = is_leader
        if leader != self._leader_seen:
            self._leader_seen = leader
            if leader is not None:
                logger.info("following leader", extra={"leader": leader, "term": self._replica.term})
                self._pending.propose_all_again(self._clock.monotonic())

    def _served_queues(self) -> Collection[str]:
        index, queues = self._served
        if index != self.machine.applied_index:
            queues = frozenset(name for session in self.machine.sessions.values() for name in session.queues)
            self._served = (self.machine.applied_index, queues)
        return queues

    # --- what nodes tell each other ------------------------------------------------------------------------------

    def _report(self, now_s: float) -> None:
        if now_s < self._next_report_s:
            return
        self._next_report_s = now_s + REPORT_EVERY_S
        report = report_pb2.NodeReport(
            applied_index=self.machine.applied_index,
            state_digest=self.machine.digest,
            worker_credit=self.lease_pump.window,
        ).SerializeToString()
        for node_id in self._config.peers:
            if node_id != self._config.node_id:
                self._peers.send_report(node_id, report)

    def on_report(self, node_id: int, data: bytes) -> None:
        """A peer's report, on the core thread."""
        report = report_pb2.NodeReport.FromString(data)
        known = self._peer_reports.get(node_id)
        self._peer_reports[node_id] = _Peer(report.worker_credit, self._clock.monotonic())
        if known is None:
            self._duties.review_now()
        self._watch.reported(node_id, report.applied_index, report.state_digest)
        if not self._diverged and self._watch.is_diverged(self._replica.leader_id):
            self._diverge()

    def _diverge(self) -> None:
        self._diverged = True
        logger.critical(
            "this node's state differs from the quorum's: it serves nothing until it is rebuilt from the others",
            extra={"applied_index": self.machine.applied_index, "differs_from": self._watch.differs_from()},
        )
        self._pending.fail_all(NodeDiverged())

    def _live_nodes(self, now_s: float) -> dict[int, int]:
        live = {
            node_id: peer.credit
            for node_id, peer in self._peer_reports.items()
            if now_s - peer.heard_s < SILENT_AFTER_S
        }
        live[self._config.node_id] = 0 if self._draining else self.lease_pump.window
        return live

    # --- readers and status ---------------------------------------------------------------------------------------

    def _answer_committed(self) -> None:
        if self._commit_waiters:
            committed = self.machine.committed_index
            waiting = []
            for index, future in self._commit_waiters:
                if index <= committed:
                    self.call_on_loop(partial(_resolve, future, None))
                elif not future.done():
                    # Those who gave up are dropped.
                    waiting.append((index, future))
            self._commit_waiters = waiting

    def _take_view(self) -> None:
        replica, machine = self._replica, self.machine
        peers = tuple(
            PeerView(
                node_id=node_id,
                address=address,
                connected=node_id == self._config.node_id or node_id in replica.connected_ids,
                match_index=replica.match_indexes.get(node_id, 0) if replica.is_leader else 0,
            )
            for node_id, address in sorted(self._config.peers.items())
        )
        self._view = ClusterView(
            node_id=self._config.node_id,
            leader_id=replica.leader_id,
            has_quorum=replica.has_quorum,
            term=replica.term,
            commit_index=replica.commit_index,
            applied_index=machine.applied_index,
            first_log_index=replica.first_log_index,
            digest=machine.digest.hex(),
            now_ms=machine.now_ms,
            peers=peers,
            health=self._health(),
            cluster_id=self._config.cluster_id,
            version=VERSION,
        )

    def _health(self) -> int:
        if self._diverged:
            return cluster_pb2.NODE_HEALTH_DIVERGED
        if self._draining:
            return cluster_pb2.NODE_HEALTH_DRAINING
        if not self._replica.has_quorum or self._replica.leader_id is None:
            return cluster_pb2.NODE_HEALTH_NO_QUORUM
        return cluster_pb2.NODE_HEALTH_SERVING

    # --- the end ----------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        self._draining = True
        self.lease_pump.stop()
        self._replica.transfer_leadership(None)

    def _stop(self) -> None:
        self._stopping = True

    def _close(self, failure: Exception | None) -> None:
        self._stopping = True
        self._pending.fail_all(NodeDraining())
        if failure is None:
            self.machine.commit()
        self._replica.destroy()
        self._log.close()
        self.machine.close()
        self.call_on_loop(partial(self._loop_side.core_stopped, failure))
        self._flush_to_loop()


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
