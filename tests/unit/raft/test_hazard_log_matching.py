"""Hazards 1 to 3: a follower that truncates what matches, a leader that resends, answers without a term."""

from pathlib import Path

import pytest

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import ImpossibleState
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.stock import NO_OP, REGULAR, Stock, StockClock

A, B, C, D = (entry(name) for name in (b"a", b"b", b"c", b"d"))


# 1: what already matches stays


def test_stock_follower_truncates_entries_that_match() -> None:
    stock = Stock()
    entries = [(REGULAR, index, 1) for index in range(2, 6)]
    stock.append(prev=1, prev_term=0, entries=entries)
    assert stock.last_index == 5
    # The same leader sends the first of them once more, as it does whenever an answer crosses its next message.
    stock.append(prev=1, prev_term=0, entries=entries[:1])
    assert stock.last_index == 2, "acknowledged entries 3 to 5 are gone"


def test_overlapping_entries_leave_the_matching_log_as_it_is(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B), (1, C)])
    written = solo.log.flushed_ticket
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    solo.append(prev=1, prev_term=1, entries=[(1, B), (1, C), (1, D)])
    assert [command for command, _, _ in solo.log[:]] == [A, B, C, D]
    assert solo.log.flushed_ticket == written + 1, "only the new entry went to disk"
    replies = [message.append_reply for message in solo.transport.take(body="append_reply")]
    assert [reply.match_index for reply in replies] == [3, 1, 4], "each tells of what its message has shown"
    solo.close()


def test_a_differing_entry_and_what_follows_it_are_replaced(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B), (1, C)])
    solo.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, D)])
    assert [(command, term) for command, _, term in solo.log[:]] == [(A, 1), (D, 2)]
    solo.close()


def test_the_commit_index_does_not_pass_what_the_message_has_shown(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    # Entries of an earlier leadership that the leader of term 2 does not have.
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B), (1, C)])
    solo.append(source=3, term=2, prev=1, prev_term=1, entries=[], commit=3)
    assert solo.replica.commit_index == 1
    solo.close()


def test_stock_follower_commits_what_no_message_has_shown() -> None:
    stock = Stock()
    stock.append(prev=1, prev_term=0, entries=[(REGULAR, index, 1) for index in range(2, 6)])
    # A chunk of a snapshot by the leader of a later term, which knows nothing about this node's entries.
    stock.receive("c", type="append_entries", term=2, commit_index=5, serialized=(b"", False, False))
    assert stock.raftCommitIndex == 5


def test_a_conflict_with_a_committed_entry_stops_the_node(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, B)], commit=2)
    with pytest.raises(ImpossibleState, match="differs from the one committed"):
        solo.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, C)])
    assert [command for command, _, _ in solo.log[:]] == [A, B]
    assert isinstance(solo.replica.fatal, ImpossibleState)
    solo.close()


def test_a_follower_with_a_shorter_log_says_where_it_ends(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    solo.transport.take()
    solo.append(prev=5, prev_term=1, entries=[(1, D)])
    (message,) = solo.transport.take()
    assert not message.append_reply.success
    assert (message.append_reply.hint_index, message.append_reply.last_index) == (1, 1)
    solo.close()


def test_an_entry_damaged_on_its_way_is_not_taken(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    bad = peer_pb2.LogEntry(term=1, command=A, checksum=1)
    solo.receive(2, term=1, append=peer_pb2.AppendEntries(entries=[bad]))
    solo.tick()
    assert solo.log.last_index == 0
    assert not solo.transport.take()
    solo.close()


# 2: the next entry to send never moves back on success


def test_stock_leader_sends_again_what_is_under_way(stock_clock: StockClock) -> None:
    stock = Stock()
    stock.become_leader(stock_clock)
    for _ in range(3):
        stock._applyCommand(b"", None, 0)
    stock.doTick()
    stock_clock.now_s += 1
    stock.doTick()
    assert stock.next_index["b"] == 6
    # The answer to the first of the messages under way.
    stock.receive("b", type="next_node_idx", next_node_idx=3, reset=False, success=True)
    assert stock.next_index["b"] == 3, "entries 3 to 5 will be sent twice"


def test_an_answer_to_an_earlier_message_moves_nothing_back(tmp_path: Path) -> None:
    solo = Solo(tmp_path, entries_in_flight=10)
    solo.lead_with_quorum()
    for command in (A, B, C):
        solo.replica.propose(command, 1)
        solo.tick()
    sent = [message.append for message in solo.transport.take(to=2, body="append")]
    assert [(message.prev_index, len(message.entries)) for message in sent] == [(1, 1), (2, 1), (3, 1)]
    solo.accept(2, 2)
    solo.tick()
    again = [message.append for message in solo.transport.take(to=2, body="append") if message.append.entries]
    assert not again
    assert solo.replica.match_indexes[2] == 2
    solo.close()


def test_a_lost_message_is_sent_again_once_the_follower_refuses_the_next(tmp_path: Path) -> None:
    solo = Solo(tmp_path, entries_in_flight=10)
    solo.lead_with_quorum()
    for command in (A, B):
        solo.replica.propose(command, 1)
        solo.tick()
    solo.transport.take()
    solo.receive(2, append_reply=peer_pb2.AppendReply(success=False, prev_index=2, hint_index=1, last_index=1))
    solo.tick()
    (message,) = solo.transport.take(to=2, body="append")
    assert (message.append.prev_index, len(message.append.entries)) == (1, 2)
    solo.close()


# 3: answers of another leadership count for nothing


def test_stock_leader_believes_an_answer_to_an_earlier_leadership(stock_clock: StockClock) -> None:
    stock = Stock()
    stock.become_leader(stock_clock)
    # Sent to this node when it led an earlier term and the follower had entries that were replaced since.
    stock.receive("b", type="next_node_idx", next_node_idx=3, reset=False, success=True)
    assert stock.match_index["b"] == 2
    stock.doTick()
    assert stock.raftCommitIndex == 2, "committed, though only this node has it"
    assert stock.log[-1] == (NO_OP, 2, 1)


def test_an_answer_of_an_earlier_term_is_dropped(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.become_leader()
    solo.accept(2, 1, term=solo.replica.term - 1)
    solo.settle()
    assert solo.replica.match_indexes[2] == 0
    assert solo.replica.commit_index == 0
    solo.accept(2, 1)
    solo.settle()
    assert solo.replica.commit_index == 1
    solo.close()


def test_a_follower_that_lost_its_disk_is_no_longer_counted(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.receive(2, append_reply=peer_pb2.AppendReply(success=False, hint_index=0, last_index=0))
    assert solo.replica.match_indexes[2] == 0
    solo.close()
