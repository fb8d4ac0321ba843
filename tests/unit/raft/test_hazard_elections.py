"""Hazards 4 and 10: counted votes, no pre-vote, a leader that goes on when nobody hears it, no safe reads."""

from pathlib import Path

import pytest

from raftsched.internal.v1 import peer_pb2
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.stock import Stock, StockClock
from tests.unit.raft.support import SimCluster

A = entry(b"a")


# 4: votes belong to voters


def test_stock_candidate_wins_with_one_vote_that_arrives_twice(stock_clock: StockClock) -> None:
    stock = Stock(others="bcde")
    stock_clock.now_s += 10
    stock.doTick()
    for _ in range(2):
        stock.receive("b", type="response_vote", term=1)
    assert stock._isLeader(), "two of five elected it"


def test_a_vote_that_arrives_twice_is_one_vote(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=5)
    solo.tick(after_s=2)
    for _ in range(2):
        solo.vote(2, pre_vote=True)
    assert solo.replica.term == 0, "a pre-vote is one vote as well"
    solo.vote(3, pre_vote=True)
    assert solo.replica.term == 1
    for _ in range(2):
        solo.vote(2, pre_vote=False)
    assert not solo.replica.is_leader
    solo.vote(3, pre_vote=False)
    assert solo.replica.is_leader
    solo.close()


def test_votes_for_another_term_and_refusals_do_not_count(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.tick(after_s=2)
    solo.vote(2, pre_vote=True)
    solo.vote(2, pre_vote=False, for_term=7)
    solo.vote(3, pre_vote=False, granted=False)
    assert not solo.replica.is_leader
    solo.close()


def test_stock_node_that_was_cut_off_deposes_the_leader_when_it_returns(stock_clock: StockClock) -> None:
    away = Stock()
    for _ in range(5):
        stock_clock.now_s += 10
        away.doTick()
    assert away.raftCurrentTerm == 5, "every election that nobody heard has raised its term"
    leader = Stock()
    leader.become_leader(stock_clock)
    leader.receive("c", type="request_vote", term=6, last_log_index=1, last_log_term=0)
    assert not leader._isLeader()


def test_a_node_that_is_cut_off_does_not_raise_its_term(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    for _ in range(5):
        solo.tick(after_s=10)
    assert solo.replica.term == 0
    solo.close()


def test_a_leader_that_is_heard_is_not_deposed_by_a_candidate(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    term = solo.replica.term
    for pre_vote in (True, False):
        solo.receive(
            3,
            term=term + 5,
            vote_request=peer_pb2.VoteRequest(pre_vote=pre_vote, for_term=term + 6, last_index=99, last_term=term + 5),
        )
    solo.tick()
    assert solo.replica.is_leader
    assert [message.vote_reply.granted for message in solo.transport.take(body="vote_reply")] == [False, False]
    solo.close()


def test_a_follower_refuses_its_vote_while_it_hears_a_leader(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.transport.take()
    ask = peer_pb2.VoteRequest(pre_vote=True, for_term=2, last_index=1, last_term=1)
    solo.receive(3, vote_request=ask)
    solo.clock.now_s += 0.801
    solo.receive(3, vote_request=ask)
    solo.tick()
    assert [message.vote_reply.granted for message in solo.transport.take(body="vote_reply")] == [False, True]
    assert solo.replica.term == 1, "a pre-vote changes nothing"
    solo.close()


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"), [(2, 1, True), (1, 2, True), (3, 1, True), (1, 1, False), (9, 0, False)]
)
def test_only_a_log_that_is_at_least_as_new_gets_a_vote(
    tmp_path: Path, last_index: int, last_term: int, granted: bool
) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A), (1, A)], commit=2)
    solo.clock.now_s += 5
    solo.transport.take()
    solo.receive(
        3,
        term=2,
        vote_request=peer_pb2.VoteRequest(for_term=2, last_index=last_index, last_term=last_term),
    )
    solo.tick()
    (message,) = solo.transport.take(to=3, body="vote_reply")
    assert message.vote_reply.granted is granted
    assert message.term == 2, "the term is told in either case"
    solo.close()


