"""Notes when handlers are called: milliseconds since the epoch as doubles, appended to a file of this process."""

import os
import threading
import time
from array import array

_starts = array("d")
_flusher: threading.Thread | None = None


def note_start() -> None:
    """To be called by a handler, first thing. A process that was forked begins a file of its own."""
    global _flusher
    _starts.append(time.time_ns() / 1e6)
    # A thread does not survive a fork; the workers of Celery begin here, each in its own process.
    if _flusher is None:
        _flusher = threading.Thread(target=_flush, daemon=True)
        _flusher.start()


def _flush() -> None:
    path = os.path.join(os.environ["BENCH_STARTS"], f"{os.getpid()}.starts")
    written = 0
    while True:
        time.sleep(0.05)
        count = len(_starts)
        if count > written:
            with open(path, "ab") as file:
                file.write(_starts[written:count].tobytes())
            written = count
