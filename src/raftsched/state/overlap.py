"""Whether an occurrence may start while others of its job are not finished, and what becomes of it when it may not.

A replay starts in any case, since a person asked for it; like everything else it counts as unfinished afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from raftsched.model.transitions import ExecutionState
from raftsched.state import overlap_queue, skipped, start_deadline, unfinished
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.endings import Ended
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.revoke import revoke
from raftsched.state.spawn import spawn
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2, worker_pb2

# Unfinished executions of one job that one occurrence replaces; more can only come from replays and triggers that
# were to ignore the policy, and the next occurrence goes on with them.
REPLACE_AT_ONCE = 1_000
# How far back a job's history is searched for unfinished executions when its policy is changed.
SEARCH_MAX_EXECUTIONS = 1_000
# What these start stands in an index, since its times need not ascend with the executions' ids.
_OF_SCHEDULE = (0, execution_pb2.EXECUTION_CAUSE_SCHEDULE)
_SKIP = job_pb2.OVERLAP_POLICY_SKIP
_ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
_QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
_REPLACE = job_pb2.OVERLAP_POLICY_REPLACE


@dataclass(frozen=True, slots=True)
class Start:
    """What became of an occurrence; `job` is the job's row as it is now."""

    execution: bytes | None
    # It waits in the job's overlap queue.
    queued: bool
    # It was recorded as skipped.
    skipped: bool
    job: bytes


def start(
    context: Context,
    job_key: bytes,
    job: bytes,
    scheduled_for_ms: int,
    cause: int,
    *,
    profile: bytes | None = None,
    payload: bytes | None = None,
    ignore_overlap: bool = False,
) -> Start:
    """Starts an occurrence under the job's overlap policy; `job` is the job's row as it is now.

    `cause` is a value of raftsched.v1.ExecutionCause, 0 for the schedule. `profile`, the key of one, stands in for the
    job's own, with the same policy; `payload` stands in for the job's.
    """
    settings = context.catalog.profile(job[rows.JOB_PROFILE])
    if not ignore_overlap:
        if is_refused(context, job_key, job):
            reason = execution_pb2.SKIP_REASON_OVERLAP
            skipped.record_one(context, job_key, job, reason, scheduled_for_ms, is_tick=not cause)
            return Start(None, queued=False, skipped=True, job=job)
        if settings.overlap == _QUEUE and _must_wait(context, job_key):
            place = overlap_queue.add(context, job_key, scheduled_for_ms, cause, profile, payload)
            start_deadline.watch_waiting(context, settings, job_key, place, scheduled_for_ms, cause)
            return Start(None, queued=True, skipped=False, job=job)
        if settings.overlap == _REPLACE and _replace(context, job_key):
            # What followed the cancelling may have changed the job.
            job = context.writer.get_all(context.tables.jobs, [job_key])[0]
    execution, job = _spawn(context, settings, job_key, job, scheduled_for_ms, cause, profile, payload)
    return Start(execution, queued=False, skipped=False, job=job)


def is_refused(context: Context, job_key: bytes, job: bytes) -> bool:
    """Whether an occurrence that came now would be skipped, since others of the job are not finished or wait."""
    settings = context.catalog.profile(job[rows.JOB_PROFILE])
    if settings.overlap == _SKIP:
        return job_key in context.tracked or _is_unfinished(context, job[rows.JOB_LAST_EXECUTION])
    if settings.overlap == _ALLOW and settings.overlap_limit:
        return len(unfinished.of_job(context, job_key, settings.overlap_limit)) >= settings.overlap_limit
    if settings.overlap == _QUEUE:
        limit = settings.overlap_limit
        return len(overlap_queue.of_job(context, job_key, limit)) >= limit and _must_wait(context, job_key)
    return False


def start_waiting(context: Context, job_key: bytes) -> None:
    """Starts the next occurrence of the job's overlap queue, if nothing of the job is unfinished and it is not paused.

    Those whose start deadline is over are recorded as skipped on the way.
    """
    if unfinished.of_job(context, job_key, 1):
        return
    job = context.writer.get(context.tables.jobs, job_key)
    if job is None or job[rows.JOB_STATE] in (rows.JOB_PAUSED, rows.JOB_CANCELLED):
        return
    settings = context.catalog.profile(job[rows.JOB_PROFILE])
    while first := overlap_queue.of_job(context, job_key, 1):
        (occurrence,) = first
        overlap_queue.remove(context, job_key, occurrence.place)
        if start_deadline.is_over(context, settings, occurrence.scheduled_for_ms, occurrence.cause):
            start_deadline.record(context, job_key, job, occurrence.scheduled_for_ms, occurrence.cause)
            continue
        _spawn(
            context,
            settings,
            job_key,
            job,
            occurrence.scheduled_for_ms,
            occurrence.cause,
            occurrence.profile,
            occurrence.payload,
        )
        return


def drop_waiting(context: Context, job_key: bytes, job: bytes, reason: int) -> None:
    """Records what waits in the job's overlap queue as skipped for this reason."""
    for occurrence in overlap_queue.of_job(context, job_key):
        overlap_queue.remove(context, job_key, occurrence.place)
        is_tick = not occurrence.cause
        skipped.record_one(context, job_key, job, reason, occurrence.scheduled_for_ms, is_tick=is_tick)


