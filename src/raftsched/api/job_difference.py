"""In what a request differs from the job that an earlier request with the same idempotency key registered."""

from raftsched.api import validate
from raftsched.api.job_settings import DEFAULT_TIME_ZONE, job_settings, profile_bytes
from raftsched.internal.v1 import command_pb2
from raftsched.model.cron import normalized
from raftsched.model.limits import MINUTE_MS
from raftsched.v1 import job_pb2

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
    "run_timeout_ms": "run_timeout",
    "jitter_ms": "jitter",
    "overlap": "overlap",
    "catch_up": "catch_up",
}
# A run_at in the past was replaced by the clock of the node that took it; nodes' clocks are closer than this.
_CLOCK_SKEW_MS = MINUTE_MS


def job_difference(*, stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    """The names of the fields that differ, for people; `requested` has passed create_jobs_command.

    What is said in two ways, such as no queue and the queue "default", is equal. Empty when no difference can be seen
    any more: a stored job does not tell when its interval was asked to start, nor in the past of which time.
    """
    schedule = _schedule_difference(stored, requested)
    if schedule == ["schedule"]:
        # A one-off against a series: their policies differ because of that.
        return schedule
    before, after = _profile(stored), _profile(requested)
    names = [name for field, name in _PROFILE_FIELDS.items() if getattr(before, field) != getattr(after, field)]
    names += [name for name in ("name", "payload") if getattr(stored, name) != getattr(requested, name)]
    if dict(stored.labels) != dict(requested.labels):
        names.append("labels")
    return names + schedule


def _profile(job: job_pb2.Job) -> command_pb2.Profile:
    settings = job_settings(job, recurring=job.WhichOneof("schedule") != "run_at")
    return command_pb2.Profile.FromString(profile_bytes(settings))


def _schedule_difference(stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    kind = requested.WhichOneof("schedule")
    if stored.WhichOneof("schedule") != kind:
        return ["schedule"]
    if kind == "run_at":
        return [] if _same_run_at(stored, requested) else ["run_at"]
    if kind == "cron":
        return _cron_difference(stored.cron, requested.cron)
    return _interval_difference(stored, requested)


def _same_run_at(stored: job_pb2.Job, requested: job_pb2.Job) -> bool:
    before_ms = validate.timestamp_ms(stored.run_at, "run_at")
    after_ms = validate.timestamp_ms(requested.run_at, "run_at")
    created_ms = validate.timestamp_ms(stored.create_time, "create_time")
    was_past = abs(before_ms - created_ms) <= _CLOCK_SKEW_MS and after_ms <= before_ms
    return before_ms == after_ms or was_past


def _cron_difference(stored: job_pb2.Cron, requested: job_pb2.Cron) -> list[str]:
    names = []
    if normalized(stored.expression) != normalized(requested.expression):
        names.append("cron.expression")
    if (stored.time_zone or DEFAULT_TIME_ZONE) != (requested.time_zone or DEFAULT_TIME_ZONE):
        names.append("cron.time_zone")
    return names


def _interval_difference(stored: job_pb2.Job, requested: job_pb2.Job) -> list[str]:
    every = requested.interval.every
    if stored.interval.every != every:
        return ["interval.every"]
    if requested.interval.HasField("start") and stored.HasField("next_run_time"):
        every_ms = every.seconds * 1000 + every.nanos // 1_000_000
        start_ms = validate.timestamp_ms(requested.interval.start, "interval.start")
        next_ms = validate.timestamp_ms(stored.next_run_time, "next_run_time")
        if (next_ms - start_ms) % every_ms:
            return ["interval.start"]
    return []
