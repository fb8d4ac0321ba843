"""UpdateJob and RescheduleJob: a job with other settings. What is due when the schedule changes fires first."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import EtagMismatch, InvalidField, JobStateForbids, NameTaken
from raftsched.model.schedule import next_interval_tick
from raftsched.state import catch_up, create, due_row, jobs, occurrences, overlap, pause, schedules, skipped
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.etag import etag_of
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.results import JobChanged
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2

# Ticks of the old schedule that fire with its change; a job has more only if it stood still, or has a large jitter.
FIRE_AT_ONCE = 200
# Executions under way that keep the payload they were fired with, out of so many that are looked at, newest first.
KEEP_PAYLOADS = 100
LOOK_AT_EXECUTIONS = 1_000

_WAITING = bytes((rows.JOB_WAITING,))
_STARVED = bytes((rows.JOB_STARVED,))
_PAUSED = bytes((rows.JOB_PAUSED,))
_ONE_OFF = bytes(4)
_NEVER_AGAIN = (rows.JOB_CANCELLED,)
_NO_SCHEDULE = (rows.JOB_FIRED, rows.JOB_BLOCKED, rows.JOB_UPSTREAM_FAILED)


def apply_update_job(context: Context, command: command_pb2.UpdateJob) -> JobChanged:
    """Raises InvalidField, JobNotFound, EtagMismatch, JobStateForbids or NameTaken, having written nothing."""
    settings = command.settings
    key, row = jobs.find(context, command.job)
    if etag_of(row, _payload(context, key, row), _every_ms(context, row)) != command.etag:
        raise EtagMismatch(field="etag", job=str(command.job))
    message = _check(context, command, key, row)
    if command.changes_payload and len(_with_its_payload(context, row)) > KEEP_PAYLOADS:
        raise JobStateForbids(
            f"more than {KEEP_PAYLOADS} executions under way need the payload that they were fired with",
            job=str(command.job),
        )
    new = settings.jobs[0]
    changes_schedule = command.changes_schedule and not _is_same_cron(context, settings, row)
    profile = context.catalog.intern_profile(settings.profiles[0], message)
    was_completed = row[rows.JOB_STATE] == rows.JOB_COMPLETED
    # A time that moves is another thing: a job that runs once, and has not yet, just waits for the other one.
    if changes_schedule and (settings.schedules or row[rows.JOB_SCHEDULE] != _ONE_OFF):
        row = _fire_what_is_due(context, key, row)
    if changes_schedule:
        _leave_schedule(context, key, row)
    # What has just fired came due before the change.
    for execution in _with_its_payload(context, row) if command.changes_payload else ():
        overlap.give_payload(context, execution, _payload(context, key, row))
    if command.changes_payload:
        row = _change_payload(context, key, row, new.payload)
    row = _change_profile(context, key, row, profile, moves=not changes_schedule)
    row = _change_tail(context, command, key, row, profile)
    context.writer.put(context.tables.jobs, key, row)
    if changes_schedule:
        _change_schedule(context, settings, key, row)
    if was_completed and changes_schedule:
        # It begins anew.
        context.writer.delete(context.tables.extras, keys.extra(key, keys.EXTRA_RUNS))
    return JobChanged(command.job)


def apply_reschedule_job(context: Context, command: command_pb2.RescheduleJob) -> JobChanged:
    """Raises InvalidField, JobNotFound or JobStateForbids, having written nothing."""
    if not 0 <= command.due_ms < create.MAX_DUE_MS:
        raise InvalidField("is out of range", field="run_at")
    key, row = jobs.find(context, command.job)
    if row[rows.JOB_SCHEDULE] != _ONE_OFF or row[rows.JOB_STATE] not in (rows.JOB_WAITING, rows.JOB_PAUSED):
        raise JobStateForbids("only a job that runs once, and has not yet, can be rescheduled", job=str(command.job))
    if row[rows.JOB_STATE] == rows.JOB_WAITING:
        due_row.remove(context, key, row)
    row = row[:9] + keys.pack_id(command.due_ms) + row[17:]
    context.writer.put(context.tables.jobs, key, row)
    if row[rows.JOB_STATE] == rows.JOB_WAITING:
        due_row.put(context, key, row)
    return JobChanged(command.job)


def _check(context: Context, command: command_pb2.UpdateJob, key: bytes, row: bytes) -> command_pb2.Profile:
    """The profile that the job is to have."""
    settings = command.settings
    if len(settings.jobs) != 1 or len(settings.profiles) != 1 or len(settings.schedules) > 1:
        raise InvalidField("is not one job with its profile", field="settings")
    message = create.check_profile(0, settings.profiles[0])
    for number, new in enumerate(settings.schedules):
        create.check_schedule(context, number, new)
    create.check_jobs(context, settings, [message])
    state = row[rows.JOB_STATE]
    if state in _NEVER_AGAIN:
        raise JobStateForbids("the job is cancelled", job=str(command.job))
    if command.changes_schedule and state in _NO_SCHEDULE:
        raise JobStateForbids("the job has no schedule that could be changed", job=str(command.job))
    before = context.catalog.profile(row[rows.JOB_PROFILE]).message
    for name in ("namespace", "dependency_rule"):
        if getattr(before, name) != getattr(message, name):
            raise InvalidField("cannot be changed", field=name)
    if command.changes_schedule and state == rows.JOB_COMPLETED and not command.changes_name:
        _check_name_is_kept(context, key, row, before.namespace)
    return message


def _is_same_cron(context: Context, settings: command_pb2.CreateJobs, row: bytes) -> bool:
    """The job then goes on to wait for what it waits for, be it between a tick and its jitter."""
    if not settings.schedules or row[rows.JOB_STATE] == rows.JOB_COMPLETED:
        return False
    known = context.writer.get(context.tables.schedule_ids, keys.content(settings.schedules[0].schedule))
    return known == row[rows.JOB_SCHEDULE] and not _every_ms(context, row)


def _check_name_is_kept(context: Context, key: bytes, row: bytes, namespace: str) -> None:
    """A job that was through, and is to run again, may have lost its name to another."""
    name = rows.JobRow.unpack(row).name
    if name and context.writer.get(context.tables.names, keys.job_name(namespace, name)) != key:
        raise NameTaken(field="name")


def _payload(context: Context, key: bytes, row: bytes) -> bytes:
    if row[rows.JOB_PAYLOAD_BYTES] == bytes(3):
        return b""
    return context.writer.get_all(context.tables.payloads, [key])[0]


def _every_ms(context: Context, row: bytes) -> int:
    schedule = row[rows.JOB_SCHEDULE]
    return context.catalog.schedule(schedule).every_ms if schedule != _ONE_OFF else 0


def _with_its_payload(context: Context, row: bytes) -> list[bytes]:
    """The executions of a job that are not finished and have its payload, newest first."""
    found = []
    execution = row[rows.JOB_LAST_EXECUTION]
    for _ in range(LOOK_AT_EXECUTIONS):
        value = context.writer.get(context.tables.executions, execution) if execution != keys.NO_EXECUTION else None
        if value is None:
            break
        is_over = value[rows.EXECUTION_STATUS] in IS_TERMINAL
        if not is_over and not value[rows.EXECUTION_CAUSE] & rows.OWN_PAYLOAD:
            found.append(execution)
        execution = value[8:16]
    return found


def _fire_what_is_due(context: Context, key: bytes, row: bytes) -> bytes:
    """Fires the ticks that have come, also those that their jitter or catch-up still delays; the job's row.

    Of a paused job nothing fires: those that have passed are recorded as skipped.
    """
    for _ in range(FIRE_AT_ONCE):
        if row[rows.JOB_STATE] != rows.JOB_WAITING or not _has_come(context, row):
            break
        due_row.remove(context, key, row)
        occurrences.fire_job(context, key)
        row = context.writer.get_all(context.tables.jobs, [key])[0]
    starved = keys.starved(keys.unpack_small_id(row[rows.JOB_SCHEDULE]), keys.unpack_id(key))
    is_starved = context.writer.get(context.tables.starved, starved) is not None
    if row[rows.JOB_STATE] in (rows.JOB_WAITING, rows.JOB_PAUSED) and not is_starved and _has_come(context, row):
        _record_passed(context, key, row)
    return row


def _has_come(context: Context, row: bytes) -> bool:
    return keys.unpack_id(row[rows.JOB_SCHEDULED_FOR]) <= context.now_ms


def _record_passed(context: Context, key: bytes, row: bytes) -> None:
    is_paused = row[rows.JOB_STATE] == rows.JOB_PAUSED
    reason = execution_pb2.SKIP_REASON_PAUSED if is_paused else execution_pb2.SKIP_REASON_UPDATED
    first_ms = keys.unpack_id(row[rows.JOB_SCHEDULED_FOR])
    if row[rows.JOB_SCHEDULE] == _ONE_OFF:
        return
    timetable = context.ticks.timetable(context.catalog.schedule(row[rows.JOB_SCHEDULE]))
    number = context.writer.get(context.tables.extras, keys.extra(key, keys.EXTRA_TICK_NUMBER))
    last_ms, _, missed = timetable.latest(
        first_ms, context.now_ms, number=keys.unpack_id(number) if number is not None else None
    )
    skipped.record(context, timetable, key, reason, first_ms, last_ms, missed + 1)


def _change_payload(context: Context, key: bytes, row: bytes, payload: bytes) -> bytes:
    if payload:
        context.writer.put(context.tables.payloads, key, payload)
    elif row[rows.JOB_PAYLOAD_BYTES] != bytes(3):
        context.writer.delete(context.tables.payloads, key)
    return row[:17] + len(payload).to_bytes(4, "big") + row[21:]


def _change_profile(context: Context, key: bytes, row: bytes, profile: Profile, *, moves: bool) -> bytes:
    """`moves`: the due row goes where the jitter has it."""
    before = context.catalog.profile(row[rows.JOB_PROFILE])
    changed = row[:21] + keys.pack_small_id(profile.id) + row[25:]
    if changed == row:
        return row
    is_paced = context.writer.get(context.tables.extras, keys.extra(key, keys.EXTRA_PACED)) is not None
    # Where catch-up has put it, it stays, as long as the job is one that is caught up with at a pace.
    paces = profile.message.catch_up == job_pb2.CATCH_UP_POLICY_ALL and profile.message.catch_up_interval_ms > 0
    is_misplaced = not paces if is_paced else before.jitter_ms != profile.jitter_ms
    moves = moves and row[rows.JOB_STATE] == rows.JOB_WAITING and is_misplaced
    if moves:
        due_row.remove(context, key, row)
    context.writer.put(context.tables.jobs, key, changed)
    if moves:
        due_row.put(context, key, changed)
    overlap.policy_changed(context, key, changed)
    return changed


def _change_tail(context: Context, command: command_pb2.UpdateJob, key: bytes, row: bytes, profile: Profile) -> bytes:
    """Name and labels."""
    old = rows.JobRow.unpack(row).name
    new = command.settings.jobs[0]
    if command.changes_name:
        namespace, names = profile.message.namespace, context.tables.names
        if old and context.writer.get(names, keys.job_name(namespace, old)) == key:
            context.writer.delete(names, keys.job_name(namespace, old))
        if new.name:
            context.writer.put(names, keys.job_name(namespace, new.name), key)
    name = new.name if command.changes_name else old
    tail = rows.pack_job_tail(name, new.labels.items()) if name or new.labels else b""
    return row[:45] + len(name.encode()).to_bytes(2, "big") + tail


def _change_schedule(context: Context, settings: command_pb2.CreateJobs, key: bytes, row: bytes) -> None:
    """Has the job, whose due ticks are settled, wait for the first tick of its new schedule."""
    is_paused = row[rows.JOB_STATE] == rows.JOB_PAUSED
    due_ms = max(settings.jobs[0].due_ms, context.now_ms) if not settings.schedules else settings.jobs[0].due_ms
    new_schedule, state = _ONE_OFF, _WAITING
    (pending,) = create.intern_schedules(context, settings) if settings.schedules else (None,)
    if pending is not None:
        new_schedule = keys.pack_small_id(pending.schedule.id)
        if pending.schedule.every_ms:
            if due_ms <= context.now_ms:
                due_ms = next_interval_tick(pending.schedule.every_ms, due_ms, context.now_ms)
            if pending.schedule.end_ms and due_ms >= pending.schedule.end_ms:
                # It has come too late for any tick: the job is completed as one whose ticks have run out.
                due_ms, state = context.now_ms, _STARVED
        elif pending.first_tick_ms is None:
            due_ms, state = context.now_ms, _STARVED
        else:
            due_ms = pending.first_tick_ms
    changed = (_PAUSED if is_paused else state) + row[1:9] + keys.pack_id(due_ms) + row[17:25] + new_schedule + row[29:]
    context.writer.put(context.tables.jobs, key, changed)
    if state == _STARVED:
        context.writer.put(context.tables.starved, new_schedule + key, b"")
        schedules.look_at_starved(context, context.catalog.schedule(new_schedule))
    elif not is_paused:
        due_row.put(context, key, changed)
    if is_paused:
        pause.remember_tick(context, key, changed, waits=state == _WAITING)


def _leave_schedule(context: Context, key: bytes, row: bytes) -> None:
    """Takes the job from wherever it waits for the next tick of its old schedule."""
    if row[rows.JOB_STATE] == rows.JOB_WAITING:
        due_row.remove(context, key, row)
    if row[rows.JOB_SCHEDULE] == _ONE_OFF:
        return
    schedule = context.catalog.schedule(row[rows.JOB_SCHEDULE])
    context.writer.delete(context.tables.starved, keys.starved(schedule.id, keys.unpack_id(key)))
    catch_up.caught_up(context, key, row)
    if row[rows.JOB_STATE] != rows.JOB_COMPLETED:
        context.ticks.use(schedule, -1)
