"""Occurrences that did not run, recorded with the reason, neighbours as one range."""

from raftsched.state.context import Context
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2


def record(
    context: Context, timetable: Timetable, job: bytes, reason: int, first_ms: int, last_ms: int, count: int
) -> None:
    """Records `count` occurrences of a job (its key) from `first_ms` to `last_ms`.

    A range of the same reason that ends with the tick before `first_ms` is made longer.
    """
    table = context.tables.skipped
    key = job + keys.pack_id(first_ms)
    cursor = context.writer.cursor(table)
    found = cursor.set_range(key)
    if (cursor.prev() if found else cursor.last()) and cursor.key()[: keys.ID_BYTES] == job:
        before = rows.SkippedRow.unpack(cursor.value())
        is_next = timetable.may_tick_at(before.last_scheduled_for_ms) and (
            timetable.after(before.last_scheduled_for_ms) == first_ms
        )
        if before.reason == reason and is_next:
            key, count = cursor.key(), before.count + count
    context.writer.put(table, key, rows.SkippedRow(reason, count, last_ms).pack())


def record_one(
    context: Context, job_key: bytes, job: bytes, reason: int, scheduled_for_ms: int, *, is_tick: bool
) -> None:
    """Records one occurrence; `job` is the job's row. `is_tick`: the time is one of its schedule."""
    if is_tick and job[rows.JOB_SCHEDULE] != bytes(4):
        timetable = context.ticks.timetable(context.catalog.schedule(job[rows.JOB_SCHEDULE]))
        record(context, timetable, job_key, reason, scheduled_for_ms, scheduled_for_ms, 1)
        return
    key = job_key + keys.pack_id(scheduled_for_ms)
    # A range that begins there says more.
    if context.writer.get(context.tables.skipped, key) is None:
        context.writer.put(context.tables.skipped, key, rows.SkippedRow(reason, 1, scheduled_for_ms).pack())


def record_passed(
    context: Context,
    timetable: Timetable,
    job_key: bytes,
    first_ms: int,
    last_ms: int,
    count: int,
    *,
    number: int | None = None,
) -> None:
    """Records ticks that were passed over: those of the job's last pause as paused, the others as not caught up.

    `number` is that of the first tick, where the schedule's table may not hold it any more.
    """
    pause = context.writer.get(context.tables.extras, keys.extra(job_key, keys.EXTRA_PAUSE))
    paused_ms, resumed_ms = keys.unpack_pair(pause[:16]) if pause is not None else (0, 0)
    # Where another reason begins: the first tick that is not before the pause, the first one after it.
    for until_ms, reason in (
        (paused_ms - 1, execution_pb2.SKIP_REASON_CATCH_UP),
        (resumed_ms, execution_pb2.SKIP_REASON_PAUSED),
        (last_ms, execution_pb2.SKIP_REASON_CATCH_UP),
    ):
        if first_ms > until_ms or not count:
            continue
        if until_ms >= last_ms:
            record(context, timetable, job_key, reason, first_ms, last_ms, count)
            return
        latest_ms, _, missed = timetable.latest(first_ms, until_ms, number=number)
        following_ms = timetable.after(latest_ms)
        if following_ms is not None and _is_gap(timetable, first_ms, number, latest_ms, following_ms):
            # When the ticks between were, nobody knows any more: all go with the reason of those that follow.
            continue
        record(context, timetable, job_key, reason, first_ms, latest_ms, missed + 1)
        count -= missed + 1
        if following_ms is None:
            return
        first_ms, number = following_ms, None


def _is_gap(timetable: Timetable, first_ms: int, number: int | None, latest_ms: int, following_ms: int) -> bool:
    """Whether the table does not hold all ticks between two, the first of which may be one that it does not hold."""
    latest = timetable.number(latest_ms)
    if latest is None and latest_ms == first_ms:
        latest = number
    following = timetable.number(following_ms)
    return latest is not None and following is not None and following > latest + 1
