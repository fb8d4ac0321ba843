"""Nodes are killed, frozen and restarted while jobs run: every occurrence runs, on its schedule, on record."""

from pathlib import Path

import grpc
import pytest

from raftsched.v1 import job_pb2
from tests.cluster.api import RETRYABLE
from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger, recorded_job, timestamp
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.processes import now_ms, until


def others(cluster: Cluster, number: int) -> list[int]:
    return [other for other in cluster.nodes if other != number]


def test_every_job_runs_though_the_leader_is_killed(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=12)
    wait_progress(ledger, 30)

    leader = cluster.leader()
    cluster.nodes[leader].kill()
    # Asked while there is no leader: accepted once there is one, and not lost.
    ledger.once("created-meanwhile", now_ms() + 500)
    cluster.wait_serving(others(cluster, leader))
    wait_progress(ledger, 30)

    cluster.nodes[leader].start()
    cluster.wait_serving()
    finish(ledger)


def test_every_job_runs_though_a_dispatching_follower_is_killed(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=10)
    wait_progress(ledger, 30)

    leader = cluster.leader()

    def dispatching_follower() -> int | None:
        status = cluster.status(leader)
        owners = set() if status is None else set(status.shard_owners)
        return max(owners - {leader, 0}, default=None)

    follower = until(dispatching_follower, "a follower owns shards")
    cluster.nodes[follower].kill()

    def shards_have_moved() -> bool:
        status = cluster.status(cluster.leader())
        return status is not None and follower not in status.shard_owners

    until(shards_have_moved, "its shards belong to living nodes")
    wait_progress(ledger, 30)
    cluster.nodes[follower].start()
    cluster.wait_serving()
    finish(ledger)


def test_every_job_runs_though_the_leader_is_frozen_and_it_follows_when_it_thaws(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=12)
    wait_progress(ledger, 30)

    frozen = cluster.leader()
    frozen_at_ms = now_ms()
    cluster.nodes[frozen].freeze()
    cluster.wait_serving(others(cluster, frozen))
    created = ledger.once("created-meanwhile", now_ms() + 500)
    until(lambda: now_ms() >= frozen_at_ms + 6_000, "it was frozen for 6 s", 10.0)
    # When it thaws it takes itself for the leader; these linearizable reads must not tell what it knew then.
    request = job_pb2.GetJobRequest(id=created, read=job_pb2.ReadOptions(linearizable=True))
    reads = [cluster.node(frozen).jobs.GetJob.future(request, timeout=20) for _ in range(50)]
    cluster.nodes[frozen].thaw()
    for read in reads:
        if (error := read.exception()) is None:
            assert read.result().job.id == created
        else:
            assert error.code() in RETRYABLE, error

    cluster.wait_serving()
    finish(ledger)


def test_every_job_runs_though_all_nodes_are_killed_at_once(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=10)
    wait_progress(ledger, 30)

    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.start()
    cluster.wait_serving()
    finish(ledger)


def test_nodes_that_start_one_after_the_other_agree_on_what_was_written_before_the_last(cluster: Cluster) -> None:
    ledger = Ledger(cluster)
    cluster.start_worker("worker-1")
    ledger.batch({f"before-{index}": now_ms() + 200 for index in range(200)})
    for node in cluster.nodes.values():
        node.kill()

    cluster.nodes[1].start()
    cluster.nodes[2].start()
    cluster.wait_serving([1, 2])
    ledger.batch({f"between-{index}": now_ms() + 200 for index in range(200)})
    cluster.nodes[3].start()
    cluster.wait_serving()
    finish(ledger)


def test_a_single_node_of_three_accepts_nothing_and_says_why(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.nodes[number].kill()
    job = recorded_job("never")
    job.run_at.CopyFrom(timestamp(now_ms()))

    def refusal() -> grpc.RpcError | None:
        try:
            cluster.node(3).jobs.CreateJob(job_pb2.CreateJobRequest(job=job, request_id="never"), timeout=15)
        except grpc.RpcError as error:
            return error
        pytest.fail("a node without a quorum accepted a job")

    error = until(refusal, "the create is refused")
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    for number in (1, 2):
        cluster.nodes[number].start()
    cluster.wait_serving()


def test_a_node_that_is_told_to_stop_drains_and_nothing_is_lost(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=8)
    wait_progress(ledger, 30)
    leader = cluster.leader()
    assert cluster.nodes[leader].terminate() == 0
    cluster.wait_serving(others(cluster, leader))
    wait_progress(ledger, 30)
    cluster.nodes[leader].start()
    cluster.wait_serving()
    finish(ledger)


@pytest.fixture
def forgetful_cluster(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Three nodes whose logs keep so little that a node that was away needs a snapshot."""
    cluster = Cluster(tmp_path / "cluster", log_keep_entries=32)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


@pytest.mark.parametrize("emptied", [False, True], ids=["was away", "lost its disk"])
def test_a_node_behind_the_start_of_the_log_catches_up_by_snapshot_and_counts(
    forgetful_cluster: Cluster, emptied: bool
) -> None:
    cluster = forgetful_cluster
    cluster.start_worker("worker-1")
    ledger = Ledger(cluster)
    ledger.batch({f"early-{index}": now_ms() + 500 for index in range(300)})

    leader = cluster.leader()
    away = others(cluster, leader)[0]
    status = cluster.status(away)
    assert status is not None
    known = status.applied_index
    cluster.nodes[away].kill()
    if emptied:
        cluster.empty_data_dir(away)

    def log_begins_later() -> bool:
        key = f"meanwhile-{len(ledger.entries)}"
        ledger.once(key, now_ms() + 100)
        status = cluster.status(cluster.leader())
        return status is not None and status.first_log_index > known + 1

    until(log_begins_later, "the others' logs begin after what it knows", 60.0, every_s=0.0)
    cluster.nodes[away].start()
    cluster.wait_serving()
    cluster.wait_equal_digests()

    # From now on it is needed for a majority.
    third = next(number for number in others(cluster, leader) if number != away)
    cluster.nodes[third].kill()
    cluster.wait_serving(others(cluster, third))
    ledger.batch({f"late-{index}": now_ms() + 200 for index in range(100)})
    cluster.nodes[third].start()
    cluster.wait_serving()
    finish(ledger)
