"""Whether limits hold at every moment: counts what is leased, and keeps buckets of its own, lease by lease."""

from collections import Counter
from dataclasses import dataclass, field

from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context
from raftsched.state.limits import key_slot, slots_of
from raftsched.store import rows
from tests.sim.timeline import Violation

_HELD = (ExecutionState.LEASED, ExecutionState.RUNNING)


@dataclass(slots=True)
class Bucket:
    """In millionths of an execution: a rate, of executions in 1,000 s, gives as many of these in a millisecond."""

    rate: int
    burst: int
    level: int
    at_ms: int


@dataclass(slots=True)
class LimitWatch:
    """Over all executions. Raises Violation."""

    # By what they count for.
    leased: Counter[int] = field(default_factory=Counter)
    _slots: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _buckets: dict[int, Bucket] = field(default_factory=dict)

    def changed(self, context: Context, execution: int, value: bytes) -> None:
        """The execution's row is about to be written."""
        is_held = value[rows.EXECUTION_STATUS] in _HELD
        if is_held == (execution in self._slots):
            return
        if not is_held:
            self.leased.subtract(self._slots.pop(execution))
            return
        profile = context.catalog.profile(value[rows.EXECUTION_PROFILE])
        slots = self._slots[execution] = slots_of(profile)
        self.leased.update(slots)
        for slot in slots:
            limit = context.limits.find(slot)
            if limit is None:
                self._buckets.pop(slot, None)
                continue
            if 0 < limit.concurrency < self.leased[slot]:
                raise Violation(f"{self.leased[slot]} are leased under a limit of {limit.concurrency}: {execution}")
            if limit.rate:
                self._take(slot, limit, context.now_ms)
        most = profile.message.concurrency_limit
        if profile.concurrency_key and self.leased[key_slot(profile.concurrency_key)] > most:
            raise Violation(f"more than {most} are leased under a concurrency key: {execution}")

    def _take(self, slot: int, limit: rows.LimitRow, now_ms: int) -> None:
        bucket = self._buckets.get(slot)
        full = limit.burst * 1_000_000
        if bucket is None or (bucket.rate, bucket.burst) != (limit.rate, limit.burst):
            # How much of it was used under the limit before is not held against it.
            bucket = self._buckets[slot] = Bucket(limit.rate, limit.burst, full, now_ms)
        bucket.level = min(full, bucket.level + bucket.rate * (now_ms - bucket.at_ms)) - 1_000_000
        bucket.at_ms = now_ms
        if bucket.level < 0:
            raise Violation(f"a rate of {limit.rate} in 1,000 s, {limit.burst} at once, is exceeded")
