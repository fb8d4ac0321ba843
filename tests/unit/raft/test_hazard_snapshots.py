"""Hazards 12 and 13: snapshots that load unchecked or not at all, entries cut to pieces, forks."""

import os
from pathlib import Path
from typing import Any

import pytest
from pysyncobj import SyncObjConf

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.raft.config import RaftConfig
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.stock import REGULAR, Stock, StockClock

A = entry(b"a")


def chunks_from(leader: Solo, to: int = 2) -> list[peer_pb2.PeerMessage]:
    """All chunks of a snapshot for a follower that has nothing, each confirmed as it comes."""
    leader.receive(
        to, append_reply=peer_pb2.AppendReply(success=False, hint_index=0, last_index=0, needs_snapshot=True)
    )
    chunks: list[peer_pb2.PeerMessage] = []
    for _ in range(100):
        leader.tick()
        new = leader.transport.take(to=to, body="snapshot_chunk")
        if not new:
            break
        chunks += new
        last = new[-1].snapshot_chunk
        leader.receive(
            to,
            snapshot_reply=peer_pb2.SnapshotReply(transfer=last.transfer, received=last.offset + len(last.data)),
        )
    return chunks


def leader_with_state(folder: Path, *, commands: int = 5, **settings: Any) -> Solo:
    leader = Solo(folder, snapshot_chunk_bytes=1_000, **settings)
    leader.lead_with_quorum()
    for number in range(commands):
        leader.replica.propose(b"%d" % number, 1)
        leader.tick()
        leader.accept(2, leader.log.last_index)
        leader.settle()
        leader.tick(after_s=0.01)
    leader.replica.request_commit()
    leader.settle()
    leader.transport.take()
    return leader


# 12: snapshots are whole, checked, and installed or not at all


def test_stock_follower_says_that_it_installed_a_snapshot_it_could_not_load(stock_clock: StockClock) -> None:
    stock = Stock()
    stock.append(prev=1, prev_term=0, entries=[(REGULAR, 2, 1)])
    stock.take("next_node_idx")
    for part in ((b"damaged", True, False), (b"", False, True)):
        stock.receive("b", type="append_entries", term=1, commit_index=9, serialized=part)
    (answer,) = stock.take("next_node_idx")
    assert answer["success"]
    assert stock.raftCommitIndex == 2, "and its unmatched last entry counts as committed"
    assert stock_clock.now_s > 0


def test_stock_leader_ends_a_large_entry_early(stock_clock: StockClock) -> None:
    stock = Stock(appendEntriesBatchSizeBytes=100)
    stock.become_leader(stock_clock)
    stock._applyCommand(b"x" * 199, None, 0)
    stock.doTick()
    stock.take("append_entries")
    stock_clock.now_s += 1
    stock.doTick()
    parts = [message["transmission"] for node, message in stock.transport.sent if node.id == "b" and "data" in message]
    assert parts == ["start", "finish", "finish"], "the follower unpickles the first two thirds"


def test_an_entry_is_always_sent_whole(tmp_path: Path) -> None:
    leader = Solo(tmp_path, append_max_bytes=100)
    leader.lead_with_quorum()
    leader.replica.propose(b"x" * 100_000, 1)
    leader.tick()
    (message,) = leader.transport.take(to=2, body="append")
    assert len(message.append.entries[0].command) > 100_000
    leader.close()