def policy_changed(context: Context, job_key: bytes, job: bytes) -> None:
    """Call when a job's row has come to name another profile: what is unfinished counts under the new policy too."""
    settings = context.catalog.profile(job[rows.JOB_PROFILE])
    for execution in unfinished.of_job(context, job_key):
        unfinished.remove(context, job_key, execution)
    unfinished.untrack(context, job_key)
    if settings.overlap != _QUEUE:
        drop_waiting(context, job_key, job, execution_pb2.SKIP_REASON_UPDATED)
    if not settings.tracks_unfinished and settings.overlap != _SKIP:
        return
    found = _search_unfinished(context, job[rows.JOB_LAST_EXECUTION])
    if settings.tracks_unfinished:
        known = all(context.catalog.profile(row[rows.EXECUTION_PROFILE]).tracks_unfinished for _, row in found)
    else:
        known = all(execution == job[rows.JOB_LAST_EXECUTION] for execution, _ in found)
        found = [] if known else found
    for execution, _ in found:
        unfinished.add(context, job_key, execution)
    if not known:
        unfinished.track(context, job_key)


def follow_ends(context: Context, items: Sequence[Ended], _status: ExecutionState) -> None:
    """What has ended is not unfinished any more; of the jobs with a queue the next one starts."""
    if not unfinished.any_tracked(context):
        return
    profile, tracked = context.catalog.profile, context.tracked
    tracking = {key for key in {row[rows.EXECUTION_PROFILE] for _, row in items} if profile(key).tracks_unfinished}
    if not tracking and not tracked:
        return
    jobs: dict[bytes, None] = {}
    for execution, row in items:
        job_key = row[rows.EXECUTION_JOB]
        if row[rows.EXECUTION_PROFILE] in tracking or job_key in tracked:
            unfinished.remove(context, job_key, execution)
            jobs[job_key] = None
    for job_key in jobs:
        if not unfinished.of_job(context, job_key, 1):
            unfinished.untrack(context, job_key)
            start_waiting(context, job_key)


def _must_wait(context: Context, job_key: bytes) -> bool:
    return bool(unfinished.of_job(context, job_key, 1) or overlap_queue.of_job(context, job_key, 1))


def _is_unfinished(context: Context, execution: bytes) -> bool:
    if execution == keys.NO_EXECUTION:
        return False
    row = context.writer.get(context.tables.executions, execution)
    return row is not None and row[rows.EXECUTION_STATUS] not in IS_TERMINAL


def _replace(context: Context, job_key: bytes) -> bool:
    """Cancels what is unfinished of the job; whether anything was."""
    executions = unfinished.of_job(context, job_key, REPLACE_AT_ONCE)
    for execution in executions:
        row = context.writer.get_all(context.tables.executions, [execution])[0]
        revoke(context, execution, row, worker_pb2.CANCEL_REASON_REPLACED)
    return bool(executions)


def _spawn(
    context: Context,
    settings: Profile,
    job_key: bytes,
    job: bytes,
    scheduled_for_ms: int,
    cause: int,
    profile: bytes | None,
    payload: bytes | None,
) -> tuple[bytes, bytes]:
    before = job[rows.JOB_LAST_EXECUTION]
    was_unfinished = settings.overlap == _SKIP and _is_unfinished(context, before)
    execution, job = spawn(context, job_key, job, scheduled_for_ms, cause, profile=profile)
    if payload is not None:
        give_payload(context, execution, payload)
    if settings.tracks_unfinished or job_key in context.tracked:
        unfinished.add(context, job_key, execution)
        if profile is not None and not context.catalog.profile(profile).tracks_unfinished:
            unfinished.track(context, job_key)
    elif was_unfinished:
        # Two at once: from now on it is not enough to look at the newest.
        unfinished.track(context, job_key)
        unfinished.add(context, job_key, before)
        unfinished.add(context, job_key, execution)
    if cause not in _OF_SCHEDULE:
        context.writer.put(context.tables.extras, keys.extra_beside(job_key, scheduled_for_ms, execution), b"")
    start_deadline.watch(context, settings, execution, scheduled_for_ms, cause)
    return execution, job


def give_payload(context: Context, execution: bytes, payload: bytes) -> None:
    """For an execution that has its job's: from now on it has this one, whatever becomes of the job's."""
    row = context.writer.get_all(context.tables.executions, [execution])[0]
    cause = bytes((row[rows.EXECUTION_CAUSE] | rows.OWN_PAYLOAD,))
    value = row[: rows.EXECUTION_CAUSE] + cause + len(payload).to_bytes(3, "big") + row[28:]
    context.writer.put(context.tables.executions, execution, value)
    context.writer.put(context.tables.execution_payloads, execution, payload)


def _search_unfinished(context: Context, newest: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    execution = newest
    for _ in range(SEARCH_MAX_EXECUTIONS):
        row = context.writer.get(context.tables.executions, execution) if execution != keys.NO_EXECUTION else None
        if row is None:
            break
        if row[rows.EXECUTION_STATUS] not in IS_TERMINAL:
            found.append((execution, row))
        execution = row[8:16]
    return found
