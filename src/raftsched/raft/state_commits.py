"""When the state machine's open write transaction is committed, and how far its commits are beyond any crash."""

from raftsched.raft.config import RaftConfig
from raftsched.raft.ports import Clock, StateMachine

# A commit syncs the disk on the core thread. When there is nothing to apply it comes at once, so that readers see
# what was applied, but never so often that it would take more than a fifth of the thread's time.
_REST_FACTOR = 4


class StateCommits:
    """The log makes applied entries durable already, so a commit serves readers and bounds what a restart replays."""

    def __init__(self, config: RaftConfig, machine: StateMachine, clock: Clock) -> None:
        self._interval_s = config.state_commit_interval_ms / 1000
        self._max_ops = config.state_commit_max_ops
        self._machine = machine
        self._clock = clock
        self._dirty_since_s: float | None = None
        self._rest_until_s = 0.0
        self._is_requested = False
        # What was found at the start may still be in the operating system's memory only: unknown until a commit here.
        self._last_index = 0
        self._safe_index = 0

    @property
    def safe_index(self) -> int:
        """The state of the last commit but one: no power loss undoes it."""
        return self._safe_index

    def request(self) -> None:
        """A reader waits: commit as soon as nothing is left to apply."""
        self._is_requested = True

    def applied(self, now_s: float) -> None:
        if self._dirty_since_s is None:
            self._dirty_since_s = now_s

    def installed(self, index: int) -> None:
        """The whole state was replaced, durably."""
        self._dirty_since_s = None
        self._last_index = self._safe_index = index

    def step(self, now_s: float, *, is_idle: bool) -> None:
        """Commits if it is time to. `is_idle`: nothing is left to apply."""
        if self._dirty_since_s is None:
            self._is_requested = False
            return
        if self.due_s(is_idle=is_idle) > now_s and self._machine.dirty_ops < self._max_ops:
            return
        self._machine.commit()
        ended_s = self._clock.monotonic()
        self._rest_until_s = ended_s + _REST_FACTOR * (ended_s - now_s)
        self._dirty_since_s = None
        self._is_requested = False
        self._safe_index, self._last_index = self._last_index, self._machine.committed_index

    def due_s(self, *, is_idle: bool) -> float:
        """When the next commit is due, by the clock given; infinite when there is nothing to commit."""
        if self._dirty_since_s is None:
            return float("inf")
        latest_s = self._dirty_since_s + self._interval_s
        if not is_idle:
            return latest_s
        return self._dirty_since_s if self._is_requested else min(latest_s, self._rest_until_s)
