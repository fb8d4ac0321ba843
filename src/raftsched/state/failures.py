"""What a failed attempt, a snooze or a lost lease means for an execution: another attempt, or the dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

from raftsched.model.limits import ERROR_MAX_BYTES, MAX_LOST_LEASES
from raftsched.model.retry import RUN_TIMEOUT_CLASS, backoff_ms, is_retryable
from raftsched.model.transitions import ExecutionState
from raftsched.state import attempts, endings
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.lifecycle import FAIL, GIVE_UP, GIVE_UP_WAITING, LOSE, SNOOZE
from raftsched.state.revoke import end_as_revoked
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2

_STATUS = rows.EXECUTION_STATUS
_AFTER_FAILURE = {int(ExecutionState.FAILED), int(ExecutionState.DEAD_LETTER), int(ExecutionState.PENDING)}
_SNOOZED = int(ExecutionState.SNOOZED)
_FAILURES = slice(40, 42)
_LEASED_MS = slice(62, 70)
_FIRST_BEGAN = slice(103, 111)


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt ended without success. `classes` are those of its error, the nearest first; `retry_after_ms` not
    0: the next attempt is due so long from now, whatever the job's policy says."""

    started_ms: int
    ended_ms: int
    error: str
    permanent: bool = False
    classes: Sequence[str] = ()
    retry_after_ms: int = 0


def failed_already(row: bytes) -> bool:
    """Whether the attempt of the row's token has ended with a failure, or was put off."""
    execution = rows.ExecutionRow.unpack(row)
    if execution.status == _SNOOZED:
        return True
    return execution.status in _AFTER_FAILURE and 0 < execution.attempt <= execution.failures


def fail(context: Context, number: bytes, row: bytes, failure: Failure) -> None:
    """Ends the attempt of a leased or running execution whose lease block it has left.

    It waits for its backoff, or becomes a dead letter: when the failure is permanent or of a class that is not
    retried, was the last attempt allowed, or the next one would begin too late.
    """
    if row[rows.EXECUTION_CAUSE] & rows.CANCEL_REQUESTED:
        _end_as_asked(context, number, row, failure)
        return
    profile = context.catalog.profile(row[rows.EXECUTION_PROFILE])
    settings = profile.message
    failures = int.from_bytes(row[_FAILURES], "big") + 1
    timed_out = RUN_TIMEOUT_CLASS in failure.classes
    outcome = execution_pb2.ATTEMPT_OUTCOME_TIMED_OUT if timed_out else execution_pb2.ATTEMPT_OUTCOME_FAILED
    _record(context, number, row, outcome, failure)
    first_began = _first_began(row)
    times = keys.pack_id(failure.started_ms) + keys.pack_id(failure.ended_ms)
    head = row[:40] + failures.to_bytes(2, "big") + row[42:_STATUS]
    execution = keys.unpack_id(number)
    retry_ms = context.now_ms + (
        failure.retry_after_ms
        or backoff_ms(
            execution,
            failures,
            initial_ms=settings.initial_backoff_ms,
            max_ms=settings.max_backoff_ms,
            multiplier=settings.multiplier,
            jitter=settings.backoff_jitter,
            backoff=settings.backoff,
        )
    )
    is_last = (
        failure.permanent
        or failures >= settings.max_attempts
        or (settings.non_retryable_errors and not is_retryable(failure.classes, settings.non_retryable_errors))
    )
    is_late = not is_last and _is_too_late(profile, first_began, retry_ms)
    if is_last or is_late:
        error = _too_late(profile, failure.error) if is_late else failure.error
        _bury(context, number, head + GIVE_UP[row[_STATUS]] + times, profile.namespace, first_began, error)
        return
    _wait(context, number, head + FAIL[row[_STATUS]] + times, retry_ms, first_began, failure.error)


def snooze(context: Context, number: bytes, row: bytes, failure: Failure) -> None:
    """Lets a leased or running execution, which has left its lease block, run again after `retry_after_ms`.

    That is no failure and uses no attempt; but after a failure a time that is too late for an attempt stays so.
    """
    if row[rows.EXECUTION_CAUSE] & rows.CANCEL_REQUESTED:
        _end_as_asked(context, number, row, failure)
        return
    profile = context.catalog.profile(row[rows.EXECUTION_PROFILE])
    _record(context, number, row, execution_pb2.ATTEMPT_OUTCOME_SNOOZED, failure)
    # As long as none has failed or was lost, the first attempt is still to come.
    first_began = row[_FIRST_BEGAN] or bytes(8)
    retry_ms = context.now_ms + failure.retry_after_ms
    times = keys.pack_id(failure.started_ms) + keys.pack_id(failure.ended_ms)
    if _is_too_late(profile, first_began, retry_ms):
        value = row[:_STATUS] + GIVE_UP[row[_STATUS]] + times
        _bury(context, number, value, profile.namespace, first_began, _too_late(profile, _error_of(row)))
        return
    value = row[:_STATUS] + SNOOZE[row[_STATUS]] + times
    _wait(context, number, value, retry_ms, first_began, _error_of(row))


