"""A machine's clocks: the wall clock may be wrong and jump; the monotonic clock is the simulation's own time."""

from tests.sim.timeline import Timeline


class SimClock:
    """See raft.ports.Clock. `offset_ms` is how far the wall clock is from the truth."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.offset_ms = 0

    def wall_ms(self) -> int:
        return self._timeline.true_ms + self.offset_ms

    def monotonic(self) -> float:
        return self._timeline.now_s + 1_000.0
