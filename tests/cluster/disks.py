"""Disks of their own for nodes: small file systems that can be full, and that can lose power.

Each is an ext4 in a file. To lose power is the shutdown of the file system without a flush of its journal: what was
not synced by then is not read again after the next mount, as after a crash of the machine.
"""

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cluster.processes import until

# linux/fs/ext4: _IOR('X', 125, __u32), and its argument for "do not flush the journal".
EXT4_IOC_SHUTDOWN = 2 << 30 | 4 << 16 | ord("X") << 8 | 125
NO_LOG_FLUSH = 2

FILLER = "filler"


class NoDisks(Exception):
    """This machine or user cannot have them; the message says why."""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisks(f"{' '.join(command)}: {done.stderr.strip()}")


@functools.cache
def _objection() -> str:
    """Why there can be no such disks here; empty when there can."""
    if os.geteuid() != 0:
        return "mounting a disk needs root"
    if missing := [command for command in ("mkfs.ext4", "mount", "umount") if shutil.which(command) is None]:
        return f"no {', '.join(missing)} here"
    with tempfile.TemporaryDirectory() as folder:
        try:
            disk = Disk(Path(folder), mebibytes=8)
        except NoDisks as error:
            return f"no disk in a file here: {error}"
        try:
            disk.lose_power()
            disk.restore_power()
        except (NoDisks, OSError) as error:
            return f"no loss of power here: {error}"
        finally:
            disk.close()
    return ""


def require_disks() -> None:
    """Skips the test where they are not to be had."""
    if reason := _objection():
        pytest.skip(reason)


class Disk:
    """A file system of so many mebibytes below `folder`, mounted at `path` until `close`. Raises NoDisks."""

    def __init__(self, folder: Path, *, mebibytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "mounted"
        self.path.mkdir()
        self._image = folder / "image"
        self._is_mounted = False
        with self._image.open("wb") as image:
            image.truncate(mebibytes << 20)
        # Without blocks set aside for root: these tests run as root.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._is_mounted = True

    def fill(self) -> None:
        """Leaves no room for anything. What is freed later stays free."""
        with (self.path / FILLER).open("ab", buffering=0) as filler:
            size = 1 << 20
            while size >= 512:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def make_room(self) -> None:
        (self.path / FILLER).unlink()

    def lose_power(self) -> None:
        """From now on every access fails, until `restore_power`; what was not synced is lost."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def restore_power(self) -> None:
        """Mounts it again. No process may have files of it open."""
        self._unmount()
        self._mount()

    def _unmount(self) -> None:
        if self._is_mounted:
            until(self._unmounted, f"{self.path} is unmounted")
            self._is_mounted = False

    def _unmounted(self) -> bool:
        with contextlib.suppress(NoDisks):
            _run("umount", str(self.path))
            return True
        return False

    def close(self) -> None:
        self._unmount()
        self._image.unlink()
