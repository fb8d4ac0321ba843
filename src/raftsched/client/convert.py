"""Client values to protobuf messages and back."""

import dataclasses
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from raftsched.client import cluster_values, values
from raftsched.client.convert_schedules import recurrence, set_rule, set_schedule
from raftsched.client.errors import InvalidField
from raftsched.client.fields import (
    EPOCH,
    assign,
    enum_value,
    extend,
    member_name,
    optional_time,
    set_duration,
    set_labels,
    span_value,
    time_value,
    within,
)
from raftsched.client.schedules import CalendarRule, CalendarUse, FoldPolicy, GapPolicy
from raftsched.v1 import cluster_pb2, dedup_pb2, execution_pb2, job_pb2, limit_pb2, workflow_pb2

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"

_SPEC_FIELDS = frozenset(field.name for field in dataclasses.fields(values.JobSpec))


def job_message(spec: values.JobSpec, namespace: str, *, needs_schedule: bool = True) -> job_pb2.Job:
    """The Job to register; `namespace` serves where the spec names none. Raises InvalidField."""
    job = job_pb2.Job(namespace=spec.namespace or namespace)
    payload, content_type = _encode_payload(spec.payload)
    for field, value in (
        ("handler", spec.handler),
        ("payload", payload),
        ("content_type", spec.content_type or content_type),
        ("name", spec.name),
        ("queue", spec.queue),
        ("priority", spec.priority),
        ("tenant", spec.tenant),
        ("pause_after_failures", spec.pause_after_failures),
        ("concurrency_key", spec.concurrency_key),
        ("concurrency_limit", spec.concurrency_limit),
        ("overlap_limit", spec.overlap_limit),
        ("catch_up_limit", spec.catch_up_limit),
        ("max_runs", spec.max_runs),
    ):
        if value:
            assign(job, field, value)
    if spec.labels:
        set_labels(job, spec.labels)
    set_schedule(job, spec, is_needed=needs_schedule)
    if spec.retry is not None:
        with within("retry"):
            _set_retry(job.retry, spec.retry)
    if spec.run_timeout is not None:
        set_duration(job.run_timeout, spec.run_timeout, "run_timeout")
    if spec.jitter is not None:
        set_duration(job.jitter, spec.jitter, "jitter")
    if spec.catch_up_window is not None:
        set_duration(job.catch_up_window, spec.catch_up_window, "catch_up_window")
    if spec.catch_up_interval is not None:
        set_duration(job.catch_up_interval, spec.catch_up_interval, "catch_up_interval")
    if spec.start_deadline is not None:
        set_duration(job.start_deadline, spec.start_deadline, "start_deadline")
    if spec.retention is not None:
        with within("retention"):
            _set_retention(job.retention, spec.retention)
    if spec.overlap is not values.OverlapPolicy.UNSPECIFIED:
        member = member_name(values.OverlapPolicy, spec.overlap, "overlap")
        assign(job, "overlap", f"OVERLAP_POLICY_{member}")
    if spec.catch_up is not values.CatchUpPolicy.UNSPECIFIED:
        member = member_name(values.CatchUpPolicy, spec.catch_up, "catch_up")
        assign(job, "catch_up", f"CATCH_UP_POLICY_{member}")
    return job


def job_changes(changes: Mapping[str, Any]) -> tuple[job_pb2.Job, list[str]]:
    """A Job with these of JobSpec's fields, and the names of the fields of Job that they make up. Raises InvalidField.

    Whole fields: all that belongs to a schedule makes up one.
    """
    unknown = [name for name in changes if name not in _SPEC_FIELDS]
    if unknown:
        raise InvalidField(f"{unknown[0]} is not a setting of a job", field=unknown[0])
    kind = next((name for name in ("run_at", "cron", "every") if changes.get(name) is not None), None)
    of_job = job_pb2.Job.DESCRIPTOR.fields_by_name
    of_schedule = {name for name in changes if name not in of_job or name in ("run_at", "cron")}
    if of_schedule and kind is None:
        raise InvalidField("goes with run_at, cron or every", field=min(of_schedule))
    given = {"handler": "", **changes}
    if kind is None:
        given["run_at"] = EPOCH
    job = job_message(values.JobSpec(**given), "")
    if kind is None:
        job.ClearField("run_at")
    names = [name for name in changes if name not in of_schedule]
    if kind is not None:
        names.append("interval" if kind == "every" else kind)
    if "payload" in changes and job.content_type and "content_type" not in changes:
        names.append("content_type")
    return job, names


