"""Reads of the whole: counts, the earliest due time, and the workers with what they hold."""

from dataclasses import dataclass

from raftsched.store import keys, rows
from raftsched.store.environment import View


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows there are now."""

    jobs: int
    executions: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class Kept:
    """How many rows there are now of what is kept until its time is over."""

    skipped_ranges: int
    attempts: int
    request_ids: int
    dedup_keys: int
    sessions: int


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """An open session. `leased` executions are in its hands."""

    session: int
    row: rows.SessionRow
    leased: int


def counts(view: View) -> Counts:
    tables = view.tables
    return Counts(view.entries(tables.jobs), view.entries(tables.executions), view.entries(tables.dead_letters))


def kept(view: View) -> Kept:
    tables = view.tables
    return Kept(
        skipped_ranges=view.entries(tables.skipped),
        attempts=view.entries(tables.attempts),
        # Each key has two rows, the second for the time when it goes.
        request_ids=view.entries(tables.idempotency) // 2,
        dedup_keys=view.entries(tables.dedup) // 2,
        sessions=view.entries(tables.sessions),
    )


def oldest_due_ms(view: View) -> int | None:
    """When the earliest occurrence or retry of all is or was due; None when nothing waits."""
    cursor = view.cursor(view.tables.due)
    earliest: int | None = None
    for shard in range(keys.SHARDS):
        prefix = keys.due_shard(shard)
        if not cursor.set_range(prefix):
            break
        key = cursor.key()
        if key.startswith(prefix):
            due_ms = keys.due_ms_of(key)
            earliest = due_ms if earliest is None else min(earliest, due_ms)
    return earliest


def queue_names(view: View) -> list[str]:
    """Every queue that a job ever used, in order of name."""
    prefix = bytes((keys.QUEUE,))
    names: list[str] = []
    cursor = view.cursor(view.tables.interned)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if not key.startswith(prefix):
                break
            names.append(key[1:].decode())
    return names


def list_workers(view: View) -> list[WorkerRecord]:
    """The sessions that are open, in order of id. Each has one expiry row: closed ones are not even looked at."""
    sessions: list[int] = []
    cursor = view.cursor(view.tables.deadlines)
    prefix = bytes((keys.SESSION_EXPIRY,))
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if not key.startswith(prefix):
                break
            sessions.append(keys.unpack_deadline(key)[2])
    workers = []
    for session in sorted(set(sessions)):
        value = view.get(view.tables.sessions, keys.pack_id(session))
        if value is not None:
            row = rows.SessionRow.unpack(value)
            if row.open:
                workers.append(WorkerRecord(session, row, _leased(view, session)))
    return workers


def _leased(view: View, session: int) -> int:
    prefix = keys.pack_id(session)
    leased = 0
    cursor = view.cursor(view.tables.leases)
    if cursor.set_range(prefix):
        for key, value in cursor.iternext():
            if not key.startswith(prefix):
                break
            leased += len(rows.LeaseRow.unpack(value).executions) // keys.ID_BYTES
    return leased
