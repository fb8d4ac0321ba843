"""Commands that wait for their result."""

import pytest

from raftsched.dispatch import pending
from raftsched.dispatch.pending import REPROPOSE_AFTER_S, PendingTable
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, NodeDraining, OutcomeUnknown, TooManyRequests
from raftsched.state.results import Done, Rejected, Result


class Proposer:
    def __init__(self) -> None:
        self.proposed: list[command_pb2.Command] = []
        self.full = False

    def __call__(self, data: bytes, _ops: int) -> None:
        if self.full:
            raise TooManyRequests()
        self.proposed.append(command_pb2.Command.FromString(data))


@pytest.fixture
def proposer() -> Proposer:
    return Proposer()


@pytest.fixture
def table(proposer: Proposer) -> PendingTable:
    return PendingTable(node_id=2, first_request=100, propose=proposer)


def tick() -> command_pb2.Command:
    return command_pb2.Command(tick=command_pb2.Tick(limit=1))


def test_a_command_is_proposed_with_its_origin_and_a_new_request_number(
    table: PendingTable, proposer: Proposer
) -> None:
    for _ in range(2):
        table.submit(tick(), 1, lambda _result: None, now_s=0, timeout_s=5)
    assert [(command.origin, command.request) for command in proposer.proposed] == [(2, 100), (2, 101)]


def test_a_result_reaches_its_waiter_once(table: PendingTable) -> None:
    results: list[Result] = []
    table.submit(tick(), 1, results.append, now_s=0, timeout_s=5)
    assert table.resolve(100, Done())
    assert not table.resolve(100, Done())
    assert results == [Done()]


def test_a_command_without_result_is_proposed_again_under_the_same_number(
    table: PendingTable, proposer: Proposer
) -> None:
    table.submit(tick(), 1, lambda _result: None, now_s=0, timeout_s=5)
    assert table.step(REPROPOSE_AFTER_S / 2) == REPROPOSE_AFTER_S
    assert len(proposer.proposed) == 1
    table.step(REPROPOSE_AFTER_S)
    assert [command.request for command in proposer.proposed] == [100, 100]


def test_after_the_deadline_the_outcome_is_unknown(table: PendingTable) -> None:
    results: list[Result] = []
    table.submit(tick(), 1, results.append, now_s=0, timeout_s=0.5)
    assert table.step(0) == 0.5
    assert table.step(0.5) is None
    (result,) = results
    assert isinstance(result, Rejected)
    assert isinstance(result.error, OutcomeUnknown)
    assert len(table) == 0


def test_a_new_leader_gets_everything_at_once(table: PendingTable, proposer: Proposer) -> None:
    for _ in range(3):
        table.submit(tick(), 1, lambda _result: None, now_s=0, timeout_s=5)
    proposer.proposed.clear()
    table.propose_all_again(0.1)
    assert [command.request for command in proposer.proposed] == [100, 101, 102]


def test_a_full_replica_refuses_what_was_never_proposed(table: PendingTable, proposer: Proposer) -> None:
    proposer.full = True
    results: list[Result] = []
    table.submit(tick(), 1, results.append, now_s=0, timeout_s=5)
    assert isinstance(results[0], Rejected)
    assert isinstance(results[0].error, TooManyRequests)
    assert len(table) == 0


def test_a_full_replica_does_not_drop_what_was_proposed_before(table: PendingTable, proposer: Proposer) -> None:
    results: list[Result] = []
    table.submit(tick(), 1, results.append, now_s=0, timeout_s=5)
    proposer.full = True
    table.step(REPROPOSE_AFTER_S)
    assert results == []
    proposer.full = False
    table.step(2 * REPROPOSE_AFTER_S)
    assert len(proposer.proposed) == 2


def test_a_full_table_refuses_at_once(table: PendingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MAX_PENDING", 1)
    results: list[Result] = []
    for _ in range(2):
        table.submit(tick(), 1, results.append, now_s=0, timeout_s=5)
    assert isinstance(results[0], Rejected)
    assert isinstance(results[0].error, TooManyRequests)


def test_a_stopping_node_answers_everyone(table: PendingTable) -> None:
    results: list[Result] = []
    for _ in range(2):
        table.submit(tick(), 1, results.append, now_s=0, timeout_s=5)
    table.fail_all(NodeDraining())
    assert [type(result.error) for result in results if isinstance(result, Rejected)] == [NodeDraining] * 2


def test_a_command_that_the_replica_will_never_take_is_rejected_with_its_error() -> None:
    def refuse(_data: bytes, _ops: int) -> None:
        raise InvalidField("is too large", field="command")

    table = PendingTable(node_id=1, first_request=1, propose=refuse)
    results: list[Result] = []
    table.submit(tick(), 1, results.append, now_s=0, timeout_s=1)
    assert isinstance(results[0], Rejected)
    assert isinstance(results[0].error, InvalidField)
    assert len(table) == 0


def test_requests_of_an_earlier_run_are_told_from_those_of_this_one(table: PendingTable) -> None:
    assert [table.is_of_this_run(request) for request in (99, 100, 101)] == [False, True, True]
