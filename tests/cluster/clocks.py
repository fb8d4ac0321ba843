"""Clocks of processes that tests set while they run, with libfaketime: the time of day, not the monotonic clock."""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.processes import BOOT_VARIABLE

LIBRARY = "libfaketimeMT.so.1"
FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


@functools.cache
def _library() -> Path | None:
    """The one for threads: gRPC has many."""
    for folder in FOLDERS:
        found = sorted(Path(folder).glob(f"*/faketime/{LIBRARY}")) + sorted(Path(folder).glob(f"faketime/{LIBRARY}"))
        if found:
            return found[0]
    return None


@functools.cache
def _objection() -> str:
    """Why clocks cannot be set here; empty when they can."""
    library = _library()
    if library is None:
        return "setting clocks needs libfaketime (Debian: apt-get install libfaketime)"
    script = "import time; print(int(time.time()))"
    environment = {**os.environ, "LD_PRELOAD": str(library), "FAKETIME": "+3600s"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if done.returncode or abs(int(done.stdout) - time.time() - 3_600) > 60:
        return f"{library} has no effect here: {done.stderr.strip()}"
    return ""


def require_clocks() -> None:
    """Skips the test where they cannot be set."""
    if reason := _objection():
        pytest.skip(reason)


class Clock:
    """Belongs to the processes that have its `environment`; right at first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.set_off(0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # So that what workers write down is by the right clock.
            BOOT_VARIABLE: str(time.time_ns() - time.monotonic_ns()),
        }

    def set_off(self, seconds: int) -> None:
        """From now on it is so far ahead of the machine's; behind when negative."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{seconds:+d}s\n")
        written.replace(self._file)
