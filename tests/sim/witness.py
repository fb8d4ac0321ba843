"""Sees every entry that any node applies and every step that any node makes, and checks what must always hold."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.transitions import EXECUTION_TRANSITIONS, ExecutionState
from raftsched.node.engine import Engine
from raftsched.raft.replica import Replica
from raftsched.state.machine import Machine
from raftsched.state.results import Effects
from raftsched.store import keys, rows
from raftsched.store.environment import Store
from raftsched.store.writer import Writer
from raftsched.v1 import execution_pb2
from tests.sim import keybook
from tests.sim.archive import Archive
from tests.sim.disk import Disk
from tests.sim.history import History
from tests.sim.limit_watch import LimitWatch
from tests.sim.timeline import SECOND_US, Timeline, Violation

# Status before and after one command: the table's edges, and the paths that one message may take at once.
_ALLOWED = {(int(before), int(after)) for (before, _), after in EXECUTION_TRANSITIONS.items()} | {
    (int(ExecutionState.LEASED), int(ExecutionState.SUCCEEDED)),
    (int(ExecutionState.LEASED), int(ExecutionState.FAILED)),
    (int(ExecutionState.LEASED), int(ExecutionState.SNOOZED)),
    (int(ExecutionState.LEASED), int(ExecutionState.DEAD_LETTER)),
    (int(ExecutionState.RUNNING), int(ExecutionState.DEAD_LETTER)),
}
# Entries below the newest applied that a new leader's log is compared with.
LOOK_BACK = 1_000
# While a leader finds out where the logs agree, the answer to a heartbeat may make it send its probe once more.
MOST_REPEATS = 2
# How far the replicated clock may be ahead of the truth: what a clock may be off and lead, and a little drift.
AHEAD_MS = 3_000
TRIGGERED_AHEAD_MS = 100
# An entry counts as on a disk that was replaced meanwhile for so long: the answer may have been on its way.
DISK_FORGOTTEN_US = 60 * SECOND_US


class Node(Protocol):
    """What is asked of a node."""

    number: int
    emptied_us: int | None

    @property
    def replica(self) -> Replica: ...

    def term_on_disk(self, index: int) -> int | None:
        """The term of the entry that its disk really holds there; 0 when it was compacted away."""
        ...


@dataclass(slots=True)
class Seen:
    """What a node was last seen at; after its death, what its disk must remember."""

    term: int = 0
    commit_index: int = 0
    applied_index: int = 0
    was_leader: bool = False


@dataclass(slots=True)
class Counts:
    """For people: how much a simulation has seen."""

    entries: int = 0
    elections: int = 0
    snapshots: int = 0
    lost_entries: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str) -> None:
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1


class Witness:
    """One per simulation. Raises Violation."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.nodes: Sequence[Node] = ()
        self.counts = Counts()
        self.archive = Archive()
        self.history = History()
        self.limits = LimitWatch()
        # The replicated clock, as far as any node has applied it.
        self.cluster_ms = 0
        self.applied_index = 0
        # By index: term and content; the state's digest after it.
        self.entries: dict[int, tuple[int, bytes]] = {}
        self._digests: dict[int, bytes] = {}
        self._leaders: dict[int, int] = {}
        self._seen: dict[int, Seen] = {}
        # (voter, term) -> for whom; (node, term) -> who would vote for it.
        self._votes: dict[tuple[int, int], int] = {}
        self._pre_votes: dict[tuple[int, int], set[int]] = {}
        # The newest fencing token of each execution.
        self._tokens: dict[bytes, int] = {}
        # (from, to, term) -> since the last refusal or loss: the highest entry sent, how often one was sent again.
        self._sent: dict[tuple[int, int, int], tuple[int, int]] = {}

    # --- lives of nodes -------------------------------------------------------------------------------------------

    def born(self, node: int, *, term: int, applied_index: int) -> None:
        """A node has opened its files."""
        before = self._seen.get(node)
        if before is not None and applied_index < before.applied_index:
            raise Violation(f"node {node} came back at {applied_index}, its disk had {before.applied_index}")
        if before is not None and term < before.term:
            raise Violation(f"node {node} came back in term {term}, its disk had {before.term}")
        self._seen[node] = Seen(term=term, applied_index=applied_index)

    def died(self, node: int, *, durable_term: int, durable_index: int) -> None:
        """A process is gone; from these on its disk must remember."""
        self._seen[node] = Seen(term=durable_term, applied_index=durable_index)

    def emptied(self, node: int) -> None:
        """A node has lost its disk: it may know nothing, and vote once more."""
        self._seen.pop(node, None)
        for vote in [vote for vote in self._votes if vote[0] == node]:
            del self._votes[vote]

    # --- entries ----------------------------------------------------------------------------------------------------

    def applied(self, node: int, machine: Machine, index: int, term: int, entry: bytes, effects: Effects) -> None:
        """A node has applied an entry."""
        content = hashlib.blake2b(entry, digest_size=8).digest()
        if self.entries.setdefault(index, (term, content)) != (term, content):
            raise Violation(f"node {node} applied another entry {index} than the others")
        if self._digests.setdefault(index, machine.digest) != machine.digest:
            raise Violation(f"node {node} has another state at {index} than the others")
        if index > self.applied_index:
            if machine.now_ms < self.cluster_ms:
                raise Violation(f"the replicated clock went back at {index}")
            if machine.now_ms > self._timeline.true_ms + AHEAD_MS:
                raise Violation(
                    f"the replicated clock is {machine.now_ms - self._timeline.true_ms} ms ahead at {index}"
                )
            self.applied_index, self.cluster_ms = index, machine.now_ms
            self.counts.entries += 1
            self._timeline.note("applied", node, (index, term, machine.digest.hex()), show=False)
        for ended in effects.leases_ended:
            self.counts.add(f"lease ended {ended.reason}")

    def has_state_at(self, index: int, digest: bytes) -> bool:
        """Whether `digest` is what the state must be at `index`."""
        return self._digests.get(index) in (None, digest)

    # --- every step -------------------------------------------------------------------------------------------------

    def stepped(self, at: Node, engine: Engine) -> None:
        """A node has made a step."""
        node, replica, machine = at.number, engine.replica, engine.machine
        seen = self._seen[node]
        term, commit_index, applied_index = replica.term, replica.commit_index, machine.applied_index
        if term < seen.term:
            raise Violation(f"node {node} went back from term {seen.term} to {term}")
        if commit_index < seen.commit_index:
            raise Violation(f"node {node} went back from commit index {seen.commit_index} to {commit_index}")
        if applied_index < seen.applied_index:
            raise Violation(f"node {node} went back from applied index {seen.applied_index} to {applied_index}")
        if applied_index > seen.applied_index and not self.has_state_at(applied_index, machine.digest):
            raise Violation(f"node {node} has another state at {applied_index} than the others")
        if commit_index > replica.last_log_index:
            raise Violation(f"node {node} takes {commit_index} for committed, its log ends at {replica.last_log_index}")
        is_leader = replica.is_leader
        if is_leader and (not seen.was_leader or term != seen.term):
            self._elected(node, replica)
        elif is_leader and commit_index > seen.commit_index:
            self._committed(replica, commit_index)
        seen.term, seen.commit_index, seen.applied_index, seen.was_leader = term, commit_index, applied_index, is_leader

    def _elected(self, node: int, replica: Replica) -> None:
        term, log = replica.term, replica._log
        if self._leaders.setdefault(term, node) != node:
            raise Violation(f"nodes {self._leaders[term]} and {node} both lead term {term}")
        self.counts.elections += 1
        self._timeline.note("leads", node, term)
        # Whoever votes alone asks nobody.
        self._vote(node, term, log.vote)
        voters = {voter for (voter, of), candidate in self._votes.items() if of == term and candidate == node}
        if len(voters & replica.membership.voters) < replica.membership.quorum:
            raise Violation(f"node {node} leads term {term} with the votes of {sorted(voters)}")
        if log.last_index < self.applied_index:
            raise Violation(f"leader {node} of term {term} lacks committed entry {self.applied_index}")
        first = max(log.base_index + 1, self.applied_index - LOOK_BACK)
        for index in range(first, self.applied_index + 1):
            if index in self.entries and log.term_at(index) != self.entries[index][0]:
                raise Violation(f"leader {node} of term {term} has another entry {index} than was committed")

    def _committed(self, replica: Replica, index: int) -> None:
        """A leader says that an entry is committed: a majority's disks must have it, whatever the nodes believe."""
        recently_us = self._timeline.now_us - DISK_FORGOTTEN_US
        if any(one.emptied_us is not None and one.emptied_us > recently_us for one in self.nodes):
            return
        node, term, membership = replica.node_id, replica.term, replica.membership
        voters = [one for one in self.nodes if one.number in membership.voters]
        holders = [one.number for one in voters if one.term_on_disk(index) in (0, term)]
        if len(holders) < membership.quorum:
            raise Violation(f"leader {node} of term {term} takes {index} for committed: on the disks of {holders}")

    def check_logs(self, replicas: Iterable[Replica]) -> None:
        """Where two logs have an entry of one index and term, they have the same one; checked over their ends."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for replica in replicas:
            log = replica._log
            for index in range(max(log.base_index + 1, log.last_index - 200), log.last_index + 1):
                entry = log.entry(index)
                node, checksum = found.setdefault((index, entry.term), (replica.node_id, entry.checksum))
                if checksum != entry.checksum:
                    raise Violation(f"nodes {node} and {replica.node_id} differ in entry {index} of term {entry.term}")

    # --- messages ---------------------------------------------------------------------------------------------------

    def sent(self, source: int, to: int, message: peer_pb2.PeerMessage) -> None:
        """A message leaves: entries that were sent and not refused must not be sent all the time."""
        body, term = message.WhichOneof("body"), message.term
        if body == "vote_request" and not message.vote_request.pre_vote:
            self._vote(source, term, source)
            self._check_pre_votes(source, message.vote_request)
        elif body == "vote_reply" and message.vote_reply.granted and not message.vote_reply.pre_vote:
            self._vote(source, message.vote_reply.for_term, to)
        elif body == "append" and message.append.entries:
            way = (source, to, message.term)
            first = message.append.prev_index + 1
            last = message.append.prev_index + len(message.append.entries)
            highest, again = self._sent.get(way, (0, 0))
            again += first <= highest
            if again > MOST_REPEATS:
                raise Violation(f"leader {source} sends entries to node {to} again and again, nothing being lost")
            self._sent[way] = max(last, highest), again

    def taken(self, source: int, to: int, message: peer_pb2.PeerMessage) -> None:
        """A message has arrived."""
        body = message.WhichOneof("body")
        if body == "vote_reply" and message.vote_reply.granted and message.vote_reply.pre_vote:
            self._pre_votes.setdefault((to, message.vote_reply.for_term), set()).add(source)
        elif body == "snapshot_reply" or (body == "append_reply" and not message.append_reply.success):
            self._sent.pop((to, source, message.term), None)

    def _vote(self, voter: int, term: int, candidate: int) -> None:
        """A vote leaves, or a node asks for votes, which is one for itself."""
        before = self._votes.setdefault((voter, term), candidate)
        if before != candidate:
            raise Violation(f"node {voter} votes in term {term} for {candidate}, after it voted for {before}")

    def _check_pre_votes(self, node: int, request: peer_pb2.VoteRequest) -> None:
        """Who raises the term may depose a leader: a majority must have said that it has none."""
        asked = self._pre_votes.get((node, request.for_term), set())
        if not request.transfer and 1 + len(asked) < self.nodes[node - 1].replica.membership.quorum:
            raise Violation(f"node {node} begins term {request.for_term}, wanted by {sorted(asked)} alone")

    def reconnected(self, source: int, to: int) -> None:
        """What was on its way between the two, or an answer to it, may be lost."""
        for way in [way for way in self._sent if way[:2] in ((source, to), (to, source))]:
            del self._sent[way]

    # --- rows -------------------------------------------------------------------------------------------------------

    def executions_written(self, writer: Writer, machine: Machine, numbers: list[bytes], values: list[bytes]) -> None:
        """Execution rows are about to be written by the first node that applies an entry."""
        now_ms = machine._context.now_ms
        before = dict(writer.get_many(writer.tables.executions, numbers))
        for number, value in zip(numbers, values, strict=True):
            status, old = value[rows.EXECUTION_STATUS], before.get(number)
            execution = keys.unpack_id(number)
            self.limits.changed(machine._context, execution, value)
            if old is None:
                row = rows.ExecutionRow.unpack(value)
                if status != ExecutionState.PENDING:
                    raise Violation(f"execution {execution} began as {status}")
                # What is triggered gets a time that no other occurrence has.
                ahead_ms = TRIGGERED_AHEAD_MS if row.cause == execution_pb2.EXECUTION_CAUSE_TRIGGER else 0
                if row.scheduled_for_ms > now_ms + ahead_ms:
                    raise Violation(f"execution {execution} fired {row.scheduled_for_ms - now_ms} ms early")
                self.archive.began(row.job, execution)
                self.history.fired(machine._context, execution, row)
                continue
            if status != old[rows.EXECUTION_STATUS] and (old[rows.EXECUTION_STATUS], status) not in _ALLOWED:
                raise Violation(f"execution {execution} went from {old[rows.EXECUTION_STATUS]} to {status}")
            token = int.from_bytes(value[rows.EXECUTION_TOKEN], "big")
            if status == ExecutionState.LEASED and old[rows.EXECUTION_STATUS] == ExecutionState.PENDING:
                if token <= self._tokens.get(number, 0):
                    raise Violation(f"execution {execution} was leased under {token}, not beyond its earlier tokens")
                self._tokens[number] = token
            elif token != int.from_bytes(old[rows.EXECUTION_TOKEN], "big"):
                raise Violation(f"execution {execution} got another token without a lease")


class SimMachine(Machine):
    """A node's state machine, watched."""

    def __init__(self, store: Store, *, node_id: int, witness: Witness, disk: Disk) -> None:
        self._witness = witness
        self._disk = disk
        self._command = b""
        super().__init__(store, node_id=node_id)

    def _load(self) -> None:
        super()._load()
        _watch_executions(self, self._context.writer, self._witness)
        _watch_removals(self, self._context.writer, self._witness)

    def apply_entry(self, index: int, term: int, entry: bytes) -> Effects:
        effects = super().apply_entry(index, term, entry)
        self._witness.applied(self._node_id, self, index, term, entry, effects)
        return effects

    def _apply_command(self, data: bytes, effects: Effects) -> None:
        self._command = data
        command = command_pb2.Command.FromString(data)
        is_update = command.HasField("update_job") and self.applied_index >= self._witness.applied_index
        history, job = self._witness.history, command.update_job.job
        before = history.look(self._context, job) if is_update else None
        super()._apply_command(data, effects)
        if before is not None:
            history.updated(self._context, command.update_job, before)

    @property
    def is_reclaiming(self) -> bool:
        """Whether the command that is being applied is retention's."""
        return command_pb2.Command.FromString(self._command).WhichOneof("op") == "reclaim"

    def commit(self) -> None:
        super().commit()
        self._disk.committed(self.committed_index)

    def install_snapshot(self, path: Path) -> None:
        super().install_snapshot(path)
        self._disk.synced(self.committed_index)
        self._witness.counts.snapshots += 1


