"""Which of two nodes that differ is the wrong one."""

from raftsched.node.divergence import HISTORY, DivergenceWatch

GOOD, BAD = b"g" * 16, b"b" * 16


def watch(members: int = 3) -> DivergenceWatch:
    result = DivergenceWatch(members=members)
    result.applied(10, GOOD)
    return result


def test_equal_digests_are_fine() -> None:
    nodes = watch()
    nodes.reported(2, 10, GOOD)
    nodes.reported(3, 10, GOOD)
    assert not nodes.is_diverged(leader=2)


def test_a_node_that_differs_from_a_majority_is_wrong() -> None:
    nodes = watch()
    nodes.reported(2, 10, BAD)
    nodes.reported(3, 10, BAD)
    assert nodes.is_diverged(leader=1)


def test_a_node_that_agrees_with_a_majority_is_right_about_the_third() -> None:
    nodes = watch()
    nodes.reported(2, 10, BAD)
    nodes.reported(3, 10, GOOD)
    assert nodes.differs_from() == [2]
    assert not nodes.is_diverged(leader=2)


def test_of_two_nodes_that_differ_the_follower_gives_way() -> None:
    nodes = watch()
    nodes.reported(2, 10, BAD)
    assert nodes.is_diverged(leader=2)
    assert not nodes.is_diverged(leader=1)


def test_a_peer_that_is_ahead_is_compared_when_this_node_gets_there() -> None:
    nodes = watch()
    nodes.reported(2, 12, BAD)
    assert not nodes.is_diverged(leader=2)
    nodes.applied(11, GOOD)
    assert not nodes.is_diverged(leader=2)
    nodes.applied(12, GOOD)
    assert nodes.is_diverged(leader=2)


def test_an_index_too_old_to_know_proves_nothing() -> None:
    nodes = watch()
    for index in range(11, 11 + HISTORY):
        nodes.applied(index, GOOD)
    nodes.reported(2, 10, BAD)
    assert not nodes.is_diverged(leader=2)


def test_a_snapshot_ends_old_comparisons() -> None:
    nodes = watch()
    nodes.reported(2, 10, BAD)
    nodes.restarted_from_snapshot()
    assert not nodes.is_diverged(leader=2)


def test_who_is_no_member_any_more_has_no_say() -> None:
    watched = watch(3)
    watched.applied(1, b"own")
    watched.reported(2, 1, b"other")
    watched.reported(3, 1, b"other")
    assert watched.is_diverged(leader=2)
    watched.follow_members(2, [3])
    assert watched.differs_from() == [3]
    watched.follow_members(5, [2, 3, 4, 5])
    assert not watched.is_diverged(leader=2), "one of five"
