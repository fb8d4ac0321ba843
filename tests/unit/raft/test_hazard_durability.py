"""Hazards 5, 6 and 14: a journal that nothing syncs or checks, answers before the disk, commit beyond the log's end."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from pysyncobj import journal as stock_journal

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.raft.log import RaftLog
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.stock import REGULAR, Stock, StockClock
from tests.unit.raft.support import SimCluster

# pysyncobj leaves the file of its journal's meta data to the garbage collector.
stock_leaves_files_open = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

A, B = entry(b"a"), entry(b"b")


def damage(path: Path, content: bytes, other: bytes) -> None:
    """Replaces what a file holds, as a failing disk might."""
    data = path.read_bytes()
    assert content in data
    path.write_bytes(data.replace(content, other))


# 5: the log


def test_stock_journal_syncs_nothing_before_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append("fsync"))
    monkeypatch.setattr(stock_journal.ResizableFile, "flush", lambda _: synced.append("flush"))
    stock = Stock(journal=str(tmp_path / "journal"))
    stock.append(prev=1, prev_term=0, entries=[(REGULAR, 2, 1)])
    assert stock.take("next_node_idx")[0]["success"]
    assert synced == []
    monkeypatch.undo()
    stock.destroy()


def test_stock_journal_loads_damaged_entries(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = stock_journal.FileJournal(str(path))
    journal.add(b"pay 100", 1, 1)
    journal._destroy()
    damage(path, b"100", b"000")
    again = stock_journal.FileJournal(str(path))
    assert again[0] == (b"pay 000", 1, 1)
    again._destroy()


def test_stock_journal_ends_at_four_gibibytes_and_lives_in_memory(tmp_path: Path) -> None:
    journal = stock_journal.FileJournal(str(tmp_path / "journal"))
    with pytest.raises(struct.error):
        journal._FileJournal__setLastRecordOffset(1 << 32)
    for index in range(100):
        journal.add(b"x" * 1_000, index, 1)
    assert sum(len(command) for command, _, _ in journal._FileJournal__journal) == 100_000
    journal._destroy()


def test_the_log_syncs_data_and_root_of_every_commit(tmp_path: Path) -> None:
    log = RaftLog(tmp_path / "log")
    flags = log._env.flags()
    assert flags["sync"]
    assert flags["metasync"]
    assert not flags["writemap"]
    log.close()


def test_a_damaged_entry_is_named_and_the_log_not_opened(tmp_path: Path) -> None:
    log = RaftLog(tmp_path / "log")
    log.set_term(1, 0)
    log.append(1, 1, b"first")
    log.append(2, 1, b"pay 100")
    log.flush()
    log.close()
    damage(tmp_path / "log" / "data.mdb", b"pay 100", b"pay 900")
    with pytest.raises(StoreCorrupt, match="log entry 2 is damaged"):
        RaftLog(tmp_path / "log")


def test_memory_holds_only_the_newest_entries_and_the_rest_is_read_and_checked(tmp_path: Path) -> None:
    log = RaftLog(tmp_path / "log", cache_bytes=10_000)
    log.set_term(1, 0)
    for index in range(1, 101):
        log.append(index, 1, b"%4d" % index * 250)
        log.flush()
    assert log.cached_bytes <= 10_000
    assert [entry.command[:4] for entry in log.entries(3, 2_500)] == [b"   3", b"   4"]
    log.close()


# 6: nothing leaves before the disk has it


@stock_leaves_files_open
def test_stock_follower_answers_within_the_message_handler(tmp_path: Path) -> None:
    stock = Stock(journal=str(tmp_path / "journal"))
    shutil.copy(tmp_path / "journal", tmp_path / "as the disk has it")
    stock.append(prev=1, prev_term=0, entries=[(REGULAR, 2, 1), (REGULAR, 3, 1)])
    assert stock.take("next_node_idx")[0]["next_node_idx"] == 4
    # A power loss: what was written but never synced is gone, and with it what was acknowledged.
    stock.destroy()
    shutil.copy(tmp_path / "as the disk has it", tmp_path / "journal")
    again = Stock(journal=str(tmp_path / "journal"))
    assert again.last_index == 1
    again.destroy()


def test_an_answer_waits_for_the_disk(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    solo.tick()
    assert not solo.transport.take()
    solo.sync()
    (message,) = solo.transport.take()
    assert message.append_reply.match_index == 1
    solo.close()


def test_many_messages_share_one_write(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    before = solo.log.flushed_ticket
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    for prev in range(1, 6):
        solo.append(prev=prev, prev_term=1, entries=[(1, A)])
    assert len(solo.disk.waiting) == 1, "one write at a time"
    solo.sync()
    assert len(solo.disk.waiting) == 1, "what gathered meanwhile goes together"
    solo.sync()
    assert solo.log.flushed_ticket == before + 2
    assert solo.log.durable_index == 6
    solo.close()


def test_a_vote_and_a_candidacy_wait_for_the_disk(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.receive(2, term=1, vote_request=peer_pb2.VoteRequest(for_term=1))
    solo.tick()
    assert not solo.transport.take()
    solo.sync()
    assert solo.transport.take(body="vote_reply")[0].vote_reply.granted
    solo.tick(after_s=5)
    solo.vote(2, pre_vote=True)
    solo.transport.take()
    solo.tick()
    assert not solo.transport.take()
    solo.sync()
    assert len(solo.transport.take(body="vote_request")) == 2
    solo.close()


def test_entries_leave_before_the_leaders_own_flush_but_it_counts_itself_only_after(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.become_leader()
    assert solo.transport.take(to=2, body="append")[0].append.entries
    solo.accept(2, 1)
    solo.tick()
    assert solo.replica.commit_index == 0
    solo.sync()
    assert solo.replica.commit_index == 1
    solo.close()


def test_an_answer_of_a_term_that_is_over_no_longer_leaves(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    solo.append(source=3, term=2, prev=0, prev_term=0, entries=[(2, B)])
    solo.sync()
    assert not solo.transport.take(to=2)
    solo.sync()
    assert solo.transport.take(to=3)[0].append_reply.match_index == 1
    solo.close()


def test_a_write_in_flight_does_not_vouch_for_entries_that_were_truncated(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, A), (1, A)])
    solo.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, B)])
    solo.disk.run_one()
    solo.log.poll()
    assert solo.log.durable_index == 1
    solo.sync()
    assert solo.log.durable_index == 2
    solo.close()


def test_a_disk_that_fails_stops_the_node_and_nothing_more_leaves(tmp_path: Path) -> None:
    solo = Solo(tmp_path, is_slow=True)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])

    def fail() -> None:
        raise OSError(28, "No space left on device")

    _, done = solo.disk.waiting.popleft()
    solo.disk.waiting.append((fail, done))
    solo.disk.run_all()
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            solo.tick()
    assert not solo.transport.take()
    solo.close()


# 14: after a crash


@stock_leaves_files_open
def test_stock_node_commits_beyond_its_log_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    stock = Stock(journal=str(path))
    stock.append(prev=1, prev_term=0, entries=[(REGULAR, index, 1) for index in range(2, 4)], commit=3)
    shutil.copy(path, tmp_path / "as the disk has it")
    stock.append(prev=3, prev_term=1, entries=[(REGULAR, index, 1) for index in range(4, 11)], commit=10)
    stock.log.onOneSecondTimer()
    stock.destroy()
    shutil.copy(tmp_path / "as the disk has it", path)
    again = Stock(journal=str(path))
    assert (again.raftCommitIndex, again.last_index) == (10, 3)
    # What a new leader has not committed counts as committed here.
    again.append(term=2, prev=3, prev_term=1, entries=[(REGULAR, 4, 2)], commit=3)
    assert again.raftCommitIndex == 4
    again.destroy()


def test_the_commit_index_never_passes_the_log_whatever_a_crash_loses(tmp_path: Path) -> None:
    for survives in range(3):
        folder = tmp_path / str(survives)
        solo = Solo(folder, is_slow=True)
        solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
        solo.append(prev=1, prev_term=1, entries=[(1, A), (1, B)], commit=3)
        for _ in range(survives):
            solo.disk.run_one()
            solo.log.poll()
        solo.close()
        log = RaftLog(folder / "log")
        assert log.commit_index <= log.last_index == (0, 1, 3)[survives]
        log.close()


def test_a_commit_index_beyond_the_log_is_damage(tmp_path: Path) -> None:
    log = RaftLog(tmp_path / "log")
    log.set_term(1, 0)
    log.append(1, 1, A)
    log.set_commit_index(1)
    log.flush()
    with log._env.begin(write=True) as txn:
        txn.delete((1).to_bytes(8, "big"), db=log._entries_db)
    log.close()
    with pytest.raises(StoreCorrupt, match="commit index 1 is outside of the log"):
        RaftLog(tmp_path / "log")


@pytest.mark.parametrize("seed", range(3))
def test_what_was_applied_survives_a_power_loss_of_all_nodes_and_a_staggered_start(tmp_path: Path, seed: int) -> None:
    cluster = SimCluster(tmp_path, nodes=3, seed=seed)
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    for number in range(20):
        for node in cluster.up():
            node.live.propose(b"%d-%d" % (node.number, number), 1)
        cluster.run(0.02)
    confirmed = {command for node in cluster.up() for command in node.machine.commands}  # type: ignore[union-attr]
    count = max(node.machine.count for node in cluster.up())  # type: ignore[union-attr]
    assert len(confirmed) > 20
    for number in (1, 2, 3):
        cluster.crash(number, loses_power=True)
    for number in (2, 1):
        cluster.start(number)
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    leader = cluster.leader()
    assert leader is not None
    leader.live.propose(b"before the last one joins", 1)
    cluster.run(1)
    cluster.start(3)
    assert cluster.run_until(cluster.all_applied_the_same, 10)
    # Violations of what was applied before, by content, are found by the cluster itself.
    assert all(node.machine.count >= count + 1 for node in cluster.up())  # type: ignore[union-attr]
    cluster.close()


def test_stock_restart_forgets_what_it_had_applied(stock_clock: StockClock) -> None:
    """Without a journal file, its default, a restart of all nodes together loses everything."""
    stock = Stock()
    stock.become_leader(stock_clock)
    assert stock.last_index == 2
    again = Stock()
    assert (again.last_index, again.raftCurrentTerm) == (1, 0)
