"""How long a failed execution waits for its next attempt.

Replicas must agree to the millisecond. The float settings (multiplier, jitter) are first turned into exact integer
ratios, and all arithmetic after that is on integers: neither the C library's pow() nor a rounding mode has a say.
"""

from functools import lru_cache

from raftsched.model.jitter import mix64

# Growth is kept in fixed point with so many binary digits after the point.
_SCALE_BITS = 32


def backoff_ms(execution: int, attempt: int, *, initial_ms: int, max_ms: int, multiplier: float, jitter: float) -> int:
    """Delay after the failure of `attempt` (from 1): initial_ms × multiplier^(attempt - 1), never above max_ms.

    `jitter` (0–1) is the share of that delay that varies: the result lies in [delay × (1 - jitter), delay], chosen by
    a hash of execution and attempt.
    """
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
