"""After an outage: how many ticks of a schedule are too long over to be worth replicating. Counted in slices, since
ten years of minutes take seconds."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from raftsched.model.instants import TickSearch
from raftsched.model.limits import CATCH_UP_MAX, SECOND_MS
from raftsched.model.recurrence import CronSchedule
from raftsched.model.zones import ZoneData

# Ticks evaluated at a time: some 10 ms of the core thread.
SLICE = 4_000
# Schedules that are counted at a time.
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Jump:
    """The table goes on after this tick; so many up to it are left out."""

    after_ms: int
    omitted: int


@dataclass(slots=True)
class _Count:
    after_ms: int
    until_ms: int
    schedule: CronSchedule
    ticks: Iterator[int]
    counted: int = 0
    # The newest, one more than a job may catch up with.
    newest_ms: deque[int] = field(default_factory=lambda: deque(maxlen=CATCH_UP_MAX + 1))


class PassedTicks:
    """One per leader; it may forget everything at any time."""

    def __init__(self) -> None:
        self._counts: dict[int, _Count] = {}
        # Those that were asked for since the last step.
        self._asked: set[int] = set()
        # Schedules whose ticks up to this time, in milliseconds, are few enough to be replicated all.
        self._few_until_ms: dict[int, int] = {}

    def begin_step(self) -> None:
        """Forgets what nobody has asked for any more since the last call."""
        self._counts = {number: count for number, count in self._counts.items() if number in self._asked}
        self._asked = set()

    def jump(
        self, schedule_id: int, schedule: CronSchedule, after_ms: int, now_ms: int, zones: ZoneData
    ) -> Jump | None:
        """Where the table of a schedule goes on that ends with `after_ms`; None: ask again, it is being counted."""
        none = Jump(after_ms, 0)
        if now_ms - after_ms <= CATCH_UP_MAX * SECOND_MS or after_ms <= 0:
            self._counts.pop(schedule_id, None)
            self._few_until_ms.pop(schedule_id, None)
            return none
        if after_ms <= self._few_until_ms.get(schedule_id, -1):
            return none
        self._asked.add(schedule_id)
        count = self._counts.get(schedule_id)
        if count is None and len(self._counts) >= AT_ONCE:
            return None
        if count is None or count.after_ms != after_ms or count.schedule != schedule:
            ticks = iter(TickSearch(schedule, after_ms // SECOND_MS, zones))
            count = self._counts[schedule_id] = _Count(after_ms, now_ms, schedule, ticks)
        evaluated = 0
        for evaluated, tick_s in enumerate(islice(count.ticks, SLICE), 1):  # noqa: B007 (used after the loop)
            if tick_s * SECOND_MS > count.until_ms:
                break
            count.counted += 1
            count.newest_ms.append(tick_s * SECOND_MS)
        else:
            if evaluated == SLICE:
                return None
        del self._counts[schedule_id]
        self._few_until_ms[schedule_id] = count.until_ms
        if count.counted <= CATCH_UP_MAX:
            return none
        return Jump(count.newest_ms[0], count.counted - CATCH_UP_MAX)
