"""Lease blocks: which executions a session holds under which token, until they are settled or lost.

A block tells how many of its executions have which profile: what is leased under each limit follows from the blocks.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from raftsched.model.errors import ImpossibleState
from raftsched.state.context import Context
from raftsched.store import keys, rows


def add(context: Context, session: int, executions: bytes, profiles: Sequence[bytes]) -> None:
    """A new block under the token of this command. `profiles`: the key of each execution's profile, in their order."""
    tallies = [(context.catalog.profile(key), count) for key, count in _tallied(profiles)]
    timeouts = tuple(sorted({profile.run_timeout_ms for profile, _ in tallies} - {0}))
    counts = tuple((profile.id, count) for profile, count in tallies)
    block = rows.LeaseRow(context.now_ms, timeouts, executions, counts)
    context.writer.put(context.tables.leases, keys.lease(session, context.token), block.pack())
    for timeout_ms in timeouts:
        key = keys.deadline(keys.RUN_TIMEOUT, context.now_ms + timeout_ms, session, context.token)
        context.writer.put(context.tables.deadlines, key, keys.pack_id(timeout_ms))
    context.state.leased += len(executions) // keys.ID_BYTES
    context.limits.began(tallies, context.now_ms)


def find(context: Context, key: bytes) -> rows.LeaseRow | None:
    """The block of a (session, token) key."""
    value = context.writer.get(context.tables.leases, key)
    return rows.LeaseRow.unpack(value) if value is not None else None


def of_session(context: Context, session: int) -> list[bytes]:
    """The keys of all blocks of a session, oldest first."""
    prefix = keys.pack_id(session)
    found = []
    cursor = context.writer.cursor(context.tables.leases)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if not key.startswith(prefix):
                break
            found.append(key)
    return found


def remove(context: Context, key: bytes, executions: bytes, found: Iterable[bytes] = ()) -> None:
    """Takes executions (a column) out of a block that holds them; an empty block goes, with its deadlines.

    `found`, the rows of these executions, saves reading them when only a part of a block of several profiles goes.
    """
    block = _existing(context, key)
    left = _without(block.executions, executions)
    removed = len(block.executions) - len(left)
    if removed != len(executions):
        raise ImpossibleState("an execution is leased but not in its lease block")
    context.state.leased -= removed // keys.ID_BYTES
    gone = _gone(context, block, executions, found) if left else block.profiles
    for number, count in gone:
        profile = context.catalog.profile(keys.pack_small_id(number))
        context.ready.limits_eased(context.limits.ended(profile, count))
    if left:
        counts = Counter(dict(block.profiles))
        counts.subtract(dict(gone))
        kept = tuple((number, count) for number, count in counts.items() if count)
        value = rows.LeaseRow(block.leased_ms, block.run_timeouts_ms, left, kept).pack()
        context.writer.put(context.tables.leases, key, value)
        return
    context.writer.delete(context.tables.leases, key)
    session, token = keys.unpack_pair(key)
    for timeout_ms in block.run_timeouts_ms:
        deadline = keys.deadline(keys.RUN_TIMEOUT, block.leased_ms + timeout_ms, session, token)
        # Already gone if it has been reached.
        context.writer.delete(context.tables.deadlines, deadline)


def _existing(context: Context, key: bytes) -> rows.LeaseRow:
    """As find, of a block that an execution's row speaks of."""
    block = find(context, key)
    if block is None:
        raise ImpossibleState("an execution is leased but its lease block is missing")
    return block


def _gone(
    context: Context, block: rows.LeaseRow, executions: bytes, found: Iterable[bytes]
) -> Sequence[tuple[int, int]]:
    """How many of these executions of a block have which profile."""
    if len(block.profiles) == 1:
        return ((block.profiles[0][0], len(executions) // keys.ID_BYTES),)
    found = found or context.writer.get_all(context.tables.executions, keys.split_ids(executions))
    tallies = _tallied([row[rows.EXECUTION_PROFILE] for row in found])
    return [(keys.unpack_small_id(key), count) for key, count in tallies]


def _tallied(profiles: Sequence[bytes]) -> Iterable[tuple[bytes, int]]:
    """How often each occurs, in order of first appearance. Cheap when all are equal."""
    if not profiles:
        return ()
    count = profiles.count(profiles[0])
    if count == len(profiles):
        return ((profiles[0], count),)
    return Counter(profiles).items()


def _without(held: bytes, gone: bytes) -> bytes:
    if held == gone:
        return b""
    at = held.find(gone)
    if at >= 0 and at % keys.ID_BYTES == 0:
        return held[:at] + held[at + len(gone) :]
    settled = set(keys.split_ids(gone))
    return b"".join([number for number in keys.split_ids(held) if number not in settled])
