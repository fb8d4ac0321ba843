"""The leader's side of replication: what counts as committed, how much is on its way, how a follower is found again."""

from pathlib import Path

from raftsched.internal.v1 import peer_pb2
from tests.unit.raft.solo import Solo, entry

A = entry(b"a", now_ms=5)


def sent_entries(solo: Solo, to: int) -> list[tuple[int, int]]:
    """(index before the first, how many) of each message of entries to a node."""
    return [
        (message.append.prev_index, len(message.append.entries))
        for message in solo.transport.take(to=to, body="append")
        if message.append.entries
    ]


def test_an_entry_of_an_earlier_term_is_committed_only_with_one_of_this_term(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, A)])
    solo.become_leader()
    assert solo.log.last_index == 3
    solo.accept(2, 2)
    solo.accept(3, 2)
    solo.settle()
    assert solo.replica.commit_index == 0, "all have entry 2, and another leader could still replace it"
    solo.accept(2, 3)
    solo.settle()
    assert solo.replica.commit_index == 3
    solo.close()


def test_a_majority_of_five_is_three(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=5)
    solo.become_leader()
    solo.accept(2, 1)
    solo.settle()
    assert solo.replica.commit_index == 0
    solo.accept(5, 1)
    solo.settle()
    assert solo.replica.commit_index == 1
    solo.close()


def test_a_single_node_commits_alone(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=1)
    solo.tick(after_s=2)
    assert solo.replica.is_leader
    solo.replica.propose(b"alone", 1)
    solo.settle()
    assert solo.machine.commands == [b"alone"]
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    solo.settle()
    assert answers == [solo.machine.applied_index]
    solo.close()


def test_a_lagging_follower_gets_a_window_at_a_time(tmp_path: Path) -> None:
    solo = Solo(tmp_path, append_max_bytes=3_000, append_window_bytes=6_000)
    solo.lead_with_quorum()
    for _ in range(12):
        solo.replica.propose(b"x" * 1_000, 1)
        solo.tick()
        solo.accept(3, solo.log.last_index)
        solo.settle()
    solo.transport.take()
    solo.receive(2, append_reply=peer_pb2.AppendReply(prev_index=9, hint_index=1, last_index=1))
    solo.tick()
    assert sent_entries(solo, 2) == [(1, 2)], "one message until it is known where the logs agree"
    solo.accept(2, 3)
    solo.tick()
    assert sent_entries(solo, 2) == [(3, 2), (5, 2), (7, 2)]
    solo.tick()
    assert sent_entries(solo, 2) == []
    solo.accept(2, 5)
    solo.tick()
    assert sent_entries(solo, 2) == [(9, 2)]
    solo.close()


def test_after_a_lost_connection_what_is_not_confirmed_is_sent_again(tmp_path: Path) -> None:
    solo = Solo(tmp_path, entries_in_flight=5)
    solo.lead_with_quorum()
    for _ in range(3):
        solo.replica.propose(b"x", 1)
        solo.tick()
    assert sent_entries(solo, 2) == [(1, 1), (2, 1), (3, 1)]
    solo.transport.disconnect(2)
    solo.tick()
    solo.transport.connect(2)
    solo.tick()
    assert sent_entries(solo, 2) == [(1, 3)]
    solo.close()


def test_several_refusals_of_one_place_have_the_entries_sent_once(tmp_path: Path) -> None:
    """As when a node that was stopped answers all the heartbeats that had gathered."""
    solo = Solo(tmp_path, entries_in_flight=5)
    solo.lead_with_quorum()
    for _ in range(3):
        solo.replica.propose(b"x", 1)
        solo.tick()
    solo.transport.take()
    refusal = peer_pb2.AppendReply(prev_index=4, hint_index=1, last_index=1)
    for _ in range(5):
        solo.receive(2, append_reply=refusal)
        solo.tick()
    assert sent_entries(solo, 2) == [(1, 3)]
    solo.accept(2, 4)
    solo.receive(2, append_reply=peer_pb2.AppendReply(prev_index=4, hint_index=1, last_index=4))
    solo.tick()
    assert sent_entries(solo, 2) == []
    solo.close()


def test_heartbeats_go_to_those_that_are_connected_and_no_more_often_than_due(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.transport.disconnect(3)
    solo.tick(after_s=0.2)
    wait_s = solo.tick()
    assert 0 < wait_s < 0.251
    for _ in range(5):
        solo.tick(after_s=0.01)
    assert [to for to, _ in solo.transport.sent] == [2]
    solo.close()


def test_a_follower_that_differs_is_led_back_to_what_is_committed(tmp_path: Path) -> None:
    """The whole conversation, with a real follower that has entries of a leadership nobody else saw."""
    leader, follower = Solo(tmp_path / "leader"), Solo(tmp_path / "follower")
    follower.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    follower.append(prev=1, prev_term=1, entries=[(1, entry(b"only here %d" % number)) for number in range(4)])
    leader.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    leader.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, A), (2, A), (2, A), (2, A)], commit=1)
    leader.become_leader()
    follower.transport.take()
    for _ in range(20):
        for message in leader.transport.take(to=2):
            follower.replica.receive(2, message)
        follower.tick()
        for message in follower.transport.take(to=2):
            leader.replica.receive(2, message)
        leader.tick()
    assert [follower.log.entry(index) for index in range(1, 7)] == [leader.log.entry(index) for index in range(1, 7)]
    assert leader.replica.match_indexes[2] == leader.log.last_index == leader.replica.commit_index
    assert follower.machine.chain == leader.machine.chain
    leader.close()
    follower.close()


def test_entries_of_a_large_log_come_from_disk_for_one_that_was_away(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.log._cache_bytes = 500
    solo.lead_with_quorum()
    for number in range(50):
        solo.replica.propose(b"%3d" % number * 30, 1)
        solo.tick()
        solo.accept(3, solo.log.last_index)
        solo.settle()
    assert solo.log.cached_bytes <= 500
    solo.transport.take()
    solo.receive(2, append_reply=peer_pb2.AppendReply(hint_index=0, last_index=0))
    solo.tick()
    assert sent_entries(solo, 2) == [(0, 51)]
    solo.close()


def test_answers_of_strangers_and_of_peers_to_nothing_do_not_matter(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.receive(9, term=99, append_reply=peer_pb2.AppendReply(success=True, match_index=7))
    solo.receive(9, term=99, vote_reply=peer_pb2.VoteReply(for_term=99, granted=True, joined=True))
    solo.receive(9, term=99, forward=peer_pb2.Forward(commands=[b"x"], ops=[1]))
    solo.receive(2, term=99, timeout_now=peer_pb2.TimeoutNow())
    solo.receive(2, term=1, append_reply=peer_pb2.AppendReply(success=True, match_index=7))
    solo.receive(2, read_reply=peer_pb2.ReadReply(id=3, index=9))
    solo.receive(2, term=1, snapshot_reply=peer_pb2.SnapshotReply(transfer=1, installed_index=5))
    solo.receive(2, welcome=peer_pb2.Welcome(node=2))
    solo.tick()
    assert solo.replica.term == 1
    assert not solo.replica.is_leader
    assert solo.log.last_index == 0
    solo.close()
