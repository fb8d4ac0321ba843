"""What is stored, as the messages that callers read."""

from typing import cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.internal.v1 import command_pb2
from raftsched.model.transitions import ExecutionState
from raftsched.state.queries import JobRecord
from raftsched.state.queries_executions import DeadLetterRecord, ExecutionRecord, SkippedRecord
from raftsched.state.queries_occurrences import OccurrenceRecord
from raftsched.state.queries_workflows import NodeRecord
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2, workflow_pb2

_WAITS_TO_RUN_AGAIN = (ExecutionState.FAILED, ExecutionState.SNOOZED)


def timestamp(time_ms: int) -> Timestamp:
    """Of milliseconds since the epoch."""
    seconds, ms = divmod(time_ms, 1000)
    return Timestamp(seconds=seconds, nanos=ms * 1_000_000)


def optional_timestamp(time_ms: int | None) -> Timestamp | None:
    """None for None and 0, the rows' word for "not yet"."""
    return timestamp(time_ms) if time_ms else None


def duration(span_ms: int) -> Duration:
    seconds, ms = divmod(span_ms, 1000)
    return Duration(seconds=seconds, nanos=ms * 1_000_000)


def optional_duration(span_ms: int) -> Duration | None:
    return duration(span_ms) if span_ms else None


def job_message(record: JobRecord) -> job_pb2.Job:
    """All fields, output-only ones too; settings that were left out at creation hold what they mean."""
    row, profile, schedule = record.row, record.profile, record.schedule
    job = job_pb2.Job(
        id=record.id,
        namespace=profile.namespace,
        name=row.name,
        handler=profile.handler,
        payload=record.payload,
        content_type=profile.content_type,
        queue=profile.queue,
        priority=profile.priority,
        tenant=profile.tenant,
        labels=row.labels,
        jitter=optional_duration(profile.jitter_ms),
        retry=_retry_policy(profile),
        retention=_retention(profile),
        run_timeout=optional_duration(profile.run_timeout_ms),
        start_deadline=optional_duration(profile.start_deadline_ms),
        state=cast("job_pb2.JobState", record.state),
        create_time=timestamp(row.created_ms),
        last_execution_id=row.last_execution,
        cancel_time=optional_timestamp(row.cancelled_ms),
        pause_after_failures=profile.pause_after_failures,
        concurrency_key=profile.concurrency_key,
        concurrency_limit=profile.concurrency_limit,
        etag=record.etag,
        pause_note=record.pause_note,
        pause_time=optional_timestamp(record.paused_ms),
        workflow_id=record.workflow,
    )
    if record.wait is not None:
        job.dependencies.job_ids.extend(keys.unpack_ids(record.wait.upstreams))
        job.dependencies.rule = cast("job_pb2.DependencyRule", record.wait.rule)
    elif schedule is None:
        job.run_at.CopyFrom(timestamp(row.scheduled_for_ms))
    else:
        _describe_recurrence(job, profile, schedule)
    if record.waits:
        job.next_run_time.CopyFrom(timestamp(row.scheduled_for_ms))
    return job


def node_message(record: NodeRecord) -> workflow_pb2.WorkflowNode:
    node = workflow_pb2.WorkflowNode(name=record.name, depends_on=record.depends_on)
    if record.job is not None:
        node.job.CopyFrom(job_message(record.job))
        node.rule = node.job.dependencies.rule
    return node


def execution_message(record: ExecutionRecord) -> execution_pb2.Execution:
    row = record.row
    return execution_pb2.Execution(
        id=record.id,
        job_id=row.job,
        scheduled_for=timestamp(row.scheduled_for_ms),
        state=cast("execution_pb2.ExecutionState", row.status),
        attempt=row.attempt,
        lost_leases=row.lost_leases,
        fire_time=timestamp(row.fired_ms),
        lease_time=optional_timestamp(row.leased_ms),
        start_time=optional_timestamp(row.started_ms),
        end_time=optional_timestamp(row.ended_ms),
        token=row.token,
        worker=record.worker,
        error=row.error,
        retry_time=optional_timestamp(row.changed_ms) if row.status in _WAITS_TO_RUN_AGAIN else None,
        replayed_as=row.replayed_as,
        cause=cast("execution_pb2.ExecutionCause", row.cause or execution_pb2.EXECUTION_CAUSE_SCHEDULE),
        cancel_requested=row.cancel_requested,
    )