def request_id(given: str | None) -> str:
    """The caller's, or a new one. Raises InvalidField for an empty one: it would protect nothing."""
    if given is not None and not (isinstance(given, str) and given):
        raise InvalidField("must be a string that is not empty; leave it out to have one made", field="request_id")
    return uuid.uuid4().hex if given is None else given


def set_job_state(job_filter: job_pb2.JobFilter, state: values.JobState) -> None:
    assign(job_filter, "state", f"JOB_STATE_{member_name(values.JobState, state, 'state')}")


def job_value(job: job_pb2.Job, *, existed: bool = False) -> values.Job:
    schedule = job.WhichOneof("schedule")
    return values.Job(
        id=job.id,
        namespace=job.namespace,
        name=job.name,
        handler=job.handler,
        payload=job.payload,
        content_type=job.content_type,
        queue=job.queue,
        priority=job.priority,
        tenant=job.tenant,
        labels=dict(job.labels),
        run_at=time_value(job.run_at) if schedule == "run_at" else None,
        cron=job.cron.expression if schedule == "cron" else None,
        every=span_value(job.interval.every) if schedule == "interval" else None,
        time_zone=job.cron.time_zone or "UTC" if schedule == "cron" else "",
        start=optional_time(recurrence(job), "start"),
        end=optional_time(recurrence(job), "end"),
        more_crons=tuple(job.cron.more_expressions),
        exclude=tuple(job.cron.exclude),
        gap=enum_value(GapPolicy, job_pb2.GapPolicy.Name, job.cron.gap, "GAP_POLICY_"),
        fold=enum_value(FoldPolicy, job_pb2.FoldPolicy.Name, job.cron.fold, "FOLD_POLICY_"),
        calendars=tuple(
            CalendarUse(use.calendar, enum_value(CalendarRule, job_pb2.CalendarRule.Name, use.rule, "CALENDAR_RULE_"))
            for use in job.cron.calendars
        ),
        jitter=span_value(job.jitter),
        retry=values.RetryPolicy(
            max_attempts=job.retry.max_attempts,
            initial_backoff=span_value(job.retry.initial_backoff),
            max_backoff=span_value(job.retry.max_backoff),
            multiplier=job.retry.multiplier,
            jitter=job.retry.jitter,
            backoff=enum_value(values.Backoff, job_pb2.Backoff.Name, job.retry.backoff, "BACKOFF_"),
            max_elapsed=span_value(job.retry.max_elapsed) if job.retry.HasField("max_elapsed") else None,
            non_retryable_errors=tuple(job.retry.non_retryable_errors),
        ),
        run_timeout=span_value(job.run_timeout) if job.HasField("run_timeout") else None,
        overlap=enum_value(values.OverlapPolicy, job_pb2.OverlapPolicy.Name, job.overlap, "OVERLAP_POLICY_"),
        catch_up=enum_value(values.CatchUpPolicy, job_pb2.CatchUpPolicy.Name, job.catch_up, "CATCH_UP_POLICY_"),
        state=enum_value(values.JobState, job_pb2.JobState.Name, job.state, "JOB_STATE_"),
        create_time=optional_time(job, "create_time"),
        next_run_time=optional_time(job, "next_run_time"),
        last_execution_id=job.last_execution_id or None,
        cancel_time=optional_time(job, "cancel_time"),
        existed=existed,
        pause_after_failures=job.pause_after_failures,
        concurrency_key=job.concurrency_key,
        concurrency_limit=job.concurrency_limit,
        etag=job.etag,
        depends_on=tuple(job.dependencies.job_ids),
        rule=_rule(job.dependencies.rule),
        workflow_id=job.workflow_id or None,
        pause_note=job.pause_note,
        pause_time=optional_time(job, "pause_time"),
        overlap_limit=job.overlap_limit,
        catch_up_window=span_value(job.catch_up_window) if job.HasField("catch_up_window") else None,
        catch_up_limit=job.catch_up_limit,
        catch_up_interval=span_value(job.catch_up_interval) if job.HasField("catch_up_interval") else None,
        max_runs=job.max_runs,
        start_deadline=span_value(job.start_deadline) if job.HasField("start_deadline") else None,
        retention=values.Retention(
            max_age=span_value(job.retention.max_age) if job.retention.HasField("max_age") else None,
            max_executions=job.retention.max_executions,
        ),
    )


def node_message(node: values.Node, namespace: str) -> workflow_pb2.WorkflowNode:
    """Raises InvalidField."""
    message = workflow_pb2.WorkflowNode()
    assign(message, "name", node.name)
    with within("job"):
        message.job.CopyFrom(job_message(node.job, namespace, needs_schedule=not node.depends_on))
    extend(message, "depends_on", node.depends_on)
    set_rule(message, node.rule)
    return message


