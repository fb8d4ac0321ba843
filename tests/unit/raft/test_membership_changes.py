"""What a leader makes of a change of the cluster, and what it refuses; how followers take it."""

from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2, peer_pb2
from raftsched.model.errors import (
    CannotLead,
    LeaderNotReady,
    MemberExists,
    MembershipChangeInProgress,
    NodeNotFound,
    NoQuorum,
    OutcomeUnknown,
    QuorumAtRisk,
    TooManyRequests,
)
from raftsched.raft.change_requests import MAX_WAITING
from raftsched.raft.membership import Membership
from raftsched.raft.membership_changes import CAUGHT_UP_ENTRIES
from tests.unit.raft.growing import Asked
from tests.unit.raft.solo import Solo, entry

THREE = Membership.of_voters([1, 2, 3])
FOUR = THREE.with_learner(4, "n4:1")


def membership_entry(membership: Membership, now_ms: int = 1) -> bytes:
    return b"\x02" + command_pb2.Entry(now_ms=now_ms, membership=membership.pack()).SerializeToString()


@pytest.fixture
def leader(tmp_path: Path) -> Solo:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    return solo


def add(solo: Solo, node_id: int = 4, address: str = "", timeout_s: float = 10.0) -> Asked:
    asked = Asked()
    solo.replica.add_node(node_id, address or f"n{node_id}:1", asked, timeout_s=timeout_s)
    solo.tick()
    return asked


def remove(solo: Solo, node_id: int) -> Asked:
    asked = Asked()
    solo.replica.remove_node(node_id, asked, timeout_s=10.0)
    solo.tick()
    return asked


def accept_all(solo: Solo, *peers: int) -> None:
    for peer in peers:
        solo.accept(peer, solo.log.last_index)
    solo.settle()


def grow(solo: Solo) -> None:
    """Node 4 is a learner, on record."""
    add(solo)
    accept_all(solo, 2, 3)
    solo.transport.connect(4)


def test_a_clusters_first_leader_puts_its_settings_on_record(leader: Solo) -> None:
    assert leader.machine.membership == (1, THREE.pack())
    assert leader.log.last_index == 1
    leader.close()


def test_a_node_enters_as_a_learner_at_once_and_its_asker_is_told_once_it_is_committed(leader: Solo) -> None:
    asked = add(leader)
    assert leader.replica.membership == FOUR
    assert not asked.is_over
    accept_all(leader, 2)
    assert asked.is_done
    assert leader.machine.membership == (2, FOUR.pack())
    leader.close()


def test_a_learner_gets_every_entry_and_does_not_count(leader: Solo) -> None:
    grow(leader)
    leader.replica.propose(b"x", 1)
    leader.tick(after_s=0.2)
    assert leader.transport.take(to=4, body="append")
    leader.accept(4, 3)
    leader.tick()
    assert leader.replica.commit_index == 2
    leader.accept(2, 3)
    leader.tick()
    assert leader.replica.commit_index == 3
    leader.close()


def test_a_learner_votes_once_it_has_caught_up(leader: Solo) -> None:
    grow(leader)
    for number in range(CAUGHT_UP_ENTRIES + 5):
        leader.replica.propose(b"%d" % number, 1)
        leader.tick()
        accept_all(leader, 2, 3)
    behind = leader.log.last_index - CAUGHT_UP_ENTRIES - 1
    leader.accept(4, behind)
    leader.tick()
    assert leader.replica.membership == FOUR
    leader.accept(4, behind + 1)
    leader.tick()
    assert leader.replica.membership == FOUR.with_voter(4)
    accept_all(leader, 2)
    assert leader.machine.membership[1] == FOUR.pack(), "three of four are needed"
    accept_all(leader, 3)
    assert leader.machine.membership[1] == FOUR.with_voter(4).pack()
    leader.close()


def test_a_learner_that_was_heard_of_long_ago_does_not_vote(leader: Solo) -> None:
    grow(leader)
    for number in range(CAUGHT_UP_ENTRIES + 5):
        leader.replica.propose(b"%d" % number, 1)
        leader.tick()
        accept_all(leader, 2, 3)
    leader.accept(4, leader.log.last_index - CAUGHT_UP_ENTRIES - 1)
    for _ in range(3):
        leader.tick(after_s=1.0)
        accept_all(leader, 2, 3)
    leader.replica._progress[4].match = leader.log.last_index
    leader.tick()
    assert leader.replica.membership == FOUR
    leader.close()


