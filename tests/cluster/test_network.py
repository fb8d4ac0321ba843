"""Packets between nodes, each in a network namespace, are lost; workers reach every node unless it is unplugged."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.harness import SESSION_TTL_MS, Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.namespaces import require_namespaces
from tests.cluster.processes import let_last, now_ms, until
from tests.cluster.raw_worker import RawWorker

BEYOND_THE_LEASE_S = 2 * SESSION_TTL_MS / 1_000
# A partition lasts so long, then another one comes.
PARTITION_S = 4.0


def network_of(tmp_path: Path, nodes: int) -> Iterator[Cluster]:
    require_namespaces()
    cluster = Cluster(tmp_path / "cluster", nodes=nodes, namespaces=True)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from network_of(tmp_path, 3)


@pytest.fixture
def five(tmp_path: Path) -> Iterator[Cluster]:
    yield from network_of(tmp_path, 5)


def wait_other_leader(cluster: Cluster, than: int) -> int:
    return until(lambda: leader if (leader := cluster.leader()) != than else None, f"a leader other than {than}")


def sessions_at(cluster: Cluster, number: int) -> set[str]:
    status = cluster.status(number)
    assert status is not None
    return {worker.name for worker in status.workers}


def test_what_an_isolated_leader_had_leased_is_refused_once_its_lease_is_over(cluster: Cluster) -> None:
    queue = "isolated"
    isolated = cluster.leader()
    job_id = cluster.api.create(job_pb2.Job(handler="raw", queue=queue, run_at=timestamp(now_ms()))).job.id
    with RawWorker(cluster.node(isolated)) as late:
        late.hello("late", queue)
        late.credit(1)
        lease = late.lease()
        cluster.namespaces.isolate(isolated)
        new_leader = wait_other_leader(cluster, isolated)
        until(lambda: not sessions_at(cluster, new_leader), "its session is over")
        with RawWorker(cluster.node(new_leader)) as heir:
            heir.hello("heir", queue)
            heir.credit(1)
            new_lease = heir.lease()
            assert list(new_lease.execution_ids) == list(lease.execution_ids)
            assert new_lease.token > lease.token
            # The isolated node takes it, and can do nothing with it.
            late.send_ack(lease.token, *lease.execution_ids)
            assert not heir.ack(new_lease.token, *new_lease.execution_ids).stale_execution_ids
        cluster.namespaces.mend_all()
        cluster.wait_serving()
        with RawWorker(cluster.node(isolated)) as returned:
            returned.hello("late", queue)
            refused = returned.ack(lease.token, *lease.execution_ids).stale_execution_ids
            assert list(refused) == list(lease.execution_ids)
    (execution,) = cluster.api.executions(job_id)
    assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
    assert (execution.token, execution.lost_leases, execution.worker) == (new_lease.token, 1, "heir")


def isolate(cluster: Cluster, node: int) -> None:
    cluster.namespaces.isolate(node)


def unplug(cluster: Cluster, node: int) -> None:
    cluster.namespaces.unplug(node)


def deafen(cluster: Cluster, node: int) -> None:
    """It reaches the others, and hears nothing from them."""
    for other in cluster.nodes:
        if other != node:
            cluster.namespaces.cut_way(other, node)


@pytest.mark.parametrize("harm", [isolate, deafen, pytest.param(unplug, marks=pytest.mark.soak)])
def test_every_job_runs_though_the_leader_is_cut_off_beyond_the_lease(
    cluster: Cluster, harm: Callable[[Cluster, int], None]
) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=10)
    wait_progress(ledger, 30)
    leader = cluster.leader()
    harm(cluster, leader)
    wait_other_leader(cluster, leader)
    wait_progress(ledger, 20)
    let_last("the leader is cut off beyond the lease", BEYOND_THE_LEASE_S)
    cluster.namespaces.mend_all()
    cluster.wait_serving()
    wait_progress(ledger, 5)
    finish(ledger)


def halves(cluster: Cluster, rng: random.Random) -> list[list[int]]:
    """The leader is in the smaller half."""
    leader = cluster.leader()
    others = [number for number in cluster.nodes if number != leader]
    rng.shuffle(others)
    return [[leader, others[0]], others[1:]]


def majorities_ring(cluster: Cluster, rng: random.Random) -> list[list[int]]:
    """Each node sees a majority, no two the same."""
    ring = list(cluster.nodes)
    rng.shuffle(ring)
    return [[ring[index], ring[(index + 1) % len(ring)]] for index in range(len(ring))]


def bridge(cluster: Cluster, rng: random.Random) -> list[list[int]]:
    """Two halves that only one node sees both of."""
    line = list(cluster.nodes)
    rng.shuffle(line)
    return [line[:3], line[2:]]


def alone(cluster: Cluster, _rng: random.Random) -> list[list[int]]:
    """The leader sees nobody."""
    leader = cluster.leader()
    return [[leader], [number for number in cluster.nodes if number != leader]]


PARTITIONS = (halves, majorities_ring, alone, bridge)


def partition_again_and_again(cluster: Cluster, *, seconds: int, seed: int) -> None:
    """Partitions follow one another, healed now and then; recurring jobs fire meanwhile."""
    rng = random.Random(seed)
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=seconds // 2)
    wait_progress(ledger, 30)
    for turn in range(round(seconds / PARTITION_S)):
        partition = PARTITIONS[turn % len(PARTITIONS)]
        cluster.namespaces.split(partition(cluster, rng))
        let_last(partition.__name__, PARTITION_S)
        if turn % 2:
            cluster.namespaces.mend_all()
            wait_progress(ledger, 3)
    cluster.namespaces.mend_all()
    cluster.wait_serving()
    finish(ledger)


def test_recurring_jobs_meet_every_tick_though_partitions_follow_one_another(five: Cluster) -> None:
    partition_again_and_again(five, seconds=20, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
def test_recurring_jobs_meet_every_tick_though_partitions_follow_one_another_for_long(five: Cluster, seed: int) -> None:
    partition_again_and_again(five, seconds=200, seed=seed)
