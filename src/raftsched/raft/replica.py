"""One node's replica: takes commands, orders them through Raft, applies them, one bounded pass per tick.

Beside the parts that the node gives (log, state machine, transport, clock, randomness) it takes a `background`, on
which snapshots are copied and written; the log has its own for flushing. Both run in line unless threads are given.
"""

import logging
import random
from collections.abc import Callable

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import ImpossibleState, InvalidField, NodeDraining, TooManyRequests
from raftsched.raft.background import InlineBackground
from raftsched.raft.command_queue import CommandQueue
from raftsched.raft.config import RaftConfig
from raftsched.raft.log import RaftLog
from raftsched.raft.membership_changes import MembershipChanges
from raftsched.raft.ports import Background, Clock, PeerNode, PeerTransport, StateMachine
from raftsched.raft.progress import Mode, Progress
from raftsched.raft.reads import ReadBarriers
from raftsched.raft.replica_core import MEMBERSHIP, NO_OP, REGULAR
from raftsched.raft.snapshot_receiver import Incoming, SnapshotReceiver
from raftsched.raft.snapshot_sender import SnapshotSender
from raftsched.raft.state_commits import StateCommits
from raftsched.state.results import Effects

logger = logging.getLogger(__name__)

# Bodies whose sender has been elected, or has learnt of the election, of the term they carry.
_BINDING = frozenset({"append_reply", "vote_reply", "snapshot_reply"})


