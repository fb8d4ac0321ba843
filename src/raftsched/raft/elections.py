"""Elections: who may ask for votes, who may give one, and what a pre-vote spares a healthy leader."""

import logging
from typing import Any

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.replica_core import ReplicaCore

logger = logging.getLogger(__name__)


class Elections(ReplicaCore):
    def __init__(self, *args: Any) -> None:
        # By voter, not counted: a vote that arrives twice is one vote. The value: whether that node has joined.
        self._pre_votes: dict[int, bool] = {}
        self._votes: dict[int, bool] = {}
        self._has_told_who_is_missing = False
        # False keeps this node from asking for votes: the node around it knows a reason why it should not lead.
        self.may_lead = True
        super().__init__(*args)

    def _tick_election(self, now_s: float) -> None:
        if self.is_leader or now_s < self._SyncObj__raftElectionDeadline:
            return
        self._reset_election_deadline()
        # A node that cannot apply what is committed could not lead.
        if self._needs_snapshot or not self.may_lead or not self._is_voter:
            return
        if self.leader_id is not None or self._is_candidate:
            self._become_follower(self.term, None, "election timeout")
        self._pre_votes = {self.node_id: self._log.joined}
        self._ask_for_votes(pre_vote=True, for_term=self.term + 1, transfer=False)
        if self._is_enough(self._pre_votes):
            self._start_election(transfer=False)

    def _is_enough(self, votes: dict[int, bool]) -> bool:
        """Whether these elect a leader that has everything committed.

        A majority, of nodes that have joined: a disk that came back empty may have held entries that count as
        committed, and with its vote a node without them could win. Where that does not suffice, the votes of all:
        then no log is longer than the winner's. So a cluster's first election needs every member, and two disks
        emptied together do not begin a new history while the third node is away.
        """
        if sum(votes.values()) >= self._quorum or len(votes) == len(self.membership.voters):
            return True
        if len(votes) >= self._quorum and not self._has_told_who_is_missing:
            self._has_told_who_is_missing = True
            logger.warning(
                "waiting for every member: some that are here have never joined the cluster, or lost their log",
                extra={"not_joined": sorted(node for node, joined in votes.items() if not joined)},
            )
        return False

    def _start_election(self, *, transfer: bool) -> None:
        self._pre_votes.clear()
        self._SyncObj__setCurrentTerm(self.term + 1, self.node_id)
        self._set_role_candidate()
        self._on_leader_changed()
        self._reset_election_deadline()
        logger.info("asking for votes", extra={"term": self.term, "last_index": self._log.last_index})
        self._votes = {self.node_id: self._log.joined}
        self._ask_for_votes(pre_vote=False, for_term=self.term, transfer=transfer)
        if self._is_enough(self._votes):
            self._SyncObj__onBecomeLeader()

    def _ask_for_votes(self, *, pre_vote: bool, for_term: int, transfer: bool) -> None:
        request = peer_pb2.VoteRequest(
            pre_vote=pre_vote,
            for_term=for_term,
            last_index=self._log.last_index,
            last_term=self._log.last_term,
            transfer=transfer,
        )
        for peer in sorted(self.membership.voters - {self.node_id}):
            # It tells of the log's end, and a real one of the vote for itself.
            self._send_when_durable(peer, vote_request=request)

    def _on_vote_request(self, peer: int, request: peer_pb2.VoteRequest) -> None:
        granted = self._would_vote(request)
        if not request.pre_vote:
            if request.for_term > self.term and not self._follows_live_leader(request):
                self._become_follower(request.for_term, None, f"node {peer} asks for votes")
            granted = (
                granted
                and request.for_term == self.term
                and not self.is_leader
                and self._SyncObj__votedForNodeId in (None, peer)
            )
            if granted:
                self._SyncObj__setCurrentTerm(self.term, peer)
                self._reset_election_deadline()
                logger.info("voted", extra={"term": self.term, "candidate": peer})
        self._send_when_durable(
            peer,
            vote_reply=peer_pb2.VoteReply(
                pre_vote=request.pre_vote, for_term=request.for_term, granted=granted, joined=self._log.joined
            ),
        )

    def _would_vote(self, request: peer_pb2.VoteRequest) -> bool:
        log = self._log
        if request.for_term < self.term or (request.pre_vote and request.for_term == self.term):
            return False
        if self._follows_live_leader(request):
            return False
        return (request.last_term, request.last_index) >= (log.last_term, log.last_index)

    def _follows_live_leader(self, request: peer_pb2.VoteRequest) -> bool:
        """A node that is cut off and returns must not depose a leader that a majority hears."""
        if request.transfer:
            return False
        alive_since = self._clock.monotonic() - self._config.election_timeout_min_ms / 1000
        is_heard = self._leader_heard_s > max(alive_since, self._leader_lost_s)
        return self.is_leader or (self.leader_id is not None and is_heard)

    def _on_disconnected(self, peer: int) -> None:
        """The leader's process may have ended. If only the connection broke, the others refuse the pre-vote."""
        if peer == self.leader_id:
            self._leader_lost_s = self._clock.monotonic()
            soon_s = self._leader_lost_s + self._rng.random() * self._config.leader_lost_max_ms / 1000
            self._SyncObj__raftElectionDeadline = min(self._SyncObj__raftElectionDeadline, soon_s)

    def _on_vote_reply(self, peer: int, reply: peer_pb2.VoteReply) -> None:
        if not reply.granted or peer not in self.membership.voters:
            return
        if reply.pre_vote:
            # Empty unless this node is asking now.
            if reply.for_term == self.term + 1 and self._pre_votes:
                self._pre_votes[peer] = reply.joined
                if self._is_enough(self._pre_votes):
                    self._start_election(transfer=False)
        elif self._is_candidate and reply.for_term == self.term:
            self._votes[peer] = reply.joined
            if self._is_enough(self._votes):
                self._SyncObj__onBecomeLeader()

    def _on_timeout_now(self, peer: int) -> None:
        can_lead = self.may_lead and self._is_voter and not self._needs_snapshot
        if peer == self.leader_id and not self.is_leader and can_lead:
            logger.info("taking over leadership on request", extra={"term": self.term, "leader": peer})
            self._start_election(transfer=True)

    def _become_follower(self, term: int, leader: int | None, reason: str) -> None:
        self._pre_votes.clear()
        super()._become_follower(term, leader, reason)

    def _SyncObj__onBecomeLeader(self) -> None:
        raise NotImplementedError
