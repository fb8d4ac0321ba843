"""Occurrences that did not run, recorded with the reason, neighbours as one range."""

from raftsched.state.context import Context
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows


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
        if before.reason == reason and timetable.after(before.last_scheduled_for_ms) == first_ms:
            key, count = cursor.key(), before.count + count
    context.writer.put(table, key, rows.SkippedRow(reason, count, last_ms).pack())
