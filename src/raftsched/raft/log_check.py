"""Reads all that a Raft log has on disk and checks it, beside the thread that owns the log."""

from collections.abc import Callable
from typing import Any

import lmdb

from raftsched.model.errors import StoreCorrupt
from raftsched.raft import log_records as records
from raftsched.raft.log_records import LogState

# Read in one transaction: while it is open, no page that the log gives up can be used again.
SLICE_ENTRIES = 256


def check_log(environment: lmdb.Environment, entries: Any, states: Any, rest: Callable[[], None] = lambda: None) -> int:
    """The number of entries found whole. Raises StoreCorrupt for the first one that is not, or is missing.

    Calls `rest` now and then, which may wait, or raise to end it. The log may change meanwhile.
    """
    checked, index, last = 0, 0, 0
    while True:
        with environment.begin(buffers=True) as txn:
            packed = txn.get(records.STATE_KEY, db=states)
            state = LogState.unpack(bytes(packed)) if packed is not None else LogState()
            with txn.cursor(entries) as cursor:
                last = records.index_of(cursor.key()) if cursor.last() else state.base_index
                # The log's start may have moved on, and its end may have been cut off.
                first = max(index, state.base_index + 1)
                index = min(first + SLICE_ENTRIES, last + 1)
                checked += _check_slice(cursor, first, index)
                if index > last:
                    return checked
        rest()


def _check_slice(cursor: Any, first: int, end: int) -> int:
    cursor.set_range(records.key(first))
    for index in range(first, end):
        found = cursor.key()
        if found != records.key(index):
            raise StoreCorrupt(f"log entry {index} is missing")
        records.unpack_entry(index, cursor.value())
        cursor.next()
    return max(0, end - first)