def attempt_message(row: rows.AttemptRow) -> execution_pb2.Attempt:
    return execution_pb2.Attempt(
        number=row.number,
        worker=row.worker,
        lease_time=optional_timestamp(row.leased_ms),
        start_time=optional_timestamp(row.started_ms),
        end_time=optional_timestamp(row.ended_ms),
        outcome=cast("execution_pb2.AttemptOutcome", row.outcome),
        error=row.error,
        error_class=row.error_class,
    )


def skipped_message(record: SkippedRecord) -> execution_pb2.SkippedOccurrence:
    return execution_pb2.SkippedOccurrence(
        scheduled_for=timestamp(record.scheduled_for_ms),
        reason=cast("execution_pb2.SkipReason", record.row.reason),
        count=record.row.count,
        last_scheduled_for=timestamp(record.row.last_scheduled_for_ms),
    )


def occurrence_message(record: OccurrenceRecord) -> execution_pb2.Occurrence:
    occurrence = execution_pb2.Occurrence(
        scheduled_for=timestamp(record.scheduled_for_ms),
        last_scheduled_for=timestamp(record.last_ms),
        count=record.count,
    )
    if record.execution is not None:
        occurrence.execution.CopyFrom(execution_message(record.execution))
    elif record.queued:
        occurrence.queued = True
    else:
        occurrence.skipped = cast("execution_pb2.SkipReason", record.skipped)
    return occurrence


def dead_letter_message(record: DeadLetterRecord) -> execution_pb2.DeadLetter:
    return execution_pb2.DeadLetter(
        execution=execution_message(record.execution),
        namespace=record.profile.namespace,
        handler=record.profile.handler,
        job_name=record.job_name,
        dead_time=timestamp(record.dead_ms),
    )


def _retention(profile: command_pb2.Profile) -> job_pb2.Retention | None:
    if not profile.retention_age_ms and not profile.retention_executions:
        return None
    return job_pb2.Retention(
        max_age=optional_duration(profile.retention_age_ms), max_executions=profile.retention_executions
    )


def _retry_policy(profile: command_pb2.Profile) -> job_pb2.RetryPolicy:
    return job_pb2.RetryPolicy(
        max_attempts=profile.max_attempts,
        initial_backoff=duration(profile.initial_backoff_ms),
        max_backoff=duration(profile.max_backoff_ms),
        multiplier=profile.multiplier,
        jitter=profile.backoff_jitter,
        backoff=cast("job_pb2.Backoff", profile.backoff or job_pb2.BACKOFF_EXPONENTIAL),
        max_elapsed=optional_duration(profile.max_elapsed_ms),
        non_retryable_errors=profile.non_retryable_errors,
    )


def _describe_recurrence(job: job_pb2.Job, profile: command_pb2.Profile, schedule: command_pb2.Schedule) -> None:
    if schedule.every_ms:
        job.interval.every.CopyFrom(duration(schedule.every_ms))
        if schedule.end_ms:
            job.interval.end.CopyFrom(timestamp(schedule.end_ms))
    else:
        job.cron.CopyFrom(_cron(schedule))
    job.overlap = cast("job_pb2.OverlapPolicy", profile.overlap)
    job.overlap_limit = profile.overlap_limit
    job.catch_up = cast("job_pb2.CatchUpPolicy", profile.catch_up)
    job.catch_up_limit = profile.catch_up_limit
    job.max_runs = profile.max_runs
    if profile.catch_up_window_ms:
        job.catch_up_window.CopyFrom(duration(profile.catch_up_window_ms))
    if profile.catch_up_interval_ms:
        job.catch_up_interval.CopyFrom(duration(profile.catch_up_interval_ms))


def _cron(schedule: command_pb2.Schedule) -> job_pb2.Cron:
    return job_pb2.Cron(
        expression=schedule.expression,
        time_zone=schedule.time_zone,
        more_expressions=schedule.more_expressions,
        exclude=schedule.exclude,
        gap=cast("job_pb2.GapPolicy", schedule.gap or job_pb2.GAP_POLICY_SHIFT),
        fold=cast("job_pb2.FoldPolicy", schedule.fold or job_pb2.FOLD_POLICY_FIRST),
        start=optional_timestamp(schedule.start_ms),
        end=optional_timestamp(schedule.end_ms),
        calendars=[
            job_pb2.CalendarUse(calendar=use.calendar, rule=cast("job_pb2.CalendarRule", use.rule))
            for use in schedule.calendars
        ],
    )
