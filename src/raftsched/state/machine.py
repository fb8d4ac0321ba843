"""The state machine: applies log entries to the store, the same on every replica.

It is a pure function of the store and the entry: no clock, no randomness, no evaluation of schedules. A command that
cannot be carried out changes nothing and yields Rejected. ImpossibleState and StoreCorrupt are raised: the node must
stop, since its state can no longer be trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState, InvalidField, RaftschedError, StoreCorrupt
from raftsched.model.retention import RetentionSettings
from raftsched.model.transitions import ExecutionState
from raftsched.state import deadlines, dedup, due, endings, graph, overlap, retention
from raftsched.state.backfill import apply_cancel_backfill, apply_create_backfill
from raftsched.state.calendars import apply_delete_calendar, apply_put_calendar
from raftsched.state.cancel import apply_cancel_job
from raftsched.state.cancel_execution import apply_cancel_execution
from raftsched.state.catalog import decode_profile
from raftsched.state.context import Context
from raftsched.state.create import apply_create_jobs
from raftsched.state.dead_letters import apply_replay_dead_letters
from raftsched.state.delete import apply_delete_job
from raftsched.state.fire import apply_fire
from raftsched.state.leadership import apply_assign_shards, apply_leader_started, apply_membership
from raftsched.state.lease import apply_lease
from raftsched.state.pause import apply_pause_job, apply_resume_job, follow_failures
from raftsched.state.put_limit import apply_delete_limit, apply_put_limit
from raftsched.state.refusals import is_refusal
from raftsched.state.restamp import apply_replace_ticks
from raftsched.state.results import Effects, Rejected, Result
from raftsched.state.schedules import apply_extend_ticks
from raftsched.state.sessions import apply_close_session, apply_open_session, apply_renew
from raftsched.state.settle import apply_ack, apply_fail, apply_release, apply_started
from raftsched.state.ticks import ScheduleNeed
from raftsched.state.trigger import apply_trigger_job
from raftsched.state.update import apply_reschedule_job, apply_update_job
from raftsched.state.verify import apply_verify
from raftsched.store import keys, rows
from raftsched.store.environment import DAMAGE, Store

# By the name of the field in Command.op.
_APPLY: dict[str, Callable[[Context, Any], Result]] = {
    "create_jobs": apply_create_jobs,
    "cancel_job": apply_cancel_job,
    "cancel_execution": apply_cancel_execution,
    "trigger_job": apply_trigger_job,
    "update_job": apply_update_job,
    "reschedule_job": apply_reschedule_job,
    "delete_job": apply_delete_job,
    "create_backfill": apply_create_backfill,
    "cancel_backfill": apply_cancel_backfill,
    "pause_job": apply_pause_job,
    "resume_job": apply_resume_job,
    "replay_dead_letters": apply_replay_dead_letters,
    "fire": apply_fire,
    "tick": deadlines.apply_tick,
    "extend_ticks": apply_extend_ticks,
    "replace_ticks": apply_replace_ticks,
    "put_calendar": apply_put_calendar,
    "delete_calendar": apply_delete_calendar,
    "assign_shards": apply_assign_shards,
    "leader_started": apply_leader_started,
    "verify": apply_verify,
    "open_session": apply_open_session,
    "close_session": apply_close_session,
    "renew": apply_renew,
    "lease": apply_lease,
    "release": apply_release,
    "started": apply_started,
    "ack": apply_ack,
    "fail": apply_fail,
    "reclaim": retention.apply_reclaim,
    "claim_key": dedup.apply_claim_key,
    "complete_key": dedup.apply_complete_key,
    "put_limit": apply_put_limit,
    "delete_limit": apply_delete_limit,
}
# Told of executions that have ended, in this order.
_END_FOLLOWERS: tuple[Callable[[Context, Sequence[endings.Ended], ExecutionState], None], ...] = (
    follow_failures,
    graph.follow,
    overlap.follow_ends,
)
_FATAL = (ImpossibleState, StoreCorrupt)
# What a row that is not what it should be raises when it is read: by damage, or by a fault of this program.
_UNREADABLE = (struct.error, UnicodeDecodeError, DecodeError, LookupError)
# A fencing token is the entry's index and, in its last bits, the command's position in the entry.
TOKEN_POSITION_BITS = 16
MAX_COMMANDS = 1 << TOKEN_POSITION_BITS
_POSITION = struct.Struct(">QQ")


class Machine:
    """Used on the core thread. Plain attributes, `profile` and `snapshot_to` may be used from any thread.

    `applied_index`, `applied_term`, `now_ms` (the replicated clock) and `digest` (16 bytes over all that was ever
    written, equal on all replicas at equal index) are as of the last entry applied, `committed_index` is what readers
    see; a power loss may undo the latest commit alone. `dirty_ops` counts the rows written since the last commit.
    """

    # PENDING executions in the ready queue, by queue.
    ready_by_queue: Mapping[str, int]
    # The node that dispatches each shard; 0: none yet.
    shard_owners: tuple[int, ...]
    # The open ones. Other threads may look one up, but not walk through them.
    sessions: Mapping[int, rows.SessionRow]
    # How many jobs, executions, dead letters… there are.
    counters: rows.StateRow
    # The index of the last entry that held a membership, and what it held; (0, b"") when there was none.
    membership: tuple[int, bytes]

    def __init__(self, store: Store, *, node_id: int) -> None:
        self._store = store
        self._node_id = node_id
        self.dirty_ops = 0
        self._load()

    def _load(self) -> None:
        try:
            self._context = Context(self._store, self._node_id)
        except (*DAMAGE, *_UNREADABLE, ImpossibleState, StoreCorrupt) as error:
            raise StoreCorrupt(f"{self._store.path / 'data.mdb'} is damaged: {error}") from error
        state = self._context.state
        self.applied_index = self.committed_index = state.applied_index
        self.applied_term = state.applied_term
        self.now_ms = state.now_ms
        self.digest = state.digest
        self.counters = state
        self._show()

    def _show(self) -> None:
        """Makes what is kept in memory readable."""
        context = self._context
        context.end_followers = _END_FOLLOWERS
        self.ready_by_queue = context.ready.by_queue
        self.shard_owners = context.shard_owners
        self.sessions = context.sessions
        self.membership = context.membership

    # --- changing ---

    def apply_entry(self, index: int, term: int, entry: bytes) -> Effects:
        """Applies the entry after the last one; b"" is one without commands.

        Raises ImpossibleState when the index is not the next one, or the store breaks the rules.
        """
        if index <= self.applied_index:
            raise ImpossibleState(f"entry {index} comes after entry {self.applied_index}")
        context = self._context
        effects = context.effects = Effects()
        context.index = index
        context.ready.woken = effects.ready_queues
        for position, command in enumerate(self._decode(entry)):
            # Larger than that of any earlier command, and its own: a session may get several blocks in one entry.
            context.token = index << TOKEN_POSITION_BITS | position
            self._apply_command(command, effects)
        if not context.graph.is_empty:
            self._advance_graphs()
        writer = context.writer
        state = context.state
        state.applied_index, state.applied_term, state.now_ms = index, term, context.now_ms
        state.digest = writer.take_digest(state.digest, _POSITION.pack(index, context.now_ms))
        self.applied_index, self.applied_term, self.now_ms, self.digest = index, term, state.now_ms, state.digest
        self.dirty_ops += writer.written_rows
        writer.written_rows = 0
        self._show()
        return effects

    def _decode(self, entry: bytes) -> Sequence[bytes]:
        """The entry's commands; moves the clock, keeps a membership."""
        if not entry:
            return ()
        try:
            decoded = command_pb2.Entry.FromString(entry)
        except DecodeError:
            self._context.state.unintelligible += 1
            return ()
        if self._context.now_ms < decoded.now_ms < keys.MAX_MS:
            self._context.now_ms = decoded.now_ms
        if decoded.membership:
            apply_membership(self._context, decoded.membership)
        # No leader makes such an entry; what has no token of its own is not carried out.
        self._context.state.unintelligible += max(0, len(decoded.commands) - MAX_COMMANDS)
        return decoded.commands[:MAX_COMMANDS]

    def _apply_command(self, data: bytes, effects: Effects) -> None:
        context = self._context
        try:
            command = command_pb2.Command.FromString(data)
        except DecodeError:
            context.state.unintelligible += 1
            return
        name = command.WhichOneof("op")
        context.is_own = command.origin == self._node_id and command.request != 0
        if command.request and (command.origin, command.request) in context.refusals:
            # A second copy: its caller has been told.
            return
        result: Result
        try:
            if name is None:
                context.state.unintelligible += 1
                raise InvalidField("names no operation of this version", field="op")
            result = _APPLY[name](context, getattr(command, name))
        except _FATAL:
            raise
        except DAMAGE as error:
            raise StoreCorrupt(f"{self._store.path / 'data.mdb'} is damaged: {error} in {name}") from error
        except _UNREADABLE as error:
            raise ImpossibleState(f"{name} met a row in {self._store.path} that it cannot read: {error!r}") from error
        except RaftschedError as error:
            result = Rejected(error)
        if command.request and is_refusal(result):
            context.refusals.remember(context.now_ms, command.origin, command.request)
        if context.is_own:
            effects.results.append((command.request, result))

    def _advance_graphs(self) -> None:
        try:
            graph.advance(self._context)
        except DAMAGE as error:
            raise StoreCorrupt(f"{self._store.path / 'data.mdb'} is damaged: {error} in a graph") from error
        except _UNREADABLE as error:
            raise ImpossibleState(f"a graph met a row in {self._store.path} that cannot be read: {error!r}") from error

    def commit(self) -> None:
        """Writes everything applied since the last commit to disk, with its index and digest, in one transaction.

        Raises StoreCorrupt; what the disk raises, such as that it is full, passes.
        """
        context = self._context
        try:
            # Beside the digest: it is part of this row.
            self._store.write.put(keys.META_STATE, context.state.pack(), db=context.tables.meta)
            self._store.commit()
        except DAMAGE as error:
            raise StoreCorrupt(f"{self._store.path / 'data.mdb'} is damaged: {error} in a commit") from error
        self.committed_index = self.applied_index
        self.dirty_ops = 0
        context.catalog.trim()

    def install_snapshot(self, path: Path) -> None:
        """Replaces the whole state by a file that `snapshot_to` made; the file is used up.

        Raises StoreCorrupt when the file is damaged, the state then being what it was at the last commit.
        """
        try:
            self._store.install(path)
        finally:
            self._store.abort()
            self.dirty_ops = 0
            self._load()

    def close(self) -> None:
        """Closes the store; what was not committed is applied again from the log at the next start."""
        self._store.close()

    # --- reading ---

    def snapshot_to(self, path: Path) -> tuple[int, int, bytes]:
        """Writes a copy of the committed state to a new file; (index, term, digest) of what it holds. Any thread."""
        state = self._store.copy_to(path)
        return state.applied_index, state.applied_term, state.digest

    def next_due_ms(self, shards: Sequence[int]) -> int | None:
        """When the earliest due row of these shards is due; None when there is none."""
        return due.next_due_ms(self._context, shards)

    def leasable(self, queue: str) -> int:
        """Executions of a queue that are ready and that no limit is known to hold back."""
        return self._context.ready.leasable(queue)

    def is_shared(self, queue: str) -> bool:
        """Whether a queue in which something became ready ever had jobs of more than one priority or tenant."""
        return self._context.ready.is_shared(queue)

    def refill_ms(self, queue: str) -> int | None:
        """When a rate that holds executions of the queue back lets the next one through; None: none does."""
        return self._context.ready.refill_ms(queue)

    def next_deadline_ms(self) -> int | None:
        """When Tick has something to do: a session's expiry (not before the floor), a run timeout, starved jobs."""
        return deadlines.next_deadline_ms(self._context)

    def schedules_to_extend(self, now_ms: int) -> list[ScheduleNeed]:
        """The schedules in use whose tick tables have little future left, the most urgent first."""
        return self._context.ticks.needs(now_ms)

    def schedules_to_replace(self, database: str, limit: int) -> list[ScheduleNeed]:
        """Up to `limit` schedules in use whose ticks another release of the tz database or older calendars gave."""
        return [self._context.ticks.need(number) for number in self._context.ticks.rules.outdated(database, limit)]

    def outdated_schedules(self, database: str) -> int:
        """How many schedules_to_replace has in all, at most."""
        return self._context.ticks.rules.outdated_count(database)

    def find_calendar(self, namespace: str, name: str) -> bytes | None:
        """The row of a calendar."""
        return self._context.writer.get(self._context.tables.calendars, keys.calendar(namespace, name))

    def reclaim_is_due(self, settings: RetentionSettings, now_ms: int) -> bool:
        """Whether Reclaim has something to do, as far as a quick look tells."""
        return retention.is_due(self._context, settings, now_ms)

    def profile(self, profile_id: int) -> command_pb2.Profile:
        """An interned profile. Any thread. Raises ImpossibleState when there is none."""
        cached = self._context.catalog.cached_profile(profile_id)
        if cached is not None:
            return cached.message
        with self._store.read() as view:
            value = view.get(view.tables.profiles, keys.pack_small_id(profile_id))
        if value is None:
            raise ImpossibleState(f"there is no profile {profile_id}")
        return decode_profile(profile_id, value).message
