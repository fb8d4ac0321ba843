"""Reclaim: removes what need not be kept any more, a bounded step at a time, walking through one table after another.

Where it is stands in the store, so a step goes on where any node's last one ended. Dead letters that were not replayed
stay whatever their age: an operator is told when there are too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.limits import RETENTION_AGE_MAX_MS
from raftsched.model.retention import RetentionSettings
from raftsched.model.transitions import ExecutionState
from raftsched.state import dedup, idempotency
from raftsched.state.context import Context
from raftsched.state.kept_executions import OldestKept
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.state.removal import remove_closed_jobs, remove_executions
from raftsched.state.results import Reclaimed
from raftsched.store import keys, rows

# Rows one command may look at: more would hold up everything else that waits for its turn.
MAX_ROWS = 5_000
_DEAD_LETTER = int(ExecutionState.DEAD_LETTER)
_ONE_OFF = bytes(4)
# Dead letters in a row that are passed.
_PASS_AT_MOST = 1_000


class _Phase(IntEnum):
    """What a pass walks through, in this order."""

    EXECUTIONS = 0
    SKIPPED = 1
    SESSIONS = 2


@dataclass(frozen=True, slots=True)
class _Rules:
    """What is kept of jobs that do not say so themselves; 0: all."""

    age_ms: int
    executions: int


@dataclass(frozen=True, slots=True)
class _Step:
    """What one command did: rows looked at and removed, and the key to go on at, None at the end of the table."""

    looked_at: int
    removed: int
    following: bytes | None


def apply_reclaim(context: Context, command: command_pb2.Reclaim) -> Reclaimed:
    """Raises InvalidField, having written nothing."""
    for name in ("age_ms", "request_id_age_ms"):
        if not 0 <= getattr(command, name) <= RETENTION_AGE_MAX_MS:
            raise InvalidField("is out of range", field=name)
    limit = min(command.limit, MAX_ROWS)
    rules = _Rules(command.age_ms, command.executions)
    removed = dedup.forget_expired(context, limit)
    if command.request_id_age_ms:
        before_ms = context.now_ms - command.request_id_age_ms
        removed += idempotency.forget_old(context, before_ms, max(0, limit - removed))
    left = limit - removed
    phase, start = _position(context)
    while left > 0:
        step = _WALKS[phase](context, rules, start, left)
        removed += step.removed
        left -= step.looked_at
        if step.following is not None:
            _go_on_at(context, phase, step.following)
            return Reclaimed(removed, done=False)
        if phase == _Phase.SESSIONS:
            context.writer.delete(context.tables.meta, keys.META_RECLAIM)
            return Reclaimed(removed, done=True)
        phase, start = _Phase(phase + 1), b""
    _go_on_at(context, phase, start)
    return Reclaimed(removed, done=False)


def is_due(context: Context, settings: RetentionSettings, now_ms: int) -> bool:
    """Whether a pass would find something, as far as a look at the oldest of everything tells; or one is under way."""
    if context.writer.get(context.tables.meta, keys.META_RECLAIM) is not None:
        return True
    expiry_ms = dedup.next_expiry_ms(context)
    if expiry_ms is not None and expiry_ms < now_ms:
        return True
    if settings.request_id_age_ms:
        oldest_ms = idempotency.oldest_ms(context)
        if oldest_ms is not None and oldest_ms < now_ms - settings.request_id_age_ms:
            return True
    rules = _Rules(settings.age_ms, settings.executions)
    cursor = context.writer.cursor(context.tables.executions)
    if cursor.first() and keys.unpack_id(cursor.value()[32:40]) <= _horizon_ms(context, rules, now_ms):
        return True
    age_ms = _least_age_ms(context, rules)
    cursor = context.writer.cursor(context.tables.skipped)
    if age_ms and cursor.first():
        return rows.SkippedRow.unpack(cursor.value()).last_scheduled_for_ms + age_ms <= now_ms
    cursor = context.writer.cursor(context.tables.sessions)
    return bool(age_ms and cursor.first() and _is_old_session(cursor.value(), now_ms - age_ms))


def _position(context: Context) -> tuple[_Phase, bytes]:
    value = context.writer.get(context.tables.meta, keys.META_RECLAIM)
    return (_Phase(value[0]), value[1:]) if value is not None else (_Phase.EXECUTIONS, b"")


def _go_on_at(context: Context, phase: _Phase, key: bytes) -> None:
    context.writer.put(context.tables.meta, keys.META_RECLAIM, bytes((phase,)) + key)


def _least_age_ms(context: Context, rules: _Rules) -> int:
    """What is younger is kept, whatever job it is of; 0: no age matters."""
    return min((age_ms for age_ms in (rules.age_ms, context.catalog.least_age_ms) if age_ms), default=0)


def _horizon_ms(context: Context, rules: _Rules, now_ms: int) -> int:
    """No execution that fired after this is removed."""
    if rules.executions or context.catalog.counts_executions:
        return now_ms
    age_ms = _least_age_ms(context, rules)
    return now_ms - age_ms if age_ms else -1


# --- executions ---


def _walk_executions(context: Context, rules: _Rules, start: bytes, limit: int) -> _Step:
    """Ids ascend with the time they were fired, so the walk ends at the first that is too young."""
    horizon_ms = _horizon_ms(context, rules, context.now_ms)
    numbers: list[bytes] = []
    found: list[bytes] = []
    following = None
    cursor = context.writer.cursor(context.tables.executions)
    if cursor.set_range(start) if start else cursor.first():
        for number, row in cursor.iternext():
            if keys.unpack_id(row[32:40]) > horizon_ms:
                break
            if len(numbers) == limit:
                following = number
                break
            numbers.append(number)
            found.append(row)
    jobs = dict(context.writer.get_many(context.tables.jobs, {row[rows.EXECUTION_JOB]: None for row in found}))
    oldest_kept = OldestKept(context, 2 * limit)
    gone: dict[bytes, bytes] = {}
    for number, row in zip(numbers, found, strict=True):
        job = jobs.get(row[rows.EXECUTION_JOB])
        if not _is_finished(row) or not _is_past(context, rules, oldest_kept, number, row, job):
            if oldest_kept.is_spent:
                # How many are kept of this job is found out with the next command.
                following = number
                break
            continue
        if job is None or not _must_wait(context, row, job, gone):
            gone[number] = row
    if gone:
        remove_executions(context, list(gone), list(gone.values()))
        over = {}
        for number, row in gone.items():
            key = row[rows.EXECUTION_JOB]
            job = jobs.get(key)
            if job is not None and _is_closed(job) and job[rows.JOB_LAST_EXECUTION] == number:
                over[key] = job
        remove_closed_jobs(context, over)
    return _Step(max(1, len(numbers)), len(gone), following)


def _is_finished(row: bytes) -> bool:
    """Terminal, and no dead letter that waits to be replayed."""
    status = row[rows.EXECUTION_STATUS]
    return status in IS_TERMINAL and (status != _DEAD_LETTER or row[95:103].strip(b"\0") != b"")


def _is_past(
    context: Context, rules: _Rules, oldest_kept: OldestKept, number: bytes, row: bytes, job: bytes | None
) -> bool:
    """Whether it is past its job's age, or not among the newest that are kept by number."""
    # What the job says now, not what it said when this execution was fired.
    profile = job[rows.JOB_PROFILE] if job is not None else row[rows.EXECUTION_PROFILE]
    settings = context.catalog.profile(profile).message
    age_ms = settings.retention_age_ms or rules.age_ms
    if age_ms and _end_ms(context, row) + age_ms <= context.now_ms:
        return True
    keep = settings.retention_executions or rules.executions
    if not keep or job is None:
        return False
    newest = keys.unpack_id(job[rows.JOB_LAST_EXECUTION])
    return keys.unpack_id(number) < oldest_kept.of(row[rows.EXECUTION_JOB], newest, keep)


