"""What a failed attempt or a lost lease means for an execution: another attempt, or the dead letters."""

from collections.abc import Sequence

from raftsched.model.limits import MAX_LOST_LEASES
from raftsched.model.retry import backoff_ms
from raftsched.model.transitions import ExecutionState
from raftsched.state import endings
from raftsched.state.context import Context
from raftsched.state.lifecycle import FAIL, GIVE_UP, LOSE
from raftsched.store import keys, rows

_STATUS = rows.EXECUTION_STATUS
_AFTER_FAILURE = {int(ExecutionState.FAILED), int(ExecutionState.DEAD_LETTER), int(ExecutionState.PENDING)}


def failed_already(row: bytes) -> bool:
    """Whether the attempt of the row's token has ended with a failure."""
    execution = rows.ExecutionRow.unpack(row)
    return execution.status in _AFTER_FAILURE and 0 < execution.attempt <= execution.failures


def fail(
    context: Context, number: bytes, row: bytes, started_ms: int, ended_ms: int, error: str, *, permanent: bool
) -> None:
    """Ends the attempt of a leased or running execution whose lease block it has left.

    It waits for its backoff, or becomes a dead letter when the failure is permanent or was the last attempt allowed.
    """
    profile = context.catalog.profile(row[rows.EXECUTION_PROFILE])
    settings = profile.message
    failures = int.from_bytes(row[40:42], "big") + 1
    times = keys.pack_id(started_ms) + keys.pack_id(ended_ms)
    head = failures.to_bytes(2, "big") + row[42:_STATUS]
    if permanent or failures >= settings.max_attempts:
        _bury(context, number, row[:40] + head + GIVE_UP[row[_STATUS]] + times, profile.namespace, error)
        return
    execution = keys.unpack_id(number)
    retry_ms = context.now_ms + backoff_ms(
        execution,
        failures,
        initial_ms=settings.initial_backoff_ms,
        max_ms=settings.max_backoff_ms,
        multiplier=settings.multiplier,
        jitter=settings.backoff_jitter,
    )
    extra = rows.EXECUTION_EXTRA.pack(retry_ms, 0) + error.encode()
    value = row[:40] + head + FAIL[row[_STATUS]] + times + extra
    context.writer.put(context.tables.executions, number, value)
    job = keys.unpack_id(row[rows.EXECUTION_JOB])
    context.writer.put(context.tables.due, keys.due(job, retry_ms, execution), rows.DUE_RETRY)


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
        if lost >= MAX_LOST_LEASES:
            error = f"lost its lease {lost} times: its workers stopped, or were cut off, while they held it"
            value = head + GIVE_UP[row[_STATUS]] + row[71 : rows.EXECUTION_BYTES]
            _bury(context, number, value, profile.namespace, error)
            continue
        written.append(number)
        values.append(head + LOSE[row[_STATUS]] + row[71:])
        lanes.setdefault(profile.lane, []).append(keys.unpack_id(number))
    if written:
        context.writer.put_many(context.tables.executions, written, values)
        context.ready.add(lanes)


def _bury(context: Context, number: bytes, fixed: bytes, namespace: int, error: str) -> None:
    """Writes a row that says DEAD_LETTER, and its entry in the dead letters."""
    extra = rows.EXECUTION_EXTRA.pack(context.now_ms, 0) + error.encode()
    row = fixed + extra
    context.writer.put(context.tables.executions, number, row)
    entry = keys.dead_letter(namespace, context.now_ms, keys.unpack_id(number))
    context.writer.put(context.tables.dead_letters, entry, b"")
    context.state.dead_letters += 1
    endings.ended(context, [(number, row)], ExecutionState.DEAD_LETTER)
