"""Nodes are added and removed at the same time, one is cut off, and the leader dies while a snapshot is on its way."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from raftsched.v1 import cluster_pb2
from tests.cluster.api import RETRYABLE, Node, error_of
from tests.cluster.harness import Cluster
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.namespaces import require_namespaces
from tests.cluster.processes import until

VOTER = cluster_pb2.NODE_ROLE_VOTER
# An operator would wait for these to pass as well.
NOT_NOW = {"MEMBERSHIP_CHANGE_IN_PROGRESS", "LEADER_NOT_READY", "QUORUM_AT_RISK"}


@pytest.fixture
def five(tmp_path: Path) -> Iterator[Cluster]:
    """Nodes whose logs keep so little that one that joins, or was away, needs a snapshot."""
    require_namespaces()
    cluster = Cluster(tmp_path / "cluster", nodes=5, namespaces=True, log_keep_entries=32)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


def change(cluster: Cluster, what: str, attempt: Callable[[Node], object]) -> None:
    """Asks any node, until the change is made."""

    def made() -> bool:
        try:
            cluster.api.call(attempt, deadline_s=1.0)
        except grpc.RpcError as error:
            if error.code() not in RETRYABLE and error_of(error)[1] not in NOT_NOW:
                raise
            return False
        return True

    until(made, what, 60.0)


def add(cluster: Cluster, number: int) -> None:
    request = cluster_pb2.AddNodeRequest(id=number, address=cluster.addresses[number])
    change(cluster, f"node {number} is added", lambda node: node.cluster.AddNode(request, timeout=5))


def remove(cluster: Cluster, number: int) -> None:
    request = cluster_pb2.RemoveNodeRequest(id=number)
    change(cluster, f"node {number} is removed", lambda node: node.cluster.RemoveNode(request, timeout=5))


def wait_voters(cluster: Cluster, wanted: set[int]) -> None:
    def agreed() -> bool:
        answers = cluster.statuses().values()
        voters = [{node.id for node in status.nodes if node.role == VOTER} for status in answers]
        return len(voters) == len(cluster.nodes) and all(one == wanted for one in voters)

    until(agreed, f"all know that {sorted(wanted)} vote", 60.0)


def test_every_job_runs_though_nodes_come_and_go_while_one_is_cut_off_and_leaders_die(five: Cluster) -> None:
    cluster = five
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=12)
    wait_progress(ledger, 30)

    first_leader = cluster.leader()
    cut_off = next(number for number in cluster.nodes if number != first_leader)
    cluster.namespaces.isolate(cut_off)
    joining = cluster.start_joining()
    with ThreadPoolExecutor(2) as pool:
        changes = [pool.submit(add, cluster, joining), pool.submit(remove, cluster, cut_off)]
        until(
            lambda: "receiving snapshot" in cluster.nodes[joining].tail(), "the new node gets a snapshot", every_s=0.0
        )
        cluster.nodes[first_leader].kill()
        cluster.nodes[first_leader].start()
        for one in changes:
            one.result()
    cluster.retire(cut_off)
    cluster.namespaces.mend_all()
    wait_voters(cluster, set(cluster.nodes))
    wait_progress(ledger, 10)

    # The leader goes at its own word, while another joins.
    leader = cluster.leader()
    second = cluster.start_joining()
    with ThreadPoolExecutor(2) as pool:
        changes = [pool.submit(remove, cluster, leader), pool.submit(add, cluster, second)]
        for one in changes:
            one.result()
    cluster.retire(leader)
    wait_voters(cluster, set(cluster.nodes))
    wait_progress(ledger, 10)
    finish(ledger)
