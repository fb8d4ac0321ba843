"""Hazards 7 and 15: an entry that cannot be applied is applied for ever, callbacks that never come."""

from pathlib import Path
from typing import Any

import pytest
from pysyncobj import replicated

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import ImpossibleState, InvalidField, TooManyRequests
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.stock import Stock, StockClock

A, B = entry(b"a"), entry(b"b")


class StockCounter(Stock):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls = 0

    @replicated
    def fail(self) -> None:
        self.calls += 1
        raise ZeroDivisionError


# 7: an exception in apply


def test_stock_node_applies_a_failing_entry_again_and_again_and_loses_its_callback(stock_clock: StockClock) -> None:
    stock = StockCounter()
    stock.become_leader(stock_clock)
    answers: list[Any] = []
    stock.fail(callback=lambda *answer: answers.append(answer))
    stock.doTick()
    for name in stock.nodes:
        stock.receive(name, type="next_node_idx", next_node_idx=4, reset=False, success=True)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            stock.doTick()
    assert stock.calls == 5
    assert answers == []


def test_an_entry_that_cannot_be_applied_stops_the_node_once_and_for_all(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.machine.fail_at = 2
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B), (1, A)], commit=3, tick=False)
    solo.tick()
    for _ in range(3):
        with pytest.raises(ImpossibleState, match="entry 2 cannot be"):
            solo.tick()
    assert isinstance(solo.replica.fatal, ImpossibleState)
    assert solo.machine.applied_index == 1
    assert len(solo.effects) == 1
    solo.transport.take()
    solo.append(prev=3, prev_term=1, entries=[(1, B)], commit=4, tick=False)
    assert solo.log.last_index == 3, "it takes no part any more"
    solo.close()


def test_an_entry_of_an_unknown_kind_stops_the_node(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    with pytest.raises(ImpossibleState, match="kind that this version does not know: 09"):
        solo.append(prev=0, prev_term=0, entries=[(1, b"\x09new")], commit=1)
    solo.close()


def test_one_entry_is_applied_per_tick_and_its_effects_are_handed_over(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B)], commit=2, tick=False)
    assert solo.tick() == 0.0
    assert (solo.machine.applied_index, len(solo.effects)) == (1, 1)
    assert solo.tick() > 0.0
    assert (solo.machine.applied_index, len(solo.effects)) == (2, 2)
    assert solo.machine.commands == [b"a", b"b"]
    solo.close()


def test_nothing_is_applied_that_this_node_has_not_on_disk(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.tick()
    assert solo.machine.applied_index == 0
    solo.sync()
    assert solo.machine.applied_index == 1
    solo.close()


# 15: whoever waits


def test_stock_callback_of_a_leader_without_a_majority_never_comes(stock_clock: StockClock) -> None:
    stock = StockCounter()
    stock.become_leader(stock_clock)
    answers: list[Any] = []
    stock.fail(callback=lambda *answer: answers.append(answer))
    stock.doTick()
    for _ in range(100):
        stock_clock.now_s += 60
        stock.doTick()
    assert not stock._isLeader()
    assert answers == [], "nobody will ever know"


def test_a_read_on_a_deposed_leader_goes_on_with_the_next_one(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    solo.tick()
    later = entry(b"b", now_ms=solo.clock.wall_ms())
    solo.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, later)], commit=2)
    (question,) = solo.transport.take(to=3, body="read_request")
    solo.receive(3, read_reply=peer_pb2.ReadReply(id=question.read_request.id, index=2))
    solo.settle()
    assert answers == [2]
    solo.close()


def test_every_read_is_answered_once_at_its_deadline_at_the_latest(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    answers: list[int | None] = []
    for _ in range(3):
        solo.replica.read_barrier(answers.append)
        solo.tick(after_s=0.5)
    solo.tick(after_s=1.6)
    assert answers == [None]
    solo.tick(after_s=10)
    assert answers == [None, None, None]
    solo.replica.read_barrier(answers.append)
    solo.replica.destroy()
    assert answers == [None, None, None, None]
    solo.close()


def test_commands_wait_for_a_leader_only_so_long(tmp_path: Path) -> None:
    solo = Solo(tmp_path, queue_max_ops=3)
    for _ in range(3):
        solo.replica.propose(b"early", 1)
    with pytest.raises(TooManyRequests):
        solo.replica.propose(b"one too many", 1)
    solo.tick(after_s=1.1)
    solo.replica.propose(b"late", 1)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    (message,) = solo.transport.take(to=2, body="forward")
    assert list(message.forward.commands) == [b"late"]
    solo.close()


def test_commands_of_a_follower_go_to_the_leader_together(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    for number in range(5):
        solo.replica.propose(b"%d" % number, number)
    solo.tick()
    (message,) = solo.transport.take(body="forward")
    assert list(message.forward.commands) == [b"0", b"1", b"2", b"3", b"4"]
    assert list(message.forward.ops) == [1, 1, 2, 3, 4]
    solo.close()


def test_forwarded_commands_are_proposed_by_a_leader_and_dropped_by_others(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.receive(2, forward=peer_pb2.Forward(commands=[b"lost"], ops=[1]))
    solo.lead_with_quorum()
    solo.receive(2, forward=peer_pb2.Forward(commands=[b"x", b"y"], ops=[1, 1]))
    solo.tick()
    solo.accept(2, 2)
    solo.settle()
    assert solo.machine.commands == [b"x", b"y"]
    solo.close()


def test_a_command_that_is_too_large_is_refused(tmp_path: Path) -> None:
    solo = Solo(tmp_path, command_max_bytes=10)
    with pytest.raises(InvalidField, match="11 bytes; at most 10"):
        solo.replica.propose(b"x" * 11, 1)
    solo.close()
