"""What a worker of the benchmarks remembers and writes to files when it ends: when executions started, at the price of
two appends each, and how many completions the quorum had confirmed, looked at every 10 ms.
"""

import atexit
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.run_log import FOLDER_VARIABLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOOK_EVERY_S = 0.01
# How long the waiting handler waits.
WAIT_VARIABLE = "RAFTSCHED_BENCH_WAIT_MS"

_executions = array("Q")
_started_us = array("q")
_confirmed_us = array("q")
_confirmed = array("q")


def note_start(execution: int) -> None:
    """To be called by a handler, first thing."""
    _executions.append(execution)
    _started_us.append(time.time_ns() // 1_000)


def note_confirmations(confirmed: Callable[[], int]) -> None:
    """Asks for the number of confirmed completions from now on, in a thread, and notes whenever it has grown."""

    def look() -> None:
        last = 0
        while True:
            count = confirmed()
            if count != last:
                last = count
                _confirmed_us.append(time.time_ns() // 1_000)
                _confirmed.append(count)
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=look, daemon=True).start()


@atexit.register
def _write() -> None:
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        _write_columns(Path(folder) / f"{os.getpid()}.starts", _executions, _started_us)
        _write_columns(Path(folder) / f"{os.getpid()}.confirmed", _confirmed, _confirmed_us)


def _write_columns(path: Path, values: "array[int]", times_us: "array[int]") -> None:
    with path.open("wb") as file:
        file.write(values.tobytes())
        file.write(times_us[: len(values)].tobytes())


def read_starts(folder: Path) -> Iterator[tuple[int, float]]:
    """(execution, start in milliseconds since the epoch) of every handler call of the workers that have ended."""
    for path in sorted(folder.glob("*.starts")):
        yield from _read_columns(path)


def start_columns(folder: Path) -> "tuple[NDArray[np.uint64], NDArray[np.float64]]":
    """The same as two columns, for millions of them."""
    # Workers, which only write, need not load it.
    import numpy as np

    values, times_us = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for path in sorted(folder.glob("*.starts")):
        data = path.read_bytes()
        half = len(data) // 2
        values.append(np.frombuffer(data[:half], np.uint64))
        times_us.append(np.frombuffer(data[half:], np.int64))
    return np.concatenate(values), np.concatenate(times_us) / 1_000


def read_confirmations(folder: Path) -> list[tuple[float, int]]:
    """(milliseconds since the epoch, completions confirmed until then by all workers), in order of time."""
    steps = []
    for path in sorted(folder.glob("*.confirmed")):
        before = 0
        for count, moment_ms in _read_columns(path):
            steps.append((moment_ms, count - before))
            before = count
    total, curve = 0, []
    for moment_ms, more in sorted(steps):
        total += more
        curve.append((moment_ms, total))
    return curve


def _read_columns(path: Path) -> Iterator[tuple[int, float]]:
    data = path.read_bytes()
    half = len(data) // 2
    values, times_us = array("q"), array("q")
    values.frombytes(data[:half])
    times_us.frombytes(data[half:])
    return zip(values, (moment / 1_000 for moment in times_us), strict=True)