def test_a_snapshot_brings_state_and_log_to_the_same_place(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")
    chunks = chunks_from(leader)
    assert len(chunks) > 2
    for chunk in chunks:
        follower.replica.receive(2, chunk)
        follower.tick()
    assert follower.machine.chain == leader.machine.chain
    assert follower.machine.applied_index == follower.replica.commit_index == follower.log.base_index
    assert follower.log.base_term == 1
    (answer,) = [
        message.snapshot_reply
        for message in follower.transport.take(body="snapshot_reply")
        if message.snapshot_reply.installed_index
    ]
    leader.receive(2, snapshot_reply=answer)
    leader.replica.propose(b"next", 1)
    leader.tick()
    appends = [message.append for message in leader.transport.take(to=2, body="append")]
    assert appends[-1].prev_index == answer.installed_index
    assert not list((tmp_path / "follower" / "snapshots").iterdir())
    leader.close()
    follower.close()


def test_nothing_is_committed_while_chunks_arrive(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")
    follower.append(prev=0, prev_term=0, entries=[(1, A), (1, A)])
    chunks = chunks_from(leader)
    for chunk in chunks[:-1]:
        follower.replica.receive(2, chunk)
        follower.tick()
    assert follower.replica.commit_index == 0
    assert follower.machine.applied_index == 0
    leader.close()
    follower.close()


def test_a_snapshot_that_was_damaged_on_its_way_is_asked_for_again(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")
    for chunk in chunks_from(leader):
        chunk.snapshot_chunk.data = chunk.snapshot_chunk.data.replace(b"1", b"2")
        follower.replica.receive(2, chunk)
        follower.tick()
    answers = [message.snapshot_reply for message in follower.transport.take(body="snapshot_reply")]
    assert answers[-1].damaged
    assert not any(answer.installed_index for answer in answers)
    assert follower.machine.applied_index == 0
    leader.receive(2, snapshot_reply=answers[-1])
    for _ in range(3):
        leader.accept(3, 1)
        leader.tick(after_s=1)
    assert leader.transport.take(to=2, body="snapshot_chunk")[0].snapshot_chunk.offset == 0
    leader.close()
    follower.close()


def test_a_snapshot_that_cannot_be_loaded_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = leader_with_state(tmp_path / "leader")
    follower = Solo(tmp_path / "follower")

    def fail(path: Path) -> None:
        raise StoreCorrupt(f"{path.name} is no state")

    monkeypatch.setattr(follower.machine, "install_snapshot", fail)
    chunks = chunks_from(leader)
    for chunk in chunks[:-1]:
        follower.replica.receive(2, chunk)
        follower.tick()
    with pytest.raises(StoreCorrupt, match="is no state"):
        follower.replica.receive(2, chunks[-1])
    with pytest.raises(StoreCorrupt, match="is no state"):
        follower.tick()
    assert follower.log.base_index == 0
    assert not [m for m in follower.transport.take() if m.snapshot_reply.installed_index]
    leader.close()
    follower.close()


def test_memory_and_network_hold_one_window_of_chunks(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path / "leader", snapshot_window_chunks=2)
    leader.receive(2, append_reply=peer_pb2.AppendReply(needs_snapshot=True))
    for _ in range(10):
        leader.tick()
    chunks = leader.transport.take(to=2, body="snapshot_chunk")
    assert [chunk.snapshot_chunk.offset for chunk in chunks] == [0, 1_000]
    leader.close()


# 13: no forks; the state is durable on its own, so compaction only moves the log's start


def test_stock_node_forks_to_compact_its_log(
    tmp_path: Path, stock_clock: StockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SyncObjConf().useFork
    stock = Stock(fullDumpFile=str(tmp_path / "dump"), logCompactionMinEntries=2)
    stock.become_leader(stock_clock)
    for name in stock.nodes:
        stock.receive(name, type="next_node_idx", next_node_idx=3, reset=False, success=True)
    forks: list[int] = []
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or 4_000_000)
    stock.forceLogCompaction()
    stock.doTick()
    assert forks


def test_compaction_and_snapshots_fork_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise AssertionError("forked")

    monkeypatch.setattr(os, "fork", refuse)
    leader = leader_with_state(tmp_path, commands=30, log_keep_entries=5)
    assert leader.replica.first_log_index > 10
    assert chunks_from(leader)
    leader.close()


def test_the_log_keeps_what_the_last_commit_but_one_of_the_state_needs(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path, commands=10, log_keep_entries=1, state_commit_interval_ms=1_000_000)
    commits: list[int] = []
    commit = leader.machine.commit
    leader.machine.commit = lambda: (commit(), commits.append(leader.machine.committed_index))  # type: ignore[method-assign,func-returns-value]
    for number in range(5):
        leader.replica.propose(b"more %d" % number, 1)
        leader.tick()
        leader.accept(2, leader.log.last_index)
        leader.settle()
        assert leader.replica.first_log_index <= ([0, 0, *commits])[-2] + 1 or len(commits) < 2
    assert len(commits) == 5
    assert leader.replica.first_log_index == commits[-2] + 1
    leader.close()


def test_compaction_deletes_a_bounded_number_of_entries_at_once(tmp_path: Path) -> None:
    config = RaftConfig(node_id=1, peers=[1], snapshot_dir=tmp_path)
    assert config.compact_max_entries <= 1_000
    solo = Solo(tmp_path, log_keep_entries=1_000, compact_max_entries=3)
    solo.log.set_term(1, 0)
    for index in range(1, 21):
        solo.log.append(index, 1, A)
    assert solo.log.surplus_end(keep_entries=5, keep_bytes=1 << 30, max_entries=3) == 3
    assert solo.log.surplus_end(keep_entries=5, keep_bytes=1 << 30, max_entries=100) == 15
    assert solo.log.surplus_end(keep_entries=100, keep_bytes=2 * len(A), max_entries=100) == 18
    solo.close()


def test_a_snapshot_under_way_holds_the_entries_that_come_after_it(tmp_path: Path) -> None:
    leader = leader_with_state(tmp_path, commands=30, log_keep_entries=2, snapshot_window_chunks=1)
    leader.receive(2, append_reply=peer_pb2.AppendReply(needs_snapshot=True))
    leader.tick()
    (chunk,) = leader.transport.take(to=2, body="snapshot_chunk")
    for number in range(20):
        leader.replica.propose(b"%d" % number, 1)
        leader.tick()
        leader.accept(3, leader.log.last_index)
        leader.settle()
    assert leader.replica.first_log_index <= chunk.snapshot_chunk.index + 1
    leader.close()
