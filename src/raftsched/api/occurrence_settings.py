"""The part of a job's settings that decides which of its occurrences run: overlap, catching up, deadlines, an end."""

from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from raftsched.api import validate
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.v1 import job_pb2

_SKIP = job_pb2.OVERLAP_POLICY_SKIP
_ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
_QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
_LATEST = job_pb2.CATCH_UP_POLICY_LATEST
_ALL = job_pb2.CATCH_UP_POLICY_ALL


class OccurrenceSettings(NamedTuple):
    """What a job says of its occurrences, unchecked; messages serialized, None when unset."""

    overlap: int
    overlap_limit: int
    catch_up: int
    catch_up_limit: int
    catch_up_window: bytes | None
    catch_up_interval: bytes | None
    max_runs: int
    start_deadline: bytes | None


def occurrence_settings(job: job_pb2.Job) -> OccurrenceSettings:
    """Reads nothing but fields; checks nothing."""
    return OccurrenceSettings(
        job.overlap,
        job.overlap_limit,
        job.catch_up,
        job.catch_up_limit,
        job.catch_up_window.SerializeToString() if job.HasField("catch_up_window") else None,
        job.catch_up_interval.SerializeToString() if job.HasField("catch_up_interval") else None,
        job.max_runs,
        job.start_deadline.SerializeToString() if job.HasField("start_deadline") else None,
    )


def set_occurrences(profile: command_pb2.Profile, settings: OccurrenceSettings, *, recurring: bool) -> None:
    """Checks them and writes them to a profile that has its jitter and its dependency rule. Raises InvalidField."""
    if recurring:
        _set_overlap(profile, settings)
        _set_catch_up(profile, settings)
        profile.max_runs = settings.max_runs
    else:
        _refuse_all_of_series(profile, settings)
        profile.overlap, profile.catch_up = _ALLOW, _LATEST
    if settings.start_deadline is not None:
        _set_start_deadline(profile, Duration.FromString(settings.start_deadline))


def _set_overlap(profile: command_pb2.Profile, settings: OccurrenceSettings) -> None:
    overlap = settings.overlap or _SKIP
    if overlap not in job_pb2.OverlapPolicy.values():
        raise InvalidField(f"{overlap} is not a policy; SKIP, ALLOW, QUEUE and REPLACE are right", field="overlap")
    limit = settings.overlap_limit
    if limit and overlap not in (_ALLOW, _QUEUE):
        raise InvalidField("goes with ALLOW and QUEUE only; leave it unset", field="overlap_limit")
    if limit > limits.OVERLAP_LIMIT_MAX:
        raise InvalidField(f"{limit} is not 1–{limits.OVERLAP_LIMIT_MAX:,}", field="overlap_limit")
    profile.overlap = overlap
    profile.overlap_limit = limit or (limits.OVERLAP_QUEUE_DEFAULT if overlap == _QUEUE else 0)


def _set_catch_up(profile: command_pb2.Profile, settings: OccurrenceSettings) -> None:
    catch_up = settings.catch_up or _LATEST
    if catch_up not in job_pb2.CatchUpPolicy.values():
        raise InvalidField(f"{catch_up} is not a policy; LATEST, ALL and NONE are right", field="catch_up")
    profile.catch_up = catch_up
    if settings.catch_up_window is not None:
        profile.catch_up_window_ms = validate.duration_ms(
            Duration.FromString(settings.catch_up_window),
            "catch_up_window",
            low_ms=limits.MISSED_AFTER_MS,
            high_ms=limits.CATCH_UP_WINDOW_MAX_MS,
        )
    for field, value in (
        ("catch_up_limit", settings.catch_up_limit),
        ("catch_up_interval", settings.catch_up_interval),
    ):
        if value and catch_up != _ALL:
            raise InvalidField("goes with ALL only; leave it unset", field=field)
    if settings.catch_up_limit > limits.CATCH_UP_MAX:
        raise InvalidField(f"{settings.catch_up_limit} is not 1–{limits.CATCH_UP_MAX:,}", field="catch_up_limit")
    profile.catch_up_limit = settings.catch_up_limit
    if settings.catch_up_interval is not None:
        profile.catch_up_interval_ms = validate.duration_ms(
            Duration.FromString(settings.catch_up_interval),
            "catch_up_interval",
            low_ms=limits.SECOND_MS,
            high_ms=limits.CATCH_UP_INTERVAL_MAX_MS,
        )


def _set_start_deadline(profile: command_pb2.Profile, deadline: Duration) -> None:
    if profile.dependency_rule:
        raise InvalidField("means nothing for a job that waits for others; leave it unset", field="start_deadline")
    profile.start_deadline_ms = validate.duration_ms(
        deadline, "start_deadline", low_ms=limits.SECOND_MS, high_ms=limits.START_DEADLINE_MAX_MS
    )
    if profile.start_deadline_ms <= profile.jitter_ms:
        raise InvalidField(
            "is not longer than the jitter, by which each occurrence may be late", field="start_deadline"
        )


def _refuse_all_of_series(profile: command_pb2.Profile, settings: OccurrenceSettings) -> None:
    for field in ("overlap", "overlap_limit", "catch_up", "catch_up_limit", "max_runs"):
        if getattr(settings, field):
            _refuse(profile, field)
    for field in ("catch_up_window", "catch_up_interval"):
        if getattr(settings, field) is not None:
            _refuse(profile, field)


def _refuse(profile: command_pb2.Profile, field: str) -> None:
    if profile.dependency_rule:
        raise InvalidField("means nothing for a job that waits for others; leave it unset", field=field)
    raise InvalidField("means nothing for a job with run_at, which has one occurrence; leave it unset", field=field)
