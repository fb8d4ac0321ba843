"""ExtendTicks: a schedule's table grows, and the jobs that had run out of ticks wait for their next one again.

A table may be final: jobs that run out of its ticks are completed.
"""

from collections.abc import Sequence
from itertools import islice

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.model.jitter import job_jitter_ms
from raftsched.state import catch_up, completion, due
from raftsched.state.catalog import Schedule
from raftsched.state.context import Context, grouped
from raftsched.state.create import check_ticks, tick_table
from raftsched.state.results import Done
from raftsched.store import keys, rows

# Starved jobs stamped by the command that brings their ticks; Tick goes on with the others.
STAMP_AT_ONCE = 1_000

_WAITING = bytes((rows.JOB_WAITING,))
_ALL_SHARDS = range(keys.SHARDS)


def apply_extend_ticks(context: Context, command: command_pb2.ExtendTicks) -> Done:
    """Void when the schedule is not in use, its table is final, does not end at `after_ms` or has other rules.

    Raises InvalidField, having written nothing.
    """
    check_ticks(command.ticks_ms, "ticks_ms", after_ms=command.after_ms)
    if command.omitted > keys.MAX_MS // limits.SECOND_MS:
        raise InvalidField("is out of range", field="omitted")
    schedule = context.catalog.find_schedule(keys.pack_small_id(command.schedule))
    if schedule is None or schedule.every_ms or not (command.ticks_ms or command.final):
        return Done()
    if not context.ticks.rules.is_used(schedule.id):
        return Done()
    table = context.ticks.rules.of(schedule.id)
    if table.is_final or table != tick_table(command.rules) or context.ticks.last(schedule.id) != command.after_ms:
        return Done()
    context.ticks.append(schedule, list(command.ticks_ms), omitted=command.omitted, is_final=command.final)
    look_at_starved(context, schedule)
    _stamp(context, schedule, STAMP_AT_ONCE)
    _trim(context, schedule)
    return Done()


def look_at_starved(context: Context, schedule: Schedule) -> None:
    """Its starved jobs may have a next tick now, or will never have one: stamp_some goes through them."""
    context.writer.put(context.tables.meta, keys.meta_stamping(schedule.id), keys.pack_id(0))


def has_stampable(context: Context) -> bool:
    """Whether starved jobs may have ticks now that they have not been given yet."""
    cursor = context.writer.cursor(context.tables.meta)
    return cursor.set_range(keys.META_STAMPING) and cursor.key().startswith(keys.META_STAMPING)


def stamp_some(context: Context, limit: int) -> None:
    """Gives up to `limit` starved jobs their next tick, or completes them."""
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
    rest = found.pop()[4:] if len(found) > limit else None
    if found:
        _stamp_jobs(context, schedule, found)
    # After that, which asks for the starved jobs of a schedule that has ended to be looked at: they have been.
    if rest is not None:
        writer.put(tables.meta, place, rest)
    else:
        writer.delete(tables.meta, place)
    return max(len(found), 1)


def _stamp_jobs(context: Context, schedule: Schedule, starved: list[bytes]) -> None:
    writer, tables = context.writer, context.tables
    timetable = context.ticks.timetable(schedule)
    found = writer.get_all(tables.jobs, [key[4:] for key in starved])
    job_keys, job_values, due_keys, gone = [], [], [], []
    for tick, jobs in grouped([row[9:17] for row in found], list(zip(starved, found, strict=True))):
        next_ms = timetable.after(keys.unpack_id(tick))
        if next_ms is None:
            if timetable.has_ended():
                _complete(context, jobs)
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


def _complete(context: Context, jobs: Sequence[tuple[bytes, bytes]]) -> None:
    """Ends jobs that no tick comes for any more; those that are paused once they are resumed."""
    over = [(key, row) for key, row in jobs if row[rows.JOB_STATE] == rows.JOB_STARVED]
    if over:
        context.writer.delete_many(context.tables.starved, [key for key, _ in over])
    for key, row in over:
        completion.complete(context, key[4:], row)


def _trim(context: Context, schedule: Schedule) -> None:
    """Deletes the ticks that no job can need any more.

    A job that waits needs those from the one it waits for, and its row is due at most the longest jitter later. One
    that is paused needs the latest, and if it catches up with more than that, the latest ones.
    """
    cursor = context.writer.cursor(context.tables.starved)
    prefix = keys.pack_small_id(schedule.id)
    if cursor.set_range(prefix) and cursor.key().startswith(prefix):
        return
    oldest_ms = due.next_due_ms(context, _ALL_SHARDS)
    needed_ms = context.now_ms if oldest_ms is None else min(oldest_ms, context.now_ms)
    kept = limits.CATCH_UP_MAX if catch_up.needs_old_ticks(context, schedule.id) else 1
    newest = context.ticks.timetable(schedule).newest_number(context.now_ms)
    context.ticks.trim(schedule, needed_ms - limits.JITTER_MAX_MS, newest - kept + 1)