def lose(context: Context, executions: Sequence[bytes], found: Sequence[bytes]) -> None:
    """Makes leased or running executions PENDING again, their lease blocks being gone.

    One that has lost as many leases as are allowed may be what killed its workers: it becomes a dead letter.
    """
    lanes: dict[bytes, list[int]] = {}
    written, values = [], []
    for number, row in zip(executions, found, strict=True):
        profile = context.catalog.profile(row[rows.EXECUTION_PROFILE])
        lost = int.from_bytes(row[42:44], "big") + 1
        head = row[:42] + lost.to_bytes(2, "big") + row[44:_STATUS]
        attempts.record(
            context,
            number,
            row,
            execution_pb2.ATTEMPT_OUTCOME_LEASE_LOST,
            started_ms=keys.unpack_id(row[71:79]),
            ended_ms=context.now_ms,
        )
        if row[rows.EXECUTION_CAUSE] & rows.CANCEL_REQUESTED:
            end_as_revoked(context, number, head + row[_STATUS:], keys.pack_id(context.now_ms))
            continue
        if lost >= MAX_LOST_LEASES:
            error = f"lost its lease {lost} times: its workers stopped, or were cut off, while they held it"
            value = head + GIVE_UP[row[_STATUS]] + row[71 : rows.EXECUTION_BYTES]
            _bury(context, number, value, profile.namespace, _first_began(row), error)
            continue
        value = head + LOSE[row[_STATUS]] + row[71:]
        if profile.message.max_elapsed_ms and len(row) == rows.EXECUTION_BYTES:
            value += bytes(16) + _first_began(row)
        written.append(number)
        values.append(value)
        lanes.setdefault(profile.lane, []).append(keys.unpack_id(number))
    if written:
        context.writer.put_many(context.tables.executions, written, values)
        context.ready.add(lanes)


def without_late(context: Context, numbers: Sequence[bytes], found: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Of PENDING executions that have left the ready queue, those that may still begin; the others are dead letters."""
    kept_numbers, kept = [], []
    for number, row in zip(numbers, found, strict=True):
        profile = context.catalog.profile(row[rows.EXECUTION_PROFILE])
        first_began = row[_FIRST_BEGAN] or bytes(8)
        if not _is_too_late(profile, first_began, context.now_ms):
            kept_numbers.append(number)
            kept.append(row)
            continue
        value = row[:_STATUS] + GIVE_UP_WAITING[row[_STATUS]] + row[71 : rows.EXECUTION_BYTES]
        _bury(context, number, value, profile.namespace, first_began, _too_late(profile, _error_of(row)))
    return kept_numbers, kept


def _end_as_asked(context: Context, number: bytes, row: bytes, failure: Failure) -> None:
    """An execution that a caller wanted cancelled has ended without success: it is not tried again."""
    _record(context, number, row, execution_pb2.ATTEMPT_OUTCOME_FAILED, failure)
    started, ended = keys.pack_id(failure.started_ms), keys.pack_id(failure.ended_ms)
    end_as_revoked(context, number, row[:71] + started + row[79:], ended, error=failure.error)


def _record(context: Context, number: bytes, row: bytes, outcome: int, failure: Failure) -> None:
    attempts.record(
        context,
        number,
        row,
        outcome,
        started_ms=failure.started_ms,
        ended_ms=failure.ended_ms,
        error=failure.error,
        error_class=failure.classes[0] if failure.classes else "",
    )


def _first_began(row: bytes) -> bytes:
    """When the first attempt was leased, of an execution whose present one is over; as a row holds it."""
    known = row[_FIRST_BEGAN]
    return known if known.strip(b"\0") else row[_LEASED_MS]


def _error_of(row: bytes) -> str:
    """The error that a row keeps of an earlier attempt."""
    return row[rows.EXECUTION_BYTES + rows.EXECUTION_EXTRA.size :].decode(errors="replace")


def _is_too_late(profile: Profile, first_began: bytes, begins_ms: int) -> bool:
    """Whether the job's policy has no attempt begin then."""
    limit_ms, first_ms = profile.message.max_elapsed_ms, keys.unpack_id(first_began)
    return limit_ms > 0 and first_ms > 0 and begins_ms > first_ms + limit_ms


def _too_late(profile: Profile, error: str) -> str:
    reason = f"not tried again: max_elapsed of {profile.message.max_elapsed_ms} ms is over"
    text = f"{reason}; the last error was: {error}" if error else reason
    return text.encode()[:ERROR_MAX_BYTES].decode(errors="ignore")


def _wait(context: Context, number: bytes, fixed: bytes, retry_ms: int, first_began: bytes, error: str) -> None:
    """Writes a row that waits for `retry_ms`, and its entry in the due index."""
    extra = keys.pack_id(retry_ms) + bytes(8) + first_began + error.encode()
    context.writer.put(context.tables.executions, number, fixed + extra)
    key = keys.due(keys.unpack_id(fixed[rows.EXECUTION_JOB]), retry_ms, keys.unpack_id(number))
    context.writer.put(context.tables.due, key, rows.DUE_RETRY)


def _bury(context: Context, number: bytes, fixed: bytes, namespace: int, first_began: bytes, error: str) -> None:
    """Writes a row that says DEAD_LETTER, and its entry in the dead letters."""
    row = fixed + keys.pack_id(context.now_ms) + bytes(8) + first_began + error.encode()
    context.writer.put(context.tables.executions, number, row)
    entry = keys.dead_letter(namespace, context.now_ms, keys.unpack_id(number))
    context.writer.put(context.tables.dead_letters, entry, b"")
    context.state.dead_letters += 1
    endings.ended(context, [(number, row)], ExecutionState.DEAD_LETTER)
