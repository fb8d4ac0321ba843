"""How much work a worker asks for: enough to keep its handlers busy, not so much that it waits here for a slot."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Held work should begin within about this.
_WINDOW_S = 0.5


class CreditPolicy:
    """How many executions to hold or have on the way: at most max(2 × concurrency, what half a second completes)."""

    def __init__(self, *, concurrency: int, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._concurrency = concurrency
        self._limit = max(limit, concurrency)
        self._clock = clock
        # (time, executions completed until then), the oldest one just outside the window.
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])

    def target(self, completed: int) -> int:
        """`completed`: executions finished since the worker began."""
        now_s = self._clock()
        samples = self._samples
        # One sample in 10 ms is exact enough, and bounds their number.
        if now_s - samples[-1][0] >= 0.01:
            samples.append((now_s, completed))
        while len(samples) > 1 and samples[1][0] <= now_s - _WINDOW_S:
            samples.popleft()
        lately = completed - samples[0][1]
        # Slow handlers prefetch nothing; those that finish in the window are replaced as fast as they finish.
        return min(self._limit, max(self._concurrency + min(lately, self._concurrency), lately))


@dataclass(slots=True)
class CreditLine:
    """The credit of one stream: totals since it began."""

    granted: int = 0
    received: int = 0

    @property
    def outstanding(self) -> int:
        return self.granted - self.received


def spread(free: int, lines: Sequence[CreditLine], *, least: int = 1) -> list[CreditLine]:
    """Grants up to `free` more executions, so that what is outstanding becomes as even as it can.

    Returns the lines raised. None is raised by less than `least`: each takes a message.
    """
    by_need = sorted(lines, key=lambda line: line.outstanding)
    level = _level(free, by_need)
    raised: list[CreditLine] = []
    for line in by_need:
        grant = min(free, level - line.outstanding)
        if grant < least:
            break
        line.granted += grant
        free -= grant
        raised.append(line)
    return raised


def _level(free: int, by_need: Sequence[CreditLine]) -> int:
    """What the lowest of these lines come to, rounded up, when `free` is poured over them."""
    total = free
    for count, line in enumerate(by_need, start=1):
        total += line.outstanding
        level = -(-total // count)
        if count == len(by_need) or level <= by_need[count].outstanding:
            return level
    return 0
