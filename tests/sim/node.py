"""One node over its lives: the real core, engine and services on a simulated clock, disk and network."""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
from google.protobuf.message import Message

from raftsched.api.backfill_service import BackfillService
from raftsched.api.calendar_service import CalendarService
from raftsched.api.core_gate import CoreGate
from raftsched.api.dedup_service import DedupService
from raftsched.api.execution_service import ExecutionService
from raftsched.api.job_service import JobService
from raftsched.api.limit_service import LimitService
from raftsched.api.worker_service import END_OF_STREAM, WorkerService
from raftsched.api.workflow_service import WorkflowService
from raftsched.dispatch.worker_hub import WorkerHub
from raftsched.dispatch.worker_stream import WorkerSettings
from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import RaftschedError, StoreCorrupt
from raftsched.node.config import NodeConfig
from raftsched.node.engine import Outside
from raftsched.raft import log_records
from raftsched.raft.log import RaftLog
from raftsched.raft.replica import Replica
from raftsched.state.results import LeaseEnded
from raftsched.v1 import worker_pb2
from tests.sim.calls import Answer, CallContext, StreamContext
from tests.sim.clocks import SimClock
from tests.sim.core import SimCore, SimEngine
from tests.sim.disk import Disk, SimBackground
from tests.sim.loop import SimLoop
from tests.sim.network import Connection, Network
from tests.sim.peers import SimPeers
from tests.sim.timeline import SECOND_US, Timeline, Violation
from tests.sim.witness import Witness

# What one round of the core costs, on a machine that has little else to do.
ROUND_US = (30, 250)
# Entries at the end of a log that are remembered of a node that is down.
REMEMBERED_TERMS = 100