def _end_ms(context: Context, row: bytes) -> int:
    """When it ended: as its worker says, but by no clock that is ahead, nor before it was leased or fired."""
    fired_ms, leased_ms, ended_ms = (keys.unpack_id(row[piece]) for piece in (_FIRED, _LEASED, _ENDED))
    return max(fired_ms, leased_ms, min(ended_ms, context.now_ms))


_FIRED, _LEASED, _ENDED = slice(32, 40), slice(62, 70), slice(79, 87)


def _is_closed(job: bytes) -> bool:
    """Whether nothing more comes of the job: it goes with its last execution."""
    return job[rows.JOB_STATE] in (rows.JOB_FIRED, rows.JOB_CANCELLED)


def _must_wait(context: Context, row: bytes, job: bytes, gone: dict[bytes, bytes]) -> bool:
    """Of a job the oldest execution goes first: whoever searches its history for what is under way ends at a gap.

    Those of a job that goes on pass dead letters. A job that runs once, or is closed, goes with its newest one, and is
    to be there as long as any other is, such as a dead letter.
    """
    runs_again = job[rows.JOB_SCHEDULE] != _ONE_OFF or job[rows.JOB_STATE] == rows.JOB_BLOCKED
    may_pass = runs_again and not _is_closed(job)
    before = row[8:16]
    for _ in range(_PASS_AT_MOST):
        if before == keys.NO_EXECUTION or before in gone:
            return False
        found = context.writer.get(context.tables.executions, before)
        if found is None:
            return False
        if not may_pass or found[rows.EXECUTION_STATUS] != _DEAD_LETTER:
            return True
        before = found[8:16]
    return False


