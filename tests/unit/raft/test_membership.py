"""Memberships as values, and which one of a log's counts."""

import pytest

from raftsched.model.errors import StoreCorrupt
from raftsched.raft.membership import Member, Membership, MembershipHistory

THREE = Membership.of_voters({2: "b:1", 1: "a:1", 3: "c:1"})


def test_a_new_cluster_is_all_voters_in_order_of_their_ids() -> None:
    assert list(THREE.members) == [1, 2, 3]
    assert THREE.voters == {1, 2, 3}
    assert THREE.members[2] == Member(2, "b:1", is_voter=True)
    assert Membership.of_voters([5]).members == {5: Member(5, "", is_voter=True)}


def test_a_learner_does_not_count_until_it_votes() -> None:
    grown = THREE.with_learner(4, "d:1")
    assert (grown.voters, grown.learners, grown.quorum) == ({1, 2, 3}, {4}, 2)
    voting = grown.with_voter(4)
    assert (voting.voters, voting.learners, voting.quorum) == ({1, 2, 3, 4}, set(), 3)
    assert voting.without(1).quorum == 2
    assert THREE.voters == {1, 2, 3}, "never changed"


def test_it_comes_back_from_its_bytes_which_are_the_same_everywhere() -> None:
    grown = THREE.with_learner(4, "d:1")
    assert Membership.unpack(grown.pack()) == grown
    assert THREE.with_learner(5, "e:1").with_learner(4, "d:1").without(5).pack() == grown.pack()


@pytest.mark.parametrize("content", [b"", b"\xff", Membership({1: Member(1, "a:1", is_voter=False)}).pack()])
def test_bytes_that_name_no_voter_are_damage(content: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        Membership.unpack(content)


def test_the_newest_counts_until_the_logs_end_is_taken_back() -> None:
    history = MembershipHistory(0, THREE)
    grown = THREE.with_learner(4, "d:1")
    history.appended(7, grown)
    history.appended(9, grown.with_voter(4))
    assert (history.index, history.current) == (9, grown.with_voter(4))
    assert not history.truncated(10)
    assert history.truncated(9)
    assert (history.index, history.current) == (7, grown)
    assert history.truncated(2)
    assert (history.index, history.current) == (0, THREE)


def test_what_is_applied_is_never_taken_back_and_what_came_before_it_is_forgotten() -> None:
    history = MembershipHistory(0, THREE)
    history.appended(7, THREE.without(3))
    history.appended(9, THREE.without(3).without(2))
    history.applied(7)
    assert (history.applied_index, history.index) == (7, 9)
    assert list(history) == [THREE.without(3), THREE.without(3).without(2)]
    history.truncated(1)
    assert history.current == THREE.without(3)
