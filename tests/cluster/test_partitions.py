"""The network between the nodes is cut while jobs run; clients and workers still reach every node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster
from tests.cluster.ledger import Ledger
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.processes import now_ms, until


@pytest.fixture
def linked_cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster", breakable_links=True)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


def other_leader(cluster: Cluster, than: int) -> int:
    return until(lambda: leader if (leader := cluster.leader()) != than else None, f"a leader other than {than}")


def test_every_job_runs_though_the_leader_is_isolated_again_and_again(linked_cluster: Cluster) -> None:
    cluster = linked_cluster
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=15)
    wait_progress(ledger, 30)
    for _ in range(3):
        isolated = cluster.leader()
        cluster.links.isolate(isolated)
        other_leader(cluster, isolated)
        wait_progress(ledger, 10)
        cluster.links.mend_all()
        cluster.wait_serving()
    finish(ledger)


def test_an_isolated_leader_says_that_it_has_no_quorum(linked_cluster: Cluster) -> None:
    cluster = linked_cluster
    isolated = cluster.leader()
    cluster.links.isolate(isolated)

    def says_so() -> bool:
        status = cluster.status(isolated)
        return status is not None and not status.has_quorum

    until(says_so, "the isolated node knows")
    other_leader(cluster, isolated)
    cluster.links.mend_all()
    cluster.wait_serving()


def test_a_follower_that_was_isolated_does_not_depose_the_leader(linked_cluster: Cluster) -> None:
    cluster = linked_cluster
    ledger = Ledger(cluster)
    cluster.start_worker("worker-1")
    leader = cluster.leader()
    before = cluster.status(leader)
    follower = next(number for number in cluster.nodes if number != leader)
    cluster.links.isolate(follower)
    isolated_at_ms = now_ms()
    ledger.batch({f"meanwhile-{index}": now_ms() + 200 for index in range(300)})
    until(lambda: now_ms() > isolated_at_ms + 6_000, "it has wanted to be elected for a while", 10.0)
    cluster.links.mend_all()
    cluster.wait_serving()
    cluster.wait_equal_digests()
    after = cluster.status(leader)
    assert before is not None
    assert after is not None
    assert (after.leader, after.term) == (leader, before.term)
    finish(ledger)


def test_two_nodes_that_only_see_the_third_do_not_elect_without_end(linked_cluster: Cluster) -> None:
    cluster = linked_cluster
    cluster.start_worker("worker-1")
    ledger = Ledger(cluster)
    leader = cluster.leader()
    other = next(number for number in cluster.nodes if number != leader)
    cluster.links.cut(leader, other)
    cut_at_ms = now_ms()
    ledger.batch({f"cut-{index}": now_ms() + 200 for index in range(300)})
    until(lambda: now_ms() > cut_at_ms + 6_000, "it has been so for a while", 10.0)
    until(ledger.one_offs_done, "all ran meanwhile")
    terms = {status.term for status in cluster.statuses().values()}
    cluster.links.mend_all()
    cluster.wait_serving()
    assert max(terms) <= min(terms) + 2
    finish(ledger)
