"""CreateJobs: validated whole, then written in one pass; all jobs or none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField, NameTaken
from raftsched.model.jitter import job_jitter_ms
from raftsched.state import calendars, dependents, idempotency, workflows
from raftsched.state.catalog import Profile, Schedule
from raftsched.state.context import Context
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.results import JobsCreated, KeyConflict
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2

# Room above the latest time for jitter, so that no due time is out of range.
MAX_DUE_MS = keys.MAX_MS - limits.YEAR_MS
_POLICIES = {
    "overlap": tuple(job_pb2.OverlapPolicy.values())[1:],
    "catch_up": tuple(job_pb2.CatchUpPolicy.values())[1:],
}


@dataclass(slots=True)
class _Pending:
    """A schedule of the request, interned, with what its jobs begin with."""

    schedule: Schedule
    # The first tick of a cron schedule after now, if it is known already.
    first_tick_ms: int | None
    jobs: int


def apply_create_jobs(context: Context, command: command_pb2.CreateJobs) -> JobsCreated | KeyConflict:
    """Raises InvalidField or NameTaken, having written nothing."""
    known = idempotency.find(context, command.key_namespace, command.key) if command.key else None
    if known is not None:
        if known.fingerprint == command.fingerprint:
            return JobsCreated(known.job_ids, existed=True)
        return KeyConflict(known.job_ids)
    profiles = [check_profile(number, data) for number, data in enumerate(command.profiles)]
    for number, new in enumerate(command.schedules):
        check_schedule(context, number, new)
    if command.key and len(command.fingerprint) != idempotency.FINGERPRINT_BYTES:
        raise InvalidField("is not 16 bytes", field="fingerprint")
    if not 1 <= len(command.jobs) <= limits.BATCH_MAX_JOBS:
        raise InvalidField(f"holds {len(command.jobs)} jobs", field="jobs")
    names = check_jobs(context, command, profiles)
    plan = dependents.check(context, command, profiles)
    workflows.check(command)

    used = sorted({job.profile for job in command.jobs})
    interned = {at: context.catalog.intern_profile(command.profiles[at], profiles[at]) for at in used}
    schedules = intern_schedules(context, command)
    first = _write_jobs(context, command, interned, schedules)
    if plan is not None:
        dependents.write(context, plan, first)
    if command.nodes:
        workflows.write(context, command.nodes, first)
    if names:
        name_keys = list(names)
        context.writer.put_many(
            context.tables.names, name_keys, [keys.pack_id(first + names[key]) for key in name_keys]
        )
    if command.key:
        idempotency.remember(context, command.key_namespace, command.key, command.fingerprint, first, len(command.jobs))
    return JobsCreated(range(first, first + len(command.jobs)), existed=False)


def check_profile(number: int, data: bytes) -> command_pb2.Profile:
    """The profile. Raises InvalidField."""
    field = f"profiles[{number}]"
    try:
        profile = command_pb2.Profile.FromString(data)
    except DecodeError:
        raise InvalidField("cannot be read", field=field) from None
    for name in ("namespace", "queue", "tenant", "handler"):
        if len(getattr(profile, name).encode()) > keys.MAX_INTERNED_BYTES:
            raise InvalidField("is too long", field=f"{field}.{name}")
    # Interned with the namespace, and a byte between them.
    if len(f"{profile.namespace}{profile.concurrency_key}".encode()) >= keys.MAX_INTERNED_BYTES:
        raise InvalidField("is too long", field=f"{field}.concurrency_key")
    if bool(profile.concurrency_key) != bool(profile.concurrency_limit):
        raise InvalidField("goes with concurrency_limit, and not without", field=f"{field}.concurrency_key")
    for name, low, high in (
        ("priority", 0, limits.PRIORITY_MAX),
        ("max_attempts", 1, limits.MAX_ATTEMPTS_MAX),
        ("initial_backoff_ms", 0, limits.BACKOFF_MAX_MS),
        ("max_backoff_ms", 0, limits.BACKOFF_MAX_MS),
        ("run_timeout_ms", 0, limits.RUN_TIMEOUT_MAX_MS),
        ("jitter_ms", 0, limits.JITTER_MAX_MS),
        ("overlap_limit", 0, limits.OVERLAP_LIMIT_MAX),
        ("catch_up_window_ms", 0, limits.CATCH_UP_WINDOW_MAX_MS),
        ("catch_up_limit", 0, limits.CATCH_UP_MAX),
        ("catch_up_interval_ms", 0, limits.CATCH_UP_INTERVAL_MAX_MS),
        ("concurrency_limit", 0, limits.CONCURRENCY_MAX),
        ("start_deadline_ms", 0, limits.START_DEADLINE_MAX_MS),
        ("max_elapsed_ms", 0, limits.MAX_ELAPSED_MAX_MS),
        ("retention_age_ms", 0, limits.RETENTION_AGE_MAX_MS),
        ("retention_executions", 0, limits.RETENTION_EXECUTIONS_MAX),
        ("backoff", 0, job_pb2.BACKOFF_LINEAR),
    ):
        if not low <= getattr(profile, name) <= high:
            raise InvalidField(f"is not from {low} to {high}", field=f"{field}.{name}")
    for name in ("multiplier", "backoff_jitter"):
        if not math.isfinite(getattr(profile, name)):
            raise InvalidField("is not a number", field=f"{field}.{name}")
    for name, allowed in _POLICIES.items():
        if getattr(profile, name) not in allowed:
            raise InvalidField("is not a policy that can be carried out", field=f"{field}.{name}")
    return profile


def check_schedule(context: Context, number: int, new: command_pb2.NewSchedule) -> None:
    """Raises InvalidField."""
    field = f"schedules[{number}]"
    try:
        schedule = command_pb2.Schedule.FromString(new.schedule)
    except DecodeError:
        raise InvalidField("cannot be read", field=field) from None
    if bool(schedule.expression) == bool(schedule.every_ms):
        raise InvalidField("is not either an expression or an interval", field=field)
    if not 0 <= schedule.end_ms < MAX_DUE_MS:
        raise InvalidField("is out of range", field=f"{field}.end_ms")
    if schedule.expression:
        if not new.ticks_ms:
            raise InvalidField("never fires", field=f"{field}.expression")
        check_ticks(new.ticks_ms, f"{field}.ticks_ms", after_ms=-1)
        calendars.check_calendars(context, schedule, field)
    elif not limits.INTERVAL_MIN_MS <= schedule.every_ms <= limits.INTERVAL_MAX_MS:
        raise InvalidField("is out of range", field=f"{field}.every_ms")


def tick_table(rules: command_pb2.TickRules, *, is_final: bool = False) -> rows.TickTableRow:
    """As the store keeps it."""
    return rows.TickTableRow(is_final, rules.calendars_version, rules.time_zone_database)


def check_ticks(ticks_ms: Sequence[int], field: str, *, after_ms: int) -> None:
    """Raises InvalidField unless the ticks ascend, are later than `after_ms`, and are times."""
    previous_ms = after_ms
    for tick_ms in ticks_ms:
        if not previous_ms < tick_ms < MAX_DUE_MS:
            raise InvalidField("does not ascend or is out of range", field=field)
        previous_ms = tick_ms


def check_jobs(
    context: Context, command: command_pb2.CreateJobs, profiles: list[command_pb2.Profile]
) -> dict[bytes, int]:
    """The names that are taken by this command, each with the number of its job in it.

    Raises InvalidField and NameTaken.
    """
    names: dict[bytes, int] = {}
    ends_ms = [_interval_end_ms(new) for new in command.schedules]
    for number, job in enumerate(command.jobs):
        field = f"jobs[{number}]"
        if job.profile >= len(profiles):
            raise InvalidField("is not one of the profiles", field=f"{field}.profile")
        if job.schedule > len(command.schedules):
            raise InvalidField("is not one of the schedules", field=f"{field}.schedule")
        if not 0 <= job.due_ms < MAX_DUE_MS:
            raise InvalidField("is out of range", field=f"{field}.due_ms")
        if job.schedule and job.due_ms >= ends_ms[job.schedule - 1]:
            raise InvalidField("is not before the schedule's end", field=f"{field}.due_ms")
        if len(job.payload) > limits.PAYLOAD_MAX_BYTES:
            raise InvalidField(f"is larger than {limits.PAYLOAD_MAX_BYTES} bytes", field=f"{field}.payload")
        if len(job.name) > limits.NAME_MAX_LENGTH:
            raise InvalidField("is too long", field=f"{field}.name")
        for label, value in job.labels.items():
            # Lengths in rows are one and two bytes.
            if len(label.encode()) > 0xFF or len(value.encode()) > 0xFFFF:
                raise InvalidField("is too long", field=f"{field}.labels")
        if job.name:
            key = keys.job_name(profiles[job.profile].namespace, job.name)
            if key in names or _is_taken(context, key):
                raise NameTaken(field=f"{field}.name")
            names[key] = number
    return names


def _interval_end_ms(new: command_pb2.NewSchedule) -> int:
    """From then on an interval does not tick; of a cron schedule its ticks say that."""
    schedule = command_pb2.Schedule.FromString(new.schedule)
    return schedule.end_ms if schedule.every_ms and schedule.end_ms else keys.MAX_MS


def _is_taken(context: Context, name_key: bytes) -> bool:
    """Whether the newest job of that name is neither cancelled nor finished."""
    holder = context.writer.get(context.tables.names, name_key)
    if holder is None:
        return False
    job = rows.JobRow.unpack(context.writer.get_all(context.tables.jobs, [holder])[0])
    if job.state in (rows.JOB_CANCELLED, rows.JOB_COMPLETED):
        return False
    if job.state == rows.JOB_FIRED:
        last = context.writer.get_all(context.tables.executions, [keys.pack_id(job.last_execution)])[0]
        return last[rows.EXECUTION_STATUS] not in IS_TERMINAL
    return True


def intern_schedules(context: Context, command: command_pb2.CreateJobs) -> list[_Pending | None]:
    """One for each schedule of the command; None where no job uses it."""
    counts = [0] * (len(command.schedules) + 1)
    for job in command.jobs:
        counts[job.schedule] += 1
    pending: list[_Pending | None] = []
    for new, jobs in zip(command.schedules, counts[1:], strict=True):
        if not jobs:
            pending.append(None)
            continue
        schedule, _ = context.catalog.intern_schedule(new.schedule)
        users_before = context.ticks.use(schedule, jobs)
        first_tick_ms = None
        if not schedule.every_ms:
            if not users_before:
                context.ticks.replace(schedule, list(new.ticks_ms), tick_table(new.rules, is_final=new.final))
            first_tick_ms = context.ticks.timetable(schedule).after(context.now_ms)
        pending.append(_Pending(schedule, first_tick_ms, jobs))
    return pending


def _write_jobs(
    context: Context,
    command: command_pb2.CreateJobs,
    profiles: dict[int, Profile],
    schedules: list[_Pending | None],
) -> int:
    """Writes the rows of all jobs; the first one's id."""
    first = context.state.jobs + 1
    now_ms = context.now_ms
    job_rows = []
    due_first: list[bytes] = []
    due_tick: list[bytes] = []
    starved: list[bytes] = []
    payload_keys, payloads = [], []
    pack = rows.JOB.pack
    for number, job in enumerate(command.jobs, first):
        profile = profiles[job.profile]
        pending = schedules[job.schedule - 1] if job.schedule else None
        scheduled_for_ms, state = job.due_ms, rows.JOB_WAITING
        if pending is not None and not pending.schedule.every_ms:
            if pending.first_tick_ms is None:
                scheduled_for_ms, state = now_ms, rows.JOB_STARVED
                starved.append(keys.starved(pending.schedule.id, number))
            else:
                scheduled_for_ms = pending.first_tick_ms
        if profile.depends:
            scheduled_for_ms, state = 0, rows.JOB_BLOCKED
        if state == rows.JOB_WAITING:
            jitter_ms = job_jitter_ms(number, profile.jitter_ms) if profile.jitter_ms else 0
            (due_first if pending is None else due_tick).append(keys.due(number, scheduled_for_ms + jitter_ms))
        schedule_id = pending.schedule.id if pending is not None else 0
        name = job.name.encode()
        row = pack(state, 0, scheduled_for_ms, len(job.payload), profile.id, schedule_id, now_ms, 0, len(name))
        if name or job.labels:
            row += rows.pack_job_tail(job.name, job.labels.items())
        job_rows.append(row)
        if job.payload:
            payload_keys.append(keys.pack_id(number))
            payloads.append(job.payload)
    writer, tables = context.writer, context.tables
    writer.put_many(tables.jobs, keys.pack_id_range(first, len(job_rows)), job_rows, append=True)
    for due, kind in ((due_first, rows.DUE_FIRST), (due_tick, rows.DUE_TICK)):
        if due:
            due.sort()
            writer.put_same(tables.due, due, kind)
    if payloads:
        writer.put_many(tables.payloads, payload_keys, payloads, append=True)
    if starved:
        writer.put_same(tables.starved, sorted(starved), b"")
    context.state.jobs += len(job_rows)
    return first