def node_value(node: workflow_pb2.WorkflowNode) -> values.NodeState:
    return values.NodeState(
        name=node.name,
        job=job_value(node.job) if node.HasField("job") else None,
        depends_on=tuple(node.depends_on),
        rule=_rule(node.rule),
    )


def execution_value(execution: execution_pb2.Execution) -> values.Execution:
    return values.Execution(
        id=execution.id,
        job_id=execution.job_id,
        scheduled_for=time_value(execution.scheduled_for),
        state=enum_value(values.ExecutionState, execution_pb2.ExecutionState.Name, execution.state, "EXECUTION_STATE_"),
        attempt=execution.attempt,
        lost_leases=execution.lost_leases,
        fire_time=optional_time(execution, "fire_time"),
        lease_time=optional_time(execution, "lease_time"),
        start_time=optional_time(execution, "start_time"),
        end_time=optional_time(execution, "end_time"),
        token=execution.token,
        worker=execution.worker,
        error=execution.error,
        retry_time=optional_time(execution, "retry_time"),
        replayed_as=execution.replayed_as or None,
        cause=enum_value(values.ExecutionCause, execution_pb2.ExecutionCause.Name, execution.cause, "EXECUTION_CAUSE_"),
        cancel_requested=execution.cancel_requested,
        attempts=tuple(map(_attempt, execution.attempts)),
    )


def _attempt(attempt: execution_pb2.Attempt) -> values.Attempt:
    return values.Attempt(
        number=attempt.number,
        worker=attempt.worker,
        lease_time=optional_time(attempt, "lease_time"),
        start_time=optional_time(attempt, "start_time"),
        end_time=optional_time(attempt, "end_time"),
        outcome=enum_value(
            values.AttemptOutcome, execution_pb2.AttemptOutcome.Name, attempt.outcome, "ATTEMPT_OUTCOME_"
        ),
        error=attempt.error,
        error_class=attempt.error_class,
    )


def triggered_value(answer: job_pb2.TriggerJobResponse) -> values.Triggered:
    return values.Triggered(
        execution_id=answer.execution_id or None, scheduled_for=time_value(answer.scheduled_for), skipped=answer.skipped
    )


def payload_bytes(payload: Any) -> bytes:
    """As JobSpec's payload is sent. Raises InvalidField."""
    return _encode_payload(payload)[0]


def skipped_value(skipped: execution_pb2.SkippedOccurrence) -> values.SkippedOccurrence:
    return values.SkippedOccurrence(
        scheduled_for=time_value(skipped.scheduled_for),
        last_scheduled_for=time_value(skipped.last_scheduled_for),
        count=skipped.count,
        reason=enum_value(values.SkipReason, execution_pb2.SkipReason.Name, skipped.reason, "SKIP_REASON_"),
    )


def occurrence_value(occurrence: execution_pb2.Occurrence) -> values.Occurrence:
    outcome = occurrence.WhichOneof("outcome")
    skipped = None
    if outcome == "skipped":
        skipped = enum_value(values.SkipReason, execution_pb2.SkipReason.Name, occurrence.skipped, "SKIP_REASON_")
    return values.Occurrence(
        scheduled_for=time_value(occurrence.scheduled_for),
        last_scheduled_for=time_value(occurrence.last_scheduled_for),
        count=occurrence.count,
        execution=execution_value(occurrence.execution) if outcome == "execution" else None,
        skipped=skipped,
        queued=occurrence.queued,
    )


def claim_value(answer: dedup_pb2.ClaimResponse) -> values.KeyClaim:
    return values.KeyClaim(
        claimed=answer.claimed,
        completed=answer.completed,
        result=answer.result,
        owner_token=answer.owner_token,
        expire_time=optional_time(answer, "expire_time"),
    )


def dead_letter_value(dead: execution_pb2.DeadLetter) -> values.DeadLetter:
    return values.DeadLetter(
        execution=execution_value(dead.execution),
        namespace=dead.namespace,
        handler=dead.handler,
        job_name=dead.job_name,
        dead_time=optional_time(dead, "dead_time"),
    )


