"""What a worker says of what it holds: Started, Ack, Fail and Release. Anything under a token that is over is stale."""

from collections.abc import Callable, Iterable, Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.model.transitions import ExecutionState
from raftsched.state import endings, failures, leases
from raftsched.state.context import Context, check_column, check_time, check_time_column, grouped
from raftsched.state.lifecycle import FAIL, RELEASE, START, SUCCEED
from raftsched.state.results import Settled
from raftsched.state.revoke import end_as_revoked
from raftsched.store import keys, rows

# Executions one command may settle: more would hold up everything else that waits for its turn.
MAX_EXECUTIONS = 20_000

_STATUS = rows.EXECUTION_STATUS
# Session, token, time of the lease and status: what all executions of a block have in common.
_LEASE_AND_STATUS = slice(46, 71)
_TOKEN_IN_LABEL = slice(8, 16)
_STATUS_IN_LABEL = 24
# With status and token of that name the event was applied before.
_STARTED_BEFORE = {int(ExecutionState.RUNNING), int(ExecutionState.SUCCEEDED)}
_PENDING = int(ExecutionState.PENDING)

# (place in the block, execution key, row)
Held = tuple[int, bytes, bytes]


def apply_ack(context: Context, command: command_pb2.Ack) -> Settled:
    """Raises InvalidField, having written nothing."""
    for number, block in enumerate(command.blocks):
        field = f"blocks[{number}]"
        check_column(block.executions, f"{field}.executions")
        count = len(block.executions) // keys.ID_BYTES
        check_time_column(block.started_ms, f"{field}.started_ms", count)
        check_time_column(block.ended_ms, f"{field}.ended_ms", count)
        if block.results:
            _check_results(block.results, f"{field}.results", count)
    _check_total(sum(len(block.executions) for block in command.blocks) // keys.ID_BYTES)
    stale: list[int] = []
    for block in command.blocks:
        times = keys.split(keys.interleave(block.started_ms, block.ended_ms), 2 * keys.ID_BYTES)

        def succeed(
            status: int, items: Sequence[Held], times: list[bytes] = times, results: Sequence[bytes] = block.results
        ) -> bool:
            after = SUCCEED.get(status)
            if after is None:
                return status == int(ExecutionState.SUCCEEDED)
            values = [row[:_STATUS] + after + times[at] + row[87:] for at, _, row in items]
            _write(context, items, values)
            _end_lease(context, items)
            if results:
                _keep_results(context, items, results)
            numbers = [number for _, number, _ in items]
            endings.ended(context, list(zip(numbers, values, strict=True)), ExecutionState.SUCCEEDED)
            return True

        _settle(context, block.token, block.executions, succeed, stale)
    return Settled(stale)


def apply_started(context: Context, command: command_pb2.Started) -> Settled:
    """Raises InvalidField, having written nothing."""
    _check_blocks(command.blocks)
    check_time(command.started_ms, "started_ms")
    started = keys.pack_id(command.started_ms)

    def start(status: int, items: Sequence[Held]) -> bool:
        after = START.get(status)
        if after is None:
            return status in _STARTED_BEFORE
        _write(context, items, [row[:_STATUS] + after + started + row[79:] for _, _, row in items])
        return True

    stale: list[int] = []
    for block in command.blocks:
        _settle(context, block.token, block.executions, start, stale)
    return Settled(stale)


def apply_release(context: Context, command: command_pb2.Release) -> Settled:
    """Raises InvalidField, having written nothing."""
    _check_blocks(command.blocks)

    def release(status: int, items: Sequence[Held]) -> bool:
        after = RELEASE.get(status)
        if after is None:
            return status == _PENDING
        _end_lease(context, items)
        unwanted = [item for item in items if item[2][rows.EXECUTION_CAUSE] & rows.CANCEL_REQUESTED]
        for _, number, row in unwanted:
            end_as_revoked(context, number, row)
        if unwanted:
            items = [item for item in items if item not in unwanted]
        _write(context, items, [row[:_STATUS] + after + row[71:] for _, _, row in items])
        make_ready(context, items)
        return True

    stale: list[int] = []
    for block in command.blocks:
        _settle(context, block.token, block.executions, release, stale)
    return Settled(stale)


def apply_fail(context: Context, command: command_pb2.Fail) -> Settled:
    """Raises InvalidField, having written nothing."""
    _check_total(len(command.failures))
    for place, failure in enumerate(command.failures):
        check_time(failure.started_ms, f"failures[{place}].started_ms")
        check_time(failure.ended_ms, f"failures[{place}].ended_ms")
        _check_failure(failure, f"failures[{place}]")
    asked = [keys.pack_id(failure.execution) for failure in command.failures]
    found = dict(context.writer.get_many(context.tables.executions, asked))
    # By lease block, so that each is rewritten once.
    accepted: dict[bytes, dict[bytes, command_pb2.FailedExecution]] = {}
    stale: list[int] = []
    for number, failure in zip(asked, command.failures, strict=True):
        row = found.get(number)
        if row is None or row[rows.EXECUTION_TOKEN] != keys.pack_id(failure.token):
            stale.append(failure.execution)
        elif row[_STATUS] in FAIL:
            accepted.setdefault(row[rows.EXECUTION_LEASE], {}).setdefault(number, failure)
        elif not failures.failed_already(row):
            stale.append(failure.execution)
    for lease, of_block in accepted.items():
        leases.remove(context, lease, b"".join(of_block))
        for number, failure in of_block.items():
            ended = failures.Failure(
                failure.started_ms,
                failure.ended_ms,
                failure.error.encode()[: limits.ERROR_MAX_BYTES].decode(errors="ignore"),
                permanent=failure.permanent,
                classes=failure.error_classes,
                retry_after_ms=failure.retry_after_ms,
            )
            end = failures.snooze if failure.snooze else failures.fail
            end(context, number, found[number], ended)
    return Settled(stale)


def _check_failure(failure: command_pb2.FailedExecution, field: str) -> None:
    if not 0 <= failure.retry_after_ms <= limits.BACKOFF_MAX_MS:
        raise InvalidField("is out of range", field=f"{field}.retry_after_ms")
    if failure.snooze and (failure.permanent or not failure.retry_after_ms):
        raise InvalidField("goes with retry_after_ms, and not with permanent", field=f"{field}.snooze")
    if len(failure.error_classes) > limits.ERROR_CLASSES_MAX_COUNT or any(
        len(name) > limits.ERROR_CLASS_MAX_LENGTH for name in failure.error_classes
    ):
        raise InvalidField("holds too many names, or one that is too long", field=f"{field}.error_classes")


def make_ready(context: Context, items: Iterable[Held]) -> None:
    """Puts executions that have become PENDING into the ready queue."""
    lanes: dict[bytes, list[int]] = {}
    for _, number, row in items:
        lane = context.catalog.profile(row[rows.EXECUTION_PROFILE]).lane
        lanes.setdefault(lane, []).append(keys.unpack_id(number))
    context.ready.add(lanes)


def _check_blocks(blocks: Iterable[command_pb2.LeasedBlock]) -> None:
    total = 0
    for number, block in enumerate(blocks):
        check_column(block.executions, f"blocks[{number}].executions")
        total += len(block.executions) // keys.ID_BYTES
    _check_total(total)


def _check_results(results: Sequence[bytes], field: str, count: int) -> None:
    if len(results) != count:
        raise InvalidField(f"has {len(results)} results for {count} executions", field=field)
    longest = max(map(len, results))
    if longest > limits.RESULT_MAX_BYTES:
        raise InvalidField(
            f"{longest:,} bytes are too many; at most {limits.RESULT_MAX_BYTES:,} are right",
            field=field,
            limit=str(limits.RESULT_MAX_BYTES),
        )


def _keep_results(context: Context, items: Sequence[Held], results: Sequence[bytes]) -> None:
    kept = [(number, results[at]) for at, number, _ in items if results[at]]
    if kept:
        context.writer.put_many(context.tables.results, [key for key, _ in kept], [value for _, value in kept])


def _check_total(total: int) -> None:
    if total > MAX_EXECUTIONS:
        raise InvalidField(f"names {total} executions; at most {MAX_EXECUTIONS} fit in a command", field="blocks")


def _settle(
    context: Context,
    token: int,
    executions: bytes,
    settle: Callable[[int, Sequence[Held]], bool],
    stale: list[int],
) -> None:
    """Calls `settle` with the executions of the block that hold this token, once for each status and session.

    It says whether that status allows it; the executions it refuses, and all others, are added to `stale`.
    """
    asked = keys.split_ids(executions)
    found = context.writer.get_many(context.tables.executions, asked)
    items = _held(asked, found)
    if len(items) != len(asked):
        known = {number for number, _ in found}
        stale += [keys.unpack_id(number) for number in dict.fromkeys(asked) if number not in known]
    wanted = keys.pack_id(token)
    for label, group in grouped([row[_LEASE_AND_STATUS] for _, _, row in items], items):
        if label[_TOKEN_IN_LABEL] != wanted or not settle(label[_STATUS_IN_LABEL], group):
            stale += [keys.unpack_id(number) for _, number, _ in group]


def _held(asked: Sequence[bytes], found: Sequence[tuple[bytes, bytes]]) -> list[Held]:
    """The rows with their first place in what was asked for; each execution once."""
    if len(found) == len(asked) and len(set(asked)) == len(asked):
        return [(at, number, row) for at, (number, row) in enumerate(found)]
    rows_by_number = dict(found)
    places: dict[bytes, int] = {}
    for at, number in enumerate(asked):
        if number in rows_by_number:
            places.setdefault(number, at)
    return [(at, number, rows_by_number[number]) for number, at in places.items()]


def _write(context: Context, items: Sequence[Held], values: Sequence[bytes]) -> None:
    context.writer.put_many(context.tables.executions, [number for _, number, _ in items], values)


def _end_lease(context: Context, items: Sequence[Held]) -> None:
    """Takes executions of one block out of it."""
    executions = b"".join([number for _, number, _ in items])
    leases.remove(context, items[0][2][rows.EXECUTION_LEASE], executions, [row for _, _, row in items])
