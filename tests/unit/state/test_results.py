import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.limits import RESULT_MAX_BYTES
from raftsched.state.results import Settled
from raftsched.store import keys
from tests.unit.state.support import RUNNING, SUCCEEDED, Node, ack_command


def with_results(token: int, executions: list[int], results: list[bytes]) -> command_pb2.Ack:
    command = ack_command(token, executions)
    command.blocks[0].results.extend(results)
    return command


def results(node: Node) -> dict[int, bytes]:
    return {keys.unpack_id(key): value for key, value in node.table("results")}


def test_what_is_not_empty_is_kept(node: Node) -> None:
    leased = node.run(node.open_session(), 3)
    command = with_results(leased.token, [3, 1, 2], [b"c", b"", b"b" * RESULT_MAX_BYTES])
    assert node.want(Settled, command) == Settled([])
    assert results(node) == {3: b"c", 2: b"b" * RESULT_MAX_BYTES}
    before = node.dump()
    assert node.want(Settled, command) == Settled([])
    assert node.dump() == before
    node.check()


def test_without_results_nothing_is_written(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    node.ack(leased.token, [1])
    node.do(with_results(leased.token, [2], [b""]))
    assert node.table("results") == []


def test_the_result_of_a_run_that_was_overtaken_is_not_kept(node: Node) -> None:
    leased = node.run(node.open_session(ttl_ms=1_000))
    node.advance(2_000)
    node.tick()
    again = node.lease(node.open_session())
    assert node.want(Settled, with_results(leased.token, [1], [b"old"])) == Settled([1])
    assert results(node) == {}
    node.do(with_results(again.token, [1], [b"new"]))
    assert node.want(Settled, with_results(leased.token, [1], [b"old"])) == Settled([1])
    assert results(node) == {1: b"new"}


def test_executions_in_different_states_get_their_own(node: Node) -> None:
    leased = node.run(node.open_session(), 3)
    node.start(leased.token, [2])
    assert node.state_of(2) == RUNNING
    node.do(with_results(leased.token, [1, 2, 3], [b"a", b"b", b"c"]))
    assert results(node) == {1: b"a", 2: b"b", 3: b"c"}
    assert {node.state_of(number) for number in (1, 2, 3)} == {SUCCEEDED}


@pytest.mark.parametrize("values", [[b"x"], [b"x", b"y", b"z"], [b"", b"x" * (RESULT_MAX_BYTES + 1)]])
def test_a_wrong_number_or_size_is_refused(node: Node, values: list[bytes]) -> None:
    leased = node.run(node.open_session(), 2)
    error = node.refused(InvalidField, with_results(leased.token, [1, 2], values))
    assert error.field == "blocks[0].results"
