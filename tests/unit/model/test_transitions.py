"""Every pair of state and event: allowed exactly where the diagram has an edge."""

import itertools

import pytest

from raftsched.model.errors import IllegalTransition
from raftsched.model.transitions import (
    BEGAN_AND_FAILED_FOR_GOOD,
    BEGAN_AND_SUCCEEDED,
    EXECUTION_TRANSITIONS,
    TERMINAL,
    Event,
    ExecutionState,
    follow,
    next_state,
)
from raftsched.v1 import execution_pb2

# The diagram of the source document, with CANCELLED, RELEASE, REVOKE and SNOOZED.
DIAGRAM = {
    ("PENDING", "LEASE"): "LEASED",
    ("LEASED", "START"): "RUNNING",
    ("RUNNING", "SUCCEED"): "SUCCEEDED",
    ("RUNNING", "FAIL"): "FAILED",
    ("LEASED", "LEASE_LOST"): "PENDING",
    ("LEASED", "RELEASE"): "PENDING",
    ("RUNNING", "LEASE_LOST"): "PENDING",
    ("FAILED", "RETRY_DUE"): "PENDING",
    ("FAILED", "GIVE_UP"): "DEAD_LETTER",
    ("PENDING", "GIVE_UP"): "DEAD_LETTER",
    ("RUNNING", "SNOOZE"): "SNOOZED",
    ("SNOOZED", "RETRY_DUE"): "PENDING",
    ("SNOOZED", "CANCEL"): "CANCELLED",
    ("PENDING", "CANCEL"): "CANCELLED",
    ("LEASED", "CANCEL"): "CANCELLED",
    ("FAILED", "CANCEL"): "CANCELLED",
    ("LEASED", "REVOKE"): "CANCELLED",
    ("RUNNING", "REVOKE"): "CANCELLED",
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(ExecutionState, Event)))
def test_an_event_is_allowed_exactly_where_the_diagram_has_an_edge(state: ExecutionState, event: Event) -> None:
    expected = DIAGRAM.get((state.name, event.name))
    if expected is not None:
        assert next_state(state, event) is ExecutionState[expected]
        return
    with pytest.raises(IllegalTransition) as caught:
        next_state(state, event)
    assert caught.value.metadata == {"state": state.name, "event": event.name}


def test_numbers_are_those_of_the_public_enum() -> None:
    public = {
        name.removeprefix("EXECUTION_STATE_"): number for name, number in execution_pb2.ExecutionState.items() if number
    }
    assert {state.name: state.value for state in ExecutionState} == public


def test_nothing_leaves_a_terminal_state_and_every_other_state_can_be_left() -> None:
    left = {state for state, _ in EXECUTION_TRANSITIONS}
    assert left == set(ExecutionState) - TERMINAL


def test_every_state_can_be_reached_from_pending() -> None:
    reached = {ExecutionState.PENDING}
    while True:
        more = {after for (before, _), after in EXECUTION_TRANSITIONS.items() if before in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(ExecutionState)


def test_a_short_handler_passes_from_leased_to_succeeded_in_one_step() -> None:
    assert follow(ExecutionState.LEASED, BEGAN_AND_SUCCEEDED) is ExecutionState.SUCCEEDED
    assert follow(ExecutionState.LEASED, BEGAN_AND_FAILED_FOR_GOOD) is ExecutionState.DEAD_LETTER


def test_a_chain_stops_at_its_first_illegal_event() -> None:
    with pytest.raises(IllegalTransition) as caught:
        follow(ExecutionState.LEASED, (Event.START, Event.CANCEL, Event.SUCCEED))
    assert caught.value.metadata == {"state": "RUNNING", "event": "CANCEL"}
