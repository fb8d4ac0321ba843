"""Work beside the core thread: in a thread of its own, or in line for simulations and tests."""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Done = Callable[[Any, Exception | None], None]


class InlineBackground:
    """Runs work at once, on the caller's thread."""

    def submit(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  handed over, as from a thread
            done(None, error)
        else:
            done(result, None)

    def poll(self) -> None:
        """Nothing ever waits here."""

    def close(self) -> None:
        """Nothing ever waits here."""


class ThreadBackground:
    """One thread. `wake` is called on it after each piece of work, so that the core thread comes to `poll`."""

    def __init__(self, wake: Callable[[], None], *, name: str) -> None:
        self._wake = wake
        # Whoever submits bounds what is under way; this queue only hands it over.
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Done] | None] = queue.SimpleQueue()
        self._ended: deque[tuple[Done, Any, Exception | None]] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        self._work.put((work, done))

    def poll(self) -> None:
        while self._ended:
            done, result, error = self._ended.popleft()
            done(result, error)

    def close(self) -> None:
        self._closing = True
        self._work.put(None)
        self._thread.join()
        self._ended.clear()

    def _run(self) -> None:
        while (item := self._work.get()) is not None and not self._closing:
            work, done = item
            try:
                self._ended.append((done, work(), None))
            except Exception as error:  # noqa: BLE001  handed over to the core thread
                self._ended.append((done, None, error))
            self._wake()
