"""One node's disk: slow, full, cut off from power, or damaged. The files are LMDB's own, in a folder in memory."""

import random
import shutil
import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from raftsched.store.environment import Store
from tests.sim.timeline import Timeline

MAP_BYTES = 1 << 28
QUICK_US = (50, 1_500)
PAGE_BYTES = 4_096
# Where a page of LMDB 0.9 that describes the root holds the number of its transaction.
_TXN_ID = struct.Struct("<Q")
_TXN_ID_AT = 144


class Disk:
    """What the backgrounds and the store of one node ask before they touch its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_full = False
        # The next snapshot that was received cannot be put in the state's place; whether that has happened.
        self.will_fail_install = False
        self.has_failed_install = False
        self.latency_us = QUICK_US
        # The newest commit of the state may be undone by a power loss; then the state is at `sure_index`.
        self.newest_commit_is_loose = False
        self.newest_index = 0
        self.sure_index = 0

    def check(self) -> None:
        """Raises lmdb.DiskError when nothing more can be written."""
        if self.is_full:
            raise lmdb.DiskError("No space left on device")

    def lose_power(self, rng: random.Random) -> bool:
        """Undoes the state's newest commit, perhaps, once its store is closed. Whether it did."""
        if not self.newest_commit_is_loose or rng.random() < 0.4:
            return False
        self.newest_commit_is_loose = False
        self.newest_index = self.sure_index
        return undo_newest_commit(self.folder / "state" / "data.mdb")

    def empty(self) -> None:
        """A new disk in place of the old one."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.newest_commit_is_loose = False
        self.newest_index = self.sure_index = 0

    def committed(self, index: int) -> None:
        """The state has been committed up to there; the commit before is sure now."""
        self.sure_index, self.newest_index = self.newest_index, index
        self.newest_commit_is_loose = True

    def synced(self, index: int) -> None:
        """The state is surely there up to this."""
        self.sure_index = self.newest_index = index
        self.newest_commit_is_loose = False


def undo_newest_commit(path: Path) -> bool:
    """Makes LMDB find the commit before the newest, as after a power loss before the root reached the disk."""
    with path.open("r+b") as file:
        numbers = []
        for page in (0, 1):
            file.seek(page * PAGE_BYTES + _TXN_ID_AT)
            numbers.append(_TXN_ID.unpack(file.read(_TXN_ID.size))[0])
        if abs(numbers[0] - numbers[1]) != 1 or min(numbers) == 0:
            return False
        newest = max(numbers)
        file.seek(numbers.index(newest) * PAGE_BYTES + _TXN_ID_AT)
        file.write(_TXN_ID.pack(max(0, newest - 2)))
    return True


def flip_bit(path: Path, content: bytes, rng: random.Random) -> bool:
    """Changes one bit of `content` wherever the file holds it. Whether it was found."""
    data = path.read_bytes()
    at, places = data.find(content), []
    while at >= 0:
        places.append(at)
        at = data.find(content, at + 1)
    offset, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
    with path.open("r+b") as file:
        for place in places:
            file.seek(place + offset)
            file.write(bytes((data[place + offset] ^ bit,)))
    return bool(places)


def cut_short(path: Path, rng: random.Random) -> None:
    """Takes away the file's end, pages that are in use among it."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * rng.uniform(0.1, 0.5)) // PAGE_BYTES * PAGE_BYTES)


def spoil_root(path: Path) -> None:
    """Makes the page unreadable that says where everything is."""
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"\xff\xff\xff\xff")


class SimStore(Store):
    """A node's state on a disk of the simulation."""

    def __init__(self, path: Path, *, disk: Disk) -> None:
        self._disk = disk
        super().__init__(path, map_size=MAP_BYTES)

    def commit(self) -> None:
        self._disk.check()
        super().commit()

    def install(self, path: Path) -> None:
        if self._disk.will_fail_install:
            self._disk.will_fail_install, self._disk.has_failed_install = False, True
            raise lmdb.DiskError("Input/output error")
        super().install(path)


class SimBackground:
    """Work takes as long as the disk does. What has not been done when the process dies is never done."""

    def __init__(self, timeline: Timeline, rng: random.Random, disk: Disk, wake: Callable[[], None]) -> None:
        self._timeline = timeline
        self._rng = rng
        self._disk = disk
        self._wake = wake
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = deque()
        self._ended: deque[tuple[Callable[[Any, Exception | None], None], Any, Exception | None]] = deque()
        self._is_paused = False
        self._is_closed = False

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self._waiting.append((work, done))
        self._timeline.after(self._rng.randint(*self._disk.latency_us), self._run_one)

    def poll(self) -> None:
        while self._ended:
            done, result, error = self._ended.popleft()
            done(result, error)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._ended.clear()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        for _ in range(len(self._waiting)):
            self._timeline.after(self._rng.randint(*self._disk.latency_us), self._run_one)

    def finish_one(self) -> None:
        """What was under way when the process died had reached the disk already."""
        if self._waiting:
            work, _ = self._waiting.popleft()
            try:
                self._disk.check()
                work()
            except (lmdb.Error, OSError):
                return

    def _run_one(self) -> None:
        if self._is_closed or self._is_paused or not self._waiting:
            return
        work, done = self._waiting.popleft()
        try:
            self._disk.check()
            self._ended.append((done, work(), None))
        except Exception as error:  # noqa: BLE001  handed over, as a thread does
            self._ended.append((done, None, error))
        self._wake()
