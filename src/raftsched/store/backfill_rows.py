"""How backfills are stored: keys and rows of the table `backfills`. Big-endian, as all keys."""

import struct
from dataclasses import dataclass

from raftsched.store import keys

_BACKFILL = b"\x01"
_OF_JOB = b"\x02"
_TICKS = b"\x03"
_ROW = struct.Struct(">QBQQQQIQQQQQQQ")
# Ticks of a backfill that stand in one row.
CHUNK = 500


def backfill_key(backfill: int) -> bytes:
    """-> BackfillRow."""
    return _BACKFILL + keys.pack_id(backfill)


def of_job(job: bytes, backfill: int = 0) -> bytes:
    """-> empty. By job, so that they can be listed; `job` is its key."""
    return _OF_JOB + job + keys.pack_id(backfill)


def id_of(key: bytes) -> int:
    """The backfill of an `of_job` key."""
    return keys.unpack_id(key[-keys.ID_BYTES :])


def ticks_of(backfill: int) -> bytes:
    """Prefix of the rows that hold a backfill's ticks."""
    return _TICKS + keys.pack_id(backfill)


def ticks_key(backfill: int, first_ms: int) -> bytes:
    """-> a column of ascending ticks that are left to fire, the first of which was `first_ms` once."""
    return ticks_of(backfill) + keys.pack_id(first_ms)


@dataclass(frozen=True, slots=True)
class BackfillRow:
    """A backfill, decoded. `state` is a value of raftsched.v1.BackfillState."""

    job: int
    state: int
    start_ms: int
    end_ms: int
    interval_ms: int
    priority: int
    # Of its executions.
    profile: int
    total: int
    fired: int
    passed_over: int
    created_ms: int
    # While it is RUNNING: when its next step is due, and the execution at which the search for what has run goes on;
    # 0: that is over.
    next_ms: int
    search: int
    # When the oldest execution that was looked at fired.
    searched_ms: int

    @classmethod
    def unpack(cls, value: bytes) -> "BackfillRow":
        return cls(*_ROW.unpack(value))

    def pack(self) -> bytes:
        return _ROW.pack(
            self.job,
            self.state,
            self.start_ms,
            self.end_ms,
            self.interval_ms,
            self.priority,
            self.profile,
            self.total,
            self.fired,
            self.passed_over,
            self.created_ms,
            self.next_ms,
            self.search,
            self.searched_ms,
        )
