"""The LMDB environment that holds a node's applied state: opening, checking, reading, committing, replacing it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import lmdb

from raftsched.model.errors import NodeDraining, StoreCorrupt
from raftsched.store import keys, rows
from raftsched.store.structure import check_structure

DEFAULT_MAP_BYTES = 1 << 40
# LMDB 0.9's file format: the one that its tools and older bindings read.
LMDB_MAJOR = 0
# Read transactions at once, all threads and processes together.
MAX_READERS = 1024
# What LMDB says when its pages are not what they should be.
DAMAGE = (
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
STAGED_NAME = "data.mdb.new"


@dataclass(frozen=True, slots=True)
class Tables:
    """The named databases; what each holds is said in keys.py and rows.py."""

    jobs: lmdb._Database
    payloads: lmdb._Database
    names: lmdb._Database
    due: lmdb._Database
    ready: lmdb._Database
    executions: lmdb._Database
    leases: lmdb._Database
    sessions: lmdb._Database
    deadlines: lmdb._Database
    schedules: lmdb._Database
    schedule_ids: lmdb._Database
    ticks: lmdb._Database
    starved: lmdb._Database
    profiles: lmdb._Database
    profile_ids: lmdb._Database
    interned: lmdb._Database
    idempotency: lmdb._Database
    dead_letters: lmdb._Database
    skipped: lmdb._Database
    extras: lmdb._Database
    unfinished: lmdb._Database
    execution_payloads: lmdb._Database
    attempts: lmdb._Database
    results: lmdb._Database
    edges: lmdb._Database
    waits: lmdb._Database
    workflows: lmdb._Database
    backfills: lmdb._Database
    calendars: lmdb._Database
    limits: lmdb._Database
    dedup: lmdb._Database
    meta: lmdb._Database


TABLE_NAMES = tuple(field.name for field in fields(Tables))


class View:
    """A read transaction: one unchanging state of the store. Use within one thread, and shortly: while it is open
    no page that was freed since can be used again."""

    def __init__(self, txn: lmdb.Transaction[bytes], tables: Tables) -> None:
        self.txn = txn
        self.tables = tables

    def get(self, table: lmdb._Database, key: bytes) -> bytes | None:
        return self.txn.get(key, db=table)

    def get_many(self, table: lmdb._Database, wanted: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """(key, value) of the keys that exist, in the order asked for."""
        return self.txn.cursor(table).getmulti(wanted)

    def cursor(self, table: lmdb._Database) -> lmdb.Cursor[bytes]:
        return self.txn.cursor(table)

    def entries(self, table: lmdb._Database) -> int:
        """Number of rows in a table."""
        return self.txn.stat(table)["entries"]

    def state(self) -> rows.StateRow:
        """How far this view is: applied index and term, clock, digest, counters."""
        value = self.txn.get(keys.META_STATE, db=self.tables.meta)
        return rows.StateRow.unpack(value) if value is not None else rows.StateRow()


class HeldView:
    """A view opened on one thread to be read on another, for longer than a `read`; `close` it as soon as possible."""

    def __init__(self, view: View, close: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        self.view = view
        self.close = close
        self._is_wanted = is_wanted

    @property
    def is_in_the_way(self) -> bool:
        """The store waits for it to be closed, to be replaced or closed itself."""
        return self._is_wanted()


class Store:
    """One LMDB environment in one directory.

    The thread that first asks for `write` owns every change; any thread may `read`. A commit is on disk when it
    returns, but its root is surely there only after the next one: after a power loss the store is either at its last
    commit or at the one before.
    """

    def __init__(self, path: Path, *, map_size: int = DEFAULT_MAP_BYTES) -> None:
        """Opens the store, making an empty one if there is none.

        Raises StoreCorrupt when the files are damaged or of another format.
        """
        self.path = path
        self._map_size = map_size
        self._write: lmdb.Transaction[bytes] | None = None
        self._gate = threading.Condition()
        self._readers = 0
        self._replacing = False
        self._closed = False
        # What a reader has found to be damaged; whoever owns the store must stop.
        self.damage = ""
        path.mkdir(parents=True, exist_ok=True)
        # What an installation that did not come to its end left behind.
        (path / STAGED_NAME).unlink(missing_ok=True)
        check_structure(path / "data.mdb")
        self._open()

    @property
    def write(self) -> lmdb.Transaction[bytes]:
        """The open write transaction, begun when there is none."""
        if self._write is None:
            self._write = self._env.begin(write=True)
        return self._write

    def commit(self) -> None:
        """Makes what was written since the last commit durable and visible to new readers."""
        if self._write is not None:
            try:
                self._write.commit()
            except DAMAGE as error:
                raise StoreCorrupt(f"{self.path / 'data.mdb'} is damaged: {error}") from error
            self._write = None

    def abort(self) -> None:
        """Forgets what was written since the last commit."""
        if self._write is not None:
            self._write.abort()
            self._write = None

    @contextmanager
    def read(self) -> Iterator[View]:
        """A view of the newest commit. Waits while `install` replaces the files.

        Raises NodeDraining when the store is closed, and StoreCorrupt, noting it in `damage`, for what LMDB finds
        damaged inside the block.
        """
        with self._gate:
            self._gate.wait_for(lambda: not self._replacing)
            if self._closed:
                raise NodeDraining()
            self._readers += 1
        try:
            with self._env.begin() as txn:
                yield View(txn, self.tables)
        except DAMAGE as error:
            self.damage = f"{self.path / 'data.mdb'} is damaged: {error}"
            raise StoreCorrupt(self.damage) from error
        finally:
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    def hold(self) -> HeldView:
        """A view of the newest commit for another thread. Raises NodeDraining when the store is closed."""
        stack = ExitStack()
        view = stack.enter_context(self.read())
        return HeldView(view, stack.close, lambda: self._replacing or self._closed)

    def copy_to(self, path: Path) -> rows.StateRow:
        """Writes a compact copy of the newest commit to a new file, synced, and says how far it is. Any thread."""
        with self.read() as view, path.open("xb") as file:
            self._env.copyfd(file.fileno(), compact=True, txn=view.txn)
            os.fsync(file.fileno())
            return view.state()

    def install(self, path: Path) -> None:
        """Replaces everything by a file that `copy_to` made; the file is used up. On the writing thread only.

        Uncommitted writes are forgotten. New readers wait, and this waits for those there are. Raises StoreCorrupt
        and leaves the store as it was when the file is damaged.
        """
        _check_copy(path, self._map_size)
        staged = self.path / STAGED_NAME
        shutil.move(path, staged)
        with staged.open("rb") as file:
            os.fsync(file.fileno())
        with self._gate:
            self._replacing = True
            self._gate.wait_for(lambda: self._readers == 0)
        # Until it is open again.
        self._closed = True
        try:
            self.abort()
            self._env.close()
            staged.replace(self.path / "data.mdb")
            _sync_directory(self.path)
            self._open()
            self._closed = False
        finally:
            with self._gate:
                self._replacing = False
                self._gate.notify_all()

    def close(self) -> None:
        """Closes the store; uncommitted writes are lost. Waits for readers; later ones are refused."""
        with self._gate:
            self._closed = True
            self._gate.wait_for(lambda: self._readers == 0)
        self.abort()
        self._env.close()

    def _open(self) -> None:
        self._env = _open_environment(self.path, self._map_size)
        try:
            self.tables = Tables(*(self._env.open_db(name.encode()) for name in TABLE_NAMES))
            with self._env.begin(write=True) as txn:
                found = txn.get(keys.META_FORMAT, db=self.tables.meta)
                if found is None:
                    if txn.get(keys.META_STATE, db=self.tables.meta) is not None:
                        raise StoreCorrupt(f"{self.path}: the store does not say its format")
                    txn.put(keys.META_FORMAT, keys.pack_small_id(rows.FORMAT), db=self.tables.meta)
                elif found != keys.pack_small_id(rows.FORMAT):
                    raise StoreCorrupt(f"{self.path}: the store has another format than {rows.FORMAT}")
        except lmdb.Error as error:
            self._env.close()
            raise StoreCorrupt(f"{self.path}: {error}") from error
        except StoreCorrupt:
            self._env.close()
            raise


def _open_environment(path: Path, map_size: int, *, is_file: bool = False) -> lmdb.Environment:
    """Opens and checks that the file is as long as its root says: reading past its end would kill the process."""
    data = path if is_file else path / "data.mdb"
    try:
        environment = lmdb.Environment(
            str(path),
            map_size=map_size,
            subdir=not is_file,
            readonly=is_file,
            lock=not is_file,
            sync=True,
            metasync=False,
            max_readers=MAX_READERS,
            max_dbs=len(TABLE_NAMES),
            lib_version=LMDB_MAJOR,
        )
    except lmdb.Error as error:
        raise StoreCorrupt(f"{path}: {error}") from error
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if data.stat().st_size < needed:
        environment.close()
        raise StoreCorrupt(f"{data}: {data.stat().st_size} bytes where {needed} were written")
    return environment


def _check_copy(path: Path, map_size: int) -> None:
    """Raises StoreCorrupt unless the file is a store with a state."""
    environment = _open_environment(path, map_size, is_file=True)
    try:
        meta = environment.open_db(b"meta", create=False)
        with environment.begin() as txn:
            if txn.get(keys.META_FORMAT, db=meta) != keys.pack_small_id(rows.FORMAT):
                raise StoreCorrupt(f"{path}: not a store of format {rows.FORMAT}")
            rows.StateRow.unpack(txn.get(keys.META_STATE, b"", db=meta))
    except lmdb.Error as error:
        raise StoreCorrupt(f"{path}: {error}") from error
    finally:
        environment.close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
