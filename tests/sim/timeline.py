"""Simulated time: what happens next, in order, and a hash and a short trace of all that has happened."""

import hashlib
import heapq
from collections import deque
from collections.abc import Callable

SECOND_US = 1_000_000
MILLISECOND_US = 1_000
# The true time at which a simulation begins; nodes' clocks may differ from it.
WALL_START_MS = 1_800_000_000_000
TRACE_LINES = 60


class Violation(AssertionError):
    """A promise of the cluster was broken."""


class Timeline:
    """One queue of events. Time stands still within an event and jumps to the next one after it."""

    def __init__(self, wall_start_ms: int = WALL_START_MS) -> None:
        self.wall_start_ms = wall_start_ms
        self.now_us = 0
        self.events = 0
        # The newest of what was noted, for people.
        self.trace: deque[tuple[int, str, int, object]] = deque(maxlen=TRACE_LINES)
        self._hash = hashlib.blake2b(digest_size=16)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    @property
    def now_s(self) -> float:
        return self.now_us / SECOND_US

    @property
    def true_ms(self) -> int:
        """Milliseconds since the epoch by a clock that is right."""
        return self.wall_start_ms + self.now_us // MILLISECOND_US

    @property
    def digest(self) -> str:
        """Over every event so far: equal for two runs that went the same way."""
        return self._hash.hexdigest()

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        """Calls `call` in `delay_us` microseconds; those of one moment in the order of these calls."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._count, call))

    def note(self, what: str, who: int, detail: object = "", *, show: bool = True) -> None:
        """Counts into the hash; `show`: into the trace too. `detail` must be the same in every run of a seed."""
        self._hash.update(b"%d %s %d %s\n" % (self.now_us, what.encode(), who, repr(detail).encode()))
        if show:
            self.trace.append((self.now_us, what, who, detail))

    def run_until(self, end_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Runs events up to `end_us`, or until `done()` after one of them. Whether it was done."""
        queue = self._queue
        while queue and queue[0][0] <= end_us:
            self.now_us, _, call = heapq.heappop(queue)
            self.events += 1
            call()
            if done is not None and done():
                return True
        self.now_us = end_us
        return done is not None and done()

    def shown(self) -> str:
        """The trace, a line for each event."""
        return "\n".join(f"{us / SECOND_US:11.6f} {who:>4} {what} {detail}" for us, what, who, detail in self.trace)
