"""Reads of jobs: one by id or name, and lists in order of id. Each call works on one view and changes nothing.

Lists continue after the last row they looked at, so that a page neither repeats nor misses a row because others came
or went meanwhile. They end early when they have examined or gathered enough; `Page.next` then says where to go on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import StoreCorrupt, UnknownName
from raftsched.model.transitions import ExecutionState
from raftsched.state.etag import etag_of
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.store.graph_rows import Wait
from raftsched.v1 import job_pb2

Item = TypeVar("Item")
Position = TypeVar("Position")

# What a page may hold: below the 4 MiB that gRPC clients accept unless told otherwise, with room for what a row
# takes more as a message.
PAGE_MAX_BYTES = 2 * 1024 * 1024

_STATE_OF_FIRED = {
    ExecutionState.SUCCEEDED: job_pb2.JOB_STATE_SUCCEEDED,
    ExecutionState.DEAD_LETTER: job_pb2.JOB_STATE_DEAD_LETTER,
    ExecutionState.CANCELLED: job_pb2.JOB_STATE_CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Page(Generic[Item, Position]):
    """`next` is where the next page begins, None after the last one. `examined` counts the rows looked at, `size_bytes`
    what the items hold."""

    items: list[Item]
    next: Position | None
    examined: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with what its row refers to. `state` is a value of raftsched.v1.JobState; `schedule` None: a one-off."""

    id: int
    row: rows.JobRow
    state: int
    profile: command_pb2.Profile
    schedule: command_pb2.Schedule | None
    payload: bytes
    # While it is paused.
    paused_ms: int = 0
    pause_note: str = ""
    # Of a job that depends on others.
    wait: Wait | None = None
    # 0: it was created in none.
    workflow: int = 0
    etag: str = ""

    @property
    def waits(self) -> bool:
        """Whether `row.scheduled_for_ms` is still to come, rather than the time of the newest execution."""
        return self.row.state == rows.JOB_WAITING


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Empty or 0: any. `state` is a value of raftsched.v1.JobState."""

    namespace: str = ""
    state: int = 0
    handler: str = ""
    queue: str = ""
    labels: Mapping[str, str] | None = None


def get_job(view: View, job: int) -> JobRecord | None:
    """The job with this id."""
    value = view.get(view.tables.jobs, keys.pack_id(job))
    return _record(view, job, value) if value is not None else None


def find_job_by_name(view: View, namespace: str, name: str) -> JobRecord | None:
    """The newest job that took this name, whatever became of it."""
    key = view.get(view.tables.names, keys.job_name(namespace, name))
    return get_job(view, keys.unpack_id(key)) if key is not None else None


def list_jobs(
    view: View,
    wanted: JobFilter,
    *,
    after_id: int,
    limit: int,
    max_examined: int,
    max_bytes: int = PAGE_MAX_BYTES,
) -> Page[JobRecord, int]:
    """Jobs above `after_id` that match, at most `limit` (≥ 1), out of at most `max_examined` rows (≥ 1).

    Raises UnknownName for a namespace or queue that no job ever had; whether a handler is known says
    queries_handlers.py. One item is given even if it is larger than `max_bytes`.
    """
    profiles = _ProfileMatch(view, wanted)
    items: list[JobRecord] = []
    examined = size_bytes = 0
    last_id = after_id
    cursor = view.cursor(view.tables.jobs)
    if after_id >= keys.MAX_ID or not cursor.set_range(keys.pack_id(after_id + 1)):
        return Page(items, None, 0, 0)
    for key, value in cursor.iternext():
        if len(items) == limit or examined == max_examined:
            return Page(items, last_id, examined, size_bytes)
        job = keys.unpack_id(key)
        if profiles.matches(value[rows.JOB_PROFILE]) and _matches(view, value, wanted):
            record = _record(view, job, value)
            record_bytes = len(value) + len(record.payload)
            if items and size_bytes + record_bytes > max_bytes:
                return Page(items, last_id, examined, size_bytes)
            items.append(record)
            size_bytes += record_bytes
        last_id = job
        examined += 1
    return Page(items, None, examined, size_bytes)


def derived_state(view: View, row: bytes) -> int:
    """A value of raftsched.v1.JobState: once a one-off has fired, its last execution says what became of it."""
    stored = row[rows.JOB_STATE]
    if stored == rows.JOB_CANCELLED:
        return job_pb2.JOB_STATE_CANCELLED
    if stored == rows.JOB_COMPLETED:
        return job_pb2.JOB_STATE_COMPLETED
    if stored == rows.JOB_PAUSED:
        return job_pb2.JOB_STATE_PAUSED
    if stored == rows.JOB_BLOCKED:
        return job_pb2.JOB_STATE_BLOCKED
    if stored == rows.JOB_UPSTREAM_FAILED:
        return job_pb2.JOB_STATE_UPSTREAM_FAILED
    if stored != rows.JOB_FIRED:
        return job_pb2.JOB_STATE_SCHEDULED
    execution = view.get(view.tables.executions, row[rows.JOB_LAST_EXECUTION])
    if execution is None:
        raise StoreCorrupt(f"execution {keys.unpack_id(row[rows.JOB_LAST_EXECUTION])} of a job is missing")
    status = ExecutionState(execution[rows.EXECUTION_STATUS])
    return _STATE_OF_FIRED.get(status, job_pb2.JOB_STATE_ACTIVE)


def get_profile(view: View, profile: bytes) -> command_pb2.Profile:
    """The profile with this key. Shared between callers: not to be changed."""
    return _decoded_profile(_profile_row(view, profile)[rows.PROFILE.size :])


def _matches(view: View, row: bytes, wanted: JobFilter) -> bool:
    if wanted.state and derived_state(view, row) != wanted.state:
        return False
    if wanted.labels:
        labels = rows.JobRow.unpack(row).labels
        return all(labels.get(key) == value for key, value in wanted.labels.items())
    return True


def _record(view: View, job: int, value: bytes) -> JobRecord:
    row = rows.JobRow.unpack(value)
    payload = view.get(view.tables.payloads, keys.pack_id(job)) if row.payload_bytes else b""
    schedule = None
    if row.schedule:
        stored = view.get(view.tables.schedules, keys.pack_small_id(row.schedule))
        if stored is None:
            raise StoreCorrupt(f"schedule {row.schedule} of job {job} is missing")
        schedule = _decoded_schedule(stored[rows.SCHEDULE.size :])
    if payload is None:
        raise StoreCorrupt(f"the payload of job {job} is missing")
    profile = get_profile(view, value[rows.JOB_PROFILE])
    paused_ms, note = _pause(view, job) if row.state == rows.JOB_PAUSED else (0, "")
    wait = _wait(view, job) if profile.dependency_rule else None
    workflow = view.get(view.tables.extras, keys.extra(keys.pack_id(job), keys.EXTRA_WORKFLOW))
    return JobRecord(
        job,
        row,
        derived_state(view, value),
        profile,
        schedule,
        payload,
        paused_ms,
        note,
        wait,
        keys.unpack_id(workflow) if workflow is not None else 0,
        etag=etag_of(value, payload, schedule.every_ms if schedule is not None else 0),
    )


def _wait(view: View, job: int) -> Wait:
    """Which jobs a job depends on."""
    value = view.get(view.tables.waits, keys.pack_id(job))
    if value is None:
        raise StoreCorrupt(f"job {job} depends on others but nothing says on which")
    return Wait.unpack(value)


def _pause(view: View, job: int) -> tuple[int, str]:
    """Since when a job is paused, and why."""
    value = view.get(view.tables.extras, keys.extra(keys.pack_id(job), keys.EXTRA_PAUSE))
    if value is None:
        raise StoreCorrupt(f"job {job} is paused but nothing says since when")
    return rows.PAUSE.unpack_from(value)[0], value[rows.PAUSE.size :].decode()


def _profile_row(view: View, profile: bytes) -> bytes:
    row = view.get(view.tables.profiles, profile)
    if row is None:
        raise StoreCorrupt(f"profile {keys.unpack_small_id(profile)} is missing")
    return row


@lru_cache(maxsize=4_096)
def _decoded_profile(serialized: bytes) -> command_pb2.Profile:
    return command_pb2.Profile.FromString(serialized)


@lru_cache(maxsize=4_096)
def _decoded_schedule(serialized: bytes) -> command_pb2.Schedule:
    return command_pb2.Schedule.FromString(serialized)


class _ProfileMatch:
    """Which profiles match the parts of a filter that jobs share, each looked at once."""

    def __init__(self, view: View, wanted: JobFilter) -> None:
        self._view = view
        self._handler = wanted.handler
        self._namespace = interned_id(view, keys.NAMESPACE, wanted.namespace, "filter.namespace")
        self._queue = interned_id(view, keys.QUEUE, wanted.queue, "filter.queue")
        self._any = not (wanted.namespace or wanted.queue or wanted.handler)
        self._known: dict[bytes, bool] = {}

    def matches(self, profile: bytes) -> bool:
        if self._any:
            return True
        known = self._known.get(profile)
        if known is None:
            known = self._known[profile] = self._look(profile)
        return known

    def _look(self, profile: bytes) -> bool:
        row = _profile_row(self._view, profile)
        namespace, queue, *_ = rows.PROFILE.unpack_from(row)
        if self._namespace is not None and namespace != self._namespace:
            return False
        if self._queue is not None and queue != self._queue:
            return False
        return not self._handler or _decoded_profile(row[rows.PROFILE.size :]).handler == self._handler


# Names that exist before any job uses them, because a job that names none gets them. Their id may not be given yet.
DEFAULT_NAME = "default"
_NO_ID = 0


def interned_id(view: View, kind: int, text: str, field: str) -> int | None:
    """The id of a namespace or queue, None for an empty text. Raises UnknownName, naming `field`."""
    if not text:
        return None
    key = keys.interned(kind, text)
    found = view.get(view.tables.interned, key) if len(key) <= keys.MAX_KEY_BYTES else None
    if found is not None:
        return keys.unpack_small_id(found)
    if text == DEFAULT_NAME:
        return _NO_ID
    raise UnknownName(field=field, name=text)
