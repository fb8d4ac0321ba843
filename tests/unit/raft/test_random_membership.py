"""Nodes come and go under seeded faults: every promise of Raft is checked at every step, whoever the members are."""

from pathlib import Path

import pytest

from tests.unit.raft.growing import Asked, GrowingCluster
from tests.unit.raft.test_random_faults import Chaos

FAULTS = {
    "calm": ("start", "start", "leader"),
    "everything": (
        "crash", "power", "start", "start", "start", "split", "heal", "heal", "lossy", "slow", "disks", "leader",
    ),
    "network": ("split", "heal", "heal", "lossy", "slow", "leader"),
    "disks": ("power", "power", "disks", "crash", "start"),
}  # fmt: skip
MOST_NODES = 6
LONGEST_WAIT_S = 5.0


class MembershipChaos(Chaos):
    """Beside its faults: any node, also one that was removed and does not know, is asked for any change."""

    def __init__(self, cluster: GrowingCluster, faults: tuple[str, ...]) -> None:
        super().__init__(cluster, faults)
        self.growing = cluster
        self.asked: list[Asked] = []

    def step(self) -> None:
        if self.rng.random() < 0.7:
            self.change()
        super().step()

    def change(self) -> None:
        cluster, rng = self.growing, self.rng
        up = list(cluster.up())
        if not up:
            return
        at, number = rng.choice(up), rng.randint(1, MOST_NODES)
        if rng.random() < 0.5:
            if number not in cluster.nodes:
                cluster.join(number)
            self.asked.append(cluster.add(number, at=at, timeout_s=rng.choice((0.5, LONGEST_WAIT_S))))
        else:
            self.asked.append(cluster.remove(number, at=at, timeout_s=rng.choice((0.5, LONGEST_WAIT_S))))

    def is_calm(self) -> bool:
        """No disk is lost here: which of them matter changes all the time."""
        return False

    def finish(self) -> None:
        cluster = self.growing
        cluster.heal()
        cluster.network.loss = 0.0
        cluster.network.delay_s = (0.0002, 0.002)
        cluster.flush_s = (0.0002, 0.003)
        for number, node in cluster.nodes.items():
            if not node.is_up:
                cluster.start(number)
        # What was asked last is done or over by then.
        cluster.run(LONGEST_WAIT_S + 1)
        # Members that are no more still run, and must not keep the others from agreeing.
        assert cluster.run_until(cluster.members_applied_the_same, 30), "the members do not agree after all faults"
        leader = cluster.leader()
        assert leader is not None
        members = leader.live.membership.members
        term = leader.live.term
        cluster.run(5)
        assert cluster.leader() is leader, "who is no member must not depose a leader"
        assert leader.live.term == term
        for number in set(cluster.nodes) - set(members):
            cluster.take_away(number)
        assert all(node.live.membership.members == members for node in cluster.up())
        super().finish()


@pytest.mark.parametrize(
    ("nodes", "seed", "faults"),
    [*((3, seed, faults) for seed in (0, 2) for faults in FAULTS), (1, 2, "calm"), (5, 3, "everything")],
)
def test_raft_keeps_its_promises_while_nodes_come_and_go(tmp_path: Path, nodes: int, seed: int, faults: str) -> None:
    run(tmp_path, nodes, seed, faults)


def run(folder: Path, nodes: int, seed: int, faults: str) -> None:
    cluster = GrowingCluster(
        folder, nodes=nodes, seed=seed, log_keep_entries=20, compact_max_entries=7, snapshot_chunk_bytes=1_000
    )
    chaos = MembershipChaos(cluster, FAULTS[faults])
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    cluster.run(0.5)
    for _ in range(20):
        chaos.step()
    chaos.finish()
    assert any(asked.is_done for asked in chaos.asked)
    cluster.close()
