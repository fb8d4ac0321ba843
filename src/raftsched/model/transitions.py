"""The states of an execution and the only ways from one to another.

The edges are those of the source document's state diagram, with CANCELLED and the worker's giving back of an unrun
lease beside them. Whatever is not in `EXECUTION_TRANSITIONS` is an IllegalTransition.
"""

from collections.abc import Iterable
from enum import IntEnum, auto

from raftsched.model.errors import IllegalTransition


class ExecutionState(IntEnum):
    """Numbers are those of raftsched.v1.ExecutionState; rows on disk hold them."""

    PENDING = 1
    LEASED = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    DEAD_LETTER = 6
    CANCELLED = 7
    SNOOZED = 8


class Event(IntEnum):
    """What can happen to an execution. The numbers are stored nowhere."""

    # A worker takes it.
    LEASE = auto()
    # Its handler has begun.
    START = auto()
    # Its handler returned.
    SUCCEED = auto()
    # Its handler failed or ran out of time; the execution now either waits for RETRY_DUE or is given up.
    FAIL = auto()
    # Its handler has put it off; that is no failure.
    SNOOZE = auto()
    # The backoff, or the time it was put off for, is over.
    RETRY_DUE = auto()
    # Attempts are exhausted, the failure was permanent, or it is too late for another attempt.
    GIVE_UP = auto()
    # The worker's session ended, or the lease never reached it.
    LEASE_LOST = auto()
    # The worker hands it back unrun.
    RELEASE = auto()
    # A caller cancels its job; from LEASED only after its worker has dropped it unbegun.
    CANCEL = auto()
    # Its lease is taken away for good: it is replaced, or cancelled by force.
    REVOKE = auto()


EXECUTION_TRANSITIONS: dict[tuple[ExecutionState, Event], ExecutionState] = {
    (ExecutionState.PENDING, Event.LEASE): ExecutionState.LEASED,
    (ExecutionState.PENDING, Event.CANCEL): ExecutionState.CANCELLED,
    (ExecutionState.LEASED, Event.START): ExecutionState.RUNNING,
    (ExecutionState.LEASED, Event.LEASE_LOST): ExecutionState.PENDING,
    (ExecutionState.LEASED, Event.RELEASE): ExecutionState.PENDING,
    (ExecutionState.LEASED, Event.CANCEL): ExecutionState.CANCELLED,
    (ExecutionState.LEASED, Event.REVOKE): ExecutionState.CANCELLED,
    (ExecutionState.RUNNING, Event.SUCCEED): ExecutionState.SUCCEEDED,
    (ExecutionState.RUNNING, Event.FAIL): ExecutionState.FAILED,
    (ExecutionState.RUNNING, Event.SNOOZE): ExecutionState.SNOOZED,
    (ExecutionState.RUNNING, Event.LEASE_LOST): ExecutionState.PENDING,
    (ExecutionState.RUNNING, Event.REVOKE): ExecutionState.CANCELLED,
    (ExecutionState.FAILED, Event.RETRY_DUE): ExecutionState.PENDING,
    (ExecutionState.SNOOZED, Event.RETRY_DUE): ExecutionState.PENDING,
    (ExecutionState.SNOOZED, Event.CANCEL): ExecutionState.CANCELLED,
    (ExecutionState.PENDING, Event.GIVE_UP): ExecutionState.DEAD_LETTER,
    (ExecutionState.FAILED, Event.GIVE_UP): ExecutionState.DEAD_LETTER,
    (ExecutionState.FAILED, Event.CANCEL): ExecutionState.CANCELLED,
}

TERMINAL: frozenset[ExecutionState] = frozenset(
    {ExecutionState.SUCCEEDED, ExecutionState.DEAD_LETTER, ExecutionState.CANCELLED}
)

# A handler that ends before it was reported as started runs through RUNNING in the same step. A lease that was lost
# once too often ends like a failed run, since nobody can tell that its handler had not begun.
BEGAN_AND_SUCCEEDED = (Event.START, Event.SUCCEED)
BEGAN_AND_FAILED = (Event.START, Event.FAIL)
BEGAN_AND_SNOOZED = (Event.START, Event.SNOOZE)
FAILED_FOR_GOOD = (Event.FAIL, Event.GIVE_UP)
BEGAN_AND_FAILED_FOR_GOOD = (Event.START, Event.FAIL, Event.GIVE_UP)


def next_state(state: ExecutionState, event: Event) -> ExecutionState:
    """Raises IllegalTransition when `event` may not happen in `state`."""
    try:
        return EXECUTION_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(
            f"{event.name} is not possible while an execution is {state.name}", state=state.name, event=event.name
        ) from None


def follow(state: ExecutionState, events: Iterable[Event]) -> ExecutionState:
    """The state after several events in one step. Raises IllegalTransition at the first that is not possible."""
    for event in events:
        state = next_state(state, event)
    return state
