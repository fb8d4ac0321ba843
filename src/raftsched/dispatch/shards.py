"""Which node dispatches which shard: in proportion to the credit of its workers, moving as few shards as possible."""

from collections.abc import Mapping, Sequence


def assign_shards(owners: Sequence[int], credits_by_node: Mapping[int, int]) -> tuple[int, ...]:
    """New owners for all shards.

    `owners` are the present ones (0: none), `credits_by_node` the workers' credit at every node that is alive. A node
    without workers gets no shard while another has some; when nobody has any, all live nodes share. With no live node
    the owners stay. Shards move only off nodes that have more than their due or are not alive.
    """
    if not credits_by_node:
        return tuple(owners)
    quota = _quotas(len(owners), credits_by_node)
    result = list(owners)
    unowned: list[int] = []
    left = dict(quota)
    for shard, owner in enumerate(owners):
        if left.get(owner, 0) > 0:
            left[owner] -= 1
        else:
            unowned.append(shard)
    takers = [node for node in sorted(left) for _ in range(left[node])]
    for shard, node in zip(unowned, takers, strict=True):
        result[shard] = node
    return tuple(result)


def worth_moving(owners: Sequence[int], wanted: Sequence[int], live_nodes: Mapping[int, int]) -> bool:
    """Whether `wanted` is worth a command: an owner is gone, or an eighth of the shards would move.

    Credits move all the time; moving shards after each of them would cost more than it evens out.
    """
    if any(owner not in live_nodes for owner in owners):
        return True
    moved = sum(1 for old, new in zip(owners, wanted, strict=True) if old != new)
    return moved * 8 >= len(owners)


def _quotas(shards: int, credits_by_node: Mapping[int, int]) -> dict[int, int]:
    """Shards per node by largest remainder; ties go to the lower node id."""
    total = sum(credits_by_node.values())
    weights = dict(credits_by_node) if total else dict.fromkeys(credits_by_node, 1)
    total = total or len(weights)
    quota = {node: shards * weight // total for node, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda node: (-(shards * weights[node] % total), node))
    for node in by_remainder[: shards - sum(quota.values())]:
        quota[node] += 1
    return quota
