"""Damaged files of one node are noticed, the others go on, and the node is rebuilt from them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.measure import environments
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.load import finish
from tests.cluster.processes import now_ms, until

PAGE = 4_096


def cut_in_half(file: Path) -> None:
    with file.open("r+b") as data:
        data.truncate(file.stat().st_size // 2 // PAGE * PAGE)


def overwrite(file: Path) -> None:
    """Every page after LMDB's two meta pages becomes another."""
    with file.open("r+b") as data:
        data.seek(2 * PAGE)
        data.write(b"\xa5" * (file.stat().st_size - 2 * PAGE))


@pytest.mark.parametrize("damage", [cut_in_half, overwrite], ids=["cut in half", "overwritten"])
@pytest.mark.parametrize("environment", ["log", "state"])
def test_a_node_with_damaged_files_stops_and_is_rebuilt_from_the_others(
    cluster: Cluster, environment: str, damage: Callable[[Path], None]
) -> None:
    cluster.start_worker("worker-1")
    ledger = Ledger(cluster)
    ledger.batch({f"before-{index}": now_ms() + 200 for index in range(300)})
    cluster.wait_drained()
    leader = cluster.leader()
    victim = next(number for number in cluster.nodes if number != leader)
    cluster.nodes[victim].kill()
    (folder,) = [folder for folder in environments(cluster.data_dir(victim)) if folder.name == environment]
    damage(folder / "data.mdb")

    node = cluster.nodes[victim]
    node.start()
    until(lambda: not node.alive, "the damaged node has stopped")
    assert "STORE_CORRUPT" in node.tail() or "damaged" in node.tail()
    ledger.batch({f"meanwhile-{index}": now_ms() + 200 for index in range(300)})

    cluster.empty_data_dir(victim)
    node.start()
    cluster.wait_serving()
    finish(ledger)
