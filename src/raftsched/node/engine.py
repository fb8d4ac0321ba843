"""One node without its threads, clocks and network: replica, state machine and pumps, driven step by step.

Everything outside is injected, so that a simulator can run a whole cluster of engines in one process under one seed.
"""

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from raftsched.dispatch.cluster_view import ClusterView, PeerView
from raftsched.dispatch.fire_pump import FirePump
from raftsched.dispatch.leader_duties import LeaderDuties
from raftsched.dispatch.lease_pump import LeasePump
from raftsched.dispatch.pending import OnResult, PendingTable
from raftsched.internal.v1 import command_pb2, report_pb2
from raftsched.model.errors import NodeDiverged, NodeDraining, NoQuorum
from raftsched.node.cluster_clock import ClusterClock
from raftsched.node.config import NodeConfig
from raftsched.node.divergence import DivergenceWatch
from raftsched.node.verification import Verifications
from raftsched.raft.background import InlineBackground
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.membership import Membership
from raftsched.raft.ports import Background, Clock, PeerTransport
from raftsched.raft.replica import Replica
from raftsched.state.machine import Machine
from raftsched.state.results import Effects, Leased, LeaseEnded, Rejected, Result, SessionOpened
from raftsched.store.environment import Store
from raftsched.v1 import cluster_pb2
from raftsched.version import VERSION

logger = logging.getLogger(__name__)

# A step is due at least this often; everything an engine waits for wakes it before.
LONGEST_WAIT_S = 1.0
# The leader judges by reports who dispatches, hence gets them more often; what the others need them for, comparing
# states and clocks, is in no hurry.
REPORT_TO_LEADER_EVERY_S = 0.5
REPORT_EVERY_S = 1.5
# What fits in a report whatever workers say.
MAX_REPORTED_CREDIT = 1 << 40
# Longer than an election takes: after so long without a leader callers are better told than kept waiting.
LEADERLESS_PATIENCE_S = 4.0
# Without a leader nodes wait for each other's clocks before they elect one.
REPORT_WITHOUT_LEADER_EVERY_S = 0.1
# A peer that has not reported for so long does not dispatch: its shards go to the others.
SILENT_AFTER_S = 2.0
# An entry's operations: what one apply may take, some 10 ms.
ENTRY_MAX_OPS = 4_000