def test_there_is_one_change_at_a_time(leader: Solo) -> None:
    first = add(leader, 4)
    assert isinstance(remove(leader, 3).error, MembershipChangeInProgress)
    assert isinstance(add(leader, 5).error, MembershipChangeInProgress)
    accept_all(leader, 2, 3)
    assert first.is_done
    second = add(leader, 5)
    assert isinstance(second.error, MembershipChangeInProgress)
    assert "Node 4 was added and has not caught up yet" in second.error.message
    assert leader.log.last_index == 2
    leader.close()


def test_a_leader_changes_nothing_before_it_knows_what_was_decided_before_it(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.become_leader()
    asked = add(solo, timeout_s=1.0)
    assert not asked.is_over
    assert solo.log.last_index == 1
    solo.tick(after_s=1.1)
    assert isinstance(asked.error, LeaderNotReady)
    asked = add(solo)
    accept_all(solo, 2)
    solo.tick(after_s=0.3)
    assert solo.log.last_index == 2, "asked again by itself"
    accept_all(solo, 2)
    assert asked.is_done
    solo.close()


def test_what_is_so_already_is_done_and_what_contradicts_it_is_refused(leader: Solo) -> None:
    grow(leader)
    again = add(leader)
    assert again.is_done
    moved = add(leader, 4, "elsewhere:1")
    assert isinstance(moved.error, MemberExists)
    assert "Node 4 has the address n4:1" in moved.error.message
    taken = add(leader, 5, "n4:1")
    assert isinstance(taken.error, MemberExists)
    assert "Node 4 has the address" in taken.error.message
    assert remove(leader, 9).is_done
    assert leader.log.last_index == 2
    leader.close()


def test_a_follower_is_removed_and_gets_nothing_more(leader: Solo) -> None:
    asked = remove(leader, 3)
    assert leader.replica.membership.voters == {1, 2}
    leader.transport.take()
    leader.accept(3, 2)
    leader.settle()
    assert not asked.is_over, "who is to go does not count"
    accept_all(leader, 2)
    assert asked.is_done
    leader.replica.propose(b"x", 1)
    leader.tick(after_s=0.2)
    assert leader.transport.take(to=2, body="append")
    assert not leader.transport.take(to=3)
    leader.close()


def test_a_learner_that_never_comes_can_be_removed(leader: Solo) -> None:
    grow(leader)
    asked = remove(leader, 4)
    accept_all(leader, 2, 3)
    assert asked.is_done
    assert leader.replica.membership == THREE
    leader.close()


def test_nobody_is_removed_whom_the_others_could_not_do_without(leader: Solo) -> None:
    for _ in range(3):
        leader.tick(after_s=1.0)
        leader.accept(2, 1)
        leader.tick()
    refused = remove(leader, 2)
    assert isinstance(refused.error, QuorumAtRisk)
    assert "Without node 2, 2 nodes vote, and 2 must be connected to the leader: 1 are" in refused.error.message
    asked = remove(leader, 3)
    accept_all(leader, 2)
    assert asked.is_done, "the silent one can go"
    leader.close()


def test_the_last_voter_stays(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=1)
    solo.tick(after_s=5)
    solo.settle()
    assert isinstance(remove(solo, 1).error, QuorumAtRisk)
    solo.close()


def test_a_leader_that_is_to_go_hands_over_first_and_the_next_one_is_asked(leader: Solo) -> None:
    asked = remove(leader, 1)
    assert not asked.is_over
    leader.tick()
    assert leader.transport.take(to=2, body="timeout_now")
    assert leader.replica.membership == THREE
    leader.receive(2, term=2, vote_request=peer_pb2.VoteRequest(for_term=2, last_index=1, last_term=1, transfer=True))
    leader.append(source=2, term=2, prev=1, prev_term=1, entries=[(2, b"\x01")])
    (question,) = leader.transport.take(to=2, body="change_request")
    assert question.change_request.remove == 1
    # The next leader does not send the entry to the one that it removes.
    leader.receive(2, change_reply=peer_pb2.ChangeReply(id=question.change_request.id, index=3))
    assert asked.is_done
    leader.close()


def test_a_leader_nobody_can_replace_stays(leader: Solo) -> None:
    leader.transport.disconnect(2)
    leader.transport.disconnect(3)
    assert isinstance(remove(leader, 1).error, CannotLead)
    leader.close()


def test_leadership_goes_where_it_was_asked_to(leader: Solo) -> None:
    asked = Asked()
    leader.replica.request_transfer(3, asked, timeout_s=10)
    leader.tick()
    leader.tick()
    assert leader.transport.take(to=3, body="timeout_now")
    leader.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, b"\x01")])
    assert asked.is_done
    leader.close()


