"""CreateBackfill and CancelBackfill: a recurring job's scheduled times that are past, to be run one by one.

The proposer evaluates the schedule; here the times are a list. What has run is found by going back through the job's
executions (backfill_steps.py), so a time runs once, however many backfills name it: there is one at a time of a job.
"""

from dataclasses import replace

from google.protobuf.message import DecodeError

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import (
    BackfillNotFound,
    EtagMismatch,
    IdempotencyConflict,
    InvalidField,
    JobStateForbids,
)
from raftsched.state import create, idempotency, jobs, overlap_queue
from raftsched.state.context import Context, check_time_column
from raftsched.state.results import BackfillChanged
from raftsched.store import keys, rows
from raftsched.store.backfill_rows import CHUNK, BackfillRow, backfill_key, id_of, of_job, ticks_key, ticks_of
from raftsched.v1 import backfill_pb2

_RUNNING = int(backfill_pb2.BACKFILL_STATE_RUNNING)
_CANCELLED = int(backfill_pb2.BACKFILL_STATE_CANCELLED)
_NOT_IN = (rows.JOB_CANCELLED, rows.JOB_BLOCKED, rows.JOB_UPSTREAM_FAILED)


def apply_create_backfill(context: Context, command: command_pb2.CreateBackfill) -> BackfillChanged:
    """Raises InvalidField, JobNotFound, IdempotencyConflict, JobStateForbids or EtagMismatch.

    It has then written nothing.
    """
    ticks_ms = _check(command)
    profile = _decoded(command.profile)
    key, row = jobs.find(context, command.job)
    remembered = keys.digest_key((b"backfill", key, command.key.encode()))
    fingerprint = _fingerprint(command, profile.priority)
    known = context.writer.get(context.tables.idempotency, remembered) if command.key else None
    if known is not None:
        if known[:16] != fingerprint:
            raise IdempotencyConflict(field="request_id", job=str(command.job))
        return BackfillChanged(keys.unpack_id(known[16:]))
    _check_job(context, command, key, row, profile, ticks_ms[-1])
    number = _next_number(context)
    row_of = BackfillRow(
        job=command.job,
        state=_RUNNING,
        start_ms=command.start_ms,
        end_ms=command.end_ms,
        interval_ms=command.interval_ms,
        priority=profile.priority,
        profile=context.catalog.intern_profile(command.profile, profile).id,
        total=len(ticks_ms),
        fired=0,
        passed_over=0,
        created_ms=context.now_ms,
        next_ms=context.now_ms,
        search=keys.unpack_id(row[rows.JOB_LAST_EXECUTION]),
        searched_ms=context.now_ms,
    )
    _write_ticks(context, number, ticks_ms)
    context.writer.put(context.tables.backfills, of_job(key, number), b"")
    context.writer.put(context.tables.deadlines, keys.deadline(keys.BACKFILL, row_of.next_ms, number), b"")
    waiting = {occurrence.scheduled_for_ms for occurrence in overlap_queue.of_job(context, key, keys.MAX_ID)}
    row_of = replace(row_of, passed_over=pass_over(context, number, waiting))
    context.writer.put(context.tables.backfills, backfill_key(number), row_of.pack())
    if command.key:
        idempotency.put(context, remembered, fingerprint + keys.pack_id(number))
    return BackfillChanged(number)


def apply_cancel_backfill(context: Context, command: command_pb2.CancelBackfill) -> BackfillChanged:
    """Raises BackfillNotFound, having written nothing. Nothing if it does not run."""
    value = context.writer.get(context.tables.backfills, backfill_key(command.backfill))
    if value is None:
        raise BackfillNotFound(backfill=str(command.backfill))
    end(context, command.backfill, BackfillRow.unpack(value), _CANCELLED)
    return BackfillChanged(command.backfill)


