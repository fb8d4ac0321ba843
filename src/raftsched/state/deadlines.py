"""Tick: ends sessions, run timeouts and start deadlines that are over, and wakes starved jobs whose ticks have come."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.retry import RUN_TIMEOUT_CLASS
from raftsched.state import backfill_steps, delete, failures, leases, restamp, schedules, sessions, start_deadline
from raftsched.state.context import Context
from raftsched.state.results import Done, LeaseEnded
from raftsched.store import keys, rows
from raftsched.v1 import worker_pb2

# Deadlines one command may end: more would hold up everything else that waits for its turn.
MAX_DEADLINES = 10_000
# Deleted jobs whose history one command goes on removing; each costs as much as hundreds of deadlines.
DELETIONS_AT_ONCE = 2
# Backfills that one command takes a step of: at worst each looks at a thousand executions.
BACKFILLS_AT_ONCE = 5


def next_deadline_ms(context: Context) -> int | None:
    """When Tick has something to do; no session ends before the floor that a new leader set."""
    times = []
    expiry_ms = _first_ms(context, keys.SESSION_EXPIRY)
    if expiry_ms is not None:
        times.append(max(expiry_ms, context.state.session_floor_ms))
    timeout_ms = _first_ms(context, keys.RUN_TIMEOUT)
    if timeout_ms is not None:
        times.append(timeout_ms)
    for kind in (keys.START_DEADLINE, keys.DELETION, keys.BACKFILL):
        start_ms = _first_ms(context, kind)
        if start_ms is not None:
            times.append(start_ms)
    if schedules.has_stampable(context) or restamp.is_under_way(context) or not context.graph.is_empty:
        times.append(context.now_ms)
    return min(times, default=None)


def apply_tick(context: Context, command: command_pb2.Tick) -> Done:
    """Ends at most `limit` deadlines, oldest first, and stamps at most as many starved jobs."""
    limit = min(command.limit, MAX_DEADLINES)
    if context.now_ms >= context.state.session_floor_ms:
        for key in _over(context, keys.SESSION_EXPIRY, limit):
            sessions.end(context, keys.unpack_deadline(key)[2])
            limit -= 1
    for key in _over(context, keys.RUN_TIMEOUT, limit):
        _end_run(context, key)
    for key in _over(context, keys.START_DEADLINE, limit):
        start_deadline.end_one(context, key)
    for key in _over(context, keys.DELETION, min(limit, DELETIONS_AT_ONCE)):
        delete.remove_some(context, key)
    for key in _over(context, keys.BACKFILL, min(limit, BACKFILLS_AT_ONCE)):
        backfill_steps.step(context, key)
    schedules.stamp_some(context, min(command.limit, MAX_DEADLINES))
    restamp.restamp_some(context, min(command.limit, MAX_DEADLINES))
    return Done()


def _end_run(context: Context, key: bytes) -> None:
    """Fails what is left of a block whose run timeout is over."""
    _, time_ms, session, token = keys.unpack_deadline(key)
    value = context.writer.get(context.tables.deadlines, key)
    context.writer.delete(context.tables.deadlines, key)
    lease = keys.lease(session, token)
    block = leases.find(context, lease)
    if block is None or value is None:
        return
    timeout_ms = keys.unpack_id(value)
    numbers = keys.split_ids(block.executions)
    found = context.writer.get_all(context.tables.executions, numbers)
    over = [
        (number, row)
        for number, row in zip(numbers, found, strict=True)
        if context.catalog.profile(row[rows.EXECUTION_PROFILE]).run_timeout_ms == timeout_ms
    ]
    if not over:
        return
    leases.remove(context, lease, b"".join([number for number, _ in over]))
    error = f"run timeout of {timeout_ms} ms exceeded"
    for number, row in over:
        started_ms = rows.ExecutionRow.unpack(row).started_ms
        failure = failures.Failure(started_ms, time_ms, error, classes=(RUN_TIMEOUT_CLASS,))
        failures.fail(context, number, row, failure)
    executions = [keys.unpack_id(number) for number, _ in over]
    context.effects.leases_ended.append(LeaseEnded(session, token, executions, worker_pb2.CANCEL_REASON_RUN_TIMEOUT))


def _over(context: Context, kind: int, limit: int) -> list[bytes]:
    """Up to `limit` deadlines of a kind that have been reached, oldest first."""
    found: list[bytes] = []
    end = keys.deadline(kind, context.now_ms + 1, 0)
    cursor = context.writer.cursor(context.tables.deadlines)
    if limit and cursor.set_range(bytes((kind,))):
        for key in cursor.iternext(values=False):
            if key >= end or len(found) == limit:
                break
            found.append(key)
    return found


def _first_ms(context: Context, kind: int) -> int | None:
    cursor = context.writer.cursor(context.tables.deadlines)
    if not cursor.set_range(bytes((kind,))):
        return None
    found, time_ms, _, _ = keys.unpack_deadline(cursor.key())
    return time_ms if found == kind else None
