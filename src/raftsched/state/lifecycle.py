"""The transition table of executions, arranged by what the state machine does: state before -> state after.

A state that a mapping lacks refuses that step.
"""

from raftsched.model.errors import IllegalTransition
from raftsched.model.transitions import (
    BEGAN_AND_FAILED,
    BEGAN_AND_FAILED_FOR_GOOD,
    BEGAN_AND_SNOOZED,
    BEGAN_AND_SUCCEEDED,
    FAILED_FOR_GOOD,
    TERMINAL,
    Event,
    ExecutionState,
    follow,
)


def _steps(*paths: tuple[Event, ...]) -> dict[int, bytes]:
    """By state: the status byte after the first of these paths that the table allows from there."""
    steps = {}
    for state in ExecutionState:
        for path in paths:
            try:
                steps[int(state)] = bytes((follow(state, path),))
                break
            except IllegalTransition:
                continue
    return steps


def status(state: ExecutionState) -> bytes:
    """The status byte of a state."""
    return bytes((state,))


IS_TERMINAL: frozenset[int] = frozenset(map(int, TERMINAL))

LEASE = _steps((Event.LEASE,))
START = _steps((Event.START,))
SUCCEED = _steps(BEGAN_AND_SUCCEEDED, (Event.SUCCEED,))
FAIL = _steps(BEGAN_AND_FAILED, (Event.FAIL,))
SNOOZE = _steps(BEGAN_AND_SNOOZED, (Event.SNOOZE,))
GIVE_UP = _steps(BEGAN_AND_FAILED_FOR_GOOD, FAILED_FOR_GOOD)
# Of what waits in the ready queue.
GIVE_UP_WAITING = _steps((Event.GIVE_UP,))
RETRY = _steps((Event.RETRY_DUE,))
LOSE = _steps((Event.LEASE_LOST,))
RELEASE = _steps((Event.RELEASE,))
CANCEL = _steps((Event.CANCEL,))
# By force: from wherever it waits, and from under its worker.
REVOKE = _steps((Event.REVOKE,), (Event.CANCEL,))
