"""ReplaceTicks: the coming ticks of a schedule become others, and the jobs that wait for one of them wait for theirs.

What comes up to a time that the leader chooses stays as it was: it lets jobs be found and changed before their tick is
due. No index leads from a schedule to the jobs that wait for its ticks, since keeping one would cost at every firing;
they are searched for among all jobs, a bounded number per command.
"""

from itertools import islice

from raftsched.internal.v1 import command_pb2
from raftsched.state import due_row, schedules
from raftsched.state.context import Context
from raftsched.state.create import check_ticks, tick_table
from raftsched.state.results import Done
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2

# Executions of one job looked at, newest first, for the last one that was a tick's.
_MAX_EXECUTIONS = 100
_NOT_OF_SCHEDULE = (
    execution_pb2.EXECUTION_CAUSE_TRIGGER,
    execution_pb2.EXECUTION_CAUSE_BACKFILL,
    execution_pb2.EXECUTION_CAUSE_REPLAY,
)
_STARVED = bytes((rows.JOB_STARVED,))


def apply_replace_ticks(context: Context, command: command_pb2.ReplaceTicks) -> Done:
    """Void when the schedule is not in use, or its table does not follow from the rules that are to be replaced.

    Raises InvalidField, having written nothing.
    """
    check_ticks(command.ticks_ms, "ticks_ms", after_ms=command.after_ms)
    schedule = context.catalog.find_schedule(keys.pack_small_id(command.schedule))
    if schedule is None or schedule.every_ms or not (command.ticks_ms or command.final):
        return Done()
    if not context.ticks.rules.is_used(schedule.id):
        return Done()
    before = context.ticks.rules.of(schedule.id)
    if tick_table(command.replaced, is_final=before.is_final) != before:
        return Done()
    # What is due by now has fired, or will; beyond the table's end nothing has.
    after_ms = max(command.after_ms, min(context.now_ms, context.ticks.last(schedule.id)))
    ticks_ms = [tick_ms for tick_ms in command.ticks_ms if tick_ms > after_ms]
    context.ticks.replace_after(schedule, after_ms, ticks_ms, tick_table(command.rules, is_final=command.final))
    writer, tables = context.writer, context.tables
    writer.put(tables.meta, keys.meta_restamp_after(schedule.id), keys.pack_id(after_ms))
    writer.put(tables.meta, keys.META_RESTAMPING, keys.pack_id(0))
    schedules.look_at_starved(context, schedule)
    return Done()


def is_under_way(context: Context) -> bool:
    """Whether jobs remain to be looked at."""
    return context.writer.get(context.tables.meta, keys.META_RESTAMPING) is not None


def restamp_some(context: Context, limit: int) -> None:
    """Looks at up to `limit` jobs; those that wait for a tick that has changed wait for their next one."""
    writer, tables = context.writer, context.tables
    place = writer.get(tables.meta, keys.META_RESTAMPING)
    if place is None or not limit:
        return
    changed = _changed(context)
    cursor = writer.cursor(tables.jobs)
    found = list(islice(cursor.iternext(), limit + 1)) if cursor.set_range(place) else []
    if len(found) > limit:
        writer.put(tables.meta, keys.META_RESTAMPING, found.pop()[0])
    else:
        writer.delete(tables.meta, keys.META_RESTAMPING)
        for schedule in changed:
            writer.delete(tables.meta, keys.META_RESTAMP_AFTER + schedule)
    timetables: dict[bytes, Timetable] = {}
    for key, row in found:
        schedule = row[rows.JOB_SCHEDULE]
        after_ms = changed.get(schedule)
        if after_ms is None or row[rows.JOB_STATE] not in (rows.JOB_WAITING, rows.JOB_PAUSED):
            continue
        if keys.unpack_id(row[rows.JOB_SCHEDULED_FOR]) > after_ms:
            if schedule not in timetables:
                timetables[schedule] = context.ticks.timetable(context.catalog.schedule(schedule))
            _restamp(context, timetables[schedule], key, row, after_ms)


def _changed(context: Context) -> dict[bytes, int]:
    """The schedules whose ticks have changed, and since when."""
    changed = {}
    cursor = context.writer.cursor(context.tables.meta)
    if cursor.set_range(keys.META_RESTAMP_AFTER):
        for key, value in cursor.iternext():
            if not key.startswith(keys.META_RESTAMP_AFTER):
                break
            changed[key[len(keys.META_RESTAMP_AFTER) :]] = keys.unpack_id(value)
    return changed


def _restamp(context: Context, timetable: Timetable, key: bytes, row: bytes, after_ms: int) -> None:
    """The job waits for the first tick that it has not had."""
    waits_for_ms = keys.unpack_id(row[rows.JOB_SCHEDULED_FOR])
    if timetable.after(after_ms) == waits_for_ms:
        return
    had_ms = max(after_ms, _last_had_ms(context, key, row))
    next_ms = timetable.after(had_ms)
    if next_ms == waits_for_ms:
        return
    is_paused = row[rows.JOB_STATE] == rows.JOB_PAUSED
    if not is_paused:
        due_row.remove(context, key, row)
    if next_ms is not None:
        row = row[:9] + keys.pack_id(next_ms) + row[17:]
        context.writer.put(context.tables.jobs, key, row)
        if is_paused:
            _renumber(context, timetable, key, next_ms)
        else:
            due_row.put(context, key, row)
        return
    row = (row[:1] if is_paused else _STARVED) + row[1:9] + keys.pack_id(had_ms) + row[17:]
    context.writer.put(context.tables.jobs, key, row)
    context.writer.put(context.tables.starved, row[rows.JOB_SCHEDULE] + key, b"")


def _renumber(context: Context, timetable: Timetable, key: bytes, tick_ms: int) -> None:
    """A paused job knows the number of the tick that it waits for."""
    extra, number = keys.extra(key, keys.EXTRA_TICK_NUMBER), timetable.number(tick_ms)
    if number is not None and context.writer.get(context.tables.extras, extra) is not None:
        context.writer.put(context.tables.extras, extra, keys.pack_id(number))


def _last_had_ms(context: Context, key: bytes, row: bytes) -> int:
    """The latest time up to which the job has had its ticks: created, fired or skipped."""
    had_ms = rows.JobRow.unpack(row).created_ms
    execution = row[rows.JOB_LAST_EXECUTION]
    for _ in range(_MAX_EXECUTIONS):
        if execution == keys.NO_EXECUTION:
            break
        found = context.writer.get(context.tables.executions, execution)
        if found is None:
            break
        if found[rows.EXECUTION_CAUSE] not in _NOT_OF_SCHEDULE:
            had_ms = max(had_ms, keys.unpack_id(found[16:24]))
            break
        execution = found[8:16]
    cursor = context.writer.cursor(context.tables.skipped)
    found_later = cursor.set_range(key + keys.pack_id(keys.MAX_ID))
    if (cursor.prev() if found_later else cursor.last()) and cursor.key()[: keys.ID_BYTES] == key:
        had_ms = max(had_ms, rows.SkippedRow.unpack(cursor.value()).last_scheduled_for_ms)
    return had_ms
