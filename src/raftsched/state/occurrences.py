"""Fires due jobs one by one: those whose policies ask for more than a batch can do, or that are late."""

from collections.abc import Iterable

from raftsched.model.jitter import job_jitter_ms
from raftsched.state import catch_up, completion, due_row, overlap, skipped, start_deadline
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.revoke import revoke
from raftsched.state.spawn import spawn
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, worker_pb2

_WAITING = bytes((rows.JOB_WAITING,))
_FIRED = bytes((rows.JOB_FIRED,))
_STARVED = bytes((rows.JOB_STARVED,))
# An occurrence of the schedule, in an execution's row.
_OF_SCHEDULE = 0


def fire_job(context: Context, job_key: bytes) -> None:
    """As fire_jobs, for one."""
    fire_jobs(context, (job_key,))


def fire_jobs(context: Context, job_keys: Iterable[bytes]) -> None:
    """For jobs that wait, and whose due rows have been removed since their time has come."""
    # Shared, since finding where a long catch-up begins is the same for all jobs of a schedule.
    timetables: dict[bytes, Timetable] = {}
    for job_key in job_keys:
        job = context.writer.get_all(context.tables.jobs, [job_key])[0]
        profile = context.catalog.profile(job[rows.JOB_PROFILE])
        label = job[rows.JOB_SCHEDULE]
        if label == bytes(4):
            _fire_one_off(context, profile, job_key, job)
            continue
        if label not in timetables:
            timetables[label] = context.ticks.timetable(context.catalog.schedule(label))
        _fire_tick(context, profile, timetables[label], job_key, job)


def _fire_one_off(context: Context, profile: Profile, job_key: bytes, job: bytes) -> None:
    scheduled_for_ms = keys.unpack_id(job[rows.JOB_SCHEDULED_FOR])
    job = _FIRED + job[1:]
    if not start_deadline.is_over(context, profile, scheduled_for_ms, _OF_SCHEDULE):
        # As in a batch: what runs beside it, such as a trigger, is no reason for its only time to be skipped.
        overlap.start(context, job_key, job, scheduled_for_ms, _OF_SCHEDULE, ignore_overlap=True)
        return
    # What became of a one-off is told by its execution.
    execution, job = spawn(context, job_key, job, scheduled_for_ms, _OF_SCHEDULE)
    row = context.writer.get_all(context.tables.executions, [execution])[0]
    revoke(context, execution, row, worker_pb2.CANCEL_REASON_REQUESTED)
    start_deadline.record(context, job_key, job, scheduled_for_ms, _OF_SCHEDULE)


def _fire_tick(context: Context, profile: Profile, timetable: Timetable, job_key: bytes, job: bytes) -> None:
    tick_ms = keys.unpack_id(job[rows.JOB_SCHEDULED_FOR])
    jitter_ms = job_jitter_ms(keys.unpack_id(job_key), profile.jitter_ms)
    context.writer.delete(context.tables.extras, keys.extra(job_key, keys.EXTRA_PACED))
    if _runs_are_through(context, profile, job_key):
        completion.complete(context, job_key, job)
        return
    until_ms = context.now_ms - jitter_ms
    plan = catch_up.plan(context, profile, timetable, job_key, tick_ms, until_ms)
    if plan.passed:
        skipped.record_passed(
            context, timetable, job_key, tick_ms, plan.passed_last_ms, plan.passed, number=plan.number
        )
    if plan.is_cut_off:
        _wait_for_ticks(context, timetable, job_key, job, plan, tick_ms)
        return
    last_ms = plan.latest_ms
    if plan.fire_ms is not None:
        job, last_ms = _start(context, profile, timetable, job_key, job, plan.fire_ms, plan.latest_ms)
        if _runs_are_through(context, profile, job_key):
            completion.complete(context, job_key, job[:9] + keys.pack_id(plan.fire_ms) + job[17:])
            return
    _wait(context, profile, timetable, job_key, job, last_ms, jitter_ms)


