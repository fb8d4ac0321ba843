"""Keys whose rows stand beside an index by time in the same table, and go when that time has come.

A table holds (32 bytes of a hash) -> what the key is for, and (time u64, the same 32 bytes) -> empty.
"""

import lmdb

from raftsched.state.context import Context
from raftsched.store import keys


def remove_before(context: Context, table: lmdb._Database, end: bytes, limit: int) -> int:
    """Removes at most `limit` keys whose row in the index sorts before `end`, oldest first; how many."""
    found: list[bytes] = []
    cursor = context.writer.cursor(table)
    if cursor.first():
        for key in cursor.iternext(values=False):
            if len(found) == limit or key >= end:
                break
            # A key's own row may sort among the times: its first bytes are those of a hash.
            if len(key) == keys.TIMED_KEY_BYTES:
                found.append(key)
    for key in found:
        context.writer.delete(table, key)
        context.writer.delete(table, key[keys.ID_BYTES :])
    return len(found)


def oldest_ms(context: Context, table: lmdb._Database) -> int | None:
    """The earliest time in the index; None when it is empty."""
    cursor = context.writer.cursor(table)
    if cursor.first():
        for key in cursor.iternext(values=False):
            if len(key) == keys.TIMED_KEY_BYTES:
                return keys.unpack_id(key[: keys.ID_BYTES])
            if not key.startswith(b"\0\0"):
                # Times begin so: none follows.
                break
    return None