class Listener(Protocol):
    """What the engine tells its surroundings, from within `step`."""

    def lease_ended(self, ended: LeaseEnded) -> None: ...

    def session_ended(self, session: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """What an engine does not make itself. Backgrounds run work off the engine's thread, or in line."""

    clock: Clock
    rng: random.Random
    transport: PeerTransport
    send_report: Callable[[int, bytes], object]
    log_background: Background
    snapshot_background: Background
    listener: Listener
    # What reads the whole state and log when a verification asks for it, and how much of the time it may take.
    verify_background: Background = field(default_factory=InlineBackground)
    verify_share: float = 1.0


@dataclass(slots=True)
class _Peer:
    credit: int
    heard_s: float


class Engine:
    """Made, called and closed on one thread. Opening raises StoreCorrupt; `step` raises what must stop the node."""

    # What it is made of; a simulator puts parts in their place that it can watch, or make fail.
    _store_type: Callable[..., Store] = Store
    _machine_type: Callable[..., Machine] = Machine
    _log_type: Callable[..., RaftLog] = RaftLog
    _replica_type: Callable[..., Replica] = Replica

    def __init__(self, config: NodeConfig, outside: Outside) -> None:
        self._config = config
        self.clock = ClusterClock(outside.clock, members=len(config.peers))
        self._send_report = outside.send_report
        self._listener = outside.listener
        self._draining = False
        self._closing = False
        self._diverged = False
        self._watch = DivergenceWatch(members=len(config.peers))
        self._watched_index = 0
        # Members that have told of themselves.
        self._peers: dict[int, _Peer] = {}
        # When the leader is told next, and when all are.
        self._next_report_s = 0.0
        self._next_report_to_all_s = 0.0
        # What this node found when it last verified its state.
        self._verified: report_pb2.Verified | None = None
        self._was_leader = False
        self._leader_seen: int | None = None
        self._leaderless_since_s = self.clock.monotonic()
        self._served: tuple[int, frozenset[str]] = (-1, frozenset())
        config.data_dir.mkdir(parents=True, exist_ok=True)
        self.store = self._store_type(config.data_dir / "state")
        self.machine = self._machine_type(self.store, node_id=config.node_id)
        self._log = self._log_type(config.data_dir / "log", background=outside.log_background)
        self.replica = self._replica_type(
            RaftConfig(
                node_id=config.node_id,
                peers=config.peers,
                entry_max_ops=ENTRY_MAX_OPS,
                log_keep_entries=config.log_keep_entries,
                snapshot_dir=config.data_dir / "snapshots",
            ),
            log=self._log,
            machine=self.machine,
            transport=outside.transport,
            clock=self.clock,
            rng=outside.rng,
            on_effects=self._on_effects,
            background=outside.snapshot_background,
        )
        self._verifications = Verifications(
            node_id=config.node_id,
            members=lambda: self.replica.membership.voters,
            machine=self.machine,
            store=self.store,
            log=self._log,
            clock=self.clock,
            background=outside.verify_background,
            share=outside.verify_share,
        )
        self.replica.may_lead = self.clock.may_lead
        # Above all numbers of an earlier run, as long as that began before and had under a million requests a second.
        first_request = self.clock.own_wall_ms << 20
        self._pending = PendingTable(node_id=config.node_id, first_request=first_request, propose=self.replica.propose)
        self.lease_pump = LeasePump(machine=self.machine, submit=self.submit, clock=self.clock)
        self._fire_pump = FirePump(
            node_id=config.node_id,
            machine=self.machine,
            submit=self.submit,
            clock=self.clock,
            served_queues=self._served_queues,
        )
        self._duties = LeaderDuties(
            node_id=config.node_id,
            machine=self.machine,
            submit=self.submit,
            clock=self.clock,
            session_grace_ms=config.session_ttl_ms,
            retention=config.retention,
        )
        self._membership: Membership | None = None
        self._follow_membership()

    def step(self) -> float:
        """Does all that is due now and applies at most one entry. Returns the seconds until the next step is due."""
        if not self._diverged:
            self._look_for_damage()
        if self._diverged:
            return LONGEST_WAIT_S
        waits: list[float | None] = [LONGEST_WAIT_S, self.replica.tick()]
        self._follow_membership()
        self._follow_snapshots()
        self._follow_leadership()
        now_s = self.clock.monotonic()
        if not self._draining:
            waits.append(self._fire_pump.step())
            waits.append(self.lease_pump.step())
        if self.replica.is_leader:
            waits.append(self._duties.step(self._live_nodes(now_s)))
        alarm_s = self._pending.step(now_s)
        waits.append(None if alarm_s is None else max(0.0, alarm_s - now_s))
        self._report(now_s)
        waits.append(self._next_report_s - now_s)
        return min(wait for wait in waits if wait is not None)

    def submit(self, command: command_pb2.Command, ops: int, on_result: OnResult, *, timeout_s: float = 5.0) -> None:
        """Proposes `command` until it has a result; `on_result` is called once, from within a step or at once."""
        if self._diverged or self._closing:
            on_result(Rejected(NodeDiverged() if self._diverged else NodeDraining()))
            return
        self._pending.submit(command, ops, on_result, now_s=self.clock.monotonic(), timeout_s=timeout_s)

    def submit_for_caller(
        self, command: command_pb2.Command, ops: int, on_result: OnResult, *, timeout_s: float
    ) -> None:
        """As `submit`, but answers NoQuorum at once when there has been no leader for a while."""
        if self.clock.monotonic() - self._leaderless_since_s > LEADERLESS_PATIENCE_S and self.replica.leader_id is None:
            on_result(Rejected(NoQuorum()))
        else:
            self.submit(command, ops, on_result, timeout_s=timeout_s)

    def on_report(self, node_id: int, data: bytes) -> None:
        """What a peer told of itself."""
        report = report_pb2.NodeReport.FromString(data)
        if node_id not in self.replica.membership.voters:
            # What is not a majority's does not count, and who is behind cannot dispatch.
            return
        if node_id not in self._peers:
            self._duties.review_now()
        self._peers[node_id] = _Peer(report.worker_credit, self.clock.monotonic())
        self._judge_clock(node_id, report.wall_ms)
        self._watch.reported(node_id, report.applied_index, report.state_digest)
        if report.HasField("verified"):
            self._verifications.reported(node_id, report.verified)
        if not self._diverged and self._watch.is_diverged(self.replica.leader_id):
            others = ", ".join(map(str, self._watch.differs_from()))
            self._diverge(f"this node's state differs from that of the nodes {others}")

    def drain(self) -> None:
        """Fires and leases nothing more, hands leadership over; what is under way goes on."""
        self._draining = True
        self.lease_pump.stop()
        self.replica.transfer_leadership(None)

    def close(self, *, commit: bool) -> None:
        """Answers who waits with NodeDraining, closes log and store. `commit` saves replaying the log's end."""
        self._closing = True
        self._pending.fail_all(NodeDraining())
        if commit:
            self.machine.commit()
        self._verifications.close()
        self.replica.destroy()
        self._log.close()
        self.machine.close()

    # --- what entries do ------------------------------------------------------------------------------------------

    def _on_effects(self, effects: Effects) -> None:
        self._watched_index = self.machine.applied_index
        self._watch.applied(self._watched_index, self.machine.digest)
        if effects.verify:
            self._verifications.start()
        for request, result in effects.results:
            # What an earlier run of this node took may have reached a worker: its heartbeats tell.
            if not self._pending.resolve(request, result) and self._pending.is_of_this_run(request):
                self._give_back_orphan(result)
        for ended in effects.leases_ended:
            self._listener.lease_ended(ended)
        for session in effects.sessions_ended:
            self._listener.session_ended(session)

    def _give_back_orphan(self, result: Result) -> None:
        """A command that had been proposed twice was applied twice: what the second one took is given back."""
        if isinstance(result, Leased) and result.executions:
            self.lease_pump.give_back(result)
        elif isinstance(result, SessionOpened):
            close = command_pb2.CloseSession(session=result.session)
            self.submit(command_pb2.Command(close_session=close), 1, lambda _result: None)

    def _follow_membership(self) -> None:
        membership = self.replica.membership
        if membership is self._membership:
            return
        self._membership = membership
        peers = membership.voters - {self._config.node_id}
        for follower in (self.clock, self._watch):
            follower.follow_members(len(membership.voters), peers)
        self.replica.may_lead = self.clock.may_lead
        for gone in self._peers.keys() - peers:
            del self._peers[gone]
        self._duties.review_now()

    def _follow_snapshots(self) -> None:
        if self.machine.applied_index > self._watched_index:
            # It got there without applying: the state is a snapshot's, and older comparisons say nothing about it.
            self._watched_index = self.machine.applied_index
            self._watch.restarted_from_snapshot()

    def _follow_leadership(self) -> None:
        is_leader, leader = self.replica.is_leader, self.replica.leader_id
        if is_leader and not self._was_leader:
            self._duties.lead(self.replica.term)
        self._was_leader = is_leader
        if leader is not None:
            self._leaderless_since_s = self.clock.monotonic()
        if leader != self._leader_seen:
            self._leader_seen = leader
            self._report_at_once()
            if leader is not None:
                logger.info("following leader", extra={"leader": leader, "term": self.replica.term})
                self._pending.propose_all_again(self.clock.monotonic())

    def _served_queues(self) -> Collection[str]:
        index, queues = self._served
        if index != self.machine.applied_index:
            queues = frozenset(name for session in self.machine.sessions.values() for name in session.queues)
            self._served = (self.machine.applied_index, queues)
        return queues

    # --- what nodes tell each other -------------------------------------------------------------------------------

    def _report(self, now_s: float) -> None:
        if now_s < self._next_report_s:
            return
        leader, peers = self.replica.leader_id, self.replica.membership.members.keys() - {self._config.node_id}
        every_s = REPORT_EVERY_S if leader is not None else REPORT_WITHOUT_LEADER_EVERY_S
        if now_s >= self._next_report_to_all_s:
            self._next_report_to_all_s = now_s + every_s
        else:
            peers &= {leader}
        self._next_report_s = min(now_s + REPORT_TO_LEADER_EVERY_S, self._next_report_to_all_s)
        if leader == self._config.node_id:
            self._next_report_s = self._next_report_to_all_s
        report = report_pb2.NodeReport(
            applied_index=self.machine.applied_index,
            state_digest=self.machine.digest,
            worker_credit=min(self.lease_pump.capacity, MAX_REPORTED_CREDIT),
            wall_ms=self.clock.own_wall_ms,
            verified=self._verified,
        ).SerializeToString()
        for node_id in sorted(peers):
            self._send_report(node_id, report)

    def _report_at_once(self) -> None:
        self._next_report_s = self._next_report_to_all_s = 0.0

    def _judge_clock(self, node_id: int, wall_ms: int) -> None:
        self.clock.reported(node_id, wall_ms)
        self.replica.may_lead = self.clock.may_lead
        if self.replica.is_leader and not self.clock.is_trusted and not self.replica.transfer_leadership(None):
            self.replica.step_down()

    def _look_for_damage(self) -> None:
        """What readers beside this thread have come across."""
        self._verifications.poll()
        verified = self._verifications.report()
        if verified != self._verified:
            # The others wait for it.
            self._verified = verified
            self._report_at_once()
        if problem := self._verifications.problem or self.store.damage:
            self._diverge(problem)

    def _diverge(self, problem: str) -> None:
        self._diverged = True
        logger.critical(
            "%s: it serves nothing until it is rebuilt from the others. Stop it, run: raftsched repair --data %s",
            problem,
            self._config.data_dir,
            extra={"applied_index": self.machine.applied_index},
        )
        self._pending.fail_all(NodeDiverged())

    def _live_nodes(self, now_s: float) -> dict[int, int]:
        """Nodes that may dispatch, with their workers' credit."""
        live = {node_id: peer.credit for node_id, peer in self._peers.items() if now_s - peer.heard_s < SILENT_AFTER_S}
        live[self._config.node_id] = 0 if self._draining else self.lease_pump.capacity
        return live

    # --- status -----------------------------------------------------------------------------------------------------

    def view(self) -> ClusterView:
        """What this node knows of the cluster now."""
        replica, machine = self.replica, self.machine
        connected = replica.connected_ids
        matches = replica.match_indexes if replica.is_leader else {}
        return ClusterView(
            node_id=self._config.node_id,
            leader_id=replica.leader_id,
            has_quorum=replica.has_quorum,
            term=replica.term,
            commit_index=replica.commit_index,
            applied_index=machine.applied_index,
            first_log_index=replica.first_log_index,
            digest=machine.digest.hex(),
            now_ms=machine.now_ms,
            peers=tuple(
                PeerView(
                    node_id=node_id,
                    address=member.address,
                    connected=node_id == self._config.node_id or node_id in connected,
                    match_index=matches.get(node_id, 0),
                    is_voter=member.is_voter,
                )
                for node_id, member in replica.membership.members.items()
            ),
            health=self._health(),
            cluster_id=self._config.cluster_id,
            version=VERSION,
            dead_letter_quota=self._config.retention.dead_letter_quota,
            verification=self._verifications.view(),
        )

    def _health(self) -> int:
        if self._diverged:
            return cluster_pb2.NODE_HEALTH_DIVERGED
        if self._draining:
            return cluster_pb2.NODE_HEALTH_DRAINING
        if not self.replica.is_member:
            return cluster_pb2.NODE_HEALTH_NOT_A_MEMBER
        if not self.replica.has_quorum or self.replica.leader_id is None:
            return cluster_pb2.NODE_HEALTH_NO_QUORUM
        return cluster_pb2.NODE_HEALTH_SERVING
