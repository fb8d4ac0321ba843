"""ExtendTicks: a schedule's table grows, and the jobs that had run out of ticks wait for their next one again."""

from itertools import islice

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.jitter import job_jitter_ms
from raftsched.state import due
from raftsched.state.catalog import Schedule
from raftsched.state.context import Context, grouped
from raftsched.state.create import check_ticks
from raftsched.state.results import Done
from raftsched.store import keys, rows

# Starved jobs stamped by the command that brings their ticks; Tick goes on with the others.
STAMP_AT_ONCE = 1_000

_WAITING = bytes((rows.JOB_WAITING,))
_ALL_SHARDS = range(keys.SHARDS)


def apply_extend_ticks(context: Context, command: command_pb2.ExtendTicks) -> Done:
    """Void when the schedule is unknown or its table does not end at `after_ms`.

    Raises InvalidField, having written nothing.
    """
    check_ticks(command.ticks_ms, "ticks_ms", after_ms=command.after_ms)
    schedule = context.catalog.find_schedule(keys.pack_small_id(command.schedule))
    if schedule is None or schedule.every_ms or not command.ticks_ms:
        return Done()
    if context.ticks.last(schedule.id) != command.after_ms:
        return Done()
    context.ticks.append(schedule, list(command.ticks_ms))
    context.writer.put(context.tables.meta, keys.meta_stamping(schedule.id), keys.pack_id(0))
    _stamp(context, schedule, STAMP_AT_ONCE)
    _trim(context, schedule)
    return Done()


def has_stampable(context: Context) -> bool:
    """Whether starved jobs may have ticks now that they have not been given yet."""
    cursor = context.writer.cursor(context.tables.meta)
    return cursor.set_range(keys.META_STAMPING) and cursor.key().startswith(keys.META_STAMPING)


def stamp_some(context: Context, limit: int) -> None:
    """Gives up to `limit` starved jobs their next tick."""
    cursor = context.writer.cursor(context.tables.meta)
    while limit and cursor.set_range(keys.META_STAMPING) and cursor.key().startswith(keys.META_STAMPING):
        limit -= _stamp(context, context.catalog.schedule(cursor.key()[len(keys.META_STAMPING) :]), limit)


def _stamp(context: Context, schedule: Schedule, limit: int) -> int:
    """Looks at up to `limit` of a schedule's starved jobs, from where the last look ended; how many it looked at."""
    writer, tables = context.writer, context.tables
    place = keys.meta_stamping(schedule.id)
    from_job = keys.unpack_id(writer.get(tables.meta, place) or keys.pack_id(0))
    prefix = keys.pack_small_id(schedule.id)
    cursor = writer.cursor(tables.starved)
    found = []
    if cursor.set_range(keys.starved(schedule.id, from_job)):
        found = [key for key in islice(cursor.iternext(values=False), limit + 1) if key.startswith(prefix)]
    if len(found) > limit:
        writer.put(tables.meta, place, found.pop()[4:])
    else:
        writer.delete(tables.meta, place)
    if found:
        _stamp_jobs(context, schedule, found)
    return max(len(found), 1)


def _stamp_jobs(context: Context, schedule: Schedule, starved: list[bytes]) -> None:
    writer, tables = context.writer, context.tables
    timetable = context.ticks.timetable(schedule)
    found = writer.get_all(tables.jobs, [key[4:] for key in starved])
    job_keys, job_values, due_keys, gone = [], [], [], []
    for tick, jobs in grouped([row[9:17] for row in found], list(zip(starved, found, strict=True))):
        next_ms = timetable.after(keys.unpack_id(tick))
        if next_ms is None:
            continue
        following = keys.pack_id(next_ms)
        for key, row in jobs:
            job = keys.unpack_id(key[4:])
            jitter_ms = job_jitter_ms(job, context.catalog.profile(row[rows.JOB_PROFILE]).jitter_ms)
            is_paused = row[rows.JOB_STATE] == rows.JOB_PAUSED
            if not is_paused:
                due_keys.append(keys.due(job, next_ms + jitter_ms))
            job_values.append((row[:1] if is_paused else _WAITING) + row[1:9] + following + row[17:])
            job_keys.append(key[4:])
            gone.append(key)
    if gone:
        writer.delete_many(tables.starved, gone)
        writer.put_many(tables.jobs, job_keys, job_values)
        writer.put_same(tables.due, due_keys, rows.DUE_TICK)


def _trim(context: Context, schedule: Schedule) -> None:
    """Deletes the ticks that no job can need any more.

    A job that waits needs those from the one it waits for, and its row is due at most the longest jitter later.
    """
    cursor = context.writer.cursor(context.tables.starved)
    prefix = keys.pack_small_id(schedule.id)
    if cursor.set_range(prefix) and cursor.key().startswith(prefix):
        return
    oldest_ms = due.next_due_ms(context, _ALL_SHARDS)
    needed_ms = context.now_ms if oldest_ms is None else min(oldest_ms, context.now_ms)
    context.ticks.trim(schedule, needed_ms - limits.JITTER_MAX_MS)
