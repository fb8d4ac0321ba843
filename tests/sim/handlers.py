"""How the handlers of simulated jobs behave, by name."""

import random

from tests.sim.holdings import Held, Result
from tests.sim.timeline import MILLISECOND_US, SECOND_US

HANDLERS = ("quick", "quick", "quick", "slow", "flaky", "broken", "timed", "snoozing", "fussy", "once", "once")
# Claims a key first.
ONCE = "once"
# These may become dead letters, and may not.
UNSURE = ("timed", ONCE)
# These never succeed, so that what they leave behind are dead letters.
FAILING = ("broken", "fussy")
# What "fussy" ones fail with, after which they are not to be tried again.
FATAL = "sim.Fatal"
# "timed" ones often take longer.
RUN_TIMEOUT_MS = 3_000
LONGEST_DELAY_MS = 3_000


def duration_us(handler: str, rng: random.Random) -> int:
    """How long one runs."""
    quick_us = rng.randint(MILLISECOND_US, 150 * MILLISECOND_US)
    if handler == "slow":
        return rng.randint(600 * MILLISECOND_US, 6 * SECOND_US)
    if handler == "timed":
        return rng.choice((50 * MILLISECOND_US, 5 * SECOND_US))
    return quick_us


def max_attempts(handler: str) -> int:
    """As its jobs are created."""
    return 6 if handler in ("flaky", *UNSURE) else 3


def outcome(held: Held, rng: random.Random, *, ended_ms: int, cluster_ms: int) -> Result:
    """How a run that was let go on to its end ends."""
    handler, spread = held.handler, len(held.key)
    fails = handler in FAILING or (handler == "flaky" and held.attempt <= spread % 3)
    fails = fails or (handler == ONCE and not held.is_done)
    result = Result(held, not fails, ended_ms, cluster_ms)
    if handler == "snoozing" and rng.random() < 0.5:
        result.succeeded, result.snoozes = False, True
        result.retry_after_ms = rng.randint(1, LONGEST_DELAY_MS)
    elif fails:
        result.permanent = handler == "broken" and spread % 2 == 0
        result.error_class = FATAL if handler == "fussy" else "sim.Error"
        if handler == "flaky" and rng.random() < 0.3:
            result.retry_after_ms = rng.randint(1, LONGEST_DELAY_MS)
    return result