def _watch_executions(machine: Machine, writer: Writer, witness: Witness) -> None:
    """Shows the witness what is written to executions, when no other node has written it before."""
    put, put_many, table = writer.put, writer.put_many, writer.tables.executions

    def is_first() -> bool:
        return machine.applied_index >= witness.applied_index

    def watched_put(to: object, key: bytes, value: bytes) -> None:
        if to is table and is_first():
            witness.executions_written(writer, machine, [key], [value])
        elif to is writer.tables.dedup and value and is_first():
            keybook.check_row(machine._context, key, value)
        put(to, key, value)  # type: ignore[arg-type]

    def watched_put_many(to: object, numbers: list[bytes], values: list[bytes], *, append: bool = False) -> None:
        if to is table and is_first():
            witness.executions_written(writer, machine, list(numbers), list(values))
        put_many(to, numbers, values, append=append)  # type: ignore[arg-type]

    writer.put = watched_put  # type: ignore[method-assign, assignment]
    writer.put_many = watched_put_many  # type: ignore[method-assign, assignment]


def _watch_removals(machine: SimMachine, writer: Writer, witness: Witness) -> None:
    """Shows the archive what is about to be removed, when no other node has removed it before."""
    tables, archive = writer.tables, witness.archive

    def watch(to: object, numbers: list[bytes]) -> None:
        if to not in (tables.executions, tables.jobs, tables.skipped) or machine.applied_index < witness.applied_index:
            return
        if machine.is_reclaiming:
            archive.reclaimed(machine._context, to, numbers)
        elif to is tables.executions:
            archive.deleted(dict(writer.get_many(tables.executions, numbers)))

    for name in ("delete_many", "delete_neighbours"):
        original = getattr(writer, name)

        def watched(to: object, numbers: list[bytes], original: Callable[..., None] = original) -> None:
            watch(to, list(numbers))
            original(to, numbers)

        setattr(writer, name, watched)
