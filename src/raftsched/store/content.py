"""A hash over every row of the store: replicas at the same entry must have the same, whatever their pages look like."""

import hashlib
import struct
from collections.abc import Callable

from raftsched.store.environment import TABLE_NAMES, View

# What is gathered before it is hashed, and so how often `rest` is called and how much memory it takes.
BATCH_ROWS = 256
BATCH_BYTES = 256 << 10

_SIZES = struct.Struct(">II")
_TABLE = struct.Struct(">IQ")


def content_hash(view: View, rest: Callable[[], None] = lambda: None) -> tuple[bytes, int]:
    """32 bytes over all tables, keys and values in their order, and the number of rows.

    Calls `rest` now and then, which may wait, or raise to end it. Raises lmdb.Error where pages cannot be followed.
    """
    digest = hashlib.sha256()
    rows = 0
    for number, name in enumerate(TABLE_NAMES):
        table = getattr(view.tables, name)
        parts: list[bytes] = []
        gathered = found = 0
        for key, value in view.cursor(table):
            # With their lengths, so that no two contents look the same once they are joined.
            parts += (_SIZES.pack(len(key), len(value)), key, value)
            gathered += len(value)
            found += 1
            if len(parts) >= 3 * BATCH_ROWS or gathered >= BATCH_BYTES:
                digest.update(b"".join(parts))
                parts.clear()
                gathered = 0
                rest()
        digest.update(b"".join(parts))
        digest.update(_TABLE.pack(number, found))
        rows += found
    return digest.digest(), rows
