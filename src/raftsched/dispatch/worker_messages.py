"""Checks the messages of a worker stream and turns them into commands. Everything here is per batch."""

from collections.abc import Iterable, Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ProtocolViolation
from raftsched.model.limits import (
    BACKOFF_MAX_MS,
    ERROR_CLASS_MAX_LENGTH,
    ERROR_CLASSES_MAX_COUNT,
    ERROR_MAX_BYTES,
    RESULT_MAX_BYTES,
)
from raftsched.store.keys import pack_ids
from raftsched.v1 import worker_pb2

# A worker holds a few thousand executions; a message about more is a mistake or an attack.
MAX_ITEMS = 10_000
MAX_HELD_TOKENS = 100_000
# All results of a message go through the log in one piece.
MAX_RESULT_BYTES = 8 * 1024 * 1024


def ack_command(ack: worker_pb2.Ack) -> tuple[command_pb2.Command, int]:
    """The command and its number of operations. Raises ProtocolViolation naming the field."""
    _check_items(len(ack.leases), "ack.leases")
    command = command_pb2.Command()
    items = result_bytes = 0
    for number, completed in enumerate(ack.leases):
        count = len(completed.execution_ids)
        for column in ("started_ms", "ended_ms"):
            values = getattr(completed, column)
            if len(values) != count:
                raise ProtocolViolation(
                    f"has {len(values)} values for {count} execution_ids", field=f"ack.leases[{number}].{column}"
                )
            if count and min(values) < 0:
                raise ProtocolViolation("must not be negative", field=f"ack.leases[{number}].{column}")
        if completed.results:
            result_bytes += _check_results(completed.results, count, f"ack.leases[{number}].results")
        items += count
        command.ack.blocks.add(
            token=completed.token,
            executions=pack_ids(completed.execution_ids),
            started_ms=pack_ids(completed.started_ms),
            ended_ms=pack_ids(completed.ended_ms),
            results=completed.results,
        )
    _check_items(items, "ack.leases")
    if result_bytes > MAX_RESULT_BYTES:
        raise ProtocolViolation(
            f"holds results of {result_bytes:,} bytes; send at most {MAX_RESULT_BYTES:,} in a message",
            field="ack.leases",
        )
    command.ack.SetInParent()
    return command, items


def _check_results(results: Sequence[bytes], count: int, field: str) -> int:
    """How many bytes they are."""
    if len(results) != count:
        raise ProtocolViolation(f"has {len(results)} values for {count} execution_ids", field=field)
    sizes = list(map(len, results))
    if max(sizes) > RESULT_MAX_BYTES:
        raise ProtocolViolation(
            f"holds a result of {max(sizes):,} bytes; at most {RESULT_MAX_BYTES:,} are right", field=field
        )
    return sum(sizes)


def fail_command(fail: worker_pb2.Fail) -> tuple[command_pb2.Command, int]:
    """As ack_command; error texts are cut to ERROR_MAX_BYTES, names of classes and their number to what is kept."""
    _check_items(len(fail.failures), "fail.failures")
    command = command_pb2.Command()
    command.fail.SetInParent()
    for number, failure in enumerate(fail.failures):
        if failure.started_ms < 0 or failure.ended_ms < 0:
            raise ProtocolViolation("must not be negative", field=f"fail.failures[{number}].started_ms/ended_ms")
        if not 0 <= failure.retry_after_ms <= BACKOFF_MAX_MS:
            raise ProtocolViolation(
                f"{failure.retry_after_ms} is not 0–{BACKOFF_MAX_MS}", field=f"fail.failures[{number}].retry_after_ms"
            )
        if failure.snooze and (failure.permanent or not failure.retry_after_ms):
            raise ProtocolViolation(
                "goes with retry_after_ms, and not with permanent", field=f"fail.failures[{number}].snooze"
            )
        command.fail.failures.add(
            token=failure.token,
            execution=failure.execution_id,
            started_ms=failure.started_ms,
            ended_ms=failure.ended_ms,
            error=failure.error.encode()[:ERROR_MAX_BYTES].decode(errors="ignore"),
            permanent=failure.permanent,
            error_classes=_error_classes(failure),
            retry_after_ms=failure.retry_after_ms,
            snooze=failure.snooze,
        )
    return command, len(fail.failures)


def _error_classes(failure: worker_pb2.Failure) -> list[str]:
    names = [failure.error_class, *failure.error_bases[: ERROR_CLASSES_MAX_COUNT - 1]]
    return [name[:ERROR_CLASS_MAX_LENGTH] for name in names if name]


def started_command(started: worker_pb2.Started) -> tuple[command_pb2.Command, int]:
    """As ack_command."""
    if started.started_ms < 0:
        raise ProtocolViolation("must not be negative", field="started.started_ms")
    items = _checked_items(started.leases, "started.leases")
    command = command_pb2.Command()
    command.started.started_ms = started.started_ms
    command.started.blocks.extend(_blocks(started.leases))
    return command, items


def release_command(release: worker_pb2.Release) -> tuple[command_pb2.Command, int]:
    """As ack_command."""
    items = _checked_items(release.leases, "release.leases")
    command = command_pb2.Command()
    command.release.SetInParent()
    command.release.blocks.extend(_blocks(release.leases))
    return command, items


def renew_command(session: int, heartbeat: worker_pb2.Heartbeat, grant_timeout_ms: int) -> command_pb2.Command:
    """Renews `session` and lists what it holds. Raises ProtocolViolation."""
    if len(heartbeat.held_tokens) > MAX_HELD_TOKENS:
        raise ProtocolViolation(f"more than {MAX_HELD_TOKENS} values", field="heartbeat.held_tokens")
    renew = command_pb2.Renew(grant_timeout_ms=grant_timeout_ms)
    renew.sessions.add(session=session, held_tokens=pack_ids(heartbeat.held_tokens), sequence=heartbeat.sequence)
    return command_pb2.Command(renew=renew)


def _blocks(leases: Iterable[worker_pb2.LeasedExecutions]) -> list[command_pb2.LeasedBlock]:
    return [command_pb2.LeasedBlock(token=lease.token, executions=pack_ids(lease.execution_ids)) for lease in leases]


def _checked_items(leases: Sequence[worker_pb2.LeasedExecutions], field: str) -> int:
    """Executions in all blocks; empty blocks cost as much as others, so that their number is bounded too."""
    _check_items(len(leases), field)
    return _check_items(sum(len(lease.execution_ids) for lease in leases), field)


def _check_items(items: int, field: str) -> int:
    if items > MAX_ITEMS:
        raise ProtocolViolation(f"holds {items} executions; send at most {MAX_ITEMS} in a message", field=field)
    return items
