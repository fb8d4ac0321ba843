"""Replication: the leader's side and the follower's side of AppendEntries, and how far the log is committed."""

import logging
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import ImpossibleState
from raftsched.raft.elections import Elections
from raftsched.raft.log_records import checksum
from raftsched.raft.progress import Mode, Progress
from raftsched.raft.replica_core import MEMBERSHIP, NO_OP, entry_now_ms

logger = logging.getLogger(__name__)


class Replication(Elections):
    def __init__(self, *args: Any) -> None:
        self._progress: dict[int, Progress] = {}
        self._heartbeat_at_s = 0.0
        # Where this leader's own entries begin; what is committed from there on is all that ever was.
        self._no_op_index = 0
        # The replicated clock of the newest entry in the log.
        self._last_now_ms = 0
        # Counts the times this leader asked whether it still leads.
        self._round = 0
        super().__init__(*args)

    # --- the leader's side ----------------------------------------------------------------------------------------

    def _SyncObj__onBecomeLeader(self) -> None:
        now_s, last = self._clock.monotonic(), self._log.last_index
        self._set_role_leader()
        self._votes.clear()
        self._progress = {peer: Progress(next=last + 1, heard_s=now_s) for peer in self._peer_ids}
        self._heartbeat_at_s = now_s
        self._round = 0
        # The clock in the log never falls, so its last entry has the highest; without entries, the state has it.
        self._last_now_ms = self._machine.now_ms
        if last > self._log.base_index:
            self._last_now_ms = max(self._last_now_ms, entry_now_ms(self._log.entry(last).command))
        # Entries of earlier terms are committed only along with one of this term.
        self._no_op_index = last + 1
        if self._history.index == 0:
            # A cluster's first leader, whose settings become everybody's membership.
            self._append(MEMBERSHIP, command_pb2.Entry(membership=self.membership.pack()))
        else:
            self._append(NO_OP, command_pb2.Entry())
        logger.info("became leader", extra={"term": self.term, "index": self._no_op_index})
        self._on_leader_changed()

    def _append(self, kind: bytes, entry: command_pb2.Entry) -> None:
        """Puts a new entry at the log's end, stamped with the replicated clock."""
        self._last_now_ms = entry.now_ms = max(self._clock.wall_ms(), self._last_now_ms)
        index, command = self._log.last_index + 1, kind + entry.SerializeToString()
        self._log.append(index, self.term, command)
        self._note_appended(index, command)

    def _on_membership_changed(self) -> None:
        if not self.is_leader:
            return
        for peer in self._progress.keys() - set(self._peer_ids):
            del self._progress[peer]
            self._on_peer_gone(peer)
        for peer in self._peer_ids:
            if peer not in self._progress:
                # Not heard of yet: `heard_s` in the past.
                self._progress[peer] = Progress(next=self._log.last_index + 1, heard_s=float("-inf"))

    def _on_peer_gone(self, peer: int) -> None:
        """Further down: what else is under way to a node that belongs to the cluster no more."""

    def _reached_by_quorum(self, own: int, of: Callable[[Progress], int]) -> int:
        """The highest number that as many voters as decide have reached."""
        reached = [own if voter == self.node_id else of(self._progress[voter]) for voter in self.membership.voters]
        reached.sort(reverse=True)
        return reached[self._quorum - 1]

    def _voters_heard(self, since_s: float, voters: Collection[int]) -> int:
        """How many of these this leader has heard from since then, itself included."""
        return sum(
            voter == self.node_id or (voter in self._progress and self._progress[voter].heard_s > since_s)
            for voter in voters
        )

    def _heard_from_quorum(self, since_s: float) -> bool:
        return self._voters_heard(since_s, self.membership.voters) >= self._quorum

    def _check_quorum(self, now_s: float) -> None:
        if not self._heard_from_quorum(now_s - self._config.leader_fallback_ms / 1000):
            self._become_follower(self.term, None, "no contact with a majority")

    def _SyncObj__sendAppendEntries(self) -> None:
        now_s = self._clock.monotonic()
        is_heartbeat = now_s >= self._heartbeat_at_s
        if is_heartbeat:
            self._heartbeat_at_s = now_s + self._config.heartbeat_ms / 1000
        for peer, progress in self._progress.items():
            if self._nodes[peer] in self._SyncObj__connectedNodes:
                self._send_to(peer, progress, is_heartbeat)

    def _send_to(self, peer: int, progress: Progress, is_heartbeat: bool) -> None:
        log = self._log
        if progress.mode is not Mode.SNAPSHOT and progress.next <= log.base_index:
            self._start_snapshot(peer, progress)
        has_sent = False
        while progress.next <= log.last_index and progress.may_send(self._config.append_window_bytes):
            if not self._send_entries(peer, progress):
                return
            has_sent = True
        if has_sent:
            return
        if is_heartbeat or progress.told_round < self._round:
            # Where a snapshot is under way the logs have only their start in common.
            prev = 0 if progress.mode is Mode.SNAPSHOT else progress.next - 1
            self._send_append(peer, progress, prev, [], notice=False)
        elif (
            progress.mode is Mode.REPLICATE
            and progress.told_commit < self.commit_index < progress.next
            and self.commit_index >= log.base_index
        ):
            self._send_append(peer, progress, self.commit_index, [], notice=True)

    def _send_entries(self, peer: int, progress: Progress) -> bool:
        first = progress.next
        batch = self._log.entries(first, self._config.append_max_bytes)
        entries = [
            peer_pb2.LogEntry(term=entry.term, command=entry.command, checksum=entry.checksum) for entry in batch
        ]
        if not self._send_append(peer, progress, first - 1, entries, notice=False):
            progress.probe()
            # The answer to the next heartbeat ends this.
            progress.probing = True
            return False
        progress.sent(first + len(batch) - 1, sum(len(entry.command) for entry in batch))
        return True

    def _send_append(
        self, peer: int, progress: Progress, prev: int, entries: list[peer_pb2.LogEntry], *, notice: bool
    ) -> bool:
        prev_term = 0 if prev == 0 else self._log.term_at(prev)
        if prev_term is None:
            raise ImpossibleState(f"entry {prev} is not in the log to be sent after")
        sent = self._send(
            peer,
            append=peer_pb2.AppendEntries(
                prev_index=prev,
                prev_term=prev_term,
                commit_index=self.commit_index,
                entries=entries,
                round=self._round,
                notice=notice,
            ),
        )
        if sent:
            if not notice:
                progress.told_round = self._round
            if prev + len(entries) >= self.commit_index:
                progress.told_commit = self.commit_index
        return sent

    def _on_append_reply(self, peer: int, term: int, reply: peer_pb2.AppendReply) -> None:
        # An answer to an earlier leadership, this node's own included, says nothing about today's log.
        progress = self._progress.get(peer)
        if not self.is_leader or term != self.term or progress is None:
            return
        progress.heard_s = self._clock.monotonic()
        progress.answered_round = max(progress.answered_round, reply.round)
        if progress.mode is Mode.SNAPSHOT:
            return
        if reply.needs_snapshot:
            progress.match = 0
            self._start_snapshot(peer, progress)
        elif reply.success:
            progress.accepted(min(reply.match_index, self._log.last_index))
        else:
            if reply.last_index < progress.match:
                logger.warning(
                    "follower has lost entries that it had on disk",
                    extra={"peer": peer, "had": progress.match, "has": reply.last_index},
                )
            progress.refused(reply.prev_index, min(reply.hint_index, self._log.last_index), reply.last_index)

    def _advance_commit(self) -> bool:
        """Whether more is committed now. The leader counts itself only for what is on its own disk."""
        index = self._reached_by_quorum(self._log.durable_index, attrgetter("match"))
        # An entry of an earlier term could still be overwritten, however many nodes have it.
        if index <= self.commit_index or self._log.term_at(index) != self.term:
            return False
        self._set_commit_index(index)
        self._log.set_joined()
        return True

    def _confirmed_round(self) -> int:
        """The latest round in which a majority took this node for the leader."""
        return self._reached_by_quorum(self._round, attrgetter("answered_round"))

    def _start_snapshot(self, peer: int, progress: Progress) -> None:
        raise NotImplementedError

    # --- the follower's side ----------------------------------------------------------------------------------------

    def _on_append(self, peer: int, term: int, message: peer_pb2.AppendEntries) -> None:
        if term < self.term:
            # Its sender learns the term from the answer.
            self._reply(peer, message, success=False)
            return
        self._hear_leader(peer, term)
        if self._needs_snapshot:
            self._reply(peer, message, success=False, needs_snapshot=True)
            return
        if (hint := self._mismatch(message)) is not None:
            self._reply(peer, message, success=False, hint_index=hint)
            return
        if not self._take_entries(peer, message):
            return
        verified = message.prev_index + len(message.entries)
        # Only what this message has shown to be the leader's: the log may go on with entries that are not.
        commit_index = min(message.commit_index, verified)
        if commit_index > self.commit_index:
            self._set_commit_index(commit_index)
        if verified >= message.commit_index and self._log.term_at(message.commit_index) == term:
            # The leader knows all that is committed, once an entry of its term is.
            self._log.set_joined()
        if not message.notice:
            self._reply(peer, message, success=True, match_index=verified)

    def _hear_leader(self, peer: int, term: int) -> None:
        """`peer` leads `term`, which is at least this node's."""
        if self.is_leader and term == self.term:
            raise ImpossibleState(f"nodes {self.node_id} and {peer} both lead term {term}")
        if term == self.term and self.leader_id not in (None, peer):
            raise ImpossibleState(f"nodes {self.leader_id} and {peer} both lead term {term}")
        if term > self.term or self.leader_id != peer or self._is_candidate:
            self._become_follower(term, peer, "heard from the leader")
        self._leader_heard_s = self._clock.monotonic()
        self._refused_at = None
        self._pre_votes.clear()
        self._reset_election_deadline()

    def _mismatch(self, message: peer_pb2.AppendEntries) -> int | None:
        """Where the logs may agree, when they do not where this message begins; else None."""
        log, prev = self._log, message.prev_index
        if prev > log.last_index:
            return log.last_index
        # What was compacted away is committed, so it is the leader's too.
        if prev >= log.base_index and log.term_at(prev) != message.prev_term:
            if prev <= self.commit_index:
                raise ImpossibleState(
                    f"the leader has term {message.prev_term} at {prev}, what is committed here {log.term_at(prev)}"
                )
            # What is committed agrees for certain, and little is beyond it.
            return self.commit_index
        return None

    def _take_entries(self, peer: int, message: peer_pb2.AppendEntries) -> bool:
        """Appends what is new. False when the message was damaged on its way."""
        log = self._log
        new: list[tuple[int, peer_pb2.LogEntry]] = []
        for index, entry in enumerate(message.entries, message.prev_index + 1):
            # What is here already stays, and what follows it: only a different entry proves that the rest is not
            # the leader's. Truncating more would unsay what this node has acknowledged.
            if index <= log.base_index or (not new and log.term_at(index) == entry.term):
                continue
            if checksum(index, entry.term, entry.command) != entry.checksum:
                logger.error("entry was damaged on its way", extra={"peer": peer, "index": index})
                return False
            new.append((index, entry))
        if new and new[0][0] <= log.last_index:
            conflict = new[0][0]
            if conflict <= self.commit_index:
                raise ImpossibleState(f"the leader's entry {conflict} differs from the one committed here")
            logger.info("truncated log", extra={"from_index": conflict, "last_index": log.last_index, "leader": peer})
            log.truncate_from(conflict)
            self._note_truncated(conflict)
        for index, entry in new:
            log.append(index, entry.term, entry.command, entry.checksum)
            self._note_appended(index, entry.command)
        return True

    def _reply(
        self,
        peer: int,
        message: peer_pb2.AppendEntries,
        *,
        success: bool,
        match_index: int = 0,
        hint_index: int = 0,
        needs_snapshot: bool = False,
    ) -> None:
        self._send_when_durable(
            peer,
            append_reply=peer_pb2.AppendReply(
                success=success,
                match_index=match_index,
                hint_index=hint_index,
                last_index=self._log.last_index,
                round=message.round,
                needs_snapshot=needs_snapshot,
                prev_index=message.prev_index,
            ),
        )
