import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.state.results import Settled
from raftsched.store import keys, rows
from tests.unit.state.support import (
    DEAD_LETTER,
    FAILED,
    LEASED,
    PENDING,
    RUNNING,
    START_MS,
    SUCCEEDED,
    Node,
    ack_command,
)

# --- Ack ---


def test_an_ack_finishes_executions_with_their_times(node: Node) -> None:
    leased = node.run(node.open_session(), 3)
    command = ack_command(leased.token, leased.executions)
    command.blocks[0].started_ms = keys.pack_ids([10, 20, 30])
    command.blocks[0].ended_ms = keys.pack_ids([11, 21, 31])
    assert node.want(Settled, command) == Settled([])
    found = [node.execution(number) for number in leased.executions]
    assert [(row.status, row.started_ms, row.ended_ms) for row in found] == [
        (SUCCEEDED, 10, 11),
        (SUCCEEDED, 20, 21),
        (SUCCEEDED, 30, 31),
    ]
    assert node.table("leases") == []


def test_blocks_may_be_acknowledged_in_parts_and_any_order(node: Node) -> None:
    leased = node.run(node.open_session(), 6)
    one, two, three, four, five, six = leased.executions
    assert node.ack(leased.token, [three, four]) == []
    assert node.ack(leased.token, [six, one]) == []
    ((_, value),) = node.table("leases")
    assert keys.unpack_ids(rows.LeaseRow.unpack(value).executions) == (two, five)
    node.check()
    assert node.ack(leased.token, [five, two]) == []
    assert node.table("leases") == []


def test_one_command_may_settle_many_blocks(node: Node) -> None:
    session = node.open_session()
    first, second = node.run(session, 2), node.run(session, 3)
    command = ack_command(first.token, first.executions)
    command.blocks.extend(ack_command(second.token, second.executions).blocks)
    assert node.want(Settled, command).stale == []
    assert node.table("leases") == []