# --- skipped ranges and sessions ---


def _walk_skipped(context: Context, rules: _Rules, start: bytes, limit: int) -> _Step:
    ages: dict[bytes, int | None] = {}
    gone: list[bytes] = []
    looked_at = 0
    cursor = context.writer.cursor(context.tables.skipped)
    if cursor.set_range(start) if start else cursor.first():
        for key, value in cursor.iternext():
            if looked_at == limit:
                return _finish(context, looked_at, gone, key)
            looked_at += 1
            job = key[: keys.ID_BYTES]
            if job not in ages:
                ages[job] = _age_of_job(context, rules, job)
            age_ms = ages[job]
            last_ms = rows.SkippedRow.unpack(value).last_scheduled_for_ms
            if age_ms is None or (age_ms and last_ms + age_ms <= context.now_ms):
                gone.append(key)
    return _finish(context, looked_at, gone, None)


def _finish(context: Context, looked_at: int, gone: Sequence[bytes], following: bytes | None) -> _Step:
    if gone:
        context.writer.delete_many(context.tables.skipped, gone)
    return _Step(max(1, looked_at), len(gone), following)


def _age_of_job(context: Context, rules: _Rules, job: bytes) -> int | None:
    """How long its skipped ranges are kept, 0 for ever; None when it is gone."""
    row = context.writer.get(context.tables.jobs, job)
    if row is None:
        return None
    return context.catalog.profile(row[rows.JOB_PROFILE]).message.retention_age_ms or rules.age_ms


def _walk_sessions(context: Context, rules: _Rules, start: bytes, limit: int) -> _Step:
    gone: list[bytes] = []
    looked_at = 0
    following = None
    cursor = context.writer.cursor(context.tables.sessions)
    if rules.age_ms and (cursor.set_range(start) if start else cursor.first()):
        for key, value in cursor.iternext():
            if looked_at == limit:
                following = key
                break
            looked_at += 1
            if _is_old_session(value, context.now_ms - rules.age_ms):
                gone.append(key)
    if gone:
        context.writer.delete_many(context.tables.sessions, gone)
    return _Step(max(1, looked_at), len(gone), following)


def _is_old_session(value: bytes, before_ms: int) -> bool:
    row = rows.SessionRow.unpack(value)
    return not row.open and row.ended_ms <= before_ms


_WALKS = {
    _Phase.EXECUTIONS: _walk_executions,
    _Phase.SKIPPED: _walk_skipped,
    _Phase.SESSIONS: _walk_sessions,
}
