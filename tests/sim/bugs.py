"""Known faults, put back on purpose: a simulator that does not notice them would notice nothing.

Each names the hazard it stands for, by its number in the list of what stands between pysyncobj and a promise, and the
kind of trouble in which it shows. `planted` puts it into every node that starts from then on.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.retention import RetentionSettings
from raftsched.model.transitions import ExecutionState
from raftsched.raft import log_records
from raftsched.raft.log import RaftLog
from raftsched.raft.replica import Replica
from raftsched.raft.snapshot_receiver import Incoming
from raftsched.state import (
    cancel,
    dedup,
    due,
    graph,
    idempotency,
    limits,
    machine,
    retention,
    settle,
    tick_rules,
    update,
)
from raftsched.state.context import Context
from raftsched.state.results import CancelNeedsWorker, JobCancelled
from raftsched.store import keys, rows
from raftsched.store.graph_rows import Ended
from tests.sim.core import LOG_TYPES, REPLICA_TYPES
from tests.sim.faults import FaultPlan
from tests.sim.simulation import Settings

# --- Raft -----------------------------------------------------------------------------------------------------------


class TruncatesAlways(Replica):
    """Cuts the log off behind where a message begins, even where what follows matches."""

    def _take_entries(self, peer: int, message: peer_pb2.AppendEntries) -> bool:
        first = max(message.prev_index, self.commit_index) + 1
        if first <= self._log.last_index:
            self._log.truncate_from(first)
        return super()._take_entries(peer, message)


class MovesNextBack(Replica):
    """Takes an answer for the newest: what was sent after the message that it answers is sent once more."""

    def _on_append_reply(self, peer: int, term: int, reply: peer_pb2.AppendReply) -> None:
        super()._on_append_reply(peer, term, reply)
        if self.is_leader and term == self.term and reply.success and reply.match_index:
            self._progress[peer].next = reply.match_index + 1


class TakesOldAnswers(Replica):
    """Does not look at the term of an answer."""

    def _on_append_reply(self, peer: int, term: int, reply: peer_pb2.AppendReply) -> None:
        super()._on_append_reply(peer, max(term, self.term), reply)


class NoPreVote(Replica):
    """Raises the term as soon as it hears no leader."""

    def _tick_election(self, now_s: float) -> None:
        if not self.is_leader and now_s >= self._SyncObj__raftElectionDeadline:
            self._start_election(transfer=False)


class CountsVotes(Replica):
    """Counts answers, not voters, and keeps asking until it has enough of them."""

    _count = 0

    def _start_election(self, *, transfer: bool) -> None:
        self._count = 1
        super()._start_election(transfer=transfer)

    def _tick_election(self, now_s: float) -> None:
        super()._tick_election(now_s)
        if self._is_candidate:
            self._ask_for_votes(pre_vote=False, for_term=self.term, transfer=False)

    def _on_vote_reply(self, peer: int, reply: peer_pb2.VoteReply) -> None:
        if reply.granted and not reply.pre_vote and self._is_candidate and reply.for_term == self.term:
            self._count += 1
            if self._count >= self._quorum:
                self._SyncObj__onBecomeLeader()
        else:
            super()._on_vote_reply(peer, reply)


class TellsBeforeFlush(Replica):
    """Answers and votes leave before the disk has what they tell of."""

    def _send_when_durable(self, to: int, **body: Any) -> None:
        self._send(to, **body)


class CommitsUnverified(Replica):
    """Takes for committed what the leader has committed, whether or not its own log agrees there."""

    def _on_append(self, peer: int, term: int, message: peer_pb2.AppendEntries) -> None:
        super()._on_append(peer, term, message)
        index = min(message.commit_index, self._log.last_index)
        if term == self.term and index > self.commit_index and not self._needs_snapshot:
            self._set_commit_index(index)


class SwallowsSnapshotErrors(Replica):
    """Goes on as if a snapshot had been loaded when it could not be."""

    def _install_snapshot(self, leader: int, transfer: int, snapshot: Incoming) -> None:
        try:
            super()._install_snapshot(leader, transfer, snapshot)
        except Exception:  # noqa: BLE001  that is the fault
            self._needs_snapshot = False
            self._log.reset(snapshot.index, snapshot.term)
            self._SyncObj__raftCommitIndex = snapshot.index


class ChangesAtOnce(Replica):
    """Changes the membership while the change before is not committed, whoever is left."""

    def _check_may_change(self) -> None:
        """No objection, ever."""

    def _check_quorum_without(self, node_id: int) -> None:
        """No objection, ever."""


# --- the log --------------------------------------------------------------------------------------------------------


class NeverWaits(RaftLog):
    """Calls everything durable at once; the disk gets it some time later."""

    def flush(self) -> int:
        super().flush()
        self._durable = self._last_index
        self._durable_term = self._state.term
        self._flushed = self._submitted + 1
        return self._flushed


class CountsItselfEarly(RaftLog):
    """A leader counts itself for entries that its own disk does not have yet."""

    @property
    def durable_index(self) -> int:
        return self._last_index


class ForgetsTheRest(RaftLog):
    """Drops at the start what it does not know to be committed."""

    def _load(self, verify_bytes: int) -> None:
        super()._load(verify_bytes)
        if self._last_index > self._state.commit_index:
            self.truncate_from(self._state.commit_index + 1)


class AlwaysJoined(RaftLog):
    """An empty disk counts like any other."""

    @property
    def joined(self) -> bool:
        return True


def _unchecked_entry(index: int, record: log_records.Buffer) -> log_records.LogEntry:
    """An entry as it is on the disk, damaged or not."""
    term, command = log_records.term_of(index, record), bytes(record[log_records.HEAD_BYTES :])
    return log_records.LogEntry(term, command, log_records.checksum(index, term, command))


# --- the state machine ----------------------------------------------------------------------------------------------


def _settle_unfenced(
    context: Context,
    token: int,  # noqa: ARG001  that is the fault
    executions: bytes,
    settle_group: Callable[[int, Any], bool],
    stale: list[int],
) -> None:
    """As settle._settle, for whoever claims to hold the executions."""
    asked = keys.split_ids(executions)
    found = dict(context.writer.get_many(context.tables.executions, asked))
    for at, number in enumerate(dict.fromkeys(asked)):
        row = found.get(number)
        if row is None or not settle_group(row[rows.EXECUTION_STATUS], [(at, number, row)]):
            stale.append(keys.unpack_id(number))


def _cancel_at_once(context: Context, command: command_pb2.CancelJob) -> JobCancelled | CancelNeedsWorker:
    """As apply_cancel_job, without asking the worker that holds an execution."""
    answer = cancel.apply_cancel_job(context, command)
    if isinstance(answer, CancelNeedsWorker):
        return cancel.apply_cancel_job(context, command_pb2.CancelJob(job=command.job, dropped_token=answer.token))
    return answer


def _read_early(context: Context, shards: Any, limit: int) -> Any:
    """As due.read_due, a second too early."""
    now_ms = context.now_ms
    context.now_ms += 1_000
    try:
        return due.read_due(context, shards, limit)
    finally:
        context.now_ms = now_ms


@contextmanager
def _overlaps() -> Iterator[None]:
    """Starts each occurrence whatever else of its job is under way."""
    with (
        mock.patch("raftsched.state.fire._busy_executions", return_value=frozenset()),
        mock.patch("raftsched.state.overlap._is_unfinished", return_value=False),
    ):
        yield


# --- planting -------------------------------------------------------------------------------------------------------


@contextmanager
def _instead(types: list[Any], faulty: type) -> Iterator[None]:
    types.append(faulty)
    try:
        yield
    finally:
        types.remove(faulty)


@dataclass(frozen=True, slots=True)
class Bug:
    """`shown_by` is in what the simulator says of it: any other violation would prove nothing. `groups` of faults in
    which it shows, and how much else there is. The seeds from `first_seed` on are tried."""

    name: str
    hazard: str
    planted: Callable[[], AbstractContextManager[Any]]
    shown_by: str | tuple[str, ...]
    groups: tuple[str, ...]
    nodes: int = 3
    fault_s: float = 60.0
    every_s: tuple[float, float] = (0.5, 3.0)
    log_keep_entries: int = 300
    workers: int = 2
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    client_pause_s: tuple[float, float] = (0.1, 2.5)
    first_seed: int = 1

    def is_shown_by(self, violation: str) -> bool:
        texts = (self.shown_by,) if isinstance(self.shown_by, str) else self.shown_by
        return any(text in violation for text in texts)

    @property
    def settings(self) -> Settings:
        return Settings(
            nodes=self.nodes,
            workers=self.workers,
            clients=2,
            fault_s=self.fault_s,
            plan=FaultPlan(self.groups, self.every_s),
            log_keep_entries=self.log_keep_entries,
            session_ttl_ms=5_000,
            client_pause_s=self.client_pause_s,
            retention=self.retention,
        )


def _replica(faulty: type[Replica]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: _instead(REPLICA_TYPES, faulty)


def _log(faulty: type[RaftLog]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: _instead(LOG_TYPES, faulty)


BUGS = (
    Bug(
        "truncates always",
        "#1",
        _replica(TruncatesAlways),
        "of the term of the present leader",
        ("connections", "slowness", "crashes"),
        every_s=(0.2, 1.0),
    ),
    Bug(
        "moves next back",
        "#2",
        _replica(MovesNextBack),
        "again and again, nothing being lost",
        ("slowness", "connections"),
    ),
    Bug(
        "takes old answers",
        "#3",
        _replica(TakesOldAnswers),
        "'s answer of term",
        ("leaders", "connections"),
        every_s=(0.1, 0.6),
    ),
    Bug("counts votes", "#4", _replica(CountsVotes), "with the votes of", ("slowness", "crashes"), nodes=5),
    Bug("no pre-vote", "#4", _replica(NoPreVote), "wanted by [] alone", ("partitions",)),
    Bug("never waits for the disk", "#5", _log(NeverWaits), "for committed: on the disks of", ("power", "slowness")),
    Bug(
        "no checksums",
        "#5",
        lambda: mock.patch.object(log_records, "unpack_entry", _unchecked_entry),
        "differ in entry",
        ("disks", "crashes", "partitions"),
        every_s=(0.5, 2.0),
        log_keep_entries=10_000,
        first_seed=2,
    ),
    Bug(
        "tells before the flush",
        "#6",
        _replica(TellsBeforeFlush),
        "for committed: on the disks of",
        ("power", "slowness"),
    ),
    Bug("counts itself early", "#6", _log(CountsItselfEarly), "for committed: on the disks of", ("power", "slowness")),
    Bug(
        "changes members at once",
        "#11",
        _replica(ChangesAtOnce),
        ("lacks committed entry", "with the votes of", "stopped: KeyError"),
        ("members",),
        nodes=5,
        every_s=(0.3, 2.0),
        client_pause_s=(1.0, 6.0),
        first_seed=9,
    ),
    Bug(
        "commits unverified",
        "#12",
        _replica(CommitsUnverified),
        "applied another entry",
        ("partitions",),
        every_s=(1.0, 5.0),
    ),
    Bug(
        "swallows snapshot errors",
        "#12",
        _replica(SwallowsSnapshotErrors),
        "was compacted away",
        ("disks", "crashes"),
        every_s=(0.5, 4.0),
        log_keep_entries=16,
        client_pause_s=(0.05, 0.5),
    ),
    Bug("forgets what is not committed", "#14", _log(ForgetsTheRest), "than was committed", ("power", "crashes")),
    Bug(
        "an empty disk votes",
        "#14",
        _log(AlwaysJoined),
        "both lead term",
        ("disks", "crashes", "partitions"),
        every_s=(0.3, 1.5),
    ),
    Bug(
        "no fencing",
        "a fencing check removed",
        lambda: mock.patch.object(settle, "_settle", _settle_unfenced),
        "under the made-up token",
        ("workers",),
    ),
    Bug(
        "cancels without asking",
        "the compare-and-set of a cancel removed",
        lambda: mock.patch.dict(machine._APPLY, {"cancel_job": _cancel_at_once}),
        "a run that started after a confirmed cancel",
        (),
        workers=1,
        client_pause_s=(0.02, 0.2),
        fault_s=12.0,
    ),
    Bug(
        "forgets request ids",
        "the idempotency key removed",
        lambda: mock.patch.object(idempotency, "find", return_value=None),
        ("created twice", " repeated: ", "NameTaken", "taken with another content"),
        ("crashes",),
    ),
    Bug(
        "overlaps anyway",
        "the look at what is unfinished removed",
        _overlaps,
        "are under way at once",
        ("workers",),
        client_pause_s=(0.1, 0.6),
        fault_s=25.0,
        first_seed=7,
    ),
    Bug(
        "takes failures for successes",
        "the rule of a dependency removed",
        lambda: mock.patch.dict(graph._OUTCOMES, {ExecutionState.DEAD_LETTER: Ended.SUCCEEDED}),
        "was not met by",
        (),
        client_pause_s=(0.1, 0.6),
        fault_s=25.0,
    ),
    Bug(
        "removes what is under way",
        "retention's look at the state removed",
        lambda: mock.patch.object(retention, "_is_finished", return_value=True),
        "and was removed",
        (),
        retention=RetentionSettings(age_ms=1_000),
    ),
    Bug(
        "removes what is young",
        "retention's look at the age removed",
        lambda: mock.patch.object(retention, "_end_ms", return_value=0),
        "and it was removed",
        (),
        retention=RetentionSettings(age_ms=30_000),
    ),
    Bug(
        "runs with the new payload",
        "an update that does not keep the payload of what is under way",
        lambda: mock.patch.object(update, "_with_its_payload", return_value=[]),
        ("ran with the payload", "and with another before"),
        ("workers",),
        client_pause_s=(0.05, 0.3),
        fault_s=20.0,
    ),
    Bug(
        "gives a key away",
        "the look at whose a key is removed",
        lambda: mock.patch.object(dedup, "_is_anothers", return_value=False),
        "under a lease that is valid, went to",
        (),
        client_pause_s=(0.05, 0.4),
        fault_s=15.0,
        first_seed=3,
    ),
    Bug(
        "forgets results",
        "what handlers return is not kept",
        lambda: mock.patch.object(settle, "_keep_results"),
        ("has the result",),
        (),
        fault_s=20.0,
    ),
    Bug(
        "leases beyond limits",
        "the look at what is leased under a limit removed",
        lambda: mock.patch.object(limits.Limits, "room", return_value=None),
        "are leased under a limit of",
        (),
        client_pause_s=(0.02, 0.1),
        fault_s=30.0,
    ),
    Bug(
        "leases too fast",
        "the look at a limit's bucket removed",
        lambda: mock.patch.object(limits, "level_at", lambda row, _now_ms: row.burst * limits.EXECUTION),
        "at once, is exceeded",
        (),
        client_pause_s=(0.02, 0.1),
        fault_s=30.0,
    ),
    Bug(
        "deletes calendars in use",
        "the look at who uses a calendar removed",
        lambda: mock.patch.object(tick_rules.TableRules, "is_calendar_used", return_value=False),
        "which is not there",
        (),
        client_pause_s=(0.02, 0.1),
        fault_s=30.0,
    ),
    Bug(
        "fires early",
        "the due time's check removed",
        lambda: mock.patch("raftsched.state.fire.read_due", _read_early),
        "ms early",
        (),
    ),
)