class SimNode:
    """See the faults for what can happen to it. `damaged`: its files were harmed, so they may be found corrupt."""

    def __init__(
        self,
        number: int,
        folder: Path,
        *,
        members: int,
        timeline: Timeline,
        network: Network,
        witness: Witness,
        rng: random.Random,
        settings: dict[str, Any],
        round_us: tuple[int, int],
        find: Callable[[int], "SimNode"],
    ) -> None:
        self.number = number
        self.folder = folder
        self.clock = SimClock(timeline)
        self.disk = Disk(folder)
        self.core: SimCore | None = None
        self.is_paused = False
        self.is_corrupt = False
        self.damaged = False
        self.lives = 0
        self.fatal: Exception | None = None
        # When its disk was last replaced.
        self.emptied_us: int | None = None
        # The ends of its log while it is down: by index.
        self._terms_on_disk: dict[int, int] = {}
        self.on_stopped: Callable[[], None] = lambda: None
        self._timeline = timeline
        self._network = network
        self._witness = witness
        self._rng = rng
        self._find = find
        self._others = [other for other in range(1, members + 1) if other != number]
        self._round_us = round_us
        self._config = NodeConfig(
            node_id=number,
            data_dir=folder,
            listen=f"n{number}:1",
            peers={other: f"n{other}:1" for other in range(1, members + 1)},
            **settings,
        )
        self._next_round_us: int | None = None
        self._busy_until_us = 0

    # --- facts ------------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.core is not None

    @property
    def is_answering(self) -> bool:
        return self.core is not None and not self.is_paused

    @property
    def live(self) -> SimCore:
        assert self.core is not None
        return self.core

    @property
    def replica(self) -> Replica:
        return self.live.engine.replica

    @property
    def leads(self) -> bool:
        return self.core is not None and self.core.engine.replica.is_leader

    @property
    def has_joined_for_good(self) -> bool:
        """Whether this node's disk counts: it has once held all that was committed, and says so on disk."""
        if self.core is None or self.is_corrupt or self.damaged:
            return False
        log = self.core.engine.log
        return log.joined and not log._must_flush and not log._in_flight

    def term_on_disk(self, index: int) -> int | None:
        """The term of an entry that this node's disk really holds; for one that was compacted away, 0."""
        if self.core is None:
            return self._terms_on_disk.get(index)
        log = self.core.engine.log
        with log._env.begin() as txn:
            record = txn.get(log_records.key(index), db=log._entries_db)
            if record is not None:
                return log_records.term_of(index, record)
            state = txn.get(log_records.STATE_KEY, db=log._state_db)
            return 0 if state is not None and index <= log_records.LogState.unpack(state).base_index else None

    def _read_terms(self, log: RaftLog) -> dict[int, int]:
        """As term_on_disk, of the last entries."""
        with log._env.begin() as txn:
            cursor = txn.cursor(log._entries_db)
            found, at_entry = {}, cursor.last()
            while at_entry and len(found) < REMEMBERED_TERMS:
                index = log_records.index_of(cursor.key())
                found[index] = log_records.term_of(index, cursor.value())
                at_entry = cursor.prev()
            state = txn.get(log_records.STATE_KEY, db=log._state_db)
        base = log_records.LogState.unpack(state).base_index if state is not None else 0
        return found | dict.fromkeys(range(max(1, base - REMEMBERED_TERMS), base + 1), 0)

    # --- lives ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins a life with what is on the disk. A node whose files were harmed may find them corrupt."""
        assert self.core is None
        self.lives += 1
        self._timeline.note("starts", self.number)
        self._network_loop()
        try:
            engine = SimEngine(self._config, self._outside(), self.disk, self._witness)
        except StoreCorrupt as error:
            if not self.damaged:
                raise Violation(f"node {self.number} finds its files corrupt: {error}") from error
            self.is_corrupt = True
            self._core.is_dead = True
            self._peers.stop()
            self._timeline.note("finds its files corrupt", self.number)
            return
        # All of the log was checked: what was harmed in it is not in use any more.
        self.damaged = False
        self._core.open(engine)
        self.core = self._core
        self._witness.born(self.number, term=engine.log.term, applied_index=engine.machine.applied_index)
        gate = CoreGate(self.core)
        self._jobs = JobService(gate, self.core.wall_ms)
        self._executions = ExecutionService(gate)
        self._limits = LimitService(gate)
        self._calendars = CalendarService(gate)
        self._dedup = DedupService(gate)
        self._backfills = BackfillService(gate, self.core.wall_ms)
        self._workflows = WorkflowService(gate, self.core.wall_ms)
        self._workers = WorkerService(self.core, self._hub, self._worker_settings())
        self._peers.start()
        self.wake(0)

    def _network_loop(self) -> None:
        """What a life needs before its engine can be made."""
        self.loop = SimLoop(self._timeline)
        self._hub = WorkerHub()
        self._peers = SimPeers(
            self.number,
            self._others,
            self._network,
            deliver=lambda call: core.post(call),
            on_report=lambda node, data: core.on_report(node, data),
            accept=self._accept_peer,
        )
        self._peers.on_sent = self._witness.sent
        self._peers.on_taken = self._taken
        core = self._core = SimCore(self._config, self._peers, self.loop, self, self.wake)
        self._log_work = SimBackground(self._timeline, self._rng, self.disk, partial(core.post, _nothing))
        self._snapshot_work = SimBackground(self._timeline, self._rng, self.disk, partial(core.post, _nothing))
        self._streams: dict[Connection, Any] = {}
        self._calls: dict[object, Callable[[Answer], None]] = {}
        self.fatal = None

    def _outside(self) -> Outside:
        return Outside(
            clock=self.clock,
            rng=random.Random(self._rng.random()),
            transport=self._peers,
            send_report=self._peers.send_report,
            log_background=self._log_work,
            snapshot_background=self._snapshot_work,
            listener=self._core,
        )

    def _worker_settings(self) -> WorkerSettings:
        config = self._config
        return WorkerSettings(
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            session_ttl_ms=config.session_ttl_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            grant_timeout_ms=config.grant_timeout_ms,
            started_after_ms=config.started_after_ms,
        )

    def crash(self, *, loses_power: bool = False) -> None:
        """The process ends at once. With the power goes what was not synced."""
        core = self.live
        self._timeline.note("loses power" if loses_power else "crashes", self.number)
        if not loses_power and self._rng.random() < 0.5:
            self._log_work.finish_one()
        self._end(commit=False, loses_power=loses_power, core=core)

    def stop(self) -> None:
        """Ends in order, as on SIGTERM: commits first."""
        self._timeline.note("stops", self.number)
        # On a full disk there is nothing left to commit: the log has it.
        self._end(commit=not self.disk.is_full, loses_power=False, core=self.live)

    def _end(self, *, commit: bool, loses_power: bool, core: SimCore) -> None:
        engine = core.engine
        core.is_dead = True
        self.core = None
        self.is_paused = False
        self._next_round_us = None
        self._peers.stop()
        for connection in list(self._streams):
            connection.shut(self.number)
        self._streams.clear()
        calls, self._calls = self._calls, {}
        for lost in calls.values():
            lost(Answer())
        self.loop.kill()
        self._terms_on_disk = self._read_terms(engine.log)
        durable_index = self.disk.sure_index if loses_power else self.disk.newest_index
        durable_term = engine.log.durable_term
        engine.close(commit=commit)
        self._witness.died(self.number, durable_term=durable_term, durable_index=durable_index)
        if loses_power and self.disk.lose_power(self._rng):
            self._timeline.note("newest commit undone", self.number)
        self.on_stopped()

    def empty(self) -> None:
        """The disk is replaced by an empty one."""
        assert self.core is None
        self._timeline.note("gets an empty disk", self.number)
        self.disk.empty()
        self.emptied_us = self._timeline.now_us
        self._terms_on_disk = {}
        self.damaged = self.is_corrupt = False
        self._witness.emptied(self.number)

    def pause(self) -> None:
        """As SIGSTOP: no step is made, what arrives waits. A long pause costs the connections."""
        self._timeline.note("pauses", self.number)
        self.is_paused = True
        self.loop.pause()
        self._log_work.pause()
        self._snapshot_work.pause()
        life = self.lives
        for connection in self._network.connections_of(self.number):

            def give_up(connection: Connection = connection) -> None:
                if self.is_paused and self.lives == life:
                    connection.break_off()

            self._timeline.after(self._rng.randint(10 * SECOND_US, 15 * SECOND_US), give_up)

    def resume(self) -> None:
        self._timeline.note("resumes", self.number)
        self.is_paused = False
        self.loop.resume()
        self._log_work.resume()
        self._snapshot_work.resume()
        self._next_round_us = None
        self.wake(0)

    # --- steps ------------------------------------------------------------------------------------------------------

    def wake(self, in_us: int) -> None:
        """Has a round happen no later than that, as soon as the one before is over."""
        if self.is_paused:
            return
        at_us = max(self._timeline.now_us + in_us, self._busy_until_us)
        if self._next_round_us is not None and self._next_round_us <= at_us:
            return
        self._next_round_us = at_us
        self._timeline.after(at_us - self._timeline.now_us, partial(self._round, at_us, self.lives))

    def _round(self, at_us: int, life: int) -> None:
        if self._next_round_us != at_us or self.lives != life or self.core is None or self.is_paused:
            return
        self._next_round_us = None
        core = self.core
        try:
            wait_s = core.round()
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001  judged by `_stop_for_good`
            self._stop_for_good(error, core)
            return
        if self.loop.errors:
            raise Violation(f"node {self.number}'s event loop: {self.loop.errors[0]}")
        if core.engine.has_diverged:
            self._find_divergence(core)
            return
        self._witness.stepped(self, core.engine)
        self._busy_until_us = self._timeline.now_us + self._rng.randint(*self._round_us)
        self.wake(int(wait_s * SECOND_US))

    def _stop_for_good(self, error: Exception, core: SimCore) -> None:
        """A fatal error ends the process; it must have a cause among the faults."""
        self._timeline.note("stops for good", self.number, type(error).__name__)
        is_disk = isinstance(error, lmdb.Error | OSError) and (self.disk.is_full or self.disk.has_failed_install)
        is_damage = isinstance(error, StoreCorrupt | lmdb.Error) and self.damaged
        if not is_disk and not is_damage:
            raise Violation(f"node {self.number} stopped: {type(error).__name__}: {error}") from error
        self.fatal = error
        self._end(commit=False, loses_power=False, core=core)

    def _find_divergence(self, core: SimCore) -> None:
        """The node has found that its state is wrong: it must have a cause too, and the disk is replaced."""
        self._timeline.note("finds its state wrong", self.number)
        if not self.damaged:
            raise Violation(f"node {self.number} finds its state wrong")
        self.is_corrupt = True
        self._end(commit=False, loses_power=False, core=core)

    # --- what the core tells, as LoopSide ---------------------------------------------------------------------------

    def lease_ended(self, ended: LeaseEnded) -> None:
        self._hub.lease_ended(ended)

    def health_changed(self) -> None:
        """Nobody asks for it here."""

    def session_ended(self, session: int, reason: str) -> None:
        self._hub.session_ended(session, reason)

    async def ask_to_drop(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        return await self._hub.ask_to_drop(session, execution, token, timeout_s)

    def core_stopped(self, error: BaseException | None) -> None:
        """Fatal errors end the life in `_stop_for_good`."""

    # --- who connects -----------------------------------------------------------------------------------------------

    def _accept_peer(self, to: int, connection: Connection) -> bool:
        other = self._find(to)
        if not other.is_answering:
            return False
        if not other._peers.welcomes(self.number, self._peers.own_index):
            self._peers.refused(to, other._peers.index)
            return False
        other._peers.take_connection(connection, self._peers.own_index)
        self._witness.reconnected(self.number, to)
        return True

    def _taken(self, source: int, to: int, message: peer_pb2.PeerMessage, take: Callable[[], None]) -> None:
        """A message is about to be taken: by `take`."""
        self._witness.taken(source, to, message)
        replica = self.live.engine.replica
        is_old = message.HasField("append_reply") and message.term < replica.term and replica.is_leader
        before = self._known_of(source) if is_old else None
        take()
        if is_old and replica.is_leader and self._known_of(source) != before:
            raise Violation(f"leader {to} of term {replica.term} takes node {source}'s answer of term {message.term}")

    def _known_of(self, peer: int) -> tuple[int, int]:
        """What this leader takes as answered by a follower."""
        progress = self.live.engine.replica._progress.get(peer)
        # None: it is no member.
        return (0, 0) if progress is None else (progress.match, progress.answered_round)

    def take_stream(self, connection: Connection) -> None:
        """A worker's stream."""
        context = StreamContext(self.loop, connection, self.number)
        task = self.loop.create_task(self._serve_stream(context, connection))
        self._streams[connection] = task

        def message(data: bytes) -> None:
            context.put(END_OF_STREAM if data is None else worker_pb2.WorkerMessage.FromString(data))

        def lost() -> None:
            self._streams.pop(connection, None)
            task.cancel()

        connection.listen(self.number, message, lost)

    async def _serve_stream(self, context: StreamContext, connection: Connection) -> None:
        try:
            await self._workers.Connect(None, context)  # type: ignore[arg-type]
        except (RaftschedError, TimeoutError) as error:
            self._timeline.note("refuses a stream", self.number, f"{connection.parties} {error}", show=False)
        finally:
            self._streams.pop(connection, None)
            connection.end(self.number)

    def serve(self, method: str, request: Message, deadline_s: float, answer: Callable[[Answer], None]) -> None:
        """A unary call. `answer` is called once; with nothing in it when the node died meanwhile."""
        calls: dict[str, Callable[..., Awaitable[Any]]] = {
            "create": self._jobs.CreateJob,
            "batch": self._jobs.BatchCreateJobs,
            "workflow": self._workflows.CreateWorkflow,
            "update": self._jobs.UpdateJob,
            "reschedule": self._jobs.RescheduleJob,
            "delete": self._jobs.DeleteJob,
            "put_limit": self._limits.PutLimit,
            "delete_limit": self._limits.DeleteLimit,
            "backfill": self._backfills.CreateBackfill,
            "cancel": self._jobs.CancelJob,
            "pause": self._jobs.PauseJob,
            "resume": self._jobs.ResumeJob,
            "trigger": self._jobs.TriggerJob,
            "cancel_execution": self._executions.CancelExecution,
            "get": self._jobs.GetJob,
            "executions": self._executions.ListExecutions,
            "dead_letters": self._executions.ListDeadLetters,
            "replay": self._executions.ReplayDeadLetters,
            "result": self._executions.GetResult,
            "claim": self._dedup.Claim,
            "put_calendar": self._calendars.PutCalendar,
            "delete_calendar": self._calendars.DeleteCalendar,
            "complete": self._dedup.Complete,
        }
        context = CallContext(self.loop, deadline_s)
        key = object()
        self._calls[key] = answer

        async def run() -> None:
            try:
                found = Answer(response=await calls[method](request, context))
            except RaftschedError as error:
                found = Answer(error=error)
            if self._calls.pop(key, None) is not None:
                answer(found)

        self.loop.create_task(run())


def _nothing() -> None:
    """Wakes the core."""