def end(context: Context, number: int, row: BackfillRow, state: int) -> None:
    """It fires nothing more; what has fired goes on."""
    if row.state != _RUNNING:
        return
    left = chunks(context, number, keys.MAX_ID)
    if left:
        context.writer.delete_neighbours(context.tables.backfills, [key for key, _ in left])
    context.writer.delete(context.tables.deadlines, keys.deadline(keys.BACKFILL, row.next_ms, number))
    ended = replace(row, state=state, next_ms=0, search=0)
    context.writer.put(context.tables.backfills, backfill_key(number), ended.pack())


def forget_some(context: Context, job: bytes, limit: int) -> int:
    """Removes up to `limit` backfills of a job that is deleted; how many."""
    writer, table = context.writer, context.tables.backfills
    cursor = writer.cursor(table)
    found: list[bytes] = []
    if cursor.set_range(of_job(job)):
        for key in cursor.iternext(values=False):
            if not key.startswith(of_job(job)[: -keys.ID_BYTES]) or len(found) == limit:
                break
            found.append(key)
    for key in found:
        number = id_of(key)
        (value,) = writer.get_all(table, [backfill_key(number)])
        end(context, number, BackfillRow.unpack(value), _CANCELLED)
        writer.delete(table, backfill_key(number))
        writer.delete(table, key)
    return len(found)


def chunks(context: Context, number: int, limit: int) -> list[tuple[bytes, bytes]]:
    """Keys and columns of up to `limit` rows of a backfill's ticks, oldest first."""
    prefix = ticks_of(number)
    found: list[tuple[bytes, bytes]] = []
    cursor = context.writer.cursor(context.tables.backfills)
    if cursor.set_range(prefix):
        for key, value in cursor.iternext():
            if not key.startswith(prefix) or len(found) == limit:
                break
            found.append((key, value))
    return found


def pass_over(context: Context, number: int, ticks_ms: set[int]) -> int:
    """Takes these times out of a backfill's list, as far as they are in it; how many were."""
    writer, table = context.writer, context.tables.backfills
    prefix = ticks_of(number)
    gone = 0
    left = set(ticks_ms)
    while left:
        latest_ms = max(left)
        cursor = writer.cursor(table)
        found = cursor.set_range(ticks_key(number, latest_ms + 1))
        if not (cursor.prev() if found else cursor.last()) or not cursor.key().startswith(prefix):
            break
        key, column = cursor.key(), keys.unpack_ids(cursor.value())
        kept = [tick_ms for tick_ms in column if tick_ms not in left]
        if not kept:
            writer.delete(table, key)
        elif len(kept) < len(column):
            writer.put(table, key, keys.pack_ids(kept))
        gone += len(column) - len(kept)
        # Whatever is not before this row was looked at.
        first_ms = keys.unpack_id(key[-keys.ID_BYTES :])
        left = {tick_ms for tick_ms in left if tick_ms < first_ms}
    return gone


def pass_over_until(context: Context, number: int, until_ms: int) -> int:
    """Takes all times up to that one out of a backfill's list; how many there were."""
    writer, table = context.writer, context.tables.backfills
    gone = 0
    for key, column in chunks(context, number, keys.MAX_ID):
        ticks_ms = keys.unpack_ids(column)
        if ticks_ms[0] > until_ms:
            break
        kept = [tick_ms for tick_ms in ticks_ms if tick_ms > until_ms]
        writer.delete(table, key)
        if kept:
            writer.put(table, ticks_key(number, kept[0]), keys.pack_ids(kept))
        gone += len(ticks_ms) - len(kept)
    return gone


def undecided_from_ms(context: Context, row: bytes) -> int:
    """The schedule itself has yet to decide what becomes of a job's ticks from this time on."""
    scheduled_for_ms = keys.unpack_id(row[rows.JOB_SCHEDULED_FOR])
    if row[rows.JOB_STATE] in (rows.JOB_WAITING, rows.JOB_PAUSED):
        return scheduled_for_ms
    return scheduled_for_ms + 1 if row[rows.JOB_STATE] == rows.JOB_STARVED else context.now_ms + 1