class Replica(MembershipChanges):
    """Everything is called on the core thread. Nothing here waits for a disk or the network, except state commits.

    `tick` and `receive` raise what is fatal, and so does every later `tick`: a damaged disk, an entry that cannot be
    applied, a broken invariant. The node must then stop; the error stays in `fatal`.
    """

    def __init__(
        self,
        config: RaftConfig,
        *,
        log: RaftLog,
        machine: StateMachine,
        transport: PeerTransport,
        clock: Clock,
        rng: random.Random,
        on_effects: Callable[[Effects], None],
        background: Background | None = None,
    ) -> None:
        """Raises StoreCorrupt when log and state contradict each other."""
        self.fatal: Exception | None = None
        self._on_effects = on_effects
        self._background: Background = background if background is not None else InlineBackground()
        self._queue = CommandQueue(max_ops=config.queue_max_ops, max_bytes=config.queue_max_bytes)
        self._commits = StateCommits(config, machine, clock)
        self._reads = ReadBarriers(
            max_waiting=config.reads_max,
            timeout_s=config.read_timeout_ms / 1000,
            ask_again_s=config.election_timeout_min_ms / 1000,
        )
        self._has_dropped = False
        config.snapshot_dir.mkdir(parents=True, exist_ok=True)
        for leftover in config.snapshot_dir.glob("*.snapshot"):
            leftover.unlink()
        self._sender = SnapshotSender(
            config, machine, self._background, lambda node, chunk: self._send(node, snapshot_chunk=chunk)
        )
        self._receiver = SnapshotReceiver(
            config,
            self._background,
            lambda node, reply: self._send_when_durable(node, snapshot_reply=reply),
            self._install_snapshot,
        )
        super().__init__(config, log, machine, transport, clock, rng)

    # --- commands -------------------------------------------------------------------------------------------------

    def propose(self, command: bytes, ops: int) -> None:
        """Queues a serialized internal.v1.Command of `ops` operations for the next entry, here or at the leader.

        It may be lost: whoever waits for its result proposes it again after a while. Raises TooManyRequests when
        too much is waiting, InvalidField when the command is too large.
        """
        if len(command) > self._config.command_max_bytes:
            raise InvalidField(
                f"{len(command)} bytes; at most {self._config.command_max_bytes} are allowed", field="command"
            )
        self._queue.put(command, max(1, ops), self._clock.monotonic())

    def read_barrier(self, done: Callable[[int | None], None]) -> None:
        """Calls `done(index)` once all that was confirmed anywhere before this call is applied here.

        `done(None)`: leadership could not be confirmed in time. Raises TooManyRequests when too many wait.
        """
        self._reads.add(done, self._clock.monotonic())

    def request_commit(self) -> None:
        """Readers wait for what is applied: commit the state as soon as nothing is left to apply."""
        self._commits.request()

    # --- facts ------------------------------------------------------------------------------------------------------

    @property
    def first_log_index(self) -> int:
        return self._log.first_index

    @property
    def last_log_index(self) -> int:
        return self._log.last_index

    @property
    def match_indexes(self) -> dict[int, int]:
        """On the leader: how far each member's disk is known to hold the log. Elsewhere only this node's own."""
        known = {self.node_id: self._log.durable_index}
        return known | {peer: progress.match for peer, progress in self._progress.items()}

    def getStatus(self) -> dict[str, object]:
        return {
            "node": self.node_id,
            "leader": self.leader_id,
            "is_leader": self.is_leader,
            "has_quorum": self.has_quorum,
            "term": self.term,
            "commit_index": self.commit_index,
            "applied_index": self._machine.applied_index,
            "first_log_index": self.first_log_index,
            "last_log_index": self.last_log_index,
            "match_indexes": self.match_indexes,
            "connected": sorted(self.connected_ids),
            "voters": sorted(self.membership.voters),
            "learners": sorted(self.membership.learners),
            "waiting_ops": self._queue.ops,
        }

    def isReady(self) -> bool:
        """Whether this node has a leader and has applied what it knows to be committed."""
        return self.leader_id is not None and self._machine.applied_index >= self.commit_index

    _isReady = isReady

    # --- messages ---------------------------------------------------------------------------------------------------

    def receive(self, peer: int, message: peer_pb2.PeerMessage) -> None:
        """A message from another node. Answers leave with the next tick. Raises what is fatal.

        It need not be a member as far as this node knows: a leader is heard, and a candidate judged, all the same,
        since a node that was away knows only of earlier members.
        """
        if self.fatal is not None:
            return
        try:
            self._receive(peer, message)
        except Exception as error:
            self._stop_for_good(error)
            raise

    def _receive(self, peer: int, message: peer_pb2.PeerMessage) -> None:
        body, term = message.WhichOneof("body"), message.term
        if body in _BINDING and term > self.term and peer in self._peer_ids:
            self._become_follower(term, None, f"node {peer} is in a later term")
        match body:
            case "append":
                self._on_append(peer, term, message.append)
            case "append_reply":
                self._on_append_reply(peer, term, message.append_reply)
                if self.is_leader:
                    self._reads.confirmed(self._confirmed_round())
            case "forward" if peer in self._progress:
                self._on_forward(peer, message.forward)
            case "vote_request":
                self._on_vote_request(peer, message.vote_request)
            case "vote_reply":
                self._on_vote_reply(peer, message.vote_reply)
            case "timeout_now" if term == self.term:
                self._on_timeout_now(peer)
            case "read_request":
                self._on_read_request(peer, message.read_request.id)
            case "read_reply":
                self._reads.answered(message.read_reply.id, message.read_reply.index)
            case "change_request":
                self._on_change_request(peer, message.change_request)
            case "change_reply":
                self._on_change_reply(message.change_reply)
            case "snapshot_chunk":
                self._on_snapshot_chunk(peer, term, message.snapshot_chunk)
            case "snapshot_reply" if self.is_leader and term == self.term:
                self._on_snapshot_reply(peer, message.snapshot_reply)

    def _SyncObj__onMessageReceived(self, node: PeerNode, message: peer_pb2.PeerMessage) -> None:
        self.receive(node.number, message)

    def _SyncObj__onNodeConnected(self, node: PeerNode) -> None:
        self._SyncObj__connectedNodes.add(node)
        self._forget_in_flight(node)

    def _SyncObj__onNodeDisconnected(self, node: PeerNode) -> None:
        self._SyncObj__connectedNodes.discard(node)
        self._forget_in_flight(node)
        self._on_disconnected(node.number)

    def _forget_in_flight(self, node: PeerNode) -> None:
        """What was sent to it may be lost."""
        self._sender.stop(node.number)
        if (progress := self._progress.get(node.number)) is not None:
            progress.probe()

    def _on_forward(self, peer: int, forward: peer_pb2.Forward) -> None:
        if not self.is_leader:
            return
        dropped, now_s = 0, self._clock.monotonic()
        for command, ops in zip(forward.commands, forward.ops, strict=False):
            try:
                self._queue.put(command, max(1, ops), now_s)
            except TooManyRequests:
                dropped += 1
        if dropped:
            logger.warning("dropped forwarded commands, the queue is full", extra={"peer": peer, "commands": dropped})

    def _on_read_request(self, peer: int, question: int) -> None:
        def answer(index: int | None) -> None:
            self._send(peer, read_reply=peer_pb2.ReadReply(id=question, index=index or 0))

        if not self.is_leader:
            answer(None)
            return
        try:
            self._reads.add(answer, self._clock.monotonic(), is_remote=True)
        except TooManyRequests:
            answer(None)

    # --- one pass -----------------------------------------------------------------------------------------------------

    def tick(self) -> float:
        """Does all that can be done now and applies at most one entry. Returns the seconds until the next call is
        due unless something arrives before; 0.0: at once. Raises what is fatal."""
        if self.fatal is not None:
            raise self.fatal
        try:
            return self._tick()
        except Exception as error:
            self._stop_for_good(error)
            raise

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: ARG002  pysyncobj's signature
        self.tick()

    def _tick(self) -> float:
        now_s = self._clock.monotonic()
        self._log.poll()
        self._background.poll()
        self._release_held()
        self._tick_election(now_s)
        if self.is_leader:
            self._check_quorum(now_s)
        self._ask_for_changes(now_s)
        if self.is_leader:
            self._advance_commit()
            self._propose()
            self._begin_read_round()
            self._SyncObj__sendAppendEntries()
            self._hand_over(now_s)
        else:
            self._ask_leader(now_s)
        self._reads.expire(now_s)
        self._sender.pump(now_s, self._log.base_index)
        # From here on the disk works in the background, and the peers have what they need, while this thread applies.
        self._flush_log()
        has_news = self.is_leader and self._advance_commit()
        self._transport.flush()
        self._SyncObj__applyLogEntries()
        is_idle = not self._can_apply()
        self._commits.step(self._clock.monotonic(), is_idle=is_idle)
        self._SyncObj__tryLogCompaction()
        self._reads.applied(self._machine.applied_index)
        self._end_changes(now_s)
        self._transport.flush()
        return 0.0 if has_news or not is_idle else self._seconds_to_wait()

    def _propose(self) -> None:
        """One entry is under way while the next one gathers: that is what makes the batches large."""
        config, log = self._config, self._log
        while (
            len(self._queue) > 0
            and self._transfer_to is None
            and log.last_index - self.commit_index < config.entries_in_flight
        ):
            taken = self._queue.take(config.entry_max_ops, config.entry_max_bytes)
            self._append(REGULAR, command_pb2.Entry(commands=[command for command, _ in taken]))

    def _ask_leader(self, now_s: float) -> None:
        """Commands and reads of a follower go to the leader; what finds none in time is dropped."""
        leader = self.leader_id
        if leader is None or leader not in self.connected_ids:
            dropped = self._queue.drop_older(now_s - self._config.queue_hold_ms / 1000)
            if dropped and not self._has_dropped:
                # Once for each time without a leader.
                self._has_dropped = True
                logger.warning("dropping commands, there is no leader", extra={"term": self.term})
            return
        self._has_dropped = False
        while len(self._queue) > 0:
            taken = self._queue.take(self._config.queue_max_ops, self._config.entry_max_bytes)
            self._send(
                leader,
                forward=peer_pb2.Forward(commands=[command for command, _ in taken], ops=[ops for _, ops in taken]),
            )
        if self._reads.wants_leader:
            self._send(leader, read_request=peer_pb2.ReadRequest(id=self._reads.ask(now_s)))

    def _begin_read_round(self) -> None:
        # Before an entry of its own term is committed a leader does not know all that is committed.
        if self._reads.wants_round and self.commit_index >= self._no_op_index:
            self._round += 1
            self._reads.begin_round(self._round, self.commit_index)
            self._reads.confirmed(self._confirmed_round())

    def _can_apply(self) -> bool:
        # Not beyond what is on this node's own disk: then the state never knows more than the log after a crash.
        limit = min(self.commit_index, self._log.durable_index)
        return not self._needs_snapshot and self._machine.applied_index < limit

    def _SyncObj__applyLogEntries(self) -> bool:
        """Applies one entry, if one is ready. An exception is not caught here: there is no going on after it."""
        if not self._can_apply():
            return False
        index = self._machine.applied_index + 1
        term, command, _ = self._log.entry(index)
        kind = command[:1]
        if kind not in (REGULAR, NO_OP, MEMBERSHIP):
            raise ImpossibleState(f"entry {index} is of a kind that this version does not know: {kind.hex()}")
        effects = self._machine.apply_entry(index, term, b"" if kind == NO_OP else command[1:])
        self._SyncObj__raftLastApplied = index
        if kind == MEMBERSHIP:
            self._history.applied(index)
            self._tell_transport()
        self._commits.applied(self._clock.monotonic())
        self._on_effects(effects)
        return True

    def _SyncObj__tryLogCompaction(self) -> None:
        """Moves the log's start. The state is durable on its own, so nothing has to be written for it."""
        config, log = self._config, self._log
        end = self._commits.safe_index
        if (hold := self._sender.hold_index) is not None:
            end = min(end, hold)
        at_most = min(end - log.base_index, config.compact_max_entries)
        if at_most > 0:
            log.compact_to(log.surplus_end(config.log_keep_entries, config.log_keep_bytes, at_most))

    def _seconds_to_wait(self) -> float:
        now_s = self._clock.monotonic()
        due_s = self._heartbeat_at_s if self.is_leader else self._SyncObj__raftElectionDeadline
        due_s = min(due_s, self._commits.due_s(is_idle=True))
        is_waiting = len(self._reads) > 0 or len(self._queue) > 0 or len(self._changes) > 0
        if is_waiting or self._sender.is_active or self._transfer_to is not None:
            # Their deadlines are coarse; a heartbeat's time is exact enough for all of them.
            due_s = min(due_s, now_s + self._config.heartbeat_ms / 1000)
        return max(0.0, due_s - now_s)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _start_snapshot(self, peer: int, progress: Progress) -> None:
        progress.mode = Mode.SNAPSHOT
        self._sender.start(peer, self._clock.monotonic())

    def _on_snapshot_reply(self, peer: int, reply: peer_pb2.SnapshotReply) -> None:
        progress = self._progress.get(peer)
        if progress is None:
            return
        progress.heard_s = self._clock.monotonic()
        installed = self._sender.on_reply(peer, reply, progress.heard_s)
        if installed is not None:
            progress.match = max(progress.match, installed)
            progress.probe()

    def _on_snapshot_chunk(self, peer: int, term: int, chunk: peer_pb2.SnapshotChunk) -> None:
        reply = peer_pb2.SnapshotReply(transfer=chunk.transfer)
        if term < self.term:
            self._send_when_durable(peer, snapshot_reply=reply)
            return
        self._hear_leader(peer, term)
        if chunk.index <= self.commit_index and not self._needs_snapshot:
            self._receiver.stop()
            reply.installed_index = chunk.index
            self._send_when_durable(peer, snapshot_reply=reply)
            return
        self._receiver.on_chunk(peer, chunk)

    def _install_snapshot(self, leader: int, transfer: int, snapshot: Incoming) -> None:
        """State first, then log. A crash between the two is seen at the next start, see `_reconcile`; the other way
        round it would leave a log that continues a state nobody has. A failure here stops the node."""
        index, term, log = snapshot.index, snapshot.term, self._log
        if index > self.commit_index or self._needs_snapshot:
            self._machine.install_snapshot(snapshot.path)
            if (self._machine.applied_index, self._machine.applied_term) != (index, term):
                raise ImpossibleState(
                    f"the snapshot was said to reach {index}, its state reaches {self._machine.applied_index}"
                )
            if log.term_at(index) != term:
                log.reset(index, term)
            elif index > log.commit_index:
                log.set_commit_index(index)
            self._SyncObj__raftCommitIndex = log.commit_index
            self._SyncObj__raftLastApplied = index
            self._needs_snapshot = False
            self._load_membership()
            self._commits.installed(index)
            logger.info("installed snapshot", extra={"index": index, "term": term, "leader": leader})
        self._send_when_durable(leader, snapshot_reply=peer_pb2.SnapshotReply(transfer=transfer, installed_index=index))

    # --- changes of leadership, and the end ---------------------------------------------------------------------------

    def _on_peer_gone(self, peer: int) -> None:
        self._sender.stop(peer)

    def _on_leadership_lost(self) -> None:
        super()._on_leadership_lost()
        self._progress.clear()
        self._sender.stop_all()
        self._reads.leadership_lost()

    def _on_leader_changed(self) -> None:
        self._reads.leader_changed()

    def _stop_for_good(self, error: Exception) -> None:
        if self.fatal is None:
            self.fatal = error
            logger.critical(
                "replica stopped: %s",
                error,
                exc_info=error,
                extra={"term": self.term, "applied_index": self._machine.applied_index},
            )

    def _doDestroy(self) -> None:
        """Ends background work and answers waiting reads. Log, machine and transport are their makers' to close."""
        self._reads.fail_all()
        self._changes.fail_all(NodeDraining())
        self._background.close()
        self._receiver.close()
        self._sender.stop_all()
