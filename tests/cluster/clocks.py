"""Clocks of processes that tests set while they run: the time of day, not the monotonic clock.

A small library that is compiled here and preloaded does it. libfaketime, which could, slows processes with as many
threads as gRPC has so much that no cluster of them elects a leader.
"""

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.processes import BOOT_VARIABLE

SOURCE = Path(__file__).with_name("clock_shim.c")
CLOCK_VARIABLE = "RAFTSCHED_TEST_CLOCK"


@functools.cache
def _compiled() -> tuple[Path, str]:
    """The library; or why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return Path(), "setting clocks needs a C compiler (Debian: apt-get install gcc libc6-dev)"
    library = Path(tempfile.mkdtemp(prefix="raftsched-clock-")) / "clock.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return library, f"{SOURCE.name} does not compile here: {done.stderr}" if done.returncode else ""


@functools.cache
def _objection() -> str:
    """Why clocks cannot be set here; empty when they can."""
    _, objection = _compiled()
    if objection:
        return objection
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(Path(folder) / "clock")
        clock.set_off(3_600)
        script = "import time; print(int(time.time()))"
        command = [sys.executable, "-c", script]
        environment = {**os.environ, **clock.environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or abs(int(done.stdout) - time.time() - 3_600) > 60:
        return f"{SOURCE.name} has no effect here: {done.stderr.strip()}"
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
        file.write_bytes(struct.pack("=q", 0))

    @property
    def environment(self) -> Mapping[str, str]:
        library, _ = _compiled()
        return {
            "LD_PRELOAD": str(library),
            CLOCK_VARIABLE: str(self._file),
            # So that what workers write down is by the right clock.
            BOOT_VARIABLE: str(time.time_ns() - time.monotonic_ns()),
        }

    def set_off(self, seconds: int) -> None:
        """From now on it is so far ahead of the machine's; behind when negative."""
        with self._file.open("r+b", buffering=0) as shared:
            shared.write(struct.pack("=q", seconds))
