"""Jobs as callers describe them: turned into the command that registers them, every field checked on the way, and
compared with what is stored when a request is repeated.

What many jobs share (their settings, their schedule) is checked once and stands in the command once.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b

from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api import validate
from raftsched.api.dependencies import WaitsFor, checked_upstreams
from raftsched.api.job_settings import DEFAULT_NAMESPACE, JobSettings, job_settings, profile_bytes
from raftsched.api.recurrence import (
    CronKey,
    check_pace,
    cron_difference,
    cron_key,
    interval_end_ms,
    new_schedule,
    no_calendar,
    schedule_of_cron,
)
from raftsched.internal.v1 import command_pb2
from raftsched.model import cron_input, limits
from raftsched.model.errors import InvalidField, RaftschedError
from raftsched.model.schedule import first_interval_tick
from raftsched.state.calendars import FindCalendar
from raftsched.store import keys
from raftsched.v1 import job_pb2

# A request that is repeated must have the same fingerprint, whichever version of this code takes it: whoever changes
# what goes into it changes this byte too.
_FINGERPRINT_VERSION = b"\x02"
# Profile, schedule, the time asked for, length of the name, of the payload, number of labels.
_FINGERPRINT_JOB = struct.Struct(">IIqIII")
_LENGTH = struct.Struct(">I")
# For an interval without a start: no Timestamp is that early.
_UNSET_MS = -(1 << 63)

# Fields of internal.v1.Profile, and the names that callers know them under.
_PROFILE_FIELDS = {
    "namespace": "namespace",
    "handler": "handler",
    "queue": "queue",
    "content_type": "content_type",
    "tenant": "tenant",
    "priority": "priority",
    "max_attempts": "retry.max_attempts",
    "initial_backoff_ms": "retry.initial_backoff",
    "max_backoff_ms": "retry.max_backoff",
    "multiplier": "retry.multiplier",
    "backoff_jitter": "retry.jitter",
    "backoff": "retry.backoff",
    "max_elapsed_ms": "retry.max_elapsed",
    "non_retryable_errors": "retry.non_retryable_errors",
    "run_timeout_ms": "run_timeout",
    "retention_age_ms": "retention.max_age",
    "retention_executions": "retention.max_executions",
    "jitter_ms": "jitter",
    "overlap": "overlap",
    "catch_up": "catch_up",
    "overlap_limit": "overlap_limit",
    "catch_up_window_ms": "catch_up_window",
    "catch_up_limit": "catch_up_limit",
    "catch_up_interval_ms": "catch_up_interval",
    "max_runs": "max_runs",
    "start_deadline_ms": "start_deadline",
    "pause_after_failures": "pause_after_failures",
    "concurrency_key": "concurrency_key",
    "concurrency_limit": "concurrency_limit",
    "dependency_rule": "dependencies.rule",
}
# Of these a one-off has none of its own.
_OF_SERIES = ("overlap", "overlap_limit", "catch_up")
# A run_at in the past was replaced by the clock of the node that took it; nodes' clocks are closer than this.
_CLOCK_SKEW_MS = limits.MINUTE_MS


def create_jobs_command(
    jobs: Sequence[job_pb2.Job],
    request_id: str,
    now_ms: int,
    *,
    batch: bool,
    find_calendar: FindCalendar = no_calendar,
) -> command_pb2.Command:
    """The command that registers `jobs` (at least one), all or none, under the idempotency key `request_id`.

    The key lives in the namespace of the first job. `now_ms`, the proposer's clock, is what a run_at in the past means
    and where tables of ticks begin. `find_calendar` finds those that schedules name. Raises InvalidField and
    NotImplementedField; their fields begin with "jobs[i]." in a batch, else with "job.".
    """
    validate.check_request_id(request_id)
    builder = CommandBuilder(now_ms, find_calendar)
    index = 0
    try:
        for job in jobs:
            builder.add(job)
            index += 1
    except RaftschedError as error:
        error.field = f"jobs[{index}].{error.field}" if batch else f"job.{error.field}"
        raise
    return builder.finish(jobs[0].namespace or DEFAULT_NAMESPACE, request_id)


def job_difference(stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    """The names of the fields that differ, for people; `requested` has passed create_jobs_command.

    What is said in two ways, such as no queue and the queue "default", is equal. Empty when no difference can be seen
    any more: a stored job does not tell when its interval was asked to start, nor in the past of which time.
    """
    schedule = _schedule_difference(stored, requested)
    before, after = _profile(stored), _profile(requested)
    names = [name for field, name in _PROFILE_FIELDS.items() if getattr(before, field) != getattr(after, field)]
    if schedule == ["schedule"]:
        # Of a one-off and a series the policies differ for that reason alone.
        names = [name for name in names if name not in _OF_SERIES]
    names += [name for name in ("name", "payload") if getattr(stored, name) != getattr(requested, name)]
    if dict(stored.labels) != dict(requested.labels):
        names.append("labels")
    return names + schedule


class CommandBuilder:
    """Gathers jobs. `add` runs once a job in batches of 10,000, so it leaves to others whatever is rare."""

    def __init__(self, now_ms: int, find_calendar: FindCalendar = no_calendar) -> None:
        self._now_ms = now_ms
        self._find_calendar = find_calendar
        self._command = command_pb2.Command()
        self._create = self._command.create_jobs
        self._profiles: dict[JobSettings, int] = {}
        self._profile_indexes: dict[bytes, int] = {}
        # By what was asked for, of an interval in milliseconds: index, from 1, and interval, 0 for cron.
        self._schedules: dict[CronKey | tuple[int, int], tuple[int, int]] = {}
        self._schedule_indexes: dict[bytes, int] = {}
        self._fingerprint = blake2b(_FINGERPRINT_VERSION, digest_size=16)
        self._payload_bytes = 0

    def add(self, job: job_pb2.Job, waits_for: WaitsFor | None = None) -> None:
        """`waits_for`: other jobs that this job, which has no schedule, depends on.

        Raises InvalidField and NotImplementedField, fields relative to the job.
        """
        kind = job.WhichOneof("schedule")
        if (
            job.id
            or job.state
            or job.last_execution_id
            or job.HasField("create_time")
            or job.HasField("next_run_time")
            or job.HasField("cancel_time")
            or job.etag
            or job.pause_note
            or job.workflow_id
            or job.HasField("pause_time")
        ):
            _refuse_fields(job)
        if kind == "run_at":
            asked_ms = validate.timestamp_ms(job.run_at, "run_at")
            _refuse_far_future(asked_ms, self._now_ms, "run_at")
            schedule, due_ms = 0, max(asked_ms, self._now_ms)
        elif kind == "cron":
            schedule, asked_ms, due_ms = self._cron(job)
        elif kind == "interval":
            schedule, asked_ms, due_ms = self._interval(job.interval)
        elif kind == "dependencies" or waits_for is not None:
            schedule, asked_ms, due_ms = 0, 0, 0
        else:
            raise InvalidField(
                "unset; set run_at for one occurrence, cron or interval for a series, or dependencies", field="schedule"
            )
        settings = job_settings(job, recurring=schedule != 0)
        if waits_for is not None:
            settings = settings._replace(dependency_rule=waits_for.rule)
        profile = self._profiles.get(settings)
        if profile is None:
            profile = self._add_profile(settings)
        if schedule and settings.occurrences.catch_up_interval is not None:
            check_pace(job)
        name, payload, labels = job.name, job.payload, job.labels
        if name:
            validate.check_text(name, limits.NAME_MAX_LENGTH, "name")
        if payload:
            self._count_payload(payload)
        new = self._create.jobs.add(profile=profile, schedule=schedule, due_ms=due_ms, name=name, payload=payload)
        encoded_name = name.encode()
        self._fingerprint.update(
            _FINGERPRINT_JOB.pack(profile, schedule, asked_ms, len(encoded_name), len(payload), len(labels))
            + encoded_name
            + payload
        )
        if labels:
            self._add_labels(new, dict(labels))
        if kind == "dependencies":
            new.upstreams = keys.pack_ids(checked_upstreams(job.dependencies))
            self._fingerprint.update(_with_length(new.upstreams))
        elif waits_for is not None:
            new.upstream_positions.extend(waits_for.positions)
            self._fingerprint.update(_with_length(keys.pack_ids(waits_for.positions)))

    def add_nodes(self, names: Sequence[str]) -> None:
        """The jobs are the nodes of one workflow."""
        self._create.nodes.extend(names)
        for name in names:
            self._fingerprint.update(_with_length(name.encode()))

    def finish(self, key_namespace: str, key: str) -> command_pb2.Command:
        """The command, once all jobs are in."""
        create = self._create
        create.profiles.extend(self._profile_indexes)
        # Jobs are fingerprinted by index; what the indexes stand for comes last.
        for shared in (*self._profile_indexes, *self._schedule_indexes):
            self._fingerprint.update(_with_length(shared))
        create.key_namespace = key_namespace
        create.key = key
        create.fingerprint = self._fingerprint.digest()
        return self._command

    def _count_payload(self, payload: bytes) -> None:
        validate.check_payload(payload)
        self._payload_bytes += len(payload)
        if self._payload_bytes > limits.BATCH_MAX_BYTES:
            raise InvalidField(
                f"with this one the batch's payloads pass {limits.BATCH_MAX_BYTES:,} bytes; send it in several parts",
                field="payload",
                limit=str(limits.BATCH_MAX_BYTES),
            )

    def _add_labels(self, new: command_pb2.NewJob, labels: dict[str, str]) -> None:
        if len(labels) > limits.LABELS_MAX_COUNT:
            raise InvalidField(
                f"{len(labels)} are too many; at most {limits.LABELS_MAX_COUNT} are right",
                field="labels",
                limit=str(limits.LABELS_MAX_COUNT),
            )
        for label, value in sorted(labels.items()):
            validate.check_label(label, value)
            self._fingerprint.update(_with_length(label.encode()) + _with_length(value.encode()))
        new.labels.update(labels)

    def _add_profile(self, settings: JobSettings) -> int:
        # Two ways to say the same, such as no queue and the queue "default", are one profile.
        serialized = profile_bytes(settings)
        index = self._profile_indexes.setdefault(serialized, len(self._profile_indexes))
        self._profiles[settings] = index
        return index

    def _cron(self, job: job_pb2.Job) -> tuple[int, int, int]:
        """As _interval, which `@every` is another word for."""
        namespace = job.namespace or DEFAULT_NAMESPACE
        asked = cron_key(job, namespace)
        known = self._schedules.get(asked)
        if known is None:
            schedule = schedule_of_cron(job, namespace, self._now_ms)
            known = self._schedules[asked] = self._add_schedule(schedule), schedule.every_ms
        index, every_ms = known
        if every_ms:
            return index, _UNSET_MS, first_interval_tick(every_ms, None, self._now_ms)
        return index, 0, 0

    def _interval(self, interval: job_pb2.Interval) -> tuple[int, int, int]:
        """Index of the schedule, the start that was asked for, and the first occurrence."""
        every_ms = validate.duration_ms(
            interval.every, "interval.every", low_ms=limits.INTERVAL_MIN_MS, high_ms=limits.INTERVAL_MAX_MS
        )
        start_ms, asked_ms = None, _UNSET_MS
        if interval.HasField("start"):
            start_ms = asked_ms = validate.timestamp_ms(interval.start, "interval.start")
            _refuse_far_future(start_ms, self._now_ms, "interval.start")
        first_ms = first_interval_tick(every_ms, start_ms, self._now_ms)
        end_ms = interval_end_ms(interval, first_ms, self._now_ms)
        known = self._schedules.get((every_ms, end_ms))
        if known is None:
            schedule = command_pb2.Schedule(every_ms=every_ms, end_ms=end_ms)
            known = self._schedules[every_ms, end_ms] = self._add_schedule(schedule), every_ms
        return known[0], asked_ms, first_ms

    def _add_schedule(self, schedule: command_pb2.Schedule) -> int:
        serialized = schedule.SerializeToString(deterministic=True)
        index = self._schedule_indexes.get(serialized)
        if index is None:
            self._create.schedules.append(new_schedule(schedule, self._now_ms, self._find_calendar))
            index = self._schedule_indexes[serialized] = len(self._create.schedules)
        return index


def future_or_now_ms(time: Timestamp, field: str, now_ms: int) -> int:
    """A time in the past means now. Raises InvalidField."""
    asked_ms = validate.timestamp_ms(time, field)
    _refuse_far_future(asked_ms, now_ms, field)
    return max(asked_ms, now_ms)


def _refuse_fields(job: job_pb2.Job) -> None:
    for field in ("id", "state", "last_execution_id", "etag", "pause_note", "workflow_id"):
        if getattr(job, field):
            raise InvalidField("set by the server only; leave it unset", field=field)
    for field in ("create_time", "next_run_time", "cancel_time", "pause_time"):
        if job.HasField(field):
            raise InvalidField("set by the server only; leave it unset", field=field)


def _refuse_far_future(time_ms: int, now_ms: int, field: str) -> None:
    if time_ms > now_ms + limits.HORIZON_MS:
        raise InvalidField(f"more than {validate.span_text(limits.HORIZON_MS)} from now", field=field)


def _with_length(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _profile(job: job_pb2.Job) -> command_pb2.Profile:
    settings = job_settings(job, recurring=job.WhichOneof("schedule") in ("cron", "interval"))
    return command_pb2.Profile.FromString(profile_bytes(settings))


def _schedule_difference(stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    requested = _every_as_interval(requested)
    kind = requested.WhichOneof("schedule")
    if stored.WhichOneof("schedule") != kind:
        return ["schedule"]
    if kind == "run_at":
        return [] if _same_run_at(stored, requested) else ["run_at"]
    if kind == "dependencies":
        return [] if list(stored.dependencies.job_ids) == list(requested.dependencies.job_ids) else ["dependencies"]
    if kind == "cron":
        return cron_difference(stored, requested, stored.namespace)
    return _interval_difference(stored, requested)


def _same_run_at(stored: job_pb2.Job, requested: job_pb2.Job) -> bool:
    before_ms = validate.timestamp_ms(stored.run_at, "run_at")
    after_ms = validate.timestamp_ms(requested.run_at, "run_at")
    created_ms = validate.timestamp_ms(stored.create_time, "create_time")
    was_past = abs(before_ms - created_ms) <= _CLOCK_SKEW_MS and after_ms <= before_ms
    return before_ms == after_ms or was_past


def _every_as_interval(job: job_pb2.Job) -> job_pb2.Job:
    every = cron_input.every_ms(job.cron.expression) if job.WhichOneof("schedule") == "cron" else None
    if every is None:
        return job
    interval = job_pb2.Job(interval=job_pb2.Interval())
    interval.interval.every.FromMilliseconds(every)
    return interval


def _interval_difference(stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    every = requested.interval.every
    if stored.interval.every != every:
        return ["interval.every"]
    if stored.interval.end != requested.interval.end:
        return ["interval.end"]
    if requested.interval.HasField("start") and stored.HasField("next_run_time"):
        every_ms = every.seconds * 1000 + every.nanos // 1_000_000
        start_ms = validate.timestamp_ms(requested.interval.start, "interval.start")
        next_ms = validate.timestamp_ms(stored.next_run_time, "next_run_time")
        if (next_ms - start_ms) % every_ms:
            return ["interval.start"]
    return []
