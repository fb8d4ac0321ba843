"""The Raft log on LMDB: entries, term, vote, commit index. Changes are seen at once and durable after a flush."""

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import overload

import lmdb
from pysyncobj.journal import Journal

from raftsched.model.errors import ImpossibleState, StoreCorrupt
from raftsched.raft import log_records as records
from raftsched.raft.background import InlineBackground
from raftsched.raft.config import MIB
from raftsched.raft.log_check import check_log
from raftsched.raft.log_records import Change, Delete, LogEntry, LogState, Put
from raftsched.raft.log_roots import check_roots
from raftsched.raft.ports import Background
from raftsched.store.structure import check_structure

# LMDB 0.9's file format: the one that its tools and older bindings read.
LMDB_MAJOR = 0


class RaftLog(Journal):  # type: ignore[misc]
    """Indexes run from base_index + 1 to last_index; up to base_index the log has been compacted away.

    One thread owns it. What it is told changes what it answers at once; `flush` sends all changes so far to the
    disk, in one transaction, on the background given. Until that has ended, nothing that depends on a change may
    leave this node. Fewer changes than promised never survive a crash: the disk holds a prefix of the changes.

    Newest entries are kept in memory, up to `cache_bytes`; older ones are read from the disk and checked.
    Raises StoreCorrupt, on opening and on reading, and names what is damaged.
    """

    def __init__(
        self,
        path: Path,
        *,
        background: Background | None = None,
        map_size: int = 1 << 40,
        cache_bytes: int = 64 * MIB,
        verify_bytes: int = 64 * MIB,
    ) -> None:
        """`verify_bytes`: how much of the log's end is checked now; the rest is checked when it is read."""
        self._path = path
        self._background = background if background is not None else InlineBackground()
        self._cache_bytes = cache_bytes
        # Newest entries by index; from _cache_first on without a gap.
        self._cache: dict[int, LogEntry] = {}
        self._cache_first = 1
        self._cached = 0
        # Of every entry: the size of its command, so that compaction can count bytes without reading.
        self._sizes: deque[int] = deque()
        self._bytes = 0
        # Where each term begins: its first index, and the term. Answers term_at without reading.
        self._run_starts: list[int] = []
        self._run_terms: list[int] = []
        self._changes: list[Change] = []
        self._must_flush = False
        self._submitted = 0
        self._flushed = 0
        self._in_flight = False
        self._flush_again = False
        # The last entry that the write in flight will have made durable.
        self._in_flight_last = 0
        self._closed = False
        is_new = not (path / "data.mdb").exists()
        path.mkdir(parents=True, exist_ok=True)
        check_structure(path / "data.mdb")
        check_roots(path / "data.mdb")
        try:
            # metasync too, unlike the state's store: an acknowledged entry must survive a power loss of all nodes.
            self._env = lmdb.open(
                str(path), map_size=map_size, max_dbs=2, sync=True, metasync=True, lib_version=LMDB_MAJOR
            )
        except lmdb.Error as error:
            raise StoreCorrupt(f"{path}: {error}") from error
        try:
            self._open(is_new)
            self._load(verify_bytes)
        except lmdb.Error as error:
            self._env.close()
            raise StoreCorrupt(f"{path}: {error}") from error
        except StoreCorrupt as error:
            self._env.close()
            raise StoreCorrupt(f"{path}: {error.message}") from error

    def _open(self, is_new: bool) -> None:
        data = self._path / "data.mdb"
        needed = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        # Reading past the file's end would kill the process without a word.
        if data.stat().st_size < needed:
            raise StoreCorrupt(f"{data.stat().st_size} bytes where {needed} were written")
        self._entries_db = self._env.open_db(b"entries")
        self._state_db = self._env.open_db(b"state")
        if is_new:
            # LMDB does not sync directories: a new log that vanished in a power loss would take its votes with it.
            for folder in (self._path, self._path.parent):
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _load(self, verify_bytes: int) -> None:
        with self._env.begin(buffers=True) as txn:
            packed = txn.get(records.STATE_KEY, db=self._state_db)
            self._state = LogState.unpack(bytes(packed)) if packed is not None else LogState()
            self._last_index, term = self._state.base_index, self._state.base_term
            for entry_key, record in txn.cursor(self._entries_db):
                index = records.index_of(entry_key)
                if index != self._last_index + 1:
                    raise StoreCorrupt(f"log entry {self._last_index + 1} is missing, {index} follows")
                entry_term = records.term_of(index, record)
                if entry_term < term:
                    raise StoreCorrupt(f"log entry {index} has term {entry_term}, the one before it {term}")
                term = entry_term
                self._note_entry(index, term, len(record) - records.HEAD_BYTES)
            if packed is None and self._sizes:
                raise StoreCorrupt("the log's state record (term, vote, commit index) is missing")
            if not self._state.base_index <= self._state.commit_index <= self._last_index:
                raise StoreCorrupt(
                    f"the commit index {self._state.commit_index} is outside of the log, "
                    f"{self._state.base_index} to {self._last_index}"
                )
            if term > self._state.term:
                raise StoreCorrupt(f"the last entry has term {term}, the log's own is {self._state.term}")
            self._cache_first = self._last_index + 1
            checked = 0
            for index in range(self._last_index, self._state.base_index, -1):
                checked += self._sizes[index - self._state.base_index - 1]
                if checked > verify_bytes:
                    break
                entry = records.unpack_entry(index, txn.get(records.key(index), b"", db=self._entries_db))
                if checked <= self._cache_bytes:
                    self._cache[index] = entry
                    self._cache_first = index
                    self._cached += len(entry.command)
        self._durable = self._last_index
        self._durable_term = self._state.term

    # --- what is in it ------------------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        return self._state.term

    @property
    def vote(self) -> int:
        """Who has this node's vote in `term`; 0: nobody."""
        return self._state.vote

    @property
    def commit_index(self) -> int:
        return self._state.commit_index

    @property
    def joined(self) -> bool:
        """Whether this log has once held all that was committed. A node without that does not decide elections:
        it may have lost what it had promised."""
        return self._state.joined

    @property
    def base_index(self) -> int:
        return self._state.base_index

    @property
    def base_term(self) -> int:
        return self._state.base_term

    @property
    def first_index(self) -> int:
        return self._state.base_index + 1

    @property
    def last_index(self) -> int:
        return self._last_index

    @property
    def last_term(self) -> int:
        return self._run_terms[-1] if self._run_terms else self._state.base_term

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def cached_bytes(self) -> int:
        return self._cached

    def term_at(self, index: int) -> int | None:
        """None when the log does not reach there or no longer does; the base's term is still known."""
        if index == self._state.base_index:
            return self._state.base_term
        if not self._state.base_index < index <= self._last_index:
            return None
        return self._run_terms[bisect_right(self._run_starts, index) - 1]

    def entries(self, first: int, max_bytes: int, last: int | None = None) -> list[LogEntry]:
        """From `first` on, at least one if there is one, else as many as fit into `max_bytes`."""
        last = self._last_index if last is None else min(last, self._last_index)
        if first <= self._state.base_index:
            raise ImpossibleState(f"log entry {first} was compacted away; the log starts at {self.first_index}")
        end, size = first, 0
        while end <= last:
            size += self._sizes[end - self._state.base_index - 1]
            if size > max_bytes and end > first:
                break
            end += 1
        found = [] if first >= self._cache_first else self._read(first, min(end, self._cache_first))
        found += [self._cache[index] for index in range(max(first, self._cache_first), end)]
        return found

    def entry(self, index: int) -> LogEntry:
        cached = self._cache.get(index)
        return cached if cached is not None else self.entries(index, 0, index)[0]

    def _read(self, first: int, end: int) -> list[LogEntry]:
        found = []
        try:
            with self._env.begin() as txn:
                cursor = txn.cursor(self._entries_db)
                at_first = cursor.set_key(records.key(first))
                for index in range(first, end):
                    if not at_first or cursor.key() != records.key(index):
                        raise StoreCorrupt(f"{self._path}: log entry {index} is missing")
                    found.append(records.unpack_entry(index, cursor.value()))
                    cursor.next()
        except lmdb.Error as error:
            raise StoreCorrupt(f"{self._path}: {error}") from error
        return found

    def check(self, rest: Callable[[], None] = lambda: None) -> int:
        """Reads all entries on disk; returns how many. Any thread, while the log is open; `rest` as in check_log.

        Raises StoreCorrupt for what is damaged.
        """
        try:
            return check_log(self._env, self._entries_db, self._state_db, rest)
        except lmdb.Error as error:
            raise StoreCorrupt(f"{self._path}: {error}") from error
        except StoreCorrupt as error:
            raise StoreCorrupt(f"{self._path}: {error.message}") from error

    def surplus_end(self, keep_entries: int, keep_bytes: int, max_entries: int) -> int:
        """Up to where compaction would have to go for the log to hold no more than that; the base when it does not.

        At most `max_entries` beyond the base, so that the work of one call is bounded.
        """
        entries, size, end = len(self._sizes), self._bytes, 0
        while end < max_entries and entries - end > 0 and (entries - end > keep_entries or size > keep_bytes):
            size -= self._sizes[end]
            end += 1
        return self._state.base_index + end

    # --- changes ------------------------------------------------------------------------------------------------

    def append(self, index: int, term: int, command: bytes, checksum: int | None = None) -> None:
        if index != self._last_index + 1 or term < self.last_term or term > self._state.term:
            raise ImpossibleState(
                f"entry {index} of term {term} does not follow {self._last_index} of term {self.last_term}"
            )
        if checksum is None:
            checksum = records.checksum(index, term, command)
        entry = LogEntry(term, command, checksum)
        self._changes.append(Put(index, entry))
        self._must_flush = True
        self._note_entry(index, term, len(command))
        self._cache[index] = entry
        self._cached += len(command)

    def truncate_from(self, index: int) -> None:
        """Forgets `index` and what follows. Never what is committed."""
        if index <= self._state.commit_index:
            raise ImpossibleState(f"entry {index} cannot be truncated: {self._state.commit_index} is committed")
        if index > self._last_index:
            return
        self._changes.append(Delete(index, None))
        self._must_flush = True
        for gone in range(index, self._last_index + 1):
            self._bytes -= self._sizes.pop()
            self._uncache(gone)
        keep = bisect_right(self._run_starts, index - 1)
        del self._run_starts[keep:], self._run_terms[keep:]
        self._last_index = index - 1
        self._cache_first = min(self._cache_first, index)
        # What a write in flight makes durable at these places is no longer what the log holds there.
        self._durable = min(self._durable, index - 1)
        self._in_flight_last = min(self._in_flight_last, index - 1)

    def compact_to(self, index: int) -> None:
        """Moves the log's start: entries up to `index` go, its term is remembered."""
        base = self._state.base_index
        term = self.term_at(index)
        if not base <= index <= self._state.commit_index or term is None:
            raise ImpossibleState(f"the log cannot be compacted to {index}: {self._state.commit_index} is committed")
        if index == base:
            return
        # Rides along with the next flush: until then the disk merely holds more than it must.
        self._changes.append(Delete(base + 1, index))
        for gone in range(base + 1, index + 1):
            self._bytes -= self._sizes.popleft()
            self._uncache(gone)
        drop = bisect_right(self._run_starts, index)
        if drop:
            self._run_starts[drop - 1] = index + 1
            del self._run_starts[: drop - 1], self._run_terms[: drop - 1]
            if index == self._last_index:
                self._run_starts.clear()
                self._run_terms.clear()
        self._cache_first = max(self._cache_first, index + 1)
        self._state = replace(self._state, base_index=index, base_term=term)

    def reset(self, index: int, term: int) -> None:
        """Forgets every entry; the log continues after `index`, which the state machine's state includes.

        Going back behind the log's start forgets entries that this node has acknowledged: it has not `joined` then.
        """
        self._changes.append(Delete(0, None))
        self._must_flush = True
        self._cache.clear()
        self._sizes.clear()
        self._run_starts.clear()
        self._run_terms.clear()
        self._cached = self._bytes = 0
        self._last_index = index
        self._cache_first = index + 1
        self._durable = self._in_flight_last = 0
        self._state = replace(
            self._state,
            term=max(self._state.term, term),
            joined=self._state.joined and index >= self._state.base_index,
            base_index=index,
            base_term=term,
            commit_index=index,
        )

    def set_term(self, term: int, vote: int) -> None:
        if term < self._state.term or (term == self._state.term and self._state.vote not in (0, vote)):
            raise ImpossibleState(f"vote for {vote} in term {term} after {self._state.vote} in {self._state.term}")
        if (term, vote) != (self._state.term, self._state.vote):
            self._state = replace(self._state, term=term, vote=vote)
            self._must_flush = True

    def set_commit_index(self, index: int) -> None:
        """Written with the next flush that something else asks for: it can be learnt again."""
        if not self._state.commit_index <= index <= self._last_index:
            raise ImpossibleState(f"commit index {index} after {self._state.commit_index}, of {self._last_index}")
        self._state = replace(self._state, commit_index=index)

    def set_joined(self) -> None:
        if not self._state.joined:
            self._state = replace(self._state, joined=True)
            self._must_flush = True

    def _uncache(self, index: int) -> None:
        if (entry := self._cache.pop(index, None)) is not None:
            self._cached -= len(entry.command)

    def _note_entry(self, index: int, term: int, size: int) -> None:
        if not self._run_terms or self._run_terms[-1] != term:
            self._run_starts.append(index)
            self._run_terms.append(term)
        self._sizes.append(size)
        self._bytes += size
        self._last_index = index

    # --- durability ---------------------------------------------------------------------------------------------

    @property
    def durable_index(self) -> int:
        """Up to here this log's entries are on disk."""
        return self._durable

    @property
    def durable_term(self) -> int:
        """The term that is on disk."""
        return self._durable_term

    @property
    def flushed_ticket(self) -> int:
        """All changes under this ticket and lower ones are on disk."""
        return self._flushed

    def flush(self) -> int:
        """Has all changes so far written. Returns the ticket under which they are durable.

        One write is under way at a time; what gathers meanwhile goes into the next one, together.
        """
        if not self._must_flush:
            return self._submitted
        if self._in_flight:
            self._flush_again = True
            return self._submitted + 1
        self._submit()
        return self._submitted

    def poll(self) -> None:
        """Takes note of writes that have ended. Raises what made one fail: that disk cannot be trusted any more."""
        self._background.poll()

    def _submit(self) -> None:
        changes, self._changes = self._changes, []
        self._must_flush = self._flush_again = False
        self._in_flight = True
        self._in_flight_last = self._last_index
        self._submitted += 1
        state = self._state
        self._background.submit(
            partial(records.write, self._env, self._entries_db, self._state_db, changes, state),
            partial(self._written, self._submitted, state.term),
        )

    def _written(self, ticket: int, term: int, _result: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._in_flight = False
        self._flushed = ticket
        self._durable = max(self._durable, self._in_flight_last)
        self._durable_term = term
        while self._cached > self._cache_bytes and self._cache_first <= self._durable:
            self._uncache(self._cache_first)
            self._cache_first += 1
        if self._flush_again:
            self._submit()

    def close(self) -> None:
        """Ends the write under way; changes that were not flushed are lost."""
        if not self._closed:
            self._closed = True
            self._background.close()
            self._env.close()

    # --- pysyncobj's Journal: positions count from the first entry -------------------------------------------------

    def add(self, command: bytes, idx: int, term: int) -> None:
        self.append(idx, term, command)

    def clear(self) -> None:
        self.reset(0, 0)

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        self.truncate_from(self.first_index + entryFrom)

    def deleteEntriesTo(self, entryTo: int) -> None:
        self.compact_to(self._state.base_index + entryTo)

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, item: int) -> tuple[bytes, int, int]: ...

    @overload
    def __getitem__(self, item: slice) -> list[tuple[bytes, int, int]]: ...

    def __getitem__(self, item: int | slice) -> tuple[bytes, int, int] | list[tuple[bytes, int, int]]:
        if isinstance(item, slice):
            return [self[position] for position in range(*item.indices(len(self)))]
        index = range(self.first_index, self._last_index + 1)[item]
        entry = self.entry(index)
        return entry.command, index, entry.term

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        self.set_commit_index(raftCommitIndex)

    def getRaftCommitIndex(self) -> int:
        return self.commit_index

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        self.set_term(term, votedForNodeId or 0)

    def getCurrentTerm(self) -> int:
        return self.term

    def getVotedForNodeId(self) -> int | None:
        return self.vote or None

    def _destroy(self) -> None:
        self.close()
