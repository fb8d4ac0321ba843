"""Thousands of jobs due in the same second, and the nodes that drain them paused, killed or out of disk meanwhile."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.disks import Disk, require_disks
from tests.cluster.harness import Cluster, Machine
from tests.cluster.ledger import Ledger
from tests.cluster.links import Routes
from tests.cluster.load import finish, wait_progress
from tests.cluster.processes import let_last, now_ms, until

BUCKET = 3_000
# How long workers get no answers before their connections break: they have sent results by then.
ANSWERS_HELD_S = 0.4
DISK_MEBIBYTES = 64


def fill_bucket(ledger: Ledger) -> None:
    """All due at the same moment, with handlers that take a while, so that many are under way at any time."""
    due_ms = now_ms() + 2_500
    ledger.batch({f"hot-{index}": due_ms for index in range(BUCKET)}, sleep_ms=20)


def draining_follower(cluster: Cluster) -> int:
    """The follower that dispatches most shards."""
    leader = cluster.leader()

    def find() -> int | None:
        status = cluster.status(leader)
        owners = [] if status is None else [owner for owner in status.shard_owners if owner not in (0, leader)]
        return max(owners, key=owners.count, default=None)

    return until(find, "a follower dispatches")


def wait_without_shards(cluster: Cluster, number: int) -> None:
    def moved() -> bool:
        status = cluster.statuses().get(cluster.leader())
        return status is not None and number not in status.shard_owners

    until(moved, f"no shard belongs to node {number}")


def test_a_node_that_is_paused_while_it_drains_a_bucket_completes_nothing_twice_when_it_goes_on(
    cluster: Cluster,
) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name, "--concurrency=8")
    ledger = Ledger(cluster)
    fill_bucket(ledger)
    paused = draining_follower(cluster)
    wait_progress(ledger, BUCKET // 10)

    cluster.nodes[paused].freeze()
    wait_without_shards(cluster, paused)
    assert ledger.completed() < BUCKET, "it was to be paused in the middle"
    wait_progress(ledger, BUCKET // 10)
    cluster.nodes[paused].thaw()
    cluster.wait_serving()
    report = finish(ledger)
    assert report.matched_by_run == BUCKET


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    require_disks()
    disk = Disk(tmp_path / "disk", mebibytes=DISK_MEBIBYTES)
    try:
        yield disk
    finally:
        disk.close()


def test_a_bucket_drains_once_though_the_leader_dies_a_disk_is_full_and_answers_to_workers_are_lost(
    tmp_path: Path, disk: Disk
) -> None:
    with ExitStack() as stack:
        cluster = Cluster(tmp_path / "cluster", machines={3: Machine(data_dir=disk.path / "data")})
        stack.callback(cluster.close)
        cluster.start()
        routes = Routes(cluster.addresses)
        stack.callback(routes.close)
        for name in ("worker-1", "worker-2"):
            cluster.start_worker(name, "--concurrency=8", addresses=routes.addresses)
        ledger = Ledger(cluster)
        fill_bucket(ledger)
        wait_progress(ledger, BUCKET // 10)

        routes.hold_answers()
        let_last("answers to workers are held", ANSWERS_HELD_S)
        routes.lose_answers()
        disk.fill()
        until(lambda: not cluster.nodes[3].alive, "the node whose disk is full has stopped")
        assert "the node stops" in cluster.nodes[3].tail(200)
        cluster.wait_serving([1, 2])
        wait_progress(ledger, BUCKET // 10)

        leader = cluster.leader()
        cluster.nodes[leader].kill()
        cluster.nodes[leader].start()
        cluster.wait_serving([1, 2])
        routes.hold_answers()
        let_last("answers to workers are held", ANSWERS_HELD_S)
        routes.lose_answers()
        disk.make_room()
        cluster.nodes[3].start()
        cluster.wait_serving()
        report = finish(ledger)
        assert report.matched_by_run == BUCKET
