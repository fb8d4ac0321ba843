"""Reads of executions: one by id, a job's history, its skipped occurrences, and the dead letters of a namespace."""

from dataclasses import dataclass

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, NoResult, StoreCorrupt
from raftsched.model.transitions import ExecutionState
from raftsched.state.queries import PAGE_MAX_BYTES, Page, get_profile, interned_id
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.v1 import execution_pb2

# How the newest attempt ended, or that it has not: for states in which it is not written among the attempts.
_NEWEST_OUTCOME = {
    int(ExecutionState.SUCCEEDED): execution_pb2.ATTEMPT_OUTCOME_SUCCEEDED,
    int(ExecutionState.LEASED): execution_pb2.ATTEMPT_OUTCOME_UNSPECIFIED,
    int(ExecutionState.RUNNING): execution_pb2.ATTEMPT_OUTCOME_UNSPECIFIED,
}


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution with the name of the worker that holds or held its newest lease, empty before the first."""

    id: int
    row: rows.ExecutionRow
    worker: str


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """Occurrences of a job that did not run, from `scheduled_for_ms` to `row.last_scheduled_for_ms`."""

    scheduled_for_ms: int
    row: rows.SkippedRow


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """An execution that was given up, with what an operator wants to know of its job."""

    execution: ExecutionRecord
    dead_ms: int
    profile: command_pb2.Profile
    job_name: str


@dataclass(frozen=True, slots=True)
class DeadLetterPosition:
    """Where a page of dead letters ended."""

    dead_ms: int
    execution: int


def get_execution(view: View, execution: int) -> ExecutionRecord | None:
    """The execution with this id."""
    value = view.get(view.tables.executions, keys.pack_id(execution))
    return execution_record(view, execution, value, {}) if value is not None else None


def attempts_of(view: View, record: ExecutionRecord) -> list[rows.AttemptRow]:
    """The newest attempts of an execution, oldest first; the one that is under way or has succeeded is the last."""
    number, row = keys.pack_id(record.id), record.row
    found = []
    cursor = view.cursor(view.tables.attempts)
    if cursor.set_range(number):
        for key, value in cursor.iternext():
            if not key.startswith(number):
                break
            found.append(rows.AttemptRow.unpack(value))
    outcome = _NEWEST_OUTCOME.get(row.status)
    if outcome is not None:
        newest = rows.AttemptRow(
            row.attempt, outcome, row.leased_ms, row.started_ms, row.ended_ms, record.worker, error_class="", error=""
        )
        found.append(newest)
    return found


def get_result(view: View, execution: int) -> bytes:
    """What the handler of this execution returned. Raises ExecutionNotFound or NoResult."""
    value = view.get(view.tables.executions, keys.pack_id(execution))
    if value is None:
        raise ExecutionNotFound(field="execution_id", execution_id=str(execution))
    status = ExecutionState(value[rows.EXECUTION_STATUS])
    if status is not ExecutionState.SUCCEEDED:
        raise NoResult(
            f"The execution is {status.name}; only one that has succeeded has a result.",
            field="execution_id",
            execution_id=str(execution),
        )
    return view.get(view.tables.results, keys.pack_id(execution)) or b""


def list_executions(
    view: View, job: int, *, newest: int, limit: int, max_bytes: int = PAGE_MAX_BYTES
) -> Page[ExecutionRecord, int]:
    """The executions of a job from `newest` on, each followed by the one before it. `next` is the first not given.

    What is not an execution of `job` ends the list: history has been trimmed up to there.
    """
    items: list[ExecutionRecord] = []
    workers: dict[int, str] = {}
    size_bytes = 0
    execution = newest
    while execution:
        if len(items) == limit:
            return Page(items, execution, len(items), size_bytes)
        value = view.get(view.tables.executions, keys.pack_id(execution))
        if value is None or value[rows.EXECUTION_JOB] != keys.pack_id(job):
            break
        if items and size_bytes + len(value) > max_bytes:
            return Page(items, execution, len(items), size_bytes)
        items.append(execution_record(view, execution, value, workers))
        size_bytes += len(value)
        execution = items[-1].row.previous
    return Page(items, None, len(items), size_bytes)


def list_skipped(view: View, job: int, *, after_ms: int | None, limit: int) -> Page[SkippedRecord, int]:
    """Skipped ranges of a job that begin after `after_ms` (None: all), oldest first."""
    items: list[SkippedRecord] = []
    size_bytes = 0
    start_ms = 0 if after_ms is None else after_ms + 1
    cursor = view.cursor(view.tables.skipped)
    if start_ms > keys.MAX_ID or not cursor.set_range(keys.skipped(job, start_ms)):
        return Page(items, None, 0, 0)
    for key, value in cursor.iternext():
        owner, scheduled_for_ms = keys.unpack_pair(key)
        if owner != job:
            break
        if len(items) == limit:
            return Page(items, items[-1].scheduled_for_ms, len(items), size_bytes)
        items.append(SkippedRecord(scheduled_for_ms, rows.SkippedRow.unpack(value)))
        size_bytes += len(value)
    return Page(items, None, len(items), size_bytes)


def list_dead_letters(
    view: View,
    namespace: str,
    *,
    after: DeadLetterPosition | None,
    limit: int,
    max_bytes: int = PAGE_MAX_BYTES,
) -> Page[DeadLetterRecord, DeadLetterPosition]:
    """Dead letters of a namespace that were not replayed, oldest first. Raises UnknownName."""
    items: list[DeadLetterRecord] = []
    namespace_id = interned_id(view, keys.NAMESPACE, namespace, "namespace")
    assert namespace_id is not None, "an empty namespace is the caller's default to choose"
    start = keys.dead_letter(namespace_id, after.dead_ms, after.execution) if after else b""
    cursor = view.cursor(view.tables.dead_letters)
    found = cursor.set_range(start or keys.pack_small_id(namespace_id))
    if found and cursor.key() == start:
        found = cursor.next()
    workers: dict[int, str] = {}
    size_bytes = 0
    while found:
        owner, dead_ms, execution = keys.unpack_dead_letter(cursor.key())
        if owner != namespace_id:
            break
        record, record_bytes = _dead_letter(view, dead_ms, execution, workers)
        if len(items) == limit or (items and size_bytes + record_bytes > max_bytes):
            last = items[-1]
            return Page(items, DeadLetterPosition(last.dead_ms, last.execution.id), len(items), size_bytes)
        items.append(record)
        size_bytes += record_bytes
        found = cursor.next()
    return Page(items, None, len(items), size_bytes)


def execution_record(view: View, execution: int, value: bytes, workers: dict[int, str]) -> ExecutionRecord:
    """From its row. `workers` remembers the names of workers by session."""
    row = rows.ExecutionRow.unpack(value)
    if row.session and row.session not in workers:
        session = view.get(view.tables.sessions, keys.pack_id(row.session))
        # Sessions are trimmed some time after they end; executions may be kept for longer.
        workers[row.session] = rows.SessionRow.unpack(session).worker if session is not None else ""
    return ExecutionRecord(execution, row, workers.get(row.session, ""))


def _dead_letter(view: View, dead_ms: int, execution: int, workers: dict[int, str]) -> tuple[DeadLetterRecord, int]:
    value = view.get(view.tables.executions, keys.pack_id(execution))
    if value is None:
        raise StoreCorrupt(f"execution {execution} is a dead letter and missing")
    record = execution_record(view, execution, value, workers)
    job = view.get(view.tables.jobs, value[rows.EXECUTION_JOB])
    # A cancelled job need not be kept as long as its dead letters.
    name = rows.JobRow.unpack(job).name if job is not None else ""
    profile = get_profile(view, value[rows.EXECUTION_PROFILE])
    return DeadLetterRecord(record, dead_ms, profile, name), len(value)
