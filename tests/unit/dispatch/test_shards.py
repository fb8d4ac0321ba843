"""Who dispatches which shard."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from raftsched.dispatch.shards import assign_shards, worth_moving

SHARDS = 32
owners_strategy = st.lists(st.integers(0, 5), min_size=SHARDS, max_size=SHARDS)
credits_strategy = st.dictionaries(st.integers(1, 5), st.integers(0, 5_000), min_size=1)


def test_equal_credits_share_evenly() -> None:
    counts = Counter(assign_shards((0,) * SHARDS, {1: 100, 2: 100, 3: 100}))
    assert sorted(counts.values()) == [10, 11, 11]


def test_a_node_without_workers_gets_nothing_while_another_has_some() -> None:
    assert set(assign_shards((1,) * SHARDS, {1: 0, 2: 4_000, 3: 0})) == {2}


def test_without_any_worker_all_live_nodes_share() -> None:
    assert set(assign_shards((0,) * SHARDS, {1: 0, 2: 0, 3: 0})) == {1, 2, 3}


def test_shards_of_a_dead_node_go_to_the_living_and_no_other_shard_moves() -> None:
    before = assign_shards((0,) * SHARDS, {1: 10, 2: 10, 3: 10})
    after = assign_shards(before, {1: 10, 2: 10})
    assert all(new == old for old, new in zip(before, after, strict=True) if old != 3)
    assert set(after) == {1, 2}


def test_with_no_live_node_the_owners_stay() -> None:
    assert assign_shards((3,) * SHARDS, {}) == (3,) * SHARDS


@given(owners_strategy, credits_strategy)
def test_every_shard_has_a_live_owner_in_proportion_and_a_second_look_moves_nothing(
    owners: list[int], credits_by_node: dict[int, int]
) -> None:
    result = assign_shards(owners, credits_by_node)
    assert set(result) <= set(credits_by_node)
    total = sum(credits_by_node.values())
    counts = Counter(result)
    for node, weight in credits_by_node.items():
        share = SHARDS * weight / total if total else SHARDS / len(credits_by_node)
        assert abs(counts[node] - share) < 1
    assert assign_shards(result, credits_by_node) == result


def test_a_small_shift_of_credits_is_not_worth_a_command_but_a_dead_owner_is() -> None:
    owners = (1,) * 16 + (2,) * 16
    assert not worth_moving(owners, (1,) * 17 + (2,) * 15, {1: 1, 2: 1})
    assert worth_moving(owners, (1,) * 20 + (2,) * 12, {1: 1, 2: 1})
    assert worth_moving(owners, owners, {1: 1})
