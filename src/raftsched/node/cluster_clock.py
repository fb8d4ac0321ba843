"""The time of day that a node goes by: its own clock, as long as the other nodes' clocks do not say otherwise.

Nodes tell each other their wall clocks. A node compares its own with the median of all; a clock that is off by more
than the bound is not believed: the node goes by the median, carried forward by its monotonic clock, and does not lead.
A sudden jump is not believed before the others have confirmed it; where as many clocks say one thing as another, that
is believed which continues what a majority agreed upon before, and nothing when there was no such time.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection

from raftsched.raft.ports import Clock

logger = logging.getLogger(__name__)

# How far a clock may be off before it is not believed. NTP keeps machines within some ms; a report that waited behind
# a long disk flush looks as late as the flush was long.
BOUND_MS = 2_000
# A step from one look to the next, against the monotonic clock, that no slewing clock makes.
JUMP_MS = 500
# Reports a peer's clock is judged by, and for how long. The one that travelled fastest counts.
REPORTS_KEPT = 8
REPORT_LIFE_S = 5.0


class ClusterClock:
    """A raft.ports.Clock for one node of `members`, a number. Any thread may ask for the time."""

    def __init__(self, clock: Clock, *, members: int, bound_ms: int = BOUND_MS) -> None:
        self._clock = clock
        self._members = members
        self._bound_ms = bound_ms
        self._lock = threading.Lock()
        # What was believed last, and the monotonic time of then.
        self._believed_ms = float(clock.wall_ms())
        self._believed_at_s = clock.monotonic()
        self._is_trusted = True
        self._is_judged = False
        # Of each peer: (monotonic time of arrival, its wall clock minus our monotonic clock in ms).
        self._reports: dict[int, deque[tuple[float, float]]] = {}

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return self._clock.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as this node believes."""
        with self._lock:
            now_s = self._clock.monotonic()
            own_ms = float(self._clock.wall_ms())
            expected_ms = self._expected_ms(now_s)
            # Alone there is nobody to ask.
            is_steady = abs(own_ms - expected_ms) <= JUMP_MS or self._members == 1
            self._believed_ms = own_ms if is_steady and self._is_trusted else expected_ms
            self._believed_at_s = now_s
            return int(self._believed_ms)

    def _expected_ms(self, now_s: float) -> float:
        """What was believed last, carried forward."""
        return self._believed_ms + (now_s - self._believed_at_s) * 1000

    @property
    def own_wall_ms(self) -> int:
        """What this machine's clock says, for the others to judge."""
        return self._clock.wall_ms()

    @property
    def is_trusted(self) -> bool:
        """Whether this machine's clock agrees with the others', as far as is known."""
        return self._is_trusted

    @property
    def is_judged(self) -> bool:
        """Whether a majority's clocks have told what time it is; alone there is nobody to ask."""
        return self._members == 1 or self._is_judged

    @property
    def may_lead(self) -> bool:
        """Whether a majority's clocks are known and this machine's agrees: a leader's clock becomes everybody's, and
        cannot be taken back."""
        return self._members == 1 or (self._is_trusted and self._is_judged)

    def follow_members(self, members: int, peers: Collection[int]) -> None:
        """The cluster has so many nodes now, and these of them, which are others, have a say."""
        with self._lock:
            self._members = members
            for gone in self._reports.keys() - set(peers):
                del self._reports[gone]

    def offset_ms(self) -> int | None:
        """How far the median of all clocks is ahead of this machine's; None when too few are known, or half of them
        differ from the other half and always have."""
        offsets = sorted(self._offsets())
        if len(offsets) <= self._members // 2:
            return None
        low, high = offsets[(len(offsets) - 1) // 2], offsets[len(offsets) // 2]
        if high - low <= self._bound_ms:
            return round(low if abs(low) <= abs(high) else high)
        if not self._is_judged:
            return None
        with self._lock:
            expected = self._expected_ms(self._clock.monotonic()) - self._clock.wall_ms()
        nearest = low if abs(low - expected) <= abs(high - expected) else high
        return round(nearest)

    def reported(self, peer: int, wall_ms: int) -> None:
        """A peer's wall clock has arrived: judges this machine's clock anew."""
        now_s = self._clock.monotonic()
        reports = self._reports.setdefault(peer, deque(maxlen=REPORTS_KEPT))
        ahead_ms = wall_ms - now_s * 1000
        if any(ahead_ms < earlier_ms - REPORT_LIFE_S * 1000 for _, earlier_ms in reports):
            # No report is so late: that clock was set back, and what it said before counts no more.
            reports.clear()
        reports.append((now_s, ahead_ms))
        offset_ms = self.offset_ms()
        if offset_ms is None:
            return
        is_trusted = abs(offset_ms) <= self._bound_ms
        if is_trusted != self._is_trusted:
            log: Callable[..., None] = logger.info if is_trusted else logger.error
            log(
                "this machine's clock agrees with the other nodes' again"
                if is_trusted
                else "this machine's clock is off: going by the other nodes', and not leading",
                extra={"offset_ms": offset_ms, "bound_ms": self._bound_ms},
            )
        with self._lock:
            self._is_judged = True
            self._is_trusted = is_trusted
            # Also after a jump that the others have confirmed: wall_ms alone would never follow it.
            self._believed_ms = self._clock.wall_ms() + (0.0 if is_trusted else float(offset_ms))
            self._believed_at_s = self._clock.monotonic()

    def _offsets(self) -> list[float]:
        """Of each clock known, this machine's included, against this machine's."""
        now_s = self._clock.monotonic()
        own = self._clock.wall_ms() - now_s * 1000
        offsets = [0.0]
        for reports in self._reports.values():
            # A report only gets older on its way: the largest is the truest.
            fresh = [ahead for arrived_s, ahead in reports if now_s - arrived_s <= REPORT_LIFE_S]
            if fresh:
                offsets.append(max(fresh) - own)
        return offsets
