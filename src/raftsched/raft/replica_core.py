"""What every part of a replica stands on: its term and role, and sending only what its disk already backs."""

import logging
import random
from collections import deque
from typing import Any

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.membership import Membership, MembershipHistory
from raftsched.raft.ports import Clock, PeerTransport, StateMachine
from raftsched.raft.seams import CANDIDATE, FOLLOWER, LEADER, Seams

logger = logging.getLogger(__name__)

# First byte of a log entry's command, with pysyncobj's numbers; a serialized internal.v1.Entry follows.
REGULAR = b"\x00"
NO_OP = b"\x01"
MEMBERSHIP = b"\x02"


def entry_now_ms(command: bytes) -> int:
    """The replicated clock in a log entry."""
    return command_pb2.Entry.FromString(command[1:]).now_ms


def entry_membership(command: bytes) -> Membership:
    """What an entry of the kind MEMBERSHIP holds."""
    return Membership.unpack(command_pb2.Entry.FromString(command[1:]).membership)


class ReplicaCore(Seams):
    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        machine: StateMachine,
        transport: PeerTransport,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._machine = machine
        self._transport = transport
        self._clock = clock
        self._rng = rng
        # When this node last heard from a leader of its term.
        self._leader_heard_s = float("-inf")
        # When the connection to a leader last broke.
        self._leader_lost_s = float("-inf")
        # What waits for a flush not asked for yet, and for one under way, by ticket.
        self._unflushed: list[tuple[int, peer_pb2.PeerMessage]] = []
        self._held: deque[tuple[int, list[tuple[int, peer_pb2.PeerMessage]]]] = deque()
        # The state is older than the log's start: nothing can be applied, a leader's snapshot must come.
        self._needs_snapshot = False
        # By the index of an entry, a peer that has refused this node as no member; None: heard of none since a leader.
        self._refused_at: int | None = None
        # pysyncobj reads every property while it is made; what counts is loaded below.
        self._history = MembershipHistory(0, Membership.of_voters(config.peers))
        self._told_members = self._history.current
        super().__init__(config, log, transport)
        self._reconcile()
        self._load_membership()
        self._reset_election_deadline()

    def _reconcile(self) -> None:
        """Brings the log in line with the state, which holds only what is committed, after a crash between the two."""
        log, applied, term = self._log, self._machine.applied_index, self._machine.applied_term
        if applied < log.base_index:
            self._needs_snapshot = True
            logger.warning(
                "state is older than the log's start, waiting for a snapshot",
                extra={"applied_index": applied, "first_log_index": log.first_index},
            )
        elif log.term_at(applied) != term:
            if applied <= log.commit_index:
                raise StoreCorrupt(
                    f"log and state differ on the committed entry {applied}: terms {log.term_at(applied)} and {term}"
                )
            # A snapshot had been installed and the log not yet been reset. Up to `applied` the state has everything;
            # what the log holds beyond a differing entry can never have been committed.
            logger.warning("log continues after the installed state", extra={"index": applied, "term": term})
            log.reset(applied, term)
            log.flush()
        if applied > log.commit_index:
            log.set_commit_index(applied)
        self._SyncObj__raftCurrentTerm = log.term
        self._SyncObj__votedForNodeId = log.vote or None
        self._SyncObj__raftCommitIndex = log.commit_index
        self._SyncObj__raftLastApplied = applied

    # --- membership -------------------------------------------------------------------------------------------------

    def _load_membership(self) -> None:
        """The state's, and what the log holds beyond it; at a node's first start that of its settings."""
        log = self._log
        index, content = self._machine.membership
        found = Membership.unpack(content) if content else Membership.of_voters(self._config.peers)
        self._history = MembershipHistory(index, found)
        first = max(self._machine.applied_index, log.base_index) + 1
        while first <= log.last_index:
            batch = log.entries(first, self._config.append_max_bytes)
            for at, entry in enumerate(batch, first):
                if entry.command[:1] == MEMBERSHIP:
                    self._history.appended(at, entry_membership(entry.command))
            first += len(batch)
        self._follow_membership()

    def _note_appended(self, index: int, command: bytes) -> None:
        """An entry has been put at the log's end: a membership counts from then on, committed or not."""
        if command[:1] == MEMBERSHIP:
            self._history.appended(index, entry_membership(command))
            self._follow_membership()

    def _note_truncated(self, index: int) -> None:
        if self._history.truncated(index):
            self._follow_membership()

    def _follow_membership(self) -> None:
        membership = self._history.current
        self._peer_ids = tuple(number for number in membership.members if number != self.node_id)
        self._SyncObj__otherNodes = {self._nodes[number] for number in self._peer_ids}
        if membership != self._told_members:
            self._told_members = membership
            voters, learners = sorted(membership.voters), sorted(membership.learners)
            logger.info("members", extra={"voters": voters, "learners": learners, "index": self._history.index})
        self._tell_transport()
        self._on_membership_changed()

    def _tell_transport(self) -> None:
        """Who is to leave stays in touch until that is beyond doubt."""
        addresses: dict[int, str] = {}
        for membership in self._history:
            addresses |= {number: member.address for number, member in membership.members.items()}
        self._transport.set_peers(addresses, self._history.index, self._history.applied_index)

    def _on_membership_changed(self) -> None:
        """Further down: what a leader keeps of each member."""

    @property
    def membership(self) -> Membership:
        """The one that counts for this node; it may not be committed yet."""
        return self._history.current

    @property
    def is_member(self) -> bool:
        """False once this node knows that it has been removed, or has not been added yet."""
        return self.node_id in self.membership.members and self._refused_at is None

    @property
    def _is_voter(self) -> bool:
        return self.node_id in self.membership.voters and self._refused_at is None

    @property
    def _quorum(self) -> int:
        return self.membership.quorum

    # --- time and chance, both injected ---------------------------------------------------------------------------

    def _SyncObj__generateRaftTimeout(self) -> float:
        """Seconds; random, so that two nodes seldom ask for votes at once."""
        shortest, longest = self._config.election_timeout_min_ms, self._config.election_timeout_max_ms
        return (shortest + (longest - shortest) * self._rng.random()) / 1000

    def _reset_election_deadline(self) -> None:
        self._SyncObj__raftElectionDeadline = self._clock.monotonic() + self._SyncObj__generateRaftTimeout()

    # --- term and role --------------------------------------------------------------------------------------------

    def _SyncObj__setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        self._log.set_term(term, votedForNodeId or 0)
        self._SyncObj__raftCurrentTerm = term
        self._SyncObj__votedForNodeId = votedForNodeId

    def _become_follower(self, term: int, leader: int | None, reason: str) -> None:
        was_leader, changed = self.is_leader, term != self.term or leader != self.leader_id
        if term > self.term:
            self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None if leader is None else self._nodes[leader]
        if was_leader:
            logger.info("stepped down", extra={"reason": reason, "term": term, "leader": leader})
            self._on_leadership_lost()
        elif changed:
            logger.info("following", extra={"reason": reason, "term": term, "leader": leader})
        if changed:
            self._on_leader_changed()
        self._reset_election_deadline()

    def _on_leadership_lost(self) -> None:
        """Further down: what only a leader may keep."""

    def _on_leader_changed(self) -> None:
        """Further down: what was asked of the leader before."""

    @property
    def has_quorum(self) -> bool:
        """Whether what is proposed now can be expected to become durable."""
        heard_since = self._clock.monotonic() - self._config.leader_fallback_ms / 1000
        if self.is_leader:
            return self._heard_from_quorum(heard_since)
        return self.leader_id is not None and self._leader_heard_s > heard_since

    def _heard_from_quorum(self, since_s: float) -> bool:
        raise NotImplementedError

    @property
    def hasQuorum(self) -> bool:
        return self.has_quorum

    @property
    def _is_candidate(self) -> bool:
        return self._SyncObj__raftState == CANDIDATE

    def _set_role_leader(self) -> None:
        self._SyncObj__setState(LEADER)
        self._SyncObj__raftLeader = self._SyncObj__selfNode

    def _set_role_candidate(self) -> None:
        self._SyncObj__setState(CANDIDATE)
        self._SyncObj__raftLeader = None

    def _set_commit_index(self, index: int) -> None:
        self._log.set_commit_index(index)
        self._SyncObj__raftCommitIndex = index

    # --- sending --------------------------------------------------------------------------------------------------

    def _send(self, to: int, **body: Any) -> bool:
        """For what claims nothing about this node's disk."""
        node = self._nodes[to]
        if node not in self._SyncObj__connectedNodes:
            return False
        return self._transport.send(node, peer_pb2.PeerMessage(term=self.term, **body))

    def _send_when_durable(self, to: int, **body: Any) -> None:
        """For what tells of entries, a term or a vote of this node: it leaves once all changes so far are on disk."""
        self._unflushed.append((to, peer_pb2.PeerMessage(term=self.term, **body)))

    def _flush_log(self) -> None:
        ticket = self._log.flush()
        if self._unflushed:
            self._held.append((ticket, self._unflushed))
            self._unflushed = []
        self._release_held()

    def _release_held(self) -> None:
        while self._held and self._held[0][0] <= self._log.flushed_ticket:
            for to, message in self._held.popleft()[1]:
                node = self._nodes[to]
                # An answer of an earlier term has nothing left to say.
                if message.term == self.term and node in self._SyncObj__connectedNodes:
                    self._transport.send(node, message)
