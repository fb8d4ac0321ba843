"""Whether a failed execution is tried again, and how long it waits for that.

Replicas must agree to the millisecond. The float settings (multiplier, jitter) are first turned into exact integer
ratios, and all arithmetic after that is on integers: neither the C library's pow() nor a rounding mode has a say.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from raftsched.model.jitter import mix64
from raftsched.v1 import job_pb2

# Growth is kept in fixed point with so many binary digits after the point.
_SCALE_BITS = 32
# The class of the failure that ends a run timeout, whether the cluster or the worker noticed it first.
RUN_TIMEOUT_CLASS = "raftsched.RunTimeout"


def is_retryable(error_classes: Iterable[str], non_retryable: Collection[str]) -> bool:
    """Whether neither the error's class nor one that it derives from is among those that are not retried."""
    return not any(name in non_retryable for name in error_classes)


def backoff_ms(
    execution: int,
    attempt: int,
    *,
    initial_ms: int,
    max_ms: int,
    multiplier: float,
    jitter: float,
    backoff: int = job_pb2.BACKOFF_EXPONENTIAL,
) -> int:
    """Delay after the failure of `attempt` (from 1), never above max_ms.

    `backoff`, a value of raftsched.v1.Backoff, says how it grows from initial_ms: exponentially, to initial_ms ×
    multiplier^(attempt - 1); linearly, to initial_ms × attempt; or, FIXED, not at all.

    `jitter` (0–1) is the share of that delay that varies: the result lies in [delay × (1 - jitter), delay], chosen by
    a hash of execution and attempt.
    """
    if backoff == job_pb2.BACKOFF_FIXED:
        delay_ms = min(initial_ms, max_ms)
    elif backoff == job_pb2.BACKOFF_LINEAR:
        delay_ms = min(initial_ms * max(attempt, 1), max_ms)
    else:
        delay_ms = _full_delay_ms(attempt, initial_ms, max_ms, multiplier)
    if jitter <= 0.0:
        return delay_ms
    numerator, denominator = min(jitter, 1.0).as_integer_ratio()
    spread_ms = delay_ms * numerator // denominator
    return delay_ms - mix64(mix64(execution) + attempt) % (spread_ms + 1)


@lru_cache(maxsize=4096)
def _full_delay_ms(attempt: int, initial_ms: int, max_ms: int, multiplier: float) -> int:
    if initial_ms <= 0 or max_ms <= 0:
        return 0
    if initial_ms >= max_ms:
        return max_ms
    one = 1 << _SCALE_BITS
    numerator, denominator = max(multiplier, 1.0).as_integer_ratio()
    factor = (numerator << _SCALE_BITS) // denominator
    # Growth beyond this is cut off by max_ms anyway; holding every product to it keeps the numbers small.
    enough = (max_ms << _SCALE_BITS) // initial_ms + 1
    growth = one
    exponent = max(attempt, 1) - 1
    # Square and multiply: fourteen rounds for attempt 10,000.
    while exponent and growth < enough:
        if exponent & 1:
            growth = min(growth * factor >> _SCALE_BITS, enough)
        factor = min(factor * factor >> _SCALE_BITS, enough)
        exponent >>= 1
    return min(initial_ms * growth >> _SCALE_BITS, max_ms)
