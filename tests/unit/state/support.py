"""A machine to which commands are applied one by one, and what must be true of its store after each."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import RaftschedError
from raftsched.model.transitions import ExecutionState
from raftsched.state.limits import slots_of
from raftsched.state.machine import Machine
from raftsched.state.results import Effects, JobsCreated, Leased, Reclaimed, Rejected, Result, SessionOpened, Settled
from raftsched.store import keys, rows
from raftsched.store.environment import TABLE_NAMES, Store
from raftsched.v1 import job_pb2

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
QUEUE = "default"
R = TypeVar("R")

PENDING = ExecutionState.PENDING
LEASED = ExecutionState.LEASED
RUNNING = ExecutionState.RUNNING
SUCCEEDED = ExecutionState.SUCCEEDED
FAILED = ExecutionState.FAILED
DEAD_LETTER = ExecutionState.DEAD_LETTER
CANCELLED = ExecutionState.CANCELLED
SNOOZED = ExecutionState.SNOOZED

ALL_SHARDS = range(keys.SHARDS)


def profile(**settings: Any) -> command_pb2.Profile:
    """A valid one, with these settings changed."""
    values: dict[str, Any] = {
        "namespace": "default",
        "handler": "h",
        "queue": QUEUE,
        "max_attempts": 3,
        "initial_backoff_ms": 1_000,
        "max_backoff_ms": 60_000,
        "multiplier": 2.0,
        "overlap": job_pb2.OVERLAP_POLICY_SKIP,
        "catch_up": job_pb2.CATCH_UP_POLICY_LATEST,
    }
    return command_pb2.Profile(**{**values, **settings})


def minutely(count: int, first: int = 1) -> list[int]:
    """Ticks each minute from `first` minutes after START_MS."""
    return [START_MS + MINUTE_MS * number for number in range(first, first + count)]


def create_command(
    count: int = 1,
    *,
    due_ms: int = START_MS,
    every_ms: int = 0,
    ticks_ms: Sequence[int] = (),
    expression: str = "* * * * *",
    names: Sequence[str] = (),
    payloads: Sequence[bytes] = (),
    key: str = "",
    fingerprint: bytes = bytes(16),
    labels: dict[str, str] | None = None,
    **settings: Any,
) -> command_pb2.CreateJobs:
    """`count` like jobs: one-offs, or recurring when `every_ms` or `ticks_ms` is given."""
    command = command_pb2.CreateJobs(profiles=[profile(**settings).SerializeToString(deterministic=True)])
    if every_ms or ticks_ms:
        schedule = command_pb2.Schedule(every_ms=every_ms) if every_ms else command_pb2.Schedule(expression=expression)
        command.schedules.add(schedule=schedule.SerializeToString(), ticks_ms=ticks_ms)
    for number in range(count):
        command.jobs.add(
            schedule=len(command.schedules),
            due_ms=due_ms,
            name=names[number] if names else "",
            payload=payloads[number] if payloads else b"",
            labels=labels or {},
        )
    if key:
        command.key_namespace, command.key, command.fingerprint = "default", key, fingerprint
    return command


class Node:
    """One machine with its store, and every entry that was applied to it."""

    def __init__(self, directory: Path, node_id: int = 1) -> None:
        self.directory = directory
        self.node_id = node_id
        self.now_ms = START_MS
        # A node numbers its commands.
        self.next_request = 1
        self.entries: list[bytes] = []
        self.effects = Effects()
        self.open()

    def open(self) -> None:
        self.store = Store(self.directory, map_size=1 << 30)
        self.machine = Machine(self.store, node_id=self.node_id)

    def reopen(self) -> None:
        """As after a crash: what was not committed is lost."""
        self.machine.close()
        self.open()

    # --- applying ---

    def apply(self, entry: bytes) -> Effects:
        self.entries.append(entry)
        self.effects = self.machine.apply_entry(self.machine.applied_index + 1, 1, entry)
        return self.effects

    def batch(self, *operations: Any) -> list[Result]:
        """Several operations in one entry."""
        commands, first = [], self.next_request
        self.next_request += len(operations)
        for request, operation in enumerate(operations, first):
            command = wrapped(operation)
            command.origin, command.request = self.node_id, request
            commands.append(command.SerializeToString(deterministic=True))
        effects = self.apply(command_pb2.Entry(now_ms=self.now_ms, commands=commands).SerializeToString())
        assert [request for request, _ in effects.results] == list(range(first, self.next_request))
        return [result for _, result in effects.results]

    def do(self, operation: Any) -> Result:
        return self.batch(operation)[0]

    def want(self, kind: type[R], operation: Any) -> R:
        result = self.do(operation)
        assert isinstance(result, kind), result
        return result

    def refused(self, kind: type[RaftschedError], operation: Any) -> RaftschedError:
        """The error of an operation that must change nothing."""
        before = self.dump()
        result = self.do(operation)
        assert isinstance(result, Rejected), result
        assert isinstance(result.error, kind), result.error
        assert self.dump() == before
        return result.error

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms

    # --- shorthands ---

    def create(self, count: int = 1, **settings: Any) -> list[int]:
        return list(self.want(JobsCreated, create_command(count, **settings)).job_ids)

    def open_session(self, *queues: str, ttl_ms: int = 10_000, worker: str = "w") -> int:
        command = command_pb2.OpenSession(worker=worker, queues=queues or (QUEUE,), ttl_ms=ttl_ms)
        return self.want(SessionOpened, command).session

    def fire(self, limit: int = 1_000, shards: Iterable[int] = ALL_SHARDS) -> Result:
        return self.do(command_pb2.Fire(shards=shards, limit=limit))

    def lease(self, session: int, limit: int = 1_000, *queues: str, payload_bytes_limit: int = 0) -> Leased:
        command = command_pb2.Lease(
            session=session, queues=queues or (QUEUE,), limit=limit, payload_bytes_limit=payload_bytes_limit
        )
        return self.want(Leased, command)

    def run(self, session: int, count: int = 1, **settings: Any) -> Leased:
        """Creates one-offs that are due, fires and leases them."""
        self.create(count, due_ms=self.now_ms, **settings)
        self.fire()
        leased = self.lease(session)
        assert len(leased.executions) == count
        return leased

    def ack(self, token: int, executions: Sequence[int], started_ms: int = 5, ended_ms: int = 6) -> list[int]:
        return list(self.want(Settled, ack_command(token, executions, started_ms, ended_ms)).stale)

    def start(self, token: int, executions: Sequence[int], started_ms: int = 5) -> list[int]:
        command = command_pb2.Started(started_ms=started_ms)
        command.blocks.add(token=token, executions=keys.pack_ids(executions))
        return list(self.want(Settled, command).stale)

    def release(self, token: int, executions: Sequence[int]) -> list[int]:
        command = command_pb2.Release()
        command.blocks.add(token=token, executions=keys.pack_ids(executions))
        return list(self.want(Settled, command).stale)

    def fail(self, token: int, executions: Sequence[int], *, error: str = "boom", permanent: bool = False) -> list[int]:
        command = command_pb2.Fail()
        for execution in executions:
            command.failures.add(
                token=token, execution=execution, started_ms=5, ended_ms=6, error=error, permanent=permanent
            )
        return list(self.want(Settled, command).stale)

    def renew(self, session: int, *held: int, grant_timeout_ms: int = 5_000) -> Result:
        command = command_pb2.Renew(grant_timeout_ms=grant_timeout_ms)
        command.sessions.add(session=session, held_tokens=keys.pack_ids(held))
        return self.do(command)

    def reclaim(self, limit: int = 1_000, **defaults: int) -> Reclaimed:
        return self.want(Reclaimed, command_pb2.Reclaim(limit=limit, **defaults))

    def reclaim_all(self, limit: int = 1_000, **defaults: int) -> int:
        """A whole pass; how many rows were removed."""
        removed = 0
        while True:
            step = self.reclaim(limit, **defaults)
            removed += step.removed
            if step.done:
                return removed

    def tick(self, limit: int = 1_000) -> None:
        self.do(command_pb2.Tick(limit=limit))

    # --- looking ---

    def job(self, job: int) -> rows.JobRow:
        return rows.JobRow.unpack(self._row("jobs", keys.pack_id(job)))

    def execution(self, execution: int) -> rows.ExecutionRow:
        return rows.ExecutionRow.unpack(self._row("executions", keys.pack_id(execution)))

    def state_of(self, execution: int) -> int:
        return self.execution(execution).status

    def executions_of(self, job: int) -> list[rows.ExecutionRow]:
        """Newest first."""
        found = []
        number = self.job(job).last_execution
        while number:
            found.append(self.execution(number))
            number = found[-1].previous
        return found

    def skipped(self, job: int) -> list[tuple[int, int, int, int]]:
        """(first, last, count, reason) of each range."""
        found = []
        for key, value in self.table("skipped"):
            owner, first_ms = keys.unpack_pair(key)
            if owner == job:
                row = rows.SkippedRow.unpack(value)
                found.append((first_ms, row.last_scheduled_for_ms, row.count, row.reason))
        return found

    def table(self, name: str) -> list[tuple[bytes, bytes]]:
        return list(self.store.write.cursor(getattr(self.store.tables, name)))

    def dump(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """The whole store, without how far it is and what was refused."""
        tables = {name: self.table(name) for name in TABLE_NAMES}
        tables["meta"] = [
            row for row in tables["meta"] if row[0] != keys.META_STATE and not row[0].startswith(keys.META_REFUSED)
        ]
        return tables

    def _row(self, table: str, key: bytes) -> bytes:
        value = self.store.write.get(key, db=getattr(self.store.tables, table))
        assert value is not None
        return value

    # --- what must always be true ---

    def check(self) -> None:
        """Each execution and job is in exactly the indexes that its state says."""
        jobs = {keys.unpack_id(key): rows.JobRow.unpack(value) for key, value in self.table("jobs")}
        executions = {keys.unpack_id(key): rows.ExecutionRow.unpack(value) for key, value in self.table("executions")}
        self._check_due(jobs, executions)
        self._check_ready(executions)
        self._check_leases(executions)
        self._check_limits(executions)
        self._check_sessions()
        dead = {keys.unpack_dead_letter(key)[1:] for key, _ in self.table("dead_letters")}
        assert dead == {
            (row.changed_ms, number)
            for number, row in executions.items()
            if row.status == DEAD_LETTER and not row.replayed_as
        }
        counters = self.machine.counters
        assert counters.dead_letters == len(dead)
        # Some may have been removed.
        assert counters.jobs >= max(jobs, default=0)
        assert counters.executions >= max(executions, default=0)
        assert counters.jobs_cancelled == sum(row.state == rows.JOB_CANCELLED for row in jobs.values())
        for row in executions.values():
            assert row.failures <= row.attempt <= row.failures + 1
        users: dict[int, int] = {}
        for job in jobs.values():
            if job.schedule and job.state not in (rows.JOB_CANCELLED, rows.JOB_COMPLETED):
                users[job.schedule] = users.get(job.schedule, 0) + 1
        for key, value in self.table("schedules"):
            assert rows.SCHEDULE.unpack_from(value)[0] == users.get(keys.unpack_small_id(key), 0)

    def _check_due(self, jobs: dict[int, rows.JobRow], executions: dict[int, rows.ExecutionRow]) -> None:
        waiting, retrying = set(), set()
        extras = dict(self.table("extras"))
        for key, kind in self.table("due"):
            job = keys.unpack_id(key[keys.DUE_JOB])
            assert key[keys.DUE_SHARD] == keys.due_shard(keys.shard_of(job))
            if kind == rows.DUE_RETRY:
                execution = keys.unpack_id(key[keys.DUE_EXECUTION])
                retrying.add(execution)
                assert executions[execution].changed_ms == keys.due_ms_of(key)
                assert executions[execution].job == job
            else:
                assert (kind == rows.DUE_FIRST) == (jobs[job].schedule == 0)
                assert job not in waiting
                waiting.add(job)
                paced = extras.pop(keys.extra(keys.pack_id(job), keys.EXTRA_PACED), None)
                if paced is not None:
                    assert keys.due_ms_of(key) == keys.unpack_id(paced)
                    continue
                jitter_ms = keys.due_ms_of(key) - jobs[job].scheduled_for_ms
                assert 0 <= jitter_ms <= self.machine.profile(jobs[job].profile).jitter_ms
        assert waiting == {number for number, job in jobs.items() if job.state == rows.JOB_WAITING}
        assert retrying == {number for number, row in executions.items() if row.status in (FAILED, SNOOZED)}
        assert not [key for key in extras if key[8] == keys.EXTRA_PACED], "the others have caught up"
        starved = {keys.unpack_starved(key)[::-1] for key, _ in self.table("starved")}
        # A paused job may stand there too, until its schedule has more ticks.
        starved -= {(number, job.schedule) for number, job in jobs.items() if job.state == rows.JOB_PAUSED}
        assert starved == {(number, job.schedule) for number, job in jobs.items() if job.state == rows.JOB_STARVED}

    def _check_ready(self, executions: dict[int, rows.ExecutionRow]) -> None:
        ready: list[int] = []
        counts: dict[str, int] = {}
        for key, value in self.table("ready"):
            first, count = keys.unpack_id(key[keys.RUN_FIRST]), keys.unpack_small_id(value)
            assert count > 0
            for execution in range(first, first + count):
                settings = self.machine.profile(executions[execution].profile)
                assert key[4] == 255 - settings.priority
                counts[settings.queue] = counts.get(settings.queue, 0) + 1
                ready.append(execution)
        assert sorted(ready) == [number for number, row in executions.items() if row.status == PENDING]
        assert {queue: count for queue, count in self.machine.ready_by_queue.items() if count} == counts

    def _check_leases(self, executions: dict[int, rows.ExecutionRow]) -> None:
        held: list[int] = []
        timeouts = set()
        for key, value in self.table("leases"):
            session, token = keys.unpack_pair(key)
            block = rows.LeaseRow.unpack(value)
            assert session in self.machine.sessions
            assert block.executions
            for execution in keys.unpack_ids(block.executions):
                row = executions[execution]
                assert (row.session, row.token, row.leased_ms) == (session, token, block.leased_ms)
                held.append(execution)
                timeout_ms = self.machine.profile(row.profile).run_timeout_ms
                if timeout_ms:
                    timeouts.add((keys.RUN_TIMEOUT, block.leased_ms + timeout_ms, session, token))
        assert sorted(held) == [number for number, row in executions.items() if row.status in (LEASED, RUNNING)]
        assert self.machine.counters.leased == len(held)
        deadlines = {keys.unpack_deadline(key) for key, _ in self.table("deadlines")}
        assert timeouts <= deadlines

    def _check_limits(self, executions: dict[int, rows.ExecutionRow]) -> None:
        """What is counted in memory is what the store says."""
        context = self.machine._context
        leased: dict[int, int] = {}
        for row in executions.values():
            if row.status in (LEASED, RUNNING):
                for slot in slots_of(context.catalog.profile(keys.pack_small_id(row.profile))):
                    leased[slot] = leased.get(slot, 0) + 1
        assert context.limits._leased == leased
        for _, value in self.table("limits"):
            limit = rows.LimitRow.unpack(value)
            assert 0 <= limit.level <= limit.burst * 1_000_000

    def _check_sessions(self) -> None:
        expiries = {}
        for key, _ in self.table("deadlines"):
            kind, expiry_ms, session, _ = keys.unpack_deadline(key)
            if kind == keys.SESSION_EXPIRY:
                expiries[session] = expiry_ms
        rows_by_session = {keys.unpack_id(key): rows.SessionRow.unpack(value) for key, value in self.table("sessions")}
        opened = {number: row for number, row in rows_by_session.items() if row.open}
        assert opened == dict(self.machine.sessions)
        assert expiries == {number: row.expiry_ms for number, row in opened.items()}


def ack_command(token: int, executions: Sequence[int], started_ms: int = 5, ended_ms: int = 6) -> command_pb2.Ack:
    count = len(executions)
    command = command_pb2.Ack()
    command.blocks.add(
        token=token,
        executions=keys.pack_ids(executions),
        started_ms=keys.pack_ids([started_ms] * count),
        ended_ms=keys.pack_ids([ended_ms] * count),
    )
    return command


def wrapped(operation: Any) -> command_pb2.Command:
    """The operation as a Command."""
    name = next(
        field.name
        for field in command_pb2.Command.DESCRIPTOR.oneofs_by_name["op"].fields
        if field.message_type is operation.DESCRIPTOR
    )
    command = command_pb2.Command()
    getattr(command, name).CopyFrom(operation)
    getattr(command, name).SetInParent()
    return command


def replayed(node: Node, directory: Path, commit_after: Iterable[int] = ()) -> Node:
    """Another node to which the same entries were applied, committed after those of these numbers."""
    other = Node(directory, node_id=9)
    commits = set(commit_after)
    for number, entry in enumerate(node.entries, 1):
        other.apply(entry)
        if number in commits:
            other.machine.commit()
    return other
