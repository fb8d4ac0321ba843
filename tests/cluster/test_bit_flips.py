"""Flipped bits in a node's files are found at its start or by `cluster verify`, and repaired by one command."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from raftsched.v1 import cluster_pb2
from tests.cluster.commands import command
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.load import finish
from tests.cluster.processes import now_ms, until

PAGE = 4_096
VICTIM = 2
# Far enough away not to run during a test: what is flipped in it stays where it is.
LATER_MS = 3_600_000


def positions_of(file: Path, text: bytes) -> list[int]:
    """Everywhere a text stands in a file; pages that are not in use may hold it too."""
    data = file.read_bytes()
    found, at = [], data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1)
    return found


def flip(file: Path, positions: Sequence[int], bit: int = 0) -> None:
    with file.open("r+b") as opened:
        for position in positions:
            opened.seek(position)
            (value,) = opened.read(1)
            opened.seek(position)
            opened.write(bytes((value ^ 1 << bit,)))


def verify(cluster: Cluster, exit_code: int | None = 0) -> dict[int, dict[str, Any]]:
    """What `cluster verify` says of each node."""
    told = command("cluster", "verify", "--json", nodes=cluster.addresses.values(), exit_code=exit_code)
    return {node["id"]: node for node in told.document["nodes"]}


def start_or_stop(cluster: Cluster, number: int) -> bool:
    """Starts the node; whether it serves. One that does not has said how to repair it."""
    node = cluster.nodes[number]
    node.start()

    def decided() -> bool:
        status = cluster.status(number)
        serves = status is not None and status.health == cluster_pb2.NODE_HEALTH_SERVING
        return not node.alive or serves

    until(decided, f"node {number} serves or has stopped")
    if not node.alive:
        assert f"raftsched repair --data {cluster.data_dir(number)}" in node.tail()
        assert str(cluster.data_dir(number)) in node.tail()
    return node.alive


def repair(cluster: Cluster, number: int) -> None:
    """What the manual says: stop, repair, start."""
    cluster.nodes[number].kill()
    command("repair", "--data", cluster.data_dir(number))
    cluster.nodes[number].start()
    cluster.wait_serving()


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    """Jobs of all ages, in a log and a state of many pages."""
    ledger = Ledger(cluster)
    for turn in range(4):
        ledger.batch({f"later-{turn}-{index}": now_ms() + LATER_MS for index in range(250)})
    cluster.wait_equal_digests()
    return cluster


def test_flipped_bits_are_found_or_do_nothing_and_are_repaired_by_one_command(filled: Cluster) -> None:
    chance = random.Random(11)
    state, log = (filled.data_dir(VICTIM) / name / "data.mdb" for name in ("state", "log"))
    outcomes = []
    for turn in range(6):
        filled.nodes[VICTIM].kill()
        if turn == 0:
            file, positions = state, positions_of(state, b"later-2-77")
        elif turn == 1:
            file, positions = log, positions_of(log, b"later-2-77")
        else:
            file = state if turn % 3 else log
            page = chance.randrange(2, file.stat().st_size // PAGE) * PAGE
            positions = [page + chance.randrange(PAGE if turn % 2 else 64)]
        flip(file, positions, chance.randrange(8))
        if start_or_stop(filled, VICTIM):
            verdicts = verify(filled, exit_code=None)
            assert [verdicts[number]["verdict"] for number in (1, 3)] == ["SAME", "SAME"]
            outcome = verdicts[VICTIM]["verdict"]
            if outcome == "SAME":
                assert len({verdict["content_hash"] for verdict in verdicts.values()}) == 1
            else:
                assert outcome in ("DIFFERS", "DAMAGED")
                status = filled.status(VICTIM)
                assert status is not None
                assert status.health == cluster_pb2.NODE_HEALTH_DIVERGED
        else:
            outcome = "REFUSED"
        outcomes.append(outcome)
        if outcome != "SAME":
            repair(filled, VICTIM)
    assert outcomes[:2] == ["DIFFERS", "REFUSED"], outcomes
    assert {verdict["verdict"] for verdict in verify(filled).values()} == {"SAME"}


def test_damage_under_a_running_node_is_found_while_the_others_go_on(cluster: Cluster) -> None:
    cluster.start_worker("worker-1")
    ledger = Ledger(cluster)
    ledger.batch({f"later-{index}": now_ms() + LATER_MS for index in range(300)})
    cluster.wait_equal_digests()
    victim = next(number for number in cluster.nodes if number != cluster.leader())
    state = cluster.data_dir(victim) / "state" / "data.mdb"
    # LMDB maps the file: the running node sees it at once.
    flip(state, positions_of(state, b"later-123"))
    ledger.batch({f"meanwhile-{index}": now_ms() + 200 for index in range(100)})

    verdicts = verify(cluster, exit_code=1)
    assert {number for number, told in verdicts.items() if told["verdict"] == "SAME"} == set(cluster.nodes) - {victim}
    assert verdicts[victim]["verdict"] == "DIFFERS"
    assert str(state) in verdicts[victim]["problem"]
    assert f"raftsched repair --data {cluster.data_dir(victim)}" in cluster.nodes[victim].tail()
    assert "stopped serving" in command("cluster", "verify", nodes=cluster.addresses.values(), exit_code=1).output

    repair(cluster, victim)
    assert {told["verdict"] for told in verify(cluster).values()} == {"SAME"}
    # Only what is due soon has to run.
    for key in [key for key in ledger.entries if key.startswith("later")]:
        del ledger.entries[key]
    finish(ledger)
