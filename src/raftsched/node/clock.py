"""The clocks of this machine, behind the interface that lets a simulator own time."""

import time


class SystemClock:
    """Wall clock in milliseconds since the epoch, monotonic clock in seconds."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
