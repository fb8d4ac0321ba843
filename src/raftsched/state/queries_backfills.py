"""Reads of backfills: one by id, those of a job, and which of some scheduled times have run."""

from dataclasses import dataclass

from raftsched.model.errors import StoreCorrupt
from raftsched.state.queries import Page
from raftsched.store import keys, rows
from raftsched.store.backfill_rows import BackfillRow, backfill_key, id_of, of_job
from raftsched.store.environment import View

_FIRED_MS = slice(32, 40)
_PREVIOUS = slice(8, 16)


@dataclass(frozen=True, slots=True)
class BackfillRecord:
    id: int
    row: BackfillRow


def get_backfill(view: View, backfill: int) -> BackfillRecord | None:
    """The backfill with this id."""
    value = view.get(view.tables.backfills, backfill_key(backfill))
    return BackfillRecord(backfill, BackfillRow.unpack(value)) if value is not None else None


def list_backfills(view: View, job: int, *, before: int | None, limit: int) -> Page[BackfillRecord, int]:
    """Backfills of a job below the id `before` (None: all), newest first."""
    key = keys.pack_id(job)
    prefix = of_job(key)[: -keys.ID_BYTES]
    items: list[BackfillRecord] = []
    cursor = view.cursor(view.tables.backfills)
    found = cursor.set_range(of_job(key, keys.MAX_ID if before is None else before))
    found = cursor.prev() if found else cursor.last()
    while found and cursor.key().startswith(prefix):
        if len(items) == limit:
            return Page(items, items[-1].id, limit, 0)
        record = get_backfill(view, id_of(cursor.key()))
        if record is None:
            raise StoreCorrupt(f"backfill {id_of(cursor.key())} of job {job} is missing")
        items.append(record)
        found = cursor.prev()
    return Page(items, None, len(items), 0)


def times_that_ran(view: View, job: int, newest: int, start_ms: int, limit: int) -> tuple[set[int], int]:
    """Scheduled times from `start_ms` on that have an execution, out of at most `limit` executions, newest first.

    And the time up to which all count as run, since what was fired until then is not kept any more; 0: all is kept.
    """
    ran: set[int] = set()
    execution, key = keys.pack_id(newest), keys.pack_id(job)
    fired_ms = keys.MAX_MS
    for _ in range(limit):
        if execution == keys.NO_EXECUTION or fired_ms < start_ms:
            break
        row = view.get(view.tables.executions, execution)
        if row is None or row[rows.EXECUTION_JOB] != key:
            return ran, fired_ms
        fired_ms = keys.unpack_id(row[_FIRED_MS])
        ran.add(keys.unpack_id(row[rows.EXECUTION_SCHEDULED_FOR]))
        execution = row[_PREVIOUS]
    return ran, 0
