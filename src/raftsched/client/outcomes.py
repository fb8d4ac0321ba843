"""What a handler raises to say how its execution goes on."""

from datetime import timedelta

# What the cluster takes; see Failure.retry_after_ms in worker.proto.
_SHORTEST_DELAY = timedelta(milliseconds=1)
_LONGEST_DELAY = timedelta(days=30)


class PermanentError(Exception):
    """Raised by a handler: trying again is useless, the execution goes straight to the dead letters."""


class RetryAfter(Exception):
    """Raised by a handler: this attempt has failed, and the next one is due after `delay`, whatever the job's policy
    says. Its limits on attempts and time still hold."""

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        """`delay` is a timedelta, or seconds: 1 ms to 30 days. Raises ValueError."""
        self.delay = _checked(delay)
        super().__init__(reason or f"to be tried again in {self.delay}")


class Snooze(Exception):
    """Raised by a handler: not now. It runs again after `delay`; this is no failure and uses no attempt."""

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        """`delay` is a timedelta, or seconds: 1 ms to 30 days. Raises ValueError."""
        self.delay = _checked(delay)
        super().__init__(reason or f"put off for {self.delay}")


def _checked(delay: timedelta | float) -> timedelta:
    given = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if not _SHORTEST_DELAY <= given <= _LONGEST_DELAY:
        raise ValueError(f"{given} is not from {_SHORTEST_DELAY} to {_LONGEST_DELAY}")
    return given
