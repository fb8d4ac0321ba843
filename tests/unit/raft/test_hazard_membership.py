"""Hazard 11: changes of the membership that are made together, and nodes that disagree on it after a restart."""

import pickle
from pathlib import Path

import pytest
from pysyncobj.node import Node

from raftsched.model.errors import MembershipChangeInProgress
from raftsched.raft.membership import Membership
from tests.unit.raft.growing import GrowingCluster
from tests.unit.raft.solo import Solo
from tests.unit.raft.stock import NO_OP, Stock, StockClock, stock_clock
from tests.unit.raft.test_membership_changes import accept_all, add, membership_entry

__all__ = ["stock_clock"]

MEMBERSHIP = b"\x02"


def members(stock: Stock) -> set[str]:
    return {node.id for node in stock.otherNodes}


def test_stock_makes_a_second_change_before_the_first_is_committed(stock_clock: StockClock) -> None:
    stock = Stock(dynamicMembershipChange=True)
    stock.become_leader(stock_clock)
    for name in "bc":
        stock.receive(name, type="next_node_idx", next_node_idx=stock.last_index + 1, success=True, reset=False)
    for _ in range(3):
        stock.doTick()
    committed = stock.raftCommitIndex
    for name in "def":
        stock.addNodeToCluster(Node(name))
        stock.doTick()
    assert stock.raftCommitIndex == committed
    # Six nodes, where four may know of three only: b and c can elect one of them, a, d, e and f another.
    assert members(stock) == set("bcdef")
    stock._destroy()


def test_ours_refuses_it(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    first = add(solo, 4)
    for number in (5, 6):
        assert isinstance(add(solo, number).error, MembershipChangeInProgress)
    accept_all(solo, 2)
    assert first.is_done
    assert list(solo.replica.membership.members) == [1, 2, 3, 4]
    solo.close()


# pysyncobj leaves the file of its journal's meta data to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_stock_forgets_in_a_restart_who_the_members_are(tmp_path: Path) -> None:
    journal = str(tmp_path / "journal")
    stock = Stock(journal=journal, dynamicMembershipChange=True)
    change = MEMBERSHIP + pickle.dumps(["add", "d", Node("d")])
    stock.append(prev=1, prev_term=0, entries=[(NO_OP, 2, 1), (change, 3, 1)])
    assert members(stock) == set("bcd")
    stock._destroy()
    restarted = Stock(journal=journal, dynamicMembershipChange=True)
    restarted.doTick()
    assert restarted.last_index == 3, "it has the entry"
    assert members(restarted) == set("bc"), (
        "and would take two of three for a majority, where others take three of four"
    )
    restarted._destroy()


def test_ours_remembers_in_a_restart(tmp_path: Path) -> None:
    three = Membership.of_voters([1, 2, 3])
    four = three.with_learner(4, "n4:1").with_voter(4)
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, membership_entry(three)), (1, membership_entry(four))], commit=1)
    solo.close()
    restarted = Solo(tmp_path)
    assert restarted.replica.membership == four
    restarted.close()


def test_all_remember_it_when_the_log_has_forgotten(tmp_path: Path) -> None:
    """Restarted together after the entries were compacted away, and one filled from a snapshot."""
    cluster = GrowingCluster(
        tmp_path, nodes=3, seed=3, log_keep_entries=5, compact_max_entries=5, snapshot_chunk_bytes=1_000
    )
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    cluster.join(4)
    cluster.until_done(cluster.add(4))
    assert cluster.run_until(lambda: cluster.voters() == {1, 2, 3, 4} and cluster.members_applied_the_same(), 10)
    cluster.until_done(cluster.remove(1, at=cluster.nodes[2]))
    cluster.take_away(1)
    cluster.run_until(lambda: cluster.leader() is not None, 10)
    for number in range(200):
        cluster.nodes[2].live.propose(b"%d" % number, 1)
        cluster.run(0.02)
    assert cluster.run_until(cluster.members_applied_the_same, 10)
    for number in (2, 3, 4):
        cluster.crash(number, loses_power=True)
    cluster.wipe(3)
    for number in (2, 3, 4):
        cluster.start(number)
    assert cluster.nodes[3].live.membership.voters == {1, 2, 3}, "that of its settings"
    assert cluster.run_until(cluster.members_applied_the_same, 20)
    for node in cluster.up():
        assert node.live.first_log_index > 10
        assert node.live.membership.voters == {2, 3, 4}
    cluster.close()
