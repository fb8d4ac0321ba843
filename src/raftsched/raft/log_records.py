"""The two kinds of records in the Raft log's files, each with its checksum, and the disk work of one flush."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import lmdb

from raftsched.model.errors import StoreCorrupt

FORMAT = 2
STATE_KEY = b"state"

_KEY = struct.Struct(">Q")
_PLACE = struct.Struct(">QQ")
# term, checksum; the command follows.
_ENTRY_HEAD = struct.Struct(">QI")
# format, term, vote, base index, base term, commit index, joined, transaction; the checksum follows.
_STATE = struct.Struct(">HQQQQQ?Q")
_CHECKSUM = struct.Struct(">I")

HEAD_BYTES = _ENTRY_HEAD.size

# What LMDB hands out: bytes, or a view of its pages while a transaction is open.
Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log remembers beside its entries. `vote` 0: none given in this term."""

    term: int = 0
    vote: int = 0
    base_index: int = 0
    base_term: int = 0
    commit_index: int = 0
    joined: bool = False
    # LMDB's number of the transaction that wrote it, see log_roots.py.
    transaction: int = 0

    def pack(self) -> bytes:
        body = _STATE.pack(
            FORMAT,
            self.term,
            self.vote,
            self.base_index,
            self.base_term,
            self.commit_index,
            self.joined,
            self.transaction,
        )
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def unpack(cls, data: bytes) -> "LogState":
        """Raises StoreCorrupt."""
        if len(data) != _STATE.size + _CHECKSUM.size:
            raise StoreCorrupt("the log's state record is cut short")
        body = data[: _STATE.size]
        if _CHECKSUM.pack(zlib.crc32(body)) != data[_STATE.size :]:
            raise StoreCorrupt("the log's state record (term, vote, commit index) is damaged: its checksum differs")
        form, *fields = _STATE.unpack(body)
        if form != FORMAT:
            raise StoreCorrupt(f"the log has format {form}, this version reads {FORMAT}")
        return cls(*fields)


def key(index: int) -> bytes:
    return _KEY.pack(index)


def index_of(entry_key: Buffer) -> int:
    if len(entry_key) != _KEY.size:
        raise StoreCorrupt(f"the log holds a key that is no index: {bytes(entry_key[:16]).hex()}")
    return int(_KEY.unpack(entry_key)[0])


def checksum(index: int, term: int, command: bytes) -> int:
    """Over the place too, so that an entry that turns up elsewhere is noticed."""
    return zlib.crc32(command, zlib.crc32(_PLACE.pack(index, term)))


def term_of(index: int, record: Buffer) -> int:
    """The term alone, without reading the command. Raises StoreCorrupt."""
    if len(record) < HEAD_BYTES:
        raise StoreCorrupt(f"log entry {index} is cut short")
    return int(_ENTRY_HEAD.unpack_from(record)[0])


def unpack_entry(index: int, record: Buffer) -> "LogEntry":
    """Raises StoreCorrupt."""
    term = term_of(index, record)
    command = bytes(record[HEAD_BYTES:])
    stored = int(_ENTRY_HEAD.unpack_from(record)[1])
    if stored != checksum(index, term, command):
        raise StoreCorrupt(f"log entry {index} is damaged: its checksum differs")
    return LogEntry(term, command, stored)


class LogEntry(NamedTuple):
    """What the log holds at an index; the checksum is of the index too."""

    term: int
    command: bytes
    checksum: int


@dataclass(frozen=True, slots=True)
class Put:
    index: int
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class Delete:
    """Entries first..last; last None: to the end."""

    first: int
    last: int | None


Change = Put | Delete


def write(environment: lmdb.Environment, entries: Any, states: Any, changes: Sequence[Change], state: LogState) -> None:
    """Makes the changes and the state durable together, in their order: after a crash all are there or none."""
    with environment.begin(write=True) as txn:
        with txn.cursor(entries) as cursor:
            for change in changes:
                if isinstance(change, Delete):
                    _delete(cursor, change)
                    continue
                record = _ENTRY_HEAD.pack(change.entry.term, change.entry.checksum) + change.entry.command
                # Appending refuses a key that is not beyond all others: an overwrite here would mean a gap elsewhere.
                if not cursor.put(key(change.index), record, append=True):
                    raise StoreCorrupt(f"log entry {change.index} is on disk already")
        txn.put(STATE_KEY, replace(state, transaction=txn.id()).pack(), db=states)


def _delete(cursor: Any, change: Delete) -> None:
    if not cursor.set_range(key(change.first)):
        return
    end = None if change.last is None else key(change.last)
    while (found := cursor.key()) and (end is None or found <= end):
        cursor.delete()
