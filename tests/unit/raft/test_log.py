"""The Raft log: what it answers at once, what is durable after a flush, what a damaged one says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.model.errors import ImpossibleState, StoreCorrupt
from raftsched.raft.log import RaftLog
from raftsched.raft.log_records import LogState
from tests.unit.raft.support import ManualBackground


def make(path: Path, *, count: int = 0, term: int = 1, **settings: int) -> RaftLog:
    log = RaftLog(path, **settings)
    if count:
        log.set_term(term, 0)
        for index in range(1, count + 1):
            log.append(index, term, b"entry %d" % index)
        log.flush()
    return log


def contents(log: RaftLog) -> list[tuple[int, int, bytes]]:
    return [(index, term, command) for command, index, term in log[:]]


def test_what_was_flushed_is_there_after_a_restart(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.set_term(3, 2)
    log.append(1, 2, b"a")
    log.append(2, 3, b"")
    log.append(3, 3, b"c" * 100_000)
    log.set_commit_index(2)
    log.set_joined()
    log.flush()
    before = contents(log)
    log.close()
    again = RaftLog(tmp_path)
    assert contents(again) == before
    assert (again.term, again.vote, again.commit_index, again.joined) == (3, 2, 2, True)
    assert (again.last_index, again.last_term, again.first_index) == (3, 3, 1)
    assert [again.term_at(index) for index in range(5)] == [0, 2, 3, 3, None]
    again.close()


def test_what_was_not_flushed_is_gone(tmp_path: Path) -> None:
    log = make(tmp_path, count=2)
    log.append(3, 1, b"lost")
    log.set_term(9, 1)
    assert (log.last_index, log.durable_index, log.term, log.durable_term) == (3, 2, 9, 1)
    log.close()
    again = RaftLog(tmp_path)
    assert (again.last_index, again.term, again.vote) == (2, 1, 0)
    again.close()


def test_a_commit_index_alone_asks_for_no_write(tmp_path: Path) -> None:
    log = make(tmp_path, count=2)
    ticket = log.flushed_ticket
    log.set_commit_index(2)
    assert log.flush() == ticket
    log.append(3, 1, b"x")
    assert log.flush() == ticket + 1
    log.close()
    again = RaftLog(tmp_path)
    assert again.commit_index == 2
    again.close()


def test_truncation_replaces_the_end(tmp_path: Path) -> None:
    log = make(tmp_path, count=10)
    log.set_term(2, 0)
    log.truncate_from(4)
    assert (log.last_index, log.last_term, log.durable_index) == (3, 1, 3)
    log.append(4, 2, b"other")
    log.flush()
    log.close()
    again = RaftLog(tmp_path)
    assert contents(again)[2:] == [(3, 1, b"entry 3"), (4, 2, b"other")]
    assert [again.term_at(index) for index in (3, 4, 5)] == [1, 2, None]
    again.close()


def test_what_is_committed_is_never_truncated(tmp_path: Path) -> None:
    log = make(tmp_path, count=5)
    log.set_commit_index(3)
    with pytest.raises(ImpossibleState, match="3 is committed"):
        log.truncate_from(3)
    log.truncate_from(4)
    assert log.last_index == 3
    log.close()


def test_compaction_remembers_the_last_entry_that_went(tmp_path: Path) -> None:
    log = make(tmp_path, count=4)
    log.set_term(2, 0)
    for index in range(5, 11):
        log.append(index, 2, b"entry %d" % index)
    log.set_commit_index(9)
    log.compact_to(6)
    assert (log.base_index, log.base_term, log.first_index, len(log)) == (6, 2, 7, 4)
    assert [log.term_at(index) for index in (4, 5, 6, 7, 10)] == [None, None, 2, 2, 2]
    with pytest.raises(ImpossibleState, match="compacted away"):
        log.entries(6, 100)
    log.flush()
    log.close()
    again = RaftLog(tmp_path)
    assert contents(again) == [(index, 2, b"entry %d" % index) for index in range(7, 11)]
    assert (again.base_index, again.base_term) == (6, 2)
    again.close()


def test_terms_stay_right_wherever_the_log_is_cut(tmp_path: Path) -> None:
    terms = [1, 1, 2, 2, 2, 5, 6, 6]
    for base in range(len(terms) + 1):
        for end in range(base, len(terms) + 1):
            log = RaftLog(tmp_path / f"{base}-{end}", background=ManualBackground())
            log.set_term(6, 0)
            for index, term in enumerate(terms, 1):
                log.append(index, term, b"x")
            log.set_commit_index(base)
            log.compact_to(base)
            log.truncate_from(end + 1)
            expected = {index: terms[index - 1] for index in range(max(base, 1), end + 1)}
            assert {index: log.term_at(index) for index in range(1, 10) if log.term_at(index) is not None} == expected
            assert log.last_term == (terms[end - 1] if end else 0)
            assert log.size_bytes == end - base
            log.close()


def test_a_reset_log_continues_after_the_state(tmp_path: Path) -> None:
    log = make(tmp_path, count=5)
    log.set_joined()
    log.reset(100, 1)
    assert (log.base_index, log.last_index, log.last_term, log.commit_index) == (100, 100, 1, 100)
    assert log.joined
    log.append(101, 1, b"next")
    log.flush()
    assert log.durable_index == 101
    log.reset(50, 1)
    assert not log.joined, "it has forgotten what it had acknowledged"
    log.close()
    again = RaftLog(tmp_path)
    assert contents(again) == [(101, 1, b"next")]
    again.close()


def test_an_entry_must_follow_the_one_before_it(tmp_path: Path) -> None:
    log = make(tmp_path, count=2, term=3)
    for index, term in ((4, 3), (2, 3), (3, 2), (3, 4)):
        with pytest.raises(ImpossibleState, match="does not follow"):
            log.append(index, term, b"x")
    log.close()


def test_one_vote_for_one_term(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.set_term(2, 3)
    log.set_term(2, 3)
    for term, vote in ((2, 1), (2, 0), (1, 3)):
        with pytest.raises(ImpossibleState, match="after 3 in 2"):
            log.set_term(term, vote)
    log.close()


def test_entries_are_read_from_memory_and_disk_alike(tmp_path: Path) -> None:
    log = make(tmp_path, count=100, cache_bytes=200)
    assert log.cached_bytes <= 200
    for first in (1, 50, 85, 99):
        found = log.entries(first, 10_000)
        assert [entry.command for entry in found] == [b"entry %d" % index for index in range(first, 101)]
    assert len(log.entries(1, 0)) == 1
    assert len(log.entries(1, 35)) == 5
    assert log.entries(101, 10_000) == []
    log.close()


def test_an_entry_is_not_dropped_from_memory_before_it_is_on_disk(tmp_path: Path) -> None:
    disk = ManualBackground()
    log = RaftLog(tmp_path, background=disk, cache_bytes=10)
    log.set_term(1, 0)
    for index in range(1, 6):
        log.append(index, 1, b"x" * 100)
    log.flush()
    assert log.cached_bytes == 500
    assert log.entry(1).command == b"x" * 100
    disk.run_all()
    log.poll()
    assert log.cached_bytes == 0
    log.close()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda txn, log: txn.delete((2).to_bytes(8, "big"), db=log._entries_db), "log entry 2 is missing, 3 follows"),
        (lambda txn, log: txn.put((3).to_bytes(8, "big"), b"short", db=log._entries_db), "log entry 3 is cut short"),
        (lambda txn, log: txn.put(b"odd", b"", db=log._entries_db), "a key that is no index"),
        (
            lambda txn, log: txn.put(b"state", b"x" * len(LogState().pack()), db=log._state_db),
            "state record .* damaged",
        ),
        (lambda txn, log: txn.put(b"state", b"x", db=log._state_db), "state record is cut short"),
        (lambda txn, log: txn.delete(b"state", db=log._state_db), "state record .* is missing"),
        (lambda txn, log: txn.put(b"state", LogState(term=0).pack(), db=log._state_db), "term 1, the log's own is 0"),
        (
            lambda txn, log: txn.put(b"state", LogState(1, base_index=7).pack(), db=log._state_db),
            "log entry 8 is missing",
        ),
    ],
)
def test_damage_is_named(tmp_path: Path, harm: Callable[[object, RaftLog], None], message: str) -> None:
    log = make(tmp_path, count=5)
    with log._env.begin(write=True) as txn:
        harm(txn, log)
    log.close()
    with pytest.raises(StoreCorrupt, match=message):
        RaftLog(tmp_path)


def test_damage_in_older_entries_is_found_when_they_are_read(tmp_path: Path) -> None:
    log = make(tmp_path, count=100)
    with log._env.begin(write=True) as txn:
        record = bytearray(txn.get((3).to_bytes(8, "big"), db=log._entries_db))  # type: ignore[arg-type]
        record[-1] ^= 1
        txn.put((3).to_bytes(8, "big"), bytes(record), db=log._entries_db)
    log.close()
    again = RaftLog(tmp_path, verify_bytes=100, cache_bytes=100)
    assert again.entries(4, 100)
    with pytest.raises(StoreCorrupt, match="log entry 3 is damaged"):
        again.entries(1, 1_000)
    again.close()


def test_an_entry_at_another_place_is_damage(tmp_path: Path) -> None:
    log = make(tmp_path, count=2)
    with log._env.begin(write=True) as txn:
        first = txn.get((1).to_bytes(8, "big"), db=log._entries_db)
        txn.put((2).to_bytes(8, "big"), first, db=log._entries_db)  # type: ignore[arg-type]
    log.close()
    with pytest.raises(StoreCorrupt, match="log entry 2 is damaged"):
        RaftLog(tmp_path)


@pytest.mark.parametrize("size", [0, 5_000, 20_000])
def test_a_file_that_was_cut_short_is_damage_and_no_crash(tmp_path: Path, size: int) -> None:
    make(tmp_path, count=500).close()
    with (tmp_path / "data.mdb").open("r+b") as file:
        file.truncate(size)
    if size == 0:
        # To LMDB that is a new environment; the state machine's index is what tells.
        RaftLog(tmp_path).close()
        return
    with pytest.raises(StoreCorrupt):
        RaftLog(tmp_path)


def test_pysyncobj_can_use_it_as_its_journal(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.setCurrentTerm(2, 3)
    for index in range(1, 6):
        log.add(b"%d" % index, index, 2)
    assert len(log) == 5
    assert log[0] == (b"1", 1, 2)
    assert log[-1] == (b"5", 5, 2)
    assert log[1:3] == [(b"2", 2, 2), (b"3", 3, 2)]
    log.deleteEntriesFrom(4)
    log.setRaftCommitIndex(3)
    log.deleteEntriesTo(2)
    assert log[:] == [(b"3", 3, 2), (b"4", 4, 2)]
    assert (log.getCurrentTerm(), log.getVotedForNodeId(), log.getRaftCommitIndex()) == (2, 3, 3)
    log.onOneSecondTimer()
    log.clear()
    assert len(log) == 0
    log._destroy()
