"""Lease: hands ready executions to a worker's session, as one block under one fencing token."""

import struct
from collections.abc import Sequence
from itertools import accumulate

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState
from raftsched.model.limits import SESSION_QUEUES_MAX
from raftsched.model.transitions import ExecutionState
from raftsched.state import failures, leases, start_deadline, upstreams
from raftsched.state.cancel import end_as_cancelled
from raftsched.state.context import Context, grouped
from raftsched.state.lifecycle import LEASE
from raftsched.state.results import Leased
from raftsched.state.turns import Selection
from raftsched.store import keys, rows

# Executions one command may lease: more would hold up everything else that waits for its turn.
MAX_EXECUTIONS = 10_000

_COUNTS = slice(40, 44)
_PAYLOAD_AND_PROFILE = slice(25, 32)
_LEASED_TAIL = struct.Struct(">HQQQ")
# Job, scheduled_for_ms, profile and failures of a row's first 42 bytes.
_HEAD = "Q8xQ4xI8xH"
_PENDING = int(ExecutionState.PENDING)
_LEASED = LEASE[_PENDING]
_NO_FAILURES = bytes(4)


def apply_lease(context: Context, command: command_pb2.Lease) -> Leased:
    """Empty when the session is not open or nothing is ready."""
    nothing = Leased(command.session, context.token, (), (), (), (), ())
    if command.session not in context.sessions:
        return nothing
    queues = [context.catalog.find_queue(name) for name in command.queues[:SESSION_QUEUES_MAX]]
    asked = list(dict.fromkeys(queue for queue in queues if queue is not None))
    numbers, found = _take(context, asked, min(command.limit, MAX_EXECUTIONS), command.payload_bytes_limit)
    if not numbers:
        return nothing
    if context.cancelling:
        numbers, found = _without_cancelled(context, numbers, found)
        if not numbers:
            return nothing
    profiles = _profiles(found)
    if any(context.catalog.profile(profile).message.max_elapsed_ms for profile in set(profiles)):
        numbers, found = failures.without_late(context, numbers, found)
        if not numbers:
            return nothing
        profiles = _profiles(found)
    if any(context.catalog.profile(profile).start_deadline_ms for profile in set(profiles)):
        numbers, found = start_deadline.without_expired(context, numbers, found)
        if not numbers:
            return nothing
        profiles = _profiles(found)
    _write(context, command.session, numbers, found, profiles)
    if not context.is_own:
        return nothing
    return _columns(context, command.session, numbers, found)


def _take(
    context: Context, queues: Sequence[int], limit: int, payload_bytes_limit: int
) -> tuple[list[bytes], list[bytes]]:
    """Takes up to `limit` executions out of the ready queue, or as many as their payloads together allow."""
    selection = context.ready.select(queues, limit, context.limits, context.now_ms)
    numbers, found = _fetch(context, selection)
    fitting = _fitting(context, found, payload_bytes_limit)
    if fitting < len(found):
        # Dealt out anew, so that it is the block, not what was thought of, in which everybody has a share.
        selection = context.ready.select(queues, fitting, context.limits, context.now_ms)
        numbers, found = _fetch(context, selection)
        fitting = _fitting(context, found, payload_bytes_limit)
        if fitting < len(found):
            selection.cut(fitting)
            numbers, found = numbers[:fitting], found[:fitting]
    context.ready.take(selection)
    return numbers, found


def _fetch(context: Context, selection: Selection) -> tuple[list[bytes], list[bytes]]:
    """Keys and rows of the selected executions."""
    numbers = keys.split_ids(keys.pack_ids(selection.executions()))
    found = context.writer.get_all(context.tables.executions, numbers)
    if found and {row[rows.EXECUTION_STATUS] for row in found} != {_PENDING}:
        raise ImpossibleState("an execution is in the ready queue though it is not PENDING")
    return numbers, found


def _fitting(context: Context, found: Sequence[bytes], payload_bytes_limit: int) -> int:
    """How many of these, from the first on, have payloads, and upstreams, that together are within the limit."""
    follow = upstreams.any_depends(context, found)
    if not payload_bytes_limit or not (follow or _have_payloads(found)):
        return len(found)
    sizes = [int.from_bytes(row[rows.EXECUTION_PAYLOAD_BYTES], "big") for row in found]
    if follow:
        sizes = [sum(both) for both in zip(sizes, upstreams.message_bytes(context, found), strict=True)]
    # The first goes in whatever its size: it would never be leased otherwise.
    return sum(1 for total in accumulate(sizes) if total <= payload_bytes_limit) or 1


def _without_cancelled(
    context: Context, numbers: Sequence[bytes], found: Sequence[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Cancels the executions of jobs that were cancelled; returns the others."""
    kept: list[tuple[bytes, bytes]] = []
    for number, row in zip(numbers, found, strict=True):
        if row[rows.EXECUTION_JOB] in context.cancelling:
            end_as_cancelled(context, number, row)
        else:
            kept.append((number, row))
    return [number for number, _ in kept], [row for _, row in kept]


def _have_payloads(found: Sequence[bytes]) -> bool:
    return any(label[:3] != bytes(3) for label in {row[_PAYLOAD_AND_PROFILE] for row in found})


def _profiles(found: Sequence[bytes]) -> list[bytes]:
    return [row[rows.EXECUTION_PROFILE] for row in found]


def _write(
    context: Context, session: int, numbers: Sequence[bytes], found: Sequence[bytes], profiles: Sequence[bytes]
) -> None:
    values: list[bytes] = []
    written: list[bytes] = []
    for counts, items in grouped([row[_COUNTS] for row in found], list(zip(numbers, found, strict=True))):
        failures = int.from_bytes(counts[:2], "big")
        tail = _LEASED_TAIL.pack(failures + 1, session, context.token, context.now_ms) + _LEASED + bytes(16)
        written += [number for number, _ in items]
        if counts == _NO_FAILURES:
            values += [row[:44] + tail for _, row in items]
        else:
            values += [row[:44] + tail + row[rows.EXECUTION_BYTES :] for _, row in items]
    context.writer.put_many(context.tables.executions, written, values)
    leases.add(context, session, b"".join(numbers), profiles)


def _columns(context: Context, session: int, numbers: Sequence[bytes], found: Sequence[bytes]) -> Leased:
    """What the worker is told."""
    heads = struct.unpack(">" + _HEAD * len(found), b"".join([row[:42] for row in found]))
    payloads: Sequence[bytes] = ()
    if _have_payloads(found):
        jobs = [row[rows.EXECUTION_JOB] for row in found]
        by_job = dict(context.writer.get_many(context.tables.payloads, jobs))
        payloads = [by_job.get(job, b"") for job in jobs]
        own = [at for at, row in enumerate(found) if row[rows.EXECUTION_CAUSE] & rows.OWN_PAYLOAD]
        if own:
            by_execution = dict(context.writer.get_many(context.tables.execution_payloads, [numbers[at] for at in own]))
            for at in own:
                payloads[at] = by_execution[numbers[at]]
    return Leased(
        session=session,
        token=context.token,
        executions=keys.unpack_ids(b"".join(numbers)),
        jobs=heads[0::4],
        scheduled_for_ms=heads[1::4],
        attempts=[failures + 1 for failures in heads[3::4]],
        profiles=heads[2::4],
        payloads=payloads,
        upstreams=upstreams.of_executions(context, numbers, found),
    )
