"""The time-bucketed index of what is due: oldest second first, whichever shards are asked for."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

import lmdb

from raftsched.state.context import Context
from raftsched.store import keys

DueRow = tuple[bytes, bytes]
# Rows read at once: little when a shard has few in a bucket, more as it turns out to have many.
FIRST_CHUNK = 64
CHUNK_GROWTH = 4


def next_due_ms(context: Context, shards: Sequence[int]) -> int | None:
    """When the earliest row of these shards is due."""
    cursor = context.writer.cursor(context.tables.due)
    heads = [due_ms for shard in shards if (due_ms := _head_ms(cursor, shard)) is not None]
    return min(heads, default=None)


def read_due(context: Context, shards: Sequence[int], limit: int) -> tuple[list[list[DueRow]], bool]:
    """(key, kind) of up to `limit` rows that are due by the replicated clock, and whether more are.

    Each inner list holds neighbouring rows in order.
    """
    cursor = context.writer.cursor(context.tables.due)
    now_ms = context.now_ms
    heads = []
    for shard in shards:
        due_ms = _head_ms(cursor, shard)
        if due_ms is not None and due_ms <= now_ms:
            heads.append((due_ms // 1000, shard, due_ms))
    heapq.heapify(heads)
    found: list[list[DueRow]] = []
    while heads and limit:
        _, shard, due_ms = heads[0]
        heapq.heappop(heads)
        # Up to the end of the second in which another shard has something due.
        until_ms = min(now_ms, heads[0][0] * 1000 + 999) if heads else now_ms
        rows, following_ms = _read_range(cursor, shard, due_ms, until_ms, limit)
        found.append(rows)
        limit -= len(rows)
        if following_ms is not None and following_ms <= now_ms:
            heapq.heappush(heads, (following_ms // 1000, shard, following_ms))
    return found, bool(heads)


def _read_range(
    cursor: lmdb.Cursor[bytes], shard: int, from_ms: int, until_ms: int, limit: int
) -> tuple[list[DueRow], int | None]:
    """The shard's rows of that time, and when its row after them is due."""
    end = keys.due_until(shard, until_ms)
    rows: list[DueRow] = []
    chunk = FIRST_CHUNK
    cursor.set_range(keys.due_from(shard, from_ms))
    iterator = cursor.iternext()
    while len(rows) < limit:
        wanted = min(chunk, limit - len(rows))
        read = list(islice(iterator, wanted))
        if not read:
            return rows, None
        if read[-1][0] >= end:
            inside = [row for row in read if row[0] < end]
            rows += inside
            return rows, _ms_if_of_shard(read[len(inside)][0], shard)
        rows += read
        chunk *= CHUNK_GROWTH
    following = next(iterator, None)
    return rows, _ms_if_of_shard(following[0], shard) if following is not None else None


def _head_ms(cursor: lmdb.Cursor[bytes], shard: int) -> int | None:
    if not cursor.set_range(keys.due_shard(shard)):
        return None
    return _ms_if_of_shard(cursor.key(), shard)


def _ms_if_of_shard(key: bytes, shard: int) -> int | None:
    return keys.due_ms_of(key) if key[keys.DUE_SHARD] == keys.due_shard(shard) else None
