"""The nodes of a cluster at work are exchanged, one by one, by the commands that an operator types."""

from raftsched.v1 import cluster_pb2
from tests.cluster.commands import command
from tests.cluster.harness import Cluster
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.processes import until

VOTER, NOT_A_MEMBER = cluster_pb2.NODE_ROLE_VOTER, cluster_pb2.NODE_HEALTH_NOT_A_MEMBER


def voters(cluster: Cluster, number: int) -> list[int]:
    """The nodes that vote, as one node knows."""
    status = cluster.status(number)
    return [] if status is None else [node.id for node in status.nodes if node.role == VOTER]


def wait_voters(cluster: Cluster, wanted: list[int]) -> None:
    until(
        lambda: all(voters(cluster, number) == wanted for number in cluster.nodes),
        f"every node knows that {wanted} vote",
    )


def grow(cluster: Cluster) -> None:
    number = cluster.start_joining()
    others = [address for node, address in cluster.addresses.items() if node != number]
    command("cluster", "add", f"{number}={cluster.addresses[number]}", nodes=others)
    wait_voters(cluster, list(cluster.nodes))


def shrink(cluster: Cluster, number: int) -> None:
    command("cluster", "remove", number, nodes=cluster.addresses.values())
    cluster.retire(number)
    wait_voters(cluster, list(cluster.nodes))
    until(
        lambda: (status := cluster.node(number).status()) is not None and status.health == NOT_A_MEMBER,
        f"node {number} knows that it is removed",
    )
    cluster.former_nodes[number].require_alive()


def test_all_nodes_but_one_are_exchanged_under_load_and_stay_so_after_a_restart(cluster: Cluster) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=8)
    wait_progress(ledger, 20)
    grow(cluster)
    grow(cluster)
    leader = cluster.leader()
    shrink(cluster, leader)
    assert cluster.leader() != leader
    shrink(cluster, next(number for number in (1, 2, 3) if number in cluster.nodes and number != cluster.leader()))
    wait_progress(ledger, 10)
    finish(ledger)

    kept = list(cluster.nodes)
    for process in cluster.nodes.values():
        process.kill()
    for process in cluster.nodes.values():
        process.start()
    cluster.wait_serving()
    wait_voters(cluster, kept)
    status = cluster.status(cluster.leader())
    assert status is not None
    assert set(status.shard_owners) <= set(kept)
