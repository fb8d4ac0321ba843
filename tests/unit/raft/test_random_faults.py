"""Whole clusters under seeded faults: every promise of Raft is checked at every step, whatever happens."""

import ast
from pathlib import Path

import pytest

import raftsched.raft
from tests.unit.raft.support import SimCluster

FAULTS = {
    "everything": (
        "crash", "crash", "power", "wipe", "start", "start", "split", "heal", "lossy", "slow", "disks", "leader",
    ),
    # Slow disks and the loss of what has not reached them.
    "disks": ("power", "power", "power", "disks", "crash", "start"),
    "network": ("split", "split", "heal", "heal", "lossy", "slow", "leader"),
}  # fmt: skip


class Chaos:
    """Proposes all the time while links fail, nodes crash, lose power, lose their disks, and come back."""

    def __init__(self, cluster: SimCluster, faults: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.faults = faults
        self.rng = cluster.rng
        self.proposed = 0
        # Everything some node has applied, by content: it must be there in the end.
        self.confirmed: set[bytes] = set()

    def step(self) -> None:
        cluster, rng = self.cluster, self.rng
        numbers = sorted(cluster.nodes)
        tolerated = (len(numbers) - 1) // 2
        down = [number for number in numbers if not cluster.nodes[number].is_up]
        match rng.choice(self.faults):
            case "crash" if len(down) < len(numbers):
                self.crash(rng.choice([number for number in numbers if number not in down]))
            case "power":
                # All at once: what was confirmed must be on the disks.
                for number in numbers:
                    self.crash(number, loses_power=True)
                for number in numbers:
                    cluster.start(number)
            case "wipe" if not down and tolerated and self.is_calm():
                # One disk at a time, and only what a quorum of disks survives without it.
                number = rng.choice(numbers)
                self.crash(number)
                cluster.wipe(number)
                cluster.start(number)
            case "start":
                for number in down:
                    cluster.start(number)
            case "split":
                side = set(rng.sample(numbers, rng.randint(1, len(numbers) - 1)))
                cluster.partition(side, set(numbers) - side)
            case "heal":
                cluster.heal()
                cluster.network.loss = 0.0
                cluster.network.delay_s = (0.0002, 0.002)
            case "lossy":
                cluster.network.loss = rng.uniform(0.0, 0.3)
            case "slow":
                cluster.network.delay_s = (0.001, rng.uniform(0.002, 0.3))
            case "disks":
                cluster.flush_s = (0.0002, rng.choice((0.003, 0.3, 0.3)))
            case "leader" if (leader := cluster.leader()) is not None:
                leader.live.transfer_leadership(None) if rng.random() < 0.5 else self.crash(leader.number)
        for node in cluster.nodes.values():
            node.clock.skew_ms = rng.choice((0, 0, 0, 3_600_000, -3_600_000))
        if rng.random() < 0.7:
            # The next fault meets a cluster at work.
            cluster.run_until(lambda: cluster.leader() is not None, 3)
        for _ in range(rng.randint(1, 20)):
            self.propose()
            cluster.run(rng.uniform(0.0, 0.1))
        self.collect()

    def is_calm(self) -> bool:
        """Every node has everything: then any one disk may go."""
        return not self.cluster.network.blocked and self.cluster.all_applied_the_same()

    def crash(self, number: int, *, loses_power: bool = False) -> None:
        if self.cluster.nodes[number].is_up:
            self.collect()
            self.cluster.crash(number, loses_power=loses_power)

    def propose(self) -> None:
        for node in self.cluster.up():
            if self.rng.random() < 0.5:
                self.proposed += 1
                node.live.propose(b"%d-%d" % (node.number, self.proposed) + b"." * self.rng.randint(0, 200), 1)

    def collect(self) -> None:
        for node in self.cluster.up():
            assert node.machine is not None
            self.confirmed.update(node.machine.commands)
            node.machine.commands.clear()

    def finish(self) -> None:
        cluster = self.cluster
        cluster.heal()
        cluster.network.loss = 0.0
        cluster.network.delay_s = (0.0002, 0.002)
        cluster.flush_s = (0.0002, 0.003)
        for number, node in cluster.nodes.items():
            if not node.is_up:
                cluster.start(number)
        assert cluster.run_until(cluster.all_applied_the_same, 20), "the nodes do not agree after all faults are over"
        cluster.check_logs_match()
        last, leader = max(cluster.applied), cluster.leader()
        assert leader is not None
        leader.live.propose(b"the last", 1)
        assert cluster.run_until(lambda: max(cluster.applied) > last and cluster.all_applied_the_same(), 10)


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize(("nodes", "seed"), [(3, 0), (3, 1), (5, 0)])
def test_raft_keeps_its_promises_under_random_faults(tmp_path: Path, nodes: int, seed: int, faults: str) -> None:
    cluster = SimCluster(
        tmp_path, nodes=nodes, seed=seed, log_keep_entries=20, compact_max_entries=7, snapshot_chunk_bytes=1_000
    )
    chaos = Chaos(cluster, FAULTS[faults])
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    cluster.run(0.5)
    for _ in range(16):
        chaos.step()
    chaos.finish()
    cluster.close()


def test_one_seed_is_one_history(tmp_path: Path) -> None:
    histories = []
    for name in ("once", "again"):
        cluster = SimCluster(tmp_path / name, nodes=3, seed=7, log_keep_entries=20, snapshot_chunk_bytes=1_000)
        chaos = Chaos(cluster, FAULTS["everything"])
        assert cluster.run_until(lambda cluster=cluster: cluster.leader() is not None, 10)
        for _ in range(6):
            chaos.step()
        histories.append((cluster.now_s, cluster.leaders, cluster.chains, sorted(chaos.confirmed)))
        cluster.close()
    assert histories[0] == histories[1]
    assert len(histories[0][2]) > 10


def test_no_module_of_this_layer_reads_a_clock_or_draws_a_number_by_itself() -> None:
    for path in Path(str(raftsched.raft.__path__[0])).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"time", "datetime", "secrets", "uuid"}, path.name
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
                assert node.attr == "Random", f"{path.name}: random.{node.attr}"
