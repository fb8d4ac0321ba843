"""Changes of the membership, one at a time: which the leader makes, what it refuses, and when a learner votes.

Two majorities of memberships that differ in one node have a node in common, so a change may count as soon as it is in
the log: no two leaders can be elected, one by each. That holds only while a change is not made before the one before
it is committed, and a leader knows that of earlier leaders' changes only once an entry of its own is.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import (
    CannotLead,
    LeaderNotReady,
    MemberExists,
    MembershipChangeInProgress,
    NodeNotFound,
    QuorumAtRisk,
    RaftschedError,
)
from raftsched.raft.change_requests import ChangeRequests, Done, refusal
from raftsched.raft.handover import Handover
from raftsched.raft.membership import Membership
from raftsched.raft.progress import Mode
from raftsched.raft.replica_core import MEMBERSHIP

logger = logging.getLogger(__name__)

# A learner that lacks no more entries than this votes: what a loaded leader has on the way to a follower.
CAUGHT_UP_ENTRIES = 16


class MembershipChanges(Handover):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        config = self._config
        self._changes = ChangeRequests(
            node_id=self.node_id,
            ask_again_s=config.election_timeout_min_ms / 1000,
            not_ready_s=config.heartbeat_ms / 1000,
        )
        # On the leader, by who asked and the number of the request: who is told once the entry there is committed.
        self._on_committed: dict[tuple[int, int], tuple[int, Callable[[int], None]]] = {}
        self._transport.on_refused = self._on_refused

    # --- what this node is asked for ------------------------------------------------------------------------------

    def add_node(self, node_id: int, address: str, done: Done, *, timeout_s: float) -> None:
        """Has the leader add a node, as a learner that votes once it has caught up. `done(error)`: None when it is a
        member, also if it was one before. Raises TooManyRequests."""
        self._request(peer_pb2.ChangeRequest(add=peer_pb2.AddMember(node=node_id, address=address)), done, timeout_s)

    def remove_node(self, node_id: int, done: Done, *, timeout_s: float) -> None:
        """Has the leader remove a node; if it is the leader itself, after handing over. `done(None)` when it is no
        member, also if it was none before. Raises TooManyRequests."""
        self._request(peer_pb2.ChangeRequest(remove=node_id), done, timeout_s)

    def request_transfer(self, target: int | None, done: Done, *, timeout_s: float) -> None:
        """Has leadership go to `target`, or to any other node. Raises TooManyRequests."""
        self._request(peer_pb2.ChangeRequest(transfer=target or 0), done, timeout_s)

    def _request(self, request: peer_pb2.ChangeRequest, done: Done, timeout_s: float) -> None:
        deadline_s = self._clock.monotonic() + timeout_s
        self._changes.add(request, done, leader=self.leader_id or 0, deadline_s=deadline_s)

    def _ask_for_changes(self, now_s: float) -> None:
        # What a new leader has brought about by leading must not be asked of it.
        self._end_changes(now_s)
        leader = self.leader_id or 0
        if self.is_leader:
            for request in self._changes.to_ask(leader, now_s):
                self._consider(
                    self.node_id,
                    request,
                    partial(self._changes.done_at, request.id),
                    partial(self._changes.refused, request.id, now_s=now_s),
                )
            self._promote_learner(now_s)
        elif leader in self.connected_ids:
            for request in self._changes.to_ask(leader, now_s):
                self._send(leader, change_request=request)

    def _end_changes(self, now_s: float) -> None:
        self._changes.step(
            leader=self.leader_id or 0,
            applied_index=self._machine.applied_index,
            is_member=self.is_member,
            now_s=now_s,
        )

    def _on_change_reply(self, reply: peer_pb2.ChangeReply) -> None:
        if reply.index:
            self._changes.done_at(reply.id, reply.index)
        else:
            self._changes.refused(reply.id, refusal(reply.reason, reply.message), self._clock.monotonic())

    # --- the leader -----------------------------------------------------------------------------------------------

    def _on_change_request(self, peer: int, request: peer_pb2.ChangeRequest) -> None:
        """A peer that finds another leader here asks again by itself."""

        def answer(index: int) -> None:
            self._send(peer, change_reply=peer_pb2.ChangeReply(id=request.id, index=index))

        def refuse(error: RaftschedError) -> None:
            reply = peer_pb2.ChangeReply(id=request.id, reason=error.reason, message=error.message)
            self._send(peer, change_reply=reply)

        if self.is_leader:
            self._consider(peer, request, answer, refuse)

    def _consider(
        self,
        asker: int,
        request: peer_pb2.ChangeRequest,
        answer: Callable[[int], None],
        refuse: Callable[[RaftschedError], None],
    ) -> None:
        index: int | None
        try:
            match request.WhichOneof("change"):
                case "add":
                    index = self._add(request.add.node, request.add.address)
                case "remove":
                    index = self._remove(request.remove)
                case _:
                    index = self._transfer(request.transfer or None)
        except RaftschedError as error:
            refuse(error)
            return
        if index is not None and index <= self.commit_index:
            answer(self.commit_index)
        elif index is not None:
            self._on_committed[asker, request.id] = index, answer

    def _add(self, node_id: int, address: str) -> int:
        members = self.membership.members
        if node_id in members:
            if members[node_id].address != address:
                raise MemberExists(f"Node {node_id} has the address {members[node_id].address}; remove it first.")
            return self._history.index
        for other in members.values():
            if other.address == address:
                raise MemberExists(f"Node {other.node_id} has the address {address}.")
        self._check_may_change()
        for learner in self.membership.learners:
            raise MembershipChangeInProgress(
                f"Node {learner} was added and has not caught up yet; nodes are added one at a time."
            )
        return self._change(self.membership.with_learner(node_id, address))

    def _remove(self, node_id: int) -> int | None:
        """None: leadership goes to another node first, which must then be asked."""
        membership = self.membership
        if node_id not in membership.members:
            return self._history.index
        self._check_may_change()
        if node_id in membership.voters:
            self._check_quorum_without(node_id)
        if node_id == self.node_id:
            if not self.transfer_leadership(None):
                raise CannotLead("No other node is fit to take over leadership.")
            return None
        return self._change(membership.without(node_id))

    def _transfer(self, target: int | None) -> int | None:
        """None: begun; who asks sees the new leader."""
        if target == self.node_id:
            return self.commit_index
        if target is not None and target not in self.membership.members:
            raise NodeNotFound(f"The cluster has no node {target}.")
        if self._transfer_to is None and not self.transfer_leadership(target):
            raise CannotLead() if target is not None else CannotLead("No other node is fit to take over leadership.")
        return None

    def _check_may_change(self) -> None:
        if self.commit_index < self._no_op_index:
            raise LeaderNotReady()
        if self._transfer_to is not None:
            raise LeaderNotReady("The leader is handing over to another node; try again.")
        if self._history.index > self.commit_index:
            raise MembershipChangeInProgress()

    def _check_quorum_without(self, node_id: int) -> None:
        """Whoever is left must be able to go on."""
        left = self.membership.voters - {node_id}
        if not left:
            raise QuorumAtRisk(f"Node {node_id} is the only one that votes.")
        heard, needed = self._voters_in_contact(left), len(left) // 2 + 1
        if heard < needed:
            raise QuorumAtRisk(
                f"Without node {node_id}, {len(left)} nodes vote, and {needed} must be connected to the leader: "
                f"{heard} are."
            )

    def _voters_in_contact(self, voters: frozenset[int]) -> int:
        return self._voters_heard(self._clock.monotonic() - self._config.leader_fallback_ms / 1000, voters)

    def _promote_learner(self, now_s: float) -> None:
        """Lets a learner vote that has caught up and is there."""
        membership = self.membership
        if not membership.learners or self._history.index > self.commit_index or self.commit_index < self._no_op_index:
            return
        if self._transfer_to is not None:
            return
        since_s = now_s - self._config.leader_fallback_ms / 1000
        for learner in sorted(membership.learners):
            progress = self._progress[learner]
            has_caught_up = (
                progress.mode is Mode.REPLICATE
                and progress.match + CAUGHT_UP_ENTRIES >= self._log.last_index
                and progress.heard_s > since_s
            )
            grown = membership.with_voter(learner)
            if has_caught_up and self._voters_in_contact(grown.voters) >= grown.quorum:
                logger.info("learner has caught up, it votes from now on", extra={"peer": learner})
                self._change(grown)
                return

    def _change(self, membership: Membership) -> int:
        """Puts it into the log, from where on it counts."""
        self._append(MEMBERSHIP, command_pb2.Entry(membership=membership.pack()))
        return self._history.index

    def _advance_commit(self) -> bool:
        has_news = super()._advance_commit()
        if has_news and self._on_committed:
            self._tell_committed()
        return has_news

    def _tell_committed(self) -> None:
        due = [asked for asked, (index, _) in self._on_committed.items() if index <= self.commit_index]
        for asked in due:
            _, answer = self._on_committed.pop(asked)
            answer(self.commit_index)

    def _on_leadership_lost(self) -> None:
        super()._on_leadership_lost()
        # They ask the next leader.
        self._on_committed.clear()

    # --- a node that is no member -----------------------------------------------------------------------------------

    def _on_refused(self, peer: int, index: int) -> None:
        """A peer says that by the membership of entry `index` this node is none."""
        if index < self._history.index or self.has_quorum:
            # This node knows of a newer one, or of a leader that counts it in.
            return
        if self._refused_at is None:
            logger.warning(
                "this node is no member of the cluster: it was removed, or has not been added yet",
                extra={"peer": peer, "index": index},
            )
        self._refused_at = index