def test_who_leads_since_somebody_else_should_is_not_asked_to_hand_over_again(leader: Solo) -> None:
    asked = Asked()
    leader.replica.request_transfer(None, asked, timeout_s=10)
    leader.tick()
    leader.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, b"\x01")])
    assert asked.is_done
    assert not leader.transport.take(body="change_request")
    leader.close()


@pytest.mark.parametrize(("target", "error"), [(4, CannotLead), (9, NodeNotFound)])
def test_leadership_goes_to_no_learner_and_no_stranger(leader: Solo, target: int, error: type[Exception]) -> None:
    grow(leader)
    asked = Asked()
    leader.replica.request_transfer(target, asked, timeout_s=10)
    leader.tick()
    assert isinstance(asked.error, error)
    here = Asked()
    leader.replica.request_transfer(1, here, timeout_s=10)
    leader.tick()
    leader.tick()
    assert here.is_done, "it leads already"
    leader.close()


def test_a_follower_asks_its_leader_again_until_it_is_answered(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(THREE))], commit=1)
    asked = add(solo)
    (question,) = solo.transport.take(to=2, body="change_request")
    assert (question.change_request.add.node, question.change_request.add.address) == (4, "n4:1")
    solo.tick()
    assert not solo.transport.take(body="change_request")
    solo.tick(after_s=0.79)
    solo.tick(after_s=0.02)
    assert solo.transport.take(to=2, body="change_request")
    solo.receive(2, change_reply=peer_pb2.ChangeReply(id=question.change_request.id, index=2))
    solo.tick()
    assert not asked.is_over, "not applied here yet"
    solo.append(prev=1, prev_term=1, entries=[(1, membership_entry(FOUR))], commit=2)
    solo.tick()
    assert asked.is_done
    solo.close()


def test_a_refusal_travels_with_its_reason(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(THREE))], commit=1)
    asked = remove(solo, 3)
    (question,) = solo.transport.take(to=2, body="change_request")
    refusal = peer_pb2.ChangeReply(id=question.change_request.id, reason="QUORUM_AT_RISK", message="Too few.")
    solo.receive(2, change_reply=refusal)
    assert isinstance(asked.error, QuorumAtRisk)
    assert asked.error.message == "Too few."
    solo.close()


def test_a_peers_question_is_answered_once_its_change_is_committed(leader: Solo) -> None:
    request = peer_pb2.ChangeRequest(id=7, add=peer_pb2.AddMember(node=4, address="n4:1"))
    leader.receive(3, change_request=request)
    leader.receive(3, change_request=request)
    leader.tick()
    assert not leader.transport.take(body="change_reply")
    leader.accept(2, 2)
    leader.settle()
    (reply,) = leader.transport.take(to=3, body="change_reply")
    assert (reply.change_reply.id, reply.change_reply.index) == (7, 2)
    leader.receive(3, change_request=peer_pb2.ChangeRequest(id=8, transfer=9))
    leader.tick()
    (reply,) = leader.transport.take(to=3, body="change_reply")
    assert (reply.change_reply.id, reply.change_reply.reason) == (8, "NODE_NOT_FOUND")
    leader.close()


def test_every_question_ends_at_its_deadline_and_there_are_only_so_many(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    unasked = add(solo, timeout_s=0.5)
    solo.tick(after_s=0.6)
    assert isinstance(unasked.error, NoQuorum)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(THREE))])
    unanswered = add(solo, timeout_s=0.3)
    solo.tick(after_s=0.4)
    assert isinstance(unanswered.error, OutcomeUnknown)
    waiting = [add(solo, timeout_s=100) for _ in range(MAX_WAITING)]
    with pytest.raises(TooManyRequests):
        add(solo)
    solo.replica.destroy()
    assert all(asked.error is not None for asked in waiting)
    solo.close()