def status_value(status: cluster_pb2.GetStatusResponse) -> cluster_values.ClusterStatus:
    return cluster_values.ClusterStatus(
        node=status.node,
        leader=status.leader or None,
        has_quorum=status.has_quorum,
        term=status.term,
        commit_index=status.commit_index,
        applied_index=status.applied_index,
        first_log_index=status.first_log_index,
        state_digest=status.state_digest,
        replicated_clock=optional_time(status, "replicated_clock"),
        version=status.version,
        nodes=node_values(status.nodes),
        shard_owners=tuple(status.shard_owners),
        queues=tuple(
            cluster_values.QueueStatus(name=queue.name, ready=queue.ready, workers=queue.workers)
            for queue in status.queues
        ),
        workers=tuple(
            cluster_values.WorkerStatus(
                session=worker.session,
                name=worker.name,
                queues=tuple(worker.queues),
                leased=worker.leased,
                expire_time=optional_time(worker, "expire_time"),
            )
            for worker in status.workers
        ),
        jobs=status.jobs,
        executions=status.executions,
        dead_letters=status.dead_letters,
        oldest_due_time=optional_time(status, "oldest_due_time"),
        health=enum_value(cluster_values.NodeHealth, cluster_pb2.NodeHealth.Name, status.health, "NODE_HEALTH_"),
        cluster_id=status.cluster_id,
        time_zone_database=status.time_zone_database,
        alarms=tuple(
            cluster_values.Alarm(
                kind=enum_value(cluster_values.AlarmKind, cluster_pb2.AlarmKind.Name, alarm.kind, "ALARM_KIND_"),
                message=alarm.message,
            )
            for alarm in status.alarms
        ),
        kept=cluster_values.Kept(
            skipped_ranges=status.kept.skipped_ranges,
            attempts=status.kept.attempts,
            request_ids=status.kept.request_ids,
            dedup_keys=status.kept.dedup_keys,
            sessions=status.kept.sessions,
        ),
    )


def fill_limit(
    message: limit_pb2.Limit | limit_pb2.DeleteLimitRequest, scope: values.LimitScope, fields: Mapping[str, Any]
) -> None:
    """Raises InvalidField."""
    assign(message, "scope", f"LIMIT_SCOPE_{member_name(values.LimitScope, scope, 'scope')}")
    for field, value in fields.items():
        assign(message, field, value)


def limit_value(limit: limit_pb2.Limit) -> values.Limit:
    return values.Limit(
        scope=enum_value(values.LimitScope, limit_pb2.LimitScope.Name, limit.scope, "LIMIT_SCOPE_"),
        name=limit.name,
        concurrency=limit.concurrency,
        rate_per_s=limit.rate_per_s,
        burst=limit.burst,
        weight=limit.weight,
        leased=limit.leased,
    )


def node_values(nodes: Iterable[cluster_pb2.Node]) -> tuple[cluster_values.NodeStatus, ...]:
    return tuple(
        cluster_values.NodeStatus(
            id=node.id,
            address=node.address,
            connected=node.connected,
            match_index=node.match_index,
            role=enum_value(cluster_values.NodeRole, cluster_pb2.NodeRole.Name, node.role, "NODE_ROLE_"),
        )
        for node in nodes
    )


def _rule(rule: job_pb2.DependencyRule) -> values.DependencyRule:
    return enum_value(values.DependencyRule, job_pb2.DependencyRule.Name, rule, "DEPENDENCY_RULE_")


def _set_retention(message: job_pb2.Retention, retention: values.Retention) -> None:
    # An empty one is none, and the cluster's defaults count.
    message.SetInParent()
    if retention.max_age is not None:
        set_duration(message.max_age, retention.max_age, "max_age")
    assign(message, "max_executions", retention.max_executions)


def _set_retry(message: job_pb2.RetryPolicy, retry: values.RetryPolicy) -> None:
    assign(message, "max_attempts", retry.max_attempts)
    set_duration(message.initial_backoff, retry.initial_backoff, "initial_backoff")
    set_duration(message.max_backoff, retry.max_backoff, "max_backoff")
    assign(message, "multiplier", retry.multiplier)
    assign(message, "jitter", retry.jitter)
    if retry.backoff is not values.Backoff.UNSPECIFIED:
        assign(message, "backoff", f"BACKOFF_{member_name(values.Backoff, retry.backoff, 'backoff')}")
    if retry.max_elapsed is not None:
        set_duration(message.max_elapsed, retry.max_elapsed, "max_elapsed")
    extend(message, "non_retryable_errors", retry.non_retryable_errors)


def _encode_payload(payload: Any) -> tuple[bytes, str]:
    if payload is None:
        return b"", ""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), ""
    if isinstance(payload, str):
        return payload.encode(), _TEXT
    try:
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode(), _JSON
    except (TypeError, ValueError) as error:
        raise InvalidField(f"neither bytes, str nor JSON: {error}", field="payload") from error
