"""The part of a job that many jobs share, checked and turned into the profile that is stored once for all of them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from raftsched.api import validate
from raftsched.api.occurrence_settings import OccurrenceSettings, occurrence_settings, set_occurrences
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.v1 import job_pb2

DEFAULT_NAMESPACE = "default"
DEFAULT_QUEUE = "default"
DEFAULT_CONTENT_TYPE = "application/octet-stream"
DEFAULT_TIME_ZONE = "UTC"


class JobSettings(NamedTuple):
    """What a job says that becomes its profile, unchecked, in a form that is quick to compare."""

    namespace: str
    handler: str
    queue: str
    content_type: str
    tenant: str
    priority: int
    recurring: bool
    occurrences: OccurrenceSettings
    # Serialized messages, None when unset. As bytes, NaN equals itself.
    retry: bytes | None
    run_timeout: bytes | None
    jitter: bytes | None
    pause_after_failures: int
    concurrency_key: str
    concurrency_limit: int
    # A value of DependencyRule, 0 for a job that depends on nothing.
    dependency_rule: int = 0
    retention: bytes | None = None


def job_settings(job: job_pb2.Job, *, recurring: bool) -> JobSettings:
    """Reads nothing but fields; checks nothing."""
    return JobSettings(
        job.namespace,
        job.handler,
        job.queue,
        job.content_type,
        job.tenant,
        job.priority,
        recurring,
        occurrence_settings(job),
        job.retry.SerializeToString() if job.HasField("retry") else None,
        job.run_timeout.SerializeToString() if job.HasField("run_timeout") else None,
        job.jitter.SerializeToString() if job.HasField("jitter") else None,
        job.pause_after_failures,
        job.concurrency_key,
        job.concurrency_limit,
        job.dependencies.rule or job_pb2.DEPENDENCY_RULE_ALL_SUCCESS if job.HasField("dependencies") else 0,
        job.retention.SerializeToString() if job.HasField("retention") else None,
    )


@lru_cache(maxsize=4096)
def profile_bytes(settings: JobSettings) -> bytes:
    """The serialized internal.v1.Profile. Raises InvalidField, fields relative to the job."""
    namespace = settings.namespace or DEFAULT_NAMESPACE
    queue = settings.queue or DEFAULT_QUEUE
    content_type = settings.content_type or DEFAULT_CONTENT_TYPE
    validate.check_namespace(namespace)
    validate.check_handler(settings.handler)
    validate.check_queue(queue)
    validate.check_content_type(content_type)
    validate.check_text(settings.tenant, limits.TENANT_MAX_LENGTH, "tenant")
    if settings.priority > limits.PRIORITY_MAX:
        raise InvalidField(f"{settings.priority} is not 0–{limits.PRIORITY_MAX}", field="priority")
    profile = command_pb2.Profile(
        namespace=namespace,
        handler=settings.handler,
        queue=queue,
        content_type=content_type,
        tenant=settings.tenant,
        priority=settings.priority,
        dependency_rule=settings.dependency_rule,
    )
    if settings.dependency_rule and settings.jitter is not None:
        raise InvalidField("means nothing for a job that waits for others; leave it unset", field="jitter")
    if settings.run_timeout is not None:
        profile.run_timeout_ms = validate.duration_ms(
            Duration.FromString(settings.run_timeout), "run_timeout", low_ms=1, high_ms=limits.RUN_TIMEOUT_MAX_MS
        )
    if settings.jitter is not None:
        profile.jitter_ms = validate.duration_ms(
            Duration.FromString(settings.jitter), "jitter", low_ms=0, high_ms=limits.JITTER_MAX_MS
        )
    set_occurrences(profile, settings.occurrences, recurring=settings.recurring)
    if settings.pause_after_failures:
        if not settings.recurring:
            raise InvalidField("means nothing for a job that runs once; leave it unset", field="pause_after_failures")
        if settings.pause_after_failures > limits.PAUSE_AFTER_FAILURES_MAX:
            raise InvalidField(
                f"{settings.pause_after_failures} is not 0–{limits.PAUSE_AFTER_FAILURES_MAX:,}",
                field="pause_after_failures",
            )
        profile.pause_after_failures = settings.pause_after_failures
    if settings.concurrency_key or settings.concurrency_limit:
        _set_concurrency(profile, settings)
    _set_retry(profile, job_pb2.RetryPolicy.FromString(settings.retry or b""))
    if settings.retention is not None:
        _set_retention(profile, job_pb2.Retention.FromString(settings.retention))
    return profile.SerializeToString(deterministic=True)


def _set_concurrency(profile: command_pb2.Profile, settings: JobSettings) -> None:
    if not settings.concurrency_key:
        raise InvalidField("means nothing without a concurrency_key", field="concurrency_limit")
    validate.check_text(settings.concurrency_key, limits.CONCURRENCY_KEY_MAX_LENGTH, "concurrency_key")
    if not 1 <= settings.concurrency_limit <= limits.CONCURRENCY_MAX:
        raise InvalidField(
            f"{settings.concurrency_limit} is not 1–{limits.CONCURRENCY_MAX:,}, which goes with a concurrency_key",
            field="concurrency_limit",
        )
    profile.concurrency_key = settings.concurrency_key
    profile.concurrency_limit = settings.concurrency_limit


def _set_retention(profile: command_pb2.Profile, retention: job_pb2.Retention) -> None:
    if retention.HasField("max_age"):
        profile.retention_age_ms = validate.duration_ms(
            retention.max_age,
            "retention.max_age",
            low_ms=limits.RETENTION_AGE_MIN_MS,
            high_ms=limits.RETENTION_AGE_MAX_MS,
        )
    most = limits.RETENTION_EXECUTIONS_MAX
    if retention.max_executions > most:
        raise InvalidField(f"{retention.max_executions} is not 1–{most:,}", field="retention.max_executions")
    profile.retention_executions = retention.max_executions


def _set_retry(profile: command_pb2.Profile, retry: job_pb2.RetryPolicy) -> None:
    if retry.max_attempts > limits.MAX_ATTEMPTS_MAX:
        raise InvalidField(f"{retry.max_attempts} is not 1–{limits.MAX_ATTEMPTS_MAX:,}", field="retry.max_attempts")
    initial_ms, max_ms = limits.INITIAL_BACKOFF_DEFAULT_MS, limits.MAX_BACKOFF_DEFAULT_MS
    if retry.HasField("initial_backoff"):
        initial_ms = _backoff_ms(retry.initial_backoff, "retry.initial_backoff")
        # A long first delay without a word on the longest is meant.
        max_ms = max(initial_ms, max_ms)
    if retry.HasField("max_backoff"):
        max_ms = _backoff_ms(retry.max_backoff, "retry.max_backoff")
        if max_ms < initial_ms:
            raise InvalidField(
                f"{validate.span_text(max_ms)} is less than the initial backoff of {validate.span_text(initial_ms)}",
                field="retry.max_backoff",
            )
    multiplier = retry.multiplier or limits.MULTIPLIER_DEFAULT
    # Written so that NaN, which is neither less nor greater, is refused.
    if not 1.0 <= multiplier <= limits.MULTIPLIER_MAX:
        raise InvalidField(f"{multiplier} is not 1–{limits.MULTIPLIER_MAX:.0f}", field="retry.multiplier")
    if not 0.0 <= retry.jitter <= 1.0:
        raise InvalidField(f"{retry.jitter} is not 0–1", field="retry.jitter")
    profile.max_attempts = retry.max_attempts or limits.MAX_ATTEMPTS_DEFAULT
    profile.initial_backoff_ms = initial_ms
    profile.max_backoff_ms = max_ms
    profile.multiplier = multiplier
    # Minus zero is another number on the wire.
    profile.backoff_jitter = abs(retry.jitter)
    if retry.backoff not in job_pb2.Backoff.values():
        raise InvalidField(
            f"{retry.backoff} is not a backoff; EXPONENTIAL, FIXED and LINEAR are right", field="retry.backoff"
        )
    # EXPONENTIAL is the default, hence 0: one way to say it is enough.
    profile.backoff = 0 if retry.backoff == job_pb2.BACKOFF_EXPONENTIAL else retry.backoff
    if retry.HasField("max_elapsed"):
        profile.max_elapsed_ms = validate.duration_ms(
            retry.max_elapsed, "retry.max_elapsed", low_ms=1, high_ms=limits.MAX_ELAPSED_MAX_MS
        )
    _set_non_retryable(profile, retry.non_retryable_errors)


def _set_non_retryable(profile: command_pb2.Profile, names: Sequence[str]) -> None:
    field = "retry.non_retryable_errors"
    if len(names) > limits.NON_RETRYABLE_MAX_COUNT:
        raise InvalidField(
            f"{len(names)} are too many; at most {limits.NON_RETRYABLE_MAX_COUNT} are right", field=field
        )
    for number, name in enumerate(names):
        if not name:
            raise InvalidField(
                f"empty; 1–{limits.ERROR_CLASS_MAX_LENGTH} characters are right", field=f"{field}[{number}]"
            )
        validate.check_text(name, limits.ERROR_CLASS_MAX_LENGTH, f"{field}[{number}]")
        if any(map(str.isspace, name)):
            raise InvalidField(
                "no class has blanks in its name; such as ValueError or shop.CardDeclined is right",
                field=f"{field}[{number}]",
            )
    # A set: neither order nor repeats make another profile.
    profile.non_retryable_errors.extend(sorted(set(names)))


def _backoff_ms(backoff: Duration, field: str) -> int:
    return validate.duration_ms(backoff, field, low_ms=0, high_ms=limits.BACKOFF_MAX_MS)
