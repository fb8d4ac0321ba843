"""What the leader does so that nothing is kept for ever: proposes Reclaim, at a pace that leaves room for dispatch.

A pass over everything is proposed step by step, and only when a look at the oldest of everything says that it would
find something. Too many dead letters, which are never removed, are told once in the log. Runs on the core thread.
"""

import logging
from typing import Protocol

from raftsched.dispatch.ports import Clock, MachineViews, Submit
from raftsched.internal.v1 import command_pb2
from raftsched.model.retention import RetentionSettings
from raftsched.state.results import Reclaimed, Result
from raftsched.store.rows import StateRow

logger = logging.getLogger(__name__)

# Rows a step looks at: it applies in a few milliseconds.
LIMIT = 1_000
# Between two steps of a pass: sooner when the last one removed something.
REMOVING_WAIT_S = 0.05
LOOKING_WAIT_S = 0.25
# Between two passes: twice as long each time that one has removed nothing.
PASS_WAIT_S = 10.0
# Until the next look, when there was nothing to find.
IDLE_WAIT_S = 2.0
LONGEST_PASS_WAIT_S = 320.0
# After a step without a result.
FAILED_WAIT_S = 1.0


class ReclaimViews(MachineViews, Protocol):
    @property
    def counters(self) -> StateRow: ...

    def reclaim_is_due(self, settings: RetentionSettings, now_ms: int) -> bool: ...


class ReclaimPump:
    """Stepped while this node leads."""

    def __init__(self, *, machine: ReclaimViews, submit: Submit, clock: Clock, settings: RetentionSettings) -> None:
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._settings = settings
        self._in_flight = False
        self._not_before_s = 0.0
        self._pass_wait_s = PASS_WAIT_S
        self._removed_in_pass = 0
        self._is_over_quota = False

    def step(self, now_s: float) -> float | None:
        """Proposes the next step if it is time. Returns as FirePump.step."""
        self._watch_dead_letters()
        if self._in_flight:
            return None
        if now_s < self._not_before_s:
            return self._not_before_s - now_s
        if not self._machine.reclaim_is_due(self._settings, self._machine.now_ms):
            self._not_before_s = now_s + IDLE_WAIT_S
            return IDLE_WAIT_S
        self._in_flight = True
        reclaim = command_pb2.Reclaim(
            limit=LIMIT,
            age_ms=self._settings.age_ms,
            executions=self._settings.executions,
            request_id_age_ms=self._settings.request_id_age_ms,
        )
        self._submit(command_pb2.Command(reclaim=reclaim), LIMIT, self._on_result)
        return None

    def _on_result(self, result: Result) -> None:
        self._in_flight = False
        self._not_before_s = self._clock.monotonic() + self._wait_s(result)

    def _wait_s(self, result: Result) -> float:
        if not isinstance(result, Reclaimed):
            return FAILED_WAIT_S
        self._removed_in_pass += result.removed
        if not result.done:
            return REMOVING_WAIT_S if result.removed else LOOKING_WAIT_S
        if self._removed_in_pass:
            self._pass_wait_s = PASS_WAIT_S
            logger.info("removed what need not be kept", extra={"rows": self._removed_in_pass})
        else:
            self._pass_wait_s = min(2 * self._pass_wait_s, LONGEST_PASS_WAIT_S)
        self._removed_in_pass = 0
        return self._pass_wait_s

    def _watch_dead_letters(self) -> None:
        quota = self._settings.dead_letter_quota
        is_over = 0 < quota < self._machine.counters.dead_letters
        if is_over and not self._is_over_quota:
            logger.warning(
                "%d dead letters, and none is ever dropped: replay them or delete their jobs",
                self._machine.counters.dead_letters,
                extra={"dead_letters": self._machine.counters.dead_letters, "quota": quota},
            )
        self._is_over_quota = is_over
