"""Hazards 8 and 9: commands that wait for a timer, and bytes from the network that run as code."""

import ast
import pickle
import struct
import zlib
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from pysyncobj.poller import createPoller
from pysyncobj.tcp_connection import CONNECTION_STATE, TcpConnection

import raftsched.raft
from raftsched.internal.v1 import peer_pb2
from tests.unit.raft.solo import Solo
from tests.unit.raft.stock import Stock, StockClock


class Bomb:
    """Makes a folder on the machine that unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.mkdir, (self.path,)


# 8: latency by default


def test_stock_leader_lets_a_command_wait_for_its_timer(stock_clock: StockClock) -> None:
    stock = Stock()
    stock.become_leader(stock_clock)
    stock.doTick()
    stock.take("append_entries")
    stock._applyCommand(b"command", None, 0)
    for _ in range(9):
        stock.doTick()
        stock_clock.now_s += 0.01
    assert not stock.take("append_entries"), "nine hundredths of a second, and nothing was sent"
    stock_clock.now_s += 0.02
    stock.doTick()
    assert stock.take("append_entries")


def test_a_command_is_sent_in_the_tick_that_proposes_it(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.propose(b"command", 1)
    solo.tick()
    assert [len(message.append.entries) for message in solo.transport.take(body="append")] == [1, 1]
    solo.close()


def test_commit_and_the_next_entry_go_out_in_the_tick_that_sees_the_majority(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.propose(b"one", 1)
    solo.tick()
    for name in (b"two", b"three"):
        solo.replica.propose(name, 1)
    solo.tick()
    solo.transport.take()
    solo.accept(2, 2)
    solo.tick()
    (message,) = solo.transport.take(to=3, body="append")
    assert message.append.commit_index == 2
    assert len(message.append.entries) == 1, "what had gathered is one entry"
    solo.accept(2, 3)
    solo.settle()
    assert solo.machine.commands == [b"one", b"two", b"three"]
    solo.close()


def test_a_follower_learns_of_a_commit_at_once_and_does_not_answer_that(tmp_path: Path) -> None:
    leader, follower = Solo(tmp_path / "leader"), Solo(tmp_path / "follower")
    leader.lead_with_quorum()
    leader.accept(2, 1)
    leader.replica.propose(b"one", 1)
    leader.tick()
    (append,) = leader.transport.take(to=3, body="append")
    follower.append(prev=0, prev_term=0, entries=[(1, leader.log.entry(1).command)], commit=1)
    follower.replica.receive(2, append)
    follower.settle()
    leader.accept(3, 2)
    leader.tick()
    (notice,) = leader.transport.take(to=3, body="append")
    assert notice.append.notice
    assert not notice.append.entries
    follower.transport.take()
    follower.replica.receive(2, notice)
    follower.settle()
    assert follower.machine.commands == [b"one"]
    assert not follower.transport.take()
    leader.close()
    follower.close()


def test_an_entry_ends_where_its_operations_or_bytes_reach_the_limit(tmp_path: Path) -> None:
    solo = Solo(tmp_path, entry_max_ops=10, entry_max_bytes=1_000, entries_in_flight=10)
    solo.lead_with_quorum()
    for ops, size in ((6, 10), (4, 10), (1, 10), (1, 2_000), (1, 10)):
        solo.replica.propose(b"x" * size, ops)
    solo.tick()
    entries = [entry for message in solo.transport.take(to=2, body="append") for entry in message.append.entries]
    solo.accept(2, 5)
    solo.settle()
    assert len(entries) == 4
    assert [len(command) for command in solo.machine.commands] == [10, 10, 10, 2_000, 10]
    solo.close()


def test_the_replicated_clock_never_goes_back_not_even_with_a_leader_whose_clock_is_behind(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.propose(b"one", 1)
    solo.tick()
    solo.accept(2, 2)
    solo.settle()
    first = solo.machine.now_ms
    assert first == solo.clock.wall_ms()
    solo.clock.skew_ms = -3_600_000
    solo.replica.step_down()
    solo.become_leader()
    solo.accept(2, 3)
    solo.replica.propose(b"two", 1)
    solo.tick()
    solo.accept(2, 4)
    solo.settle()
    assert solo.machine.commands == [b"one", b"two"]
    assert solo.machine.now_ms == first
    solo.close()


# 9: no code from the network or the disk


def test_stock_connection_runs_what_it_receives(tmp_path: Path) -> None:
    target = tmp_path / "made by a stranger"
    connection = TcpConnection(createPoller("auto"))
    connection._TcpConnection__state = CONNECTION_STATE.CONNECTED
    data = zlib.compress(pickle.dumps(Bomb(target)))
    connection._TcpConnection__readBuffer = struct.pack("i", len(data)) + data
    connection._TcpConnection__processParseMessage()
    assert target.is_dir()


def test_a_pickle_is_no_message(tmp_path: Path) -> None:
    target = tmp_path / "made by a stranger"
    for data in (pickle.dumps(Bomb(target)), zlib.compress(pickle.dumps(Bomb(target)))):
        with pytest.raises(DecodeError):
            peer_pb2.PeerMessage.FromString(data)
    assert not target.exists()


def test_a_pickle_in_an_entry_stays_bytes(tmp_path: Path) -> None:
    target = tmp_path / "made by a stranger"
    solo = Solo(tmp_path / "node")
    solo.lead_with_quorum()
    bomb = pickle.dumps(Bomb(target))
    solo.receive(2, forward=peer_pb2.Forward(commands=[bomb], ops=[1]))
    solo.tick()
    solo.accept(2, 2)
    solo.settle()
    assert solo.machine.commands == [bomb]
    solo.close()
    again = Solo(tmp_path / "node")
    assert again.log.last_index == 2
    again.close()
    assert not target.exists()


def test_no_module_of_this_layer_imports_pickle() -> None:
    for path in Path(str(raftsched.raft.__path__[0])).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert "pickle" not in f"{module} {names}", path.name
