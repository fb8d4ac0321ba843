"""Remembers when executions started, at the price of two appends, and writes it to a file when the worker ends."""

import atexit
import os
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.run_log import FOLDER_VARIABLE

_executions = array("Q")
_started_us = array("q")


def note_start(execution: int) -> None:
    """To be called by a handler, first thing."""
    _executions.append(execution)
    _started_us.append(time.time_ns() // 1_000)


@atexit.register
def _write() -> None:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and _executions:
        with (Path(folder) / f"{os.getpid()}.starts").open("wb") as file:
            file.write(_executions.tobytes())
            file.write(_started_us.tobytes())


def read_starts(folder: Path) -> Iterator[tuple[int, float]]:
    """(execution, start in milliseconds since the epoch) of every handler call of the workers that have ended."""
    for path in sorted(folder.glob("*.starts")):
        data = path.read_bytes()
        half = len(data) // 2
        executions, started_us = array("Q"), array("q")
        executions.frombytes(data[:half])
        started_us.frombytes(data[half:])
        yield from zip(executions, (start / 1_000 for start in started_us), strict=True)