def _start(
    context: Context, profile: Profile, timetable: Timetable, job_key: bytes, job: bytes, fire_ms: int, latest_ms: int
) -> tuple[bytes, int]:
    """Starts the occurrence of a tick, if it may; the job's row, and the last tick that this settles."""
    if start_deadline.is_over(context, profile, fire_ms, _OF_SCHEDULE):
        start_deadline.record(context, job_key, job, fire_ms, _OF_SCHEDULE)
        return job, fire_ms
    started = overlap.start(context, job_key, job, fire_ms, _OF_SCHEDULE)
    if started.skipped and latest_ms > fire_ms:
        # Nothing ends before the others of this moment would have their turn.
        first_ms = timetable.after(fire_ms)
        if first_ms is not None:
            _, _, more = timetable.latest(first_ms, latest_ms)
            reason = execution_pb2.SKIP_REASON_OVERLAP
            skipped.record(context, timetable, job_key, reason, first_ms, latest_ms, more + 1)
            return started.job, latest_ms
    if not started.skipped and profile.message.max_runs:
        key = keys.extra(job_key, keys.EXTRA_RUNS)
        context.writer.put(context.tables.extras, key, keys.pack_id(_runs(context, job_key) + 1))
    return started.job, fire_ms


def _wait_for_ticks(
    context: Context, timetable: Timetable, job_key: bytes, job: bytes, plan: catch_up.Plan, tick_ms: int
) -> None:
    """The first tick that is not settled is found again once the table goes on."""
    fire_ms = plan.fire_ms
    if fire_ms is None:
        after_ms = plan.latest_ms - 1 if timetable.holds(plan.latest_ms) else plan.latest_ms
    elif fire_ms == tick_ms and plan.number is not None:
        after_ms = tick_ms
    else:
        after_ms = fire_ms - 1
    _starve(context, job_key, job, after_ms)


def _wait(
    context: Context,
    profile: Profile,
    timetable: Timetable,
    job_key: bytes,
    job: bytes,
    last_ms: int,
    jitter_ms: int,
) -> None:
    """Puts the job where its next tick will find it: at its time, or later where catching up is paced."""
    next_ms = timetable.after(last_ms)
    if next_ms is None:
        _starve(context, job_key, job, last_ms)
        return
    now_ms, due_ms = context.now_ms, next_ms + jitter_ms
    is_behind = due_ms <= now_ms
    interval_ms = profile.message.catch_up_interval_ms
    if is_behind and interval_ms and catch_up.is_missed(last_ms + jitter_ms, now_ms):
        paced = keys.extra(job_key, keys.EXTRA_PACED)
        context.writer.put(context.tables.extras, paced, keys.pack_id(now_ms + interval_ms))
    job = _WAITING + job[1:9] + keys.pack_id(next_ms) + job[17:]
    context.writer.put(context.tables.jobs, job_key, job)
    due_row.put(context, job_key, job)
    if catch_up.is_missed(due_ms, now_ms):
        catch_up.keep_ticks(context, job_key, job)
    else:
        catch_up.caught_up(context, job_key, job)


def _starve(context: Context, job_key: bytes, job: bytes, last_ms: int) -> None:
    context.writer.put(context.tables.jobs, job_key, _STARVED + job[1:9] + keys.pack_id(last_ms) + job[17:])
    context.writer.put(context.tables.starved, job[rows.JOB_SCHEDULE] + job_key, b"")


def _runs(context: Context, job_key: bytes) -> int:
    value = context.writer.get(context.tables.extras, keys.extra(job_key, keys.EXTRA_RUNS))
    return keys.unpack_id(value) if value is not None else 0


def _runs_are_through(context: Context, profile: Profile, job_key: bytes) -> bool:
    max_runs = profile.message.max_runs
    return bool(max_runs) and _runs(context, job_key) >= max_runs