def test_a_duplicate_ack_is_confirmed_again_and_changes_nothing(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    node.ack(leased.token, leased.executions, 5, 6)
    before = node.dump()
    assert node.ack(leased.token, leased.executions, 7, 8) == []
    assert node.dump() == before


def test_an_execution_twice_in_one_ack_counts_once(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    one, two = leased.executions
    assert node.ack(leased.token, [two, one, two, one]) == []
    assert node.machine.counters.leased == 0


def test_another_token_is_stale(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 3)
    before = node.dump()
    assert node.ack(leased.token + 1, leased.executions) == list(leased.executions)
    assert node.ack(leased.token - 1, leased.executions) == list(leased.executions)
    assert node.ack(0, leased.executions) == list(leased.executions)
    assert node.dump() == before


def test_an_ack_after_the_lease_was_lost_is_stale(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    node.do(command_pb2.CloseSession(session=session))
    assert node.state_of(1) == PENDING
    assert node.ack(leased.token, [1]) == [1]
    again = node.lease(node.open_session())
    assert node.ack(leased.token, [1]) == [1]
    assert node.ack(again.token, [1]) == []


def test_unknown_executions_are_stale_and_the_others_are_taken(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    assert node.ack(leased.token, [1, 999, 2, keys.MAX_ID, 999]) == [999, keys.MAX_ID]
    assert node.state_of(2) == SUCCEEDED


def test_ready_executions_cannot_be_acknowledged(node: Node) -> None:
    node.create(2)
    node.fire()
    assert node.ack(0, [1, 2]) == [1, 2]


# --- Started ---


def test_started_makes_an_execution_running(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    assert node.start(leased.token, [1], started_ms=42) == []
    row = node.execution(1)
    assert (row.status, row.started_ms, row.ended_ms) == (RUNNING, 42, 0)
    assert node.state_of(2) == LEASED


def test_a_repeated_started_changes_nothing(node: Node) -> None:
    leased = node.run(node.open_session())
    node.start(leased.token, [1], started_ms=42)
    before = node.dump()
    assert node.start(leased.token, [1], started_ms=43) == []
    assert node.dump() == before


def test_a_late_started_after_its_ack_changes_nothing(node: Node) -> None:
    leased = node.run(node.open_session())
    node.ack(leased.token, [1])
    before = node.dump()
    assert node.start(leased.token, [1]) == []
    assert node.dump() == before


def test_running_executions_finish(node: Node) -> None:
    leased = node.run(node.open_session(), 4)
    node.start(leased.token, [1, 3], started_ms=42)
    assert node.ack(leased.token, leased.executions, 42, 50) == []
    assert {node.state_of(number) for number in leased.executions} == {SUCCEEDED}


def test_started_under_another_token_is_stale(node: Node) -> None:
    leased = node.run(node.open_session())
    assert node.start(leased.token + 1, [1]) == [1]
    assert node.state_of(1) == LEASED


# --- Release ---


def test_a_released_execution_is_ready_again_without_a_mark(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 3)
    assert node.release(leased.token, [2]) == []
    row = node.execution(2)
    assert (row.status, row.lost_leases, row.failures) == (PENDING, 0, 0)
    again = node.lease(session)
    assert (list(again.executions), list(again.attempts)) == ([2], [1])
    assert node.ack(leased.token, [2]) == [2]


def test_a_repeated_release_changes_nothing(node: Node) -> None:
    leased = node.run(node.open_session())
    node.release(leased.token, [1])
    before = node.dump()
    assert node.release(leased.token, [1]) == []
    assert node.dump() == before


def test_what_runs_cannot_be_released(node: Node) -> None:
    leased = node.run(node.open_session())
    node.start(leased.token, [1])
    assert node.release(leased.token, [1]) == [1]
    assert node.state_of(1) == RUNNING


# --- Fail ---


def test_a_failure_waits_for_its_backoff(node: Node) -> None:
    leased = node.run(node.open_session())
    assert node.fail(leased.token, [1], error="bäng") == []
    row = node.execution(1)
    assert (row.status, row.failures, row.attempt, row.error) == (FAILED, 1, 1, "bäng")
    assert (row.started_ms, row.ended_ms, row.changed_ms) == (5, 6, START_MS + 1_000)
    assert node.table("leases") == []


def test_backoffs_grow_and_the_last_attempt_ends_in_the_dead_letters(node: Node) -> None:
    session = node.open_session(ttl_ms=1_000_000)
    node.create(due_ms=START_MS)
    waits, attempts = [], []
    for _ in range(3):
        node.fire()
        leased = node.lease(session)
        attempts += leased.attempts
        node.fail(leased.token, [1])
        waits.append(node.execution(1).changed_ms - node.now_ms)
        node.now_ms = node.execution(1).changed_ms
    row = node.execution(1)
    assert (row.status, row.failures, attempts, waits) == (DEAD_LETTER, 3, [1, 2, 3], [1_000, 2_000, 0])
    assert node.machine.counters.dead_letters == 1
    assert node.table("due") == []


def test_a_permanent_failure_goes_straight_to_the_dead_letters(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1], permanent=True, error="no such customer")
    row = node.execution(1)
    assert (row.status, row.failures, row.error) == (DEAD_LETTER, 1, "no such customer")
    ((key, _),) = node.table("dead_letters")
    assert keys.unpack_dead_letter(key)[1:] == (START_MS, 1)


def test_running_executions_fail_too(node: Node) -> None:
    leased = node.run(node.open_session())
    node.start(leased.token, [1])
    assert node.fail(leased.token, [1]) == []
    assert node.state_of(1) == FAILED


@pytest.mark.parametrize("permanent", [True, False])
def test_a_duplicate_fail_is_confirmed_again_and_counts_once(node: Node, permanent: bool) -> None:
    leased = node.run(node.open_session(), 2)
    node.fail(leased.token, [1, 1, 2, 1], permanent=permanent)
    before = node.dump()
    assert node.fail(leased.token, [2, 1], error="again") == []
    assert node.dump() == before
    assert node.execution(1).failures == 1


def test_a_duplicate_fail_after_the_backoff_is_confirmed_again(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1])
    node.advance(1_000)
    node.fire()
    before = node.dump()
    assert node.fail(leased.token, [1]) == []
    assert node.dump() == before


def test_a_fail_under_another_token_is_stale(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    assert node.fail(leased.token + 1, [1, 77]) == [1, 77]
    node.do(command_pb2.CloseSession(session=session))
    assert node.fail(leased.token, [1]) == [1]
    assert node.state_of(1) == PENDING


def test_an_ack_after_a_fail_and_a_fail_after_an_ack_are_stale(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    node.fail(leased.token, [1])
    node.ack(leased.token, [2])
    assert node.ack(leased.token, [1]) == [1]
    assert node.fail(leased.token, [2]) == [2]


def test_an_error_is_cut_to_four_kibibytes(node: Node) -> None:
    leased = node.run(node.open_session())
    node.fail(leased.token, [1], error="ü" * 5_000)
    assert node.execution(1).error == "ü" * 2_048


def test_failures_and_lost_leases_are_kept_when_it_is_leased_again(node: Node) -> None:
    session = node.open_session(ttl_ms=100_000)
    leased = node.run(session)
    node.fail(leased.token, [1])
    node.advance(1_000)
    node.fire()
    again = node.lease(session)
    row = node.execution(1)
    assert (row.status, row.failures, row.attempt, row.error) == (LEASED, 1, 2, "boom")
    assert node.ack(again.token, [1]) == []
    assert node.execution(1).error == "boom"


# --- malformed ---


def ack(**changes: bytes) -> command_pb2.Ack:
    command = ack_command(3, [1, 2])
    for name, value in changes.items():
        setattr(command.blocks[0], name, value)
    return command


@pytest.mark.parametrize(
    "command",
    [
        ack(executions=b"1234567"),
        ack(executions=bytes(24)),
        ack(started_ms=bytes(8)),
        ack(started_ms=bytes(15)),
        ack(ended_ms=b""),
        ack(ended_ms=b"\x00\x01" + bytes(14)),
        ack(started_ms=b"\xff" * 16),
        ack_command(3, [7] * 20_001),
        command_pb2.Started(started_ms=-1, blocks=[command_pb2.LeasedBlock(token=3, executions=bytes(8))]),
        command_pb2.Started(started_ms=1 << 50),
        command_pb2.Started(blocks=[command_pb2.LeasedBlock(token=3, executions=bytes(9))]),
        command_pb2.Release(blocks=[command_pb2.LeasedBlock(token=3, executions=bytes(1))]),
        command_pb2.Release(blocks=[command_pb2.LeasedBlock(token=3, executions=bytes(8 * 20_001))]),
        command_pb2.Fail(failures=[command_pb2.FailedExecution(token=3, execution=1, started_ms=-1)]),
        command_pb2.Fail(failures=[command_pb2.FailedExecution(token=3, execution=1, ended_ms=1 << 60)]),
    ],
)
def test_a_malformed_settlement_is_refused_whole(node: Node, command: object) -> None:
    node.run(node.open_session(), 2)
    node.refused(InvalidField, command)