def test_a_second_candidate_of_the_same_term_gets_no_vote_even_after_a_restart(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    ask = peer_pb2.VoteRequest(for_term=1, last_index=0, last_term=0)
    solo.receive(2, term=1, vote_request=ask)
    solo.tick()
    solo.close()
    again = Solo(tmp_path)
    again.receive(3, term=1, vote_request=ask)
    again.receive(2, term=1, vote_request=ask)
    again.tick()
    granted = {to: message.vote_reply.granted for to, message in again.transport.sent}
    assert granted == {2: True, 3: False}
    again.close()


def test_the_vote_of_a_disk_that_came_back_empty_makes_no_majority(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=5)
    solo.tick(after_s=2)
    for number, joined in ((2, True), (3, False), (4, False)):
        solo.vote(number, pre_vote=True, joined=joined)
    assert solo.replica.term == 0, "four of five, and only two of them are sure to have kept what they promised"
    solo.vote(5, pre_vote=True, joined=False)
    assert solo.replica.term == 1, "no log of all five is longer"
    for number, joined in ((2, True), (3, False)):
        solo.vote(number, pre_vote=False, joined=joined)
    assert not solo.replica.is_leader
    solo.vote(4, pre_vote=False, joined=True)
    assert solo.replica.is_leader
    solo.close()


def test_a_node_says_that_it_has_joined_once_a_leader_has_filled_its_log(tmp_path: Path) -> None:
    solo = Solo(tmp_path, joined=False)

    def says_so(term: int) -> bool:
        solo.clock.now_s += 5
        solo.receive(3, vote_request=peer_pb2.VoteRequest(for_term=term, last_index=5, last_term=term - 1))
        solo.tick()
        (message,) = solo.transport.take(to=3, body="vote_reply")
        assert message.vote_reply.granted
        return message.vote_reply.joined

    assert not says_so(9)
    solo.append(source=2, term=9, prev=0, prev_term=0, entries=[(3, A), (3, A)], commit=1)
    assert not says_so(10), "that leader does not yet know itself what was committed"
    solo.append(source=2, term=10, prev=2, prev_term=3, entries=[(10, A)], commit=3)
    assert says_so(11)
    solo.close()
    again = Solo(tmp_path, joined=False)
    assert again.log.joined
    again.close()


def test_the_first_election_of_a_cluster_needs_every_member(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimCluster(tmp_path, nodes=3, seed=1)
    cluster.crash(3)
    cluster.run(20)
    assert cluster.leader() is None
    told = [record for record in caplog.records if "waiting for every member" in record.message]
    assert len(told) == 2, "each of the two says so once"
    cluster.start(3)
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    cluster.run(1)
    cluster.crash(2)
    assert cluster.run_until(lambda: cluster.leader() is not None, 10), "from then on a majority will do"
    cluster.close()


def test_two_emptied_disks_begin_no_new_history_without_the_third_node(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, nodes=3, seed=2)
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    for node in cluster.up():
        node.live.propose(b"precious", 1)
    cluster.run(1)
    kept = max(cluster.applied)
    for number in cluster.nodes:
        cluster.crash(number)
    for number in (1, 2):
        cluster.wipe(number)
        cluster.start(number)
    cluster.run(20)
    assert cluster.leader() is None
    cluster.start(3)
    goes_on = cluster.run_until(lambda: max(cluster.applied) > kept and cluster.all_applied_the_same(), 10)
    assert goes_on, "with the third node its history does"
    cluster.close()


# 10: leadership ends when nobody hears it, and reads know


def test_stock_leader_believes_in_itself_for_half_a_minute_alone(stock_clock: StockClock) -> None:
    stock = Stock()
    stock.become_leader(stock_clock)
    for _ in range(29):
        stock_clock.now_s += 1
        stock.doTick()
    assert stock._isLeader()
    assert not hasattr(stock, "read_barrier")


def test_a_leader_that_no_majority_answers_steps_down(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    for _ in range(19):
        solo.tick(after_s=0.1)
    assert solo.replica.is_leader
    solo.accept(2, 1)
    for _ in range(19):
        solo.tick(after_s=0.1)
    assert solo.replica.is_leader, "one other is a majority with it"
    for _ in range(3):
        solo.tick(after_s=0.1)
    assert not solo.replica.is_leader
    assert not solo.replica.has_quorum
    assert solo.replica.term == 1
    solo.close()


def test_a_leader_that_was_stopped_for_a_while_steps_down_before_it_does_anything(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.propose(b"late", 1)
    solo.tick(after_s=60)
    assert not solo.replica.is_leader
    assert not solo.transport.take(body="append")
    assert solo.log.last_index == 1
    solo.close()


def test_a_read_waits_for_a_majority_that_answered_after_it_came(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    solo.tick()
    (asked,) = solo.transport.take(to=2, body="append")
    solo.accept(2, 1, round=asked.append.round - 1)
    solo.tick()
    assert answers == [], "that was an answer to an earlier message"
    solo.accept(3, 1, round=asked.append.round)
    solo.tick()
    assert answers == [1]
    solo.close()


def test_a_read_on_an_isolated_leader_fails_in_time(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    for _ in range(31):
        solo.tick(after_s=0.1)
    assert answers == [None]
    solo.close()


def test_a_new_leader_reads_only_once_an_entry_of_its_term_is_committed(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.become_leader()
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    solo.accept(2, 1, round=99)
    solo.accept(3, 1, round=99)
    solo.settle()
    assert answers == []
    solo.accept(2, 2)
    solo.settle()
    solo.accept(2, 2, round=1)
    solo.settle()
    assert answers == [2]
    solo.close()


def test_a_read_on_a_follower_asks_the_leader_and_waits_until_it_has_applied(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    answers: list[int | None] = []
    solo.replica.read_barrier(answers.append)
    solo.replica.read_barrier(answers.append)
    solo.tick()
    (question,) = solo.transport.take(to=2, body="read_request")
    solo.receive(2, read_reply=peer_pb2.ReadReply(id=question.read_request.id, index=2))
    solo.settle()
    assert answers == []
    solo.append(prev=1, prev_term=1, entries=[(1, A)], commit=2)
    solo.settle()
    assert answers == [2, 2]
    solo.close()


def test_a_follower_whose_connection_to_the_leader_breaks_does_not_wait_for_the_timeout(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.transport.take()
    solo.transport.disconnect(3)
    solo.tick(after_s=0.301)
    assert not solo.transport.take(body="vote_request"), "node 3 does not lead"
    solo.transport.disconnect(2)
    ask = peer_pb2.VoteRequest(pre_vote=True, for_term=2, last_index=1, last_term=1)
    solo.transport.connect(3)
    solo.receive(3, vote_request=ask)
    solo.tick()
    assert [message.vote_reply.granted for message in solo.transport.take(body="vote_reply")] == [True]
    solo.tick(after_s=0.301)
    assert [message.vote_request.pre_vote for message in solo.transport.take(to=3, body="vote_request")] == [True]
    solo.close()


def test_a_leader_that_is_heard_again_after_its_connection_broke_is_kept(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.transport.disconnect(2)
    solo.transport.connect(2)
    solo.clock.now_s += 0.001
    solo.append(prev=1, prev_term=1, entries=[], commit=1)
    solo.transport.take()
    ask = peer_pb2.VoteRequest(pre_vote=True, for_term=2, last_index=1, last_term=1)
    solo.receive(3, vote_request=ask)
    solo.tick(after_s=0.301)
    assert [message.vote_reply.granted for message in solo.transport.take(body="vote_reply")] == [False]
    assert not solo.transport.take(body="vote_request")
    solo.close()