def test_a_membership_counts_for_a_follower_from_when_it_is_in_its_log_until_it_is_taken_back(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    first = membership_entry(THREE)
    solo.append(prev=0, prev_term=0, entries=[(1, first), (1, membership_entry(FOUR))], commit=1)
    assert solo.replica.membership == FOUR
    assert solo.machine.membership == (1, THREE.pack())
    solo.close()

    restarted = Solo(tmp_path)
    assert restarted.replica.membership == FOUR, "from the log, beyond the state"
    restarted.append(source=3, term=2, prev=1, prev_term=1, entries=[(2, entry(b"x"))], commit=2)
    assert restarted.replica.membership == THREE
    restarted.settle()
    restarted.machine.commit()
    restarted.close()

    again = Solo(tmp_path)
    assert again.replica.membership == THREE, "from the state"
    again.close()


def test_a_learner_gives_its_vote_and_asks_for_none(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=4)
    learning = Membership.of_voters([2, 3, 4]).with_learner(1, "n1:1")
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(learning))], commit=1)
    solo.transport.take()
    for _ in range(5):
        solo.tick(after_s=2)
    assert not solo.transport.take(body="vote_request")
    # It may have been made a voter by an entry that it does not have.
    solo.receive(3, term=2, vote_request=peer_pb2.VoteRequest(for_term=2, last_index=1, last_term=1))
    solo.tick()
    assert solo.transport.take(to=3, body="vote_reply")[0].vote_reply.granted
    solo.receive(2, term=2, timeout_now=peer_pb2.TimeoutNow())
    solo.tick()
    assert not solo.transport.take(body="vote_request")
    solo.close()


def test_votes_of_learners_elect_nobody(tmp_path: Path) -> None:
    solo = Solo(tmp_path, nodes=5)
    members = THREE.with_learner(4, "n4:1").with_learner(5, "n5:1")
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(members))], commit=1)
    solo.transport.take()
    solo.tick(after_s=5)
    asked = [to for to, message in solo.transport.sent if message.HasField("vote_request")]
    assert asked == [2, 3]
    for learner in (4, 5):
        solo.vote(learner, pre_vote=True)
    assert solo.replica.term == 1
    solo.vote(3, pre_vote=True)
    assert solo.replica.term == 2
    solo.close()


def test_a_node_that_is_told_that_it_is_no_member_asks_for_no_votes_until_a_leader_counts_it_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(THREE))], commit=1)
    solo.transport.on_refused(3, 1)
    assert solo.replica.is_member, "its leader counts it in"
    solo.tick(after_s=3)
    solo.transport.take()
    solo.transport.on_refused(3, 0)
    assert solo.replica.is_member, "that node knows less than this one"
    solo.transport.on_refused(3, 5)
    solo.transport.on_refused(3, 5)
    assert not solo.replica.is_member
    assert [record.message for record in caplog.records].count(
        "this node is no member of the cluster: it was removed, or has not been added yet"
    ) == 1
    for _ in range(5):
        solo.tick(after_s=2)
    assert not solo.transport.take(body="vote_request")
    solo.append(prev=1, prev_term=1, entries=[])
    assert solo.replica.is_member
    solo.close()


def test_a_removed_node_asks_for_no_votes(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    entries = [(1, membership_entry(THREE)), (1, membership_entry(THREE.without(1)))]
    solo.append(prev=0, prev_term=0, entries=entries, commit=2)
    solo.settle()
    solo.transport.take()
    assert not solo.replica.is_member
    for _ in range(5):
        solo.tick(after_s=2)
    assert not solo.transport.take(body="vote_request")
    solo.close()


def test_a_leader_that_this_node_has_not_heard_of_is_heard(tmp_path: Path) -> None:
    """It was elected by members that came while this node was away."""
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(THREE))], commit=1)
    solo.transport.connect(9)
    nine = THREE.with_learner(9, "n9:1").with_voter(9)
    solo.append(source=9, term=4, prev=1, prev_term=1, entries=[(4, membership_entry(nine))], commit=2)
    assert solo.replica.leader_id == 9
    assert solo.transport.take(to=9, body="append_reply")[0].append_reply.success
    assert 9 in solo.replica.membership.voters
    solo.close()
