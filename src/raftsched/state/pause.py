"""PauseJob and ResumeJob: nothing of a paused job fires; what came due meanwhile is caught up by the job's policy."""

from collections.abc import Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, JobStateForbids
from raftsched.model.limits import PAUSE_NOTE_MAX_LENGTH
from raftsched.model.transitions import ExecutionState
from raftsched.state import catch_up, due_row, jobs, overlap, schedules
from raftsched.state.context import Context
from raftsched.state.endings import Ended
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.results import JobChanged
from raftsched.store import keys, rows

_PAUSED = bytes((rows.JOB_PAUSED,))
_WAITING = bytes((rows.JOB_WAITING,))
_STARVED = bytes((rows.JOB_STARVED,))
_PAUSABLE = (rows.JOB_WAITING, rows.JOB_STARVED)
_OVER = (rows.JOB_CANCELLED, rows.JOB_COMPLETED)


def apply_pause_job(context: Context, command: command_pb2.PauseJob) -> JobChanged:
    """Raises InvalidField, JobNotFound or JobStateForbids, having written nothing.

    Of a job that is paused already, a note replaces the one that it has.
    """
    if len(command.note) > PAUSE_NOTE_MAX_LENGTH:
        raise InvalidField(f"is longer than {PAUSE_NOTE_MAX_LENGTH} characters", field="note")
    key, row = jobs.find(context, command.job)
    if row[rows.JOB_STATE] == rows.JOB_PAUSED:
        if command.note:
            _note_again(context, key, command.note)
        return JobChanged(command.job)
    if row[rows.JOB_STATE] not in _PAUSABLE:
        raise JobStateForbids("no occurrence of the job is to come that could be paused", job=str(command.job))
    _pause(context, key, row, command.note)
    return JobChanged(command.job)


def apply_resume_job(context: Context, command: command_pb2.ResumeJob) -> JobChanged:
    """Raises JobNotFound or JobStateForbids, having written nothing. Nothing if the job is not paused.

    Fire decides what of the missed occurrences runs.
    """
    key, row = jobs.find(context, command.job)
    if row[rows.JOB_STATE] != rows.JOB_PAUSED:
        if _is_over(context, row):
            raise JobStateForbids("the job will not run again, so it cannot go on", job=str(command.job))
        return JobChanged(command.job)
    _note_resumption(context, key, row)
    starved = keys.starved(keys.unpack_small_id(row[rows.JOB_SCHEDULE]), command.job)
    if context.writer.get(context.tables.starved, starved) is not None:
        context.writer.put(context.tables.jobs, key, _STARVED + row[1:])
        schedules.look_at_starved(context, context.catalog.schedule(row[rows.JOB_SCHEDULE]))
    else:
        row = _WAITING + row[1:]
        context.writer.put(context.tables.jobs, key, row)
        due_row.put(context, key, row)
    context.writer.delete(context.tables.extras, keys.extra(key, keys.EXTRA_FAILURES_IN_A_ROW))
    # What waited in the overlap queue while nothing was to start.
    overlap.start_waiting(context, key)
    return JobChanged(command.job)


def _is_over(context: Context, row: bytes) -> bool:
    if row[rows.JOB_STATE] != rows.JOB_FIRED:
        return row[rows.JOB_STATE] in _OVER
    execution = context.writer.get(context.tables.executions, row[rows.JOB_LAST_EXECUTION])
    return execution is None or execution[rows.EXECUTION_STATUS] in IS_TERMINAL


def follow_failures(context: Context, items: Sequence[Ended], status: ExecutionState) -> None:
    """Pauses jobs that ask for it once so many of their executions in a row have become dead letters."""
    if status == ExecutionState.CANCELLED:
        return
    asking = {
        profile
        for profile in {row[rows.EXECUTION_PROFILE] for _, row in items}
        if context.catalog.profile(profile).message.pause_after_failures
    }
    if not asking:
        return
    for _, row in items:
        if row[rows.EXECUTION_PROFILE] in asking:
            _count(context, row[rows.EXECUTION_JOB], status)


def _count(context: Context, job: bytes, status: ExecutionState) -> None:
    counted = keys.extra(job, keys.EXTRA_FAILURES_IN_A_ROW)
    if status == ExecutionState.SUCCEEDED:
        context.writer.delete(context.tables.extras, counted)
        return
    row = context.writer.get(context.tables.jobs, job)
    if row is None:
        # It is deleted, and this ran behind a long history.
        return
    before = context.writer.get(context.tables.extras, counted)
    failures = 1 + (keys.unpack_small_id(before) if before is not None else 0)
    context.writer.put(context.tables.extras, counted, keys.pack_small_id(failures))
    # The job's own settings count, not those that the execution was fired with.
    allowed = context.catalog.profile(row[rows.JOB_PROFILE]).message.pause_after_failures
    if not allowed or failures < allowed or row[rows.JOB_STATE] not in _PAUSABLE:
        return
    if row[rows.JOB_STATE] == rows.JOB_STARVED or due_row.is_there(context, job, row):
        _pause(context, job, row, f"{failures} executions in a row became dead letters")


def _pause(context: Context, job: bytes, row: bytes, note: str) -> None:
    # A job in starved stays there, so that it is given its next tick; only then is it known what it waits for.
    waits = row[rows.JOB_STATE] == rows.JOB_WAITING
    if waits:
        due_row.remove(context, job, row)
    remember_tick(context, job, row, waits=waits)
    context.writer.put(context.tables.jobs, job, _PAUSED + row[1:])
    pause = rows.PAUSE.pack(context.now_ms, 0) + note.encode()
    context.writer.put(context.tables.extras, keys.extra(job, keys.EXTRA_PAUSE), pause)


def _note_again(context: Context, job: bytes, note: str) -> None:
    key = keys.extra(job, keys.EXTRA_PAUSE)
    before = context.writer.get(context.tables.extras, key)
    if before is not None:
        context.writer.put(context.tables.extras, key, before[: rows.PAUSE.size] + note.encode())


def remember_tick(context: Context, job: bytes, row: bytes, *, waits: bool) -> None:
    """Notes the number of the tick that a cron job waits for, by which those that pass meanwhile are counted."""
    if row[rows.JOB_SCHEDULE] == bytes(4):
        return
    schedule = context.catalog.schedule(row[rows.JOB_SCHEDULE])
    if schedule.every_ms:
        return
    catch_up.keep_ticks(context, job, row)
    if waits:
        number = context.ticks.timetable(schedule).number(keys.unpack_id(row[rows.JOB_SCHEDULED_FOR]))
    else:
        number = context.ticks.last_number(schedule.id) + 1
    if number is not None:
        extra = keys.extra(job, keys.EXTRA_TICK_NUMBER)
        context.writer.put(context.tables.extras, extra, keys.pack_id(number))


def _note_resumption(context: Context, job: bytes, row: bytes) -> None:
    """Leaves behind when it was paused, for as long as a missed occurrence is to be judged by that."""
    extra = keys.extra(job, keys.EXTRA_PAUSE)
    if keys.unpack_id(row[rows.JOB_SCHEDULED_FOR]) > context.now_ms:
        context.writer.delete(context.tables.extras, extra)
        catch_up.caught_up(context, job, row)
        return
    paused_ms = rows.PAUSE.unpack_from(context.writer.get_all(context.tables.extras, [extra])[0])[0]
    context.writer.put(context.tables.extras, extra, rows.PAUSE.pack(paused_ms, context.now_ms))