def _check(command: command_pb2.CreateBackfill) -> tuple[int, ...]:
    check_time_column(command.ticks_ms, "ticks_ms", len(command.ticks_ms) // keys.ID_BYTES)
    ticks_ms = keys.unpack_ids(command.ticks_ms)
    if not 1 <= len(ticks_ms) <= limits.BACKFILL_MAX_TICKS:
        raise InvalidField(f"holds {len(ticks_ms)} times", field="ticks_ms")
    create.check_ticks(ticks_ms, "ticks_ms", after_ms=-1)
    if not command.start_ms <= ticks_ms[0] <= ticks_ms[-1] < command.end_ms < create.MAX_DUE_MS or command.start_ms < 0:
        raise InvalidField("is not the range of the times", field="start_ms")
    if not limits.BACKFILL_INTERVAL_MIN_MS <= command.interval_ms <= limits.BACKFILL_INTERVAL_MAX_MS:
        raise InvalidField("is out of range", field="interval_ms")
    if len(command.key) > limits.REQUEST_ID_MAX_LENGTH:
        raise InvalidField("is too long", field="request_id")
    return ticks_ms


def _decoded(serialized: bytes) -> command_pb2.Profile:
    try:
        return command_pb2.Profile.FromString(serialized)
    except DecodeError:
        raise InvalidField("cannot be read", field="profile") from None


def _check_job(
    context: Context,
    command: command_pb2.CreateBackfill,
    key: bytes,
    row: bytes,
    profile: command_pb2.Profile,
    last_ms: int,
) -> None:
    """`profile`, that of the executions, is the job's but for the priority."""
    if row[rows.JOB_STATE] in _NOT_IN or row[rows.JOB_SCHEDULE] == bytes(4):
        raise JobStateForbids("only a recurring job that is not cancelled has a past to fill", job=str(command.job))
    if row[rows.JOB_PROFILE] != keys.pack_small_id(command.job_profile) or row[rows.JOB_SCHEDULE] != keys.pack_small_id(
        command.job_schedule
    ):
        raise EtagMismatch(job=str(command.job))
    running = _running(context, key)
    if running:
        raise JobStateForbids(
            f"backfill {running} of the job is not done; there is one at a time", job=str(command.job)
        )
    if last_ms >= undecided_from_ms(context, row):
        raise InvalidField("reaches into what the job's schedule has yet to run", field="end")
    expected = command_pb2.Profile()
    expected.CopyFrom(context.catalog.profile(row[rows.JOB_PROFILE]).message)
    expected.priority = profile.priority
    if profile != expected or profile.priority > limits.PRIORITY_MAX:
        raise InvalidField("is not the job's with another priority", field="profile")


def _running(context: Context, job: bytes) -> int:
    """The backfill of the job that is not done, 0 for none: no other than the newest can be that."""
    cursor = context.writer.cursor(context.tables.backfills)
    found = cursor.set_range(of_job(job, keys.MAX_ID))
    if not (cursor.prev() if found else cursor.last()) or not cursor.key().startswith(of_job(job)[: -keys.ID_BYTES]):
        return 0
    number = id_of(cursor.key())
    (value,) = context.writer.get_all(context.tables.backfills, [backfill_key(number)])
    return number if BackfillRow.unpack(value).state == _RUNNING else 0


def _fingerprint(command: command_pb2.CreateBackfill, priority: int) -> bytes:
    """Of what a caller asks for: what the range holds may be another thing by the time it is repeated."""
    asked = (command.start_ms, command.end_ms, command.interval_ms)
    return keys.digest_key((keys.pack_ids(asked), keys.pack_small_id(priority)))[:16]


def _next_number(context: Context) -> int:
    value = context.writer.get(context.tables.meta, keys.META_BACKFILLS)
    number = (keys.unpack_id(value) if value is not None else 0) + 1
    context.writer.put(context.tables.meta, keys.META_BACKFILLS, keys.pack_id(number))
    return number


def _write_ticks(context: Context, number: int, ticks_ms: tuple[int, ...]) -> None:
    parts = [ticks_ms[at : at + CHUNK] for at in range(0, len(ticks_ms), CHUNK)]
    context.writer.put_many(
        context.tables.backfills,
        [ticks_key(number, part[0]) for part in parts],
        [keys.pack_ids(part) for part in parts],
    )
