"""Leadership that is handed over, given up, lost, and what the others see of it."""

import logging
from pathlib import Path

import pytest

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import ImpossibleState, InvalidField
from raftsched.raft.config import RaftConfig
from tests.unit.raft.solo import Solo, entry
from tests.unit.raft.support import SimCluster

A = entry(b"a")


def test_leadership_goes_to_the_most_advanced_follower_once_it_has_everything(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.propose(b"x", 1)
    solo.tick()
    solo.accept(3, 2)
    solo.settle()
    solo.replica.propose(b"y", 1)
    solo.tick()
    assert solo.replica.transfer_leadership(None)
    solo.replica.propose(b"held back", 1)
    solo.tick()
    assert not solo.transport.take(body="timeout_now")
    assert solo.log.last_index == 3
    solo.accept(3, 3)
    solo.tick()
    assert [to for to, message in solo.transport.sent if message.HasField("timeout_now")] == [3]
    solo.receive(
        3,
        term=2,
        vote_request=peer_pb2.VoteRequest(for_term=2, last_index=3, last_term=1, transfer=True),
    )
    solo.tick()
    assert not solo.replica.is_leader
    assert solo.transport.take(to=3, body="vote_reply")[0].vote_reply.granted
    solo.append(source=3, term=2, prev=3, prev_term=1, entries=[(2, A)])
    assert list(solo.transport.take(to=3, body="forward")[0].forward.commands) == [b"held back"]
    solo.close()


def test_a_transfer_that_nobody_takes_ends_after_an_election_timeout(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    assert solo.replica.transfer_leadership(2)
    solo.replica.propose(b"held back", 1)
    for _ in range(18):
        solo.accept(2, 1)
        solo.tick(after_s=0.1)
    assert solo.replica.is_leader
    assert solo.log.last_index == 2, "it goes on"
    solo.close()


def test_only_a_leader_with_somebody_to_hand_to_can_hand_over(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    assert not solo.replica.transfer_leadership(None)
    solo.lead_with_quorum()
    assert not solo.replica.transfer_leadership(9)
    assert not solo.replica.transfer_leadership(1)
    solo.transport.disconnect(2)
    solo.transport.disconnect(3)
    assert not solo.replica.transfer_leadership(None)
    solo.close()


def test_who_is_asked_by_its_leader_stands_at_once_and_without_a_pre_vote(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)], commit=1)
    solo.receive(3, term=1, timeout_now=peer_pb2.TimeoutNow())
    assert solo.replica.term == 1, "only the leader may ask"
    solo.receive(2, term=1, timeout_now=peer_pb2.TimeoutNow())
    solo.tick()
    requests = [message.vote_request for message in solo.transport.take(body="vote_request")]
    assert [(request.for_term, request.pre_vote, request.transfer) for request in requests] == [(2, False, True)] * 2
    solo.close()


def test_who_steps_down_leaves_the_next_election_to_the_others(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    solo.replica.step_down()
    assert not solo.replica.is_leader
    assert solo.replica.leader_id is None
    solo.tick(after_s=1.5)
    assert not solo.transport.take(body="vote_request")
    solo.tick(after_s=1.6)
    assert solo.transport.take(body="vote_request")
    solo.close()


def test_two_leaders_of_one_term_stop_the_node_that_sees_them(tmp_path: Path) -> None:
    solo = Solo(tmp_path)
    solo.append(prev=0, prev_term=0, entries=[(1, A)])
    with pytest.raises(ImpossibleState, match="nodes 2 and 3 both lead term 1"):
        solo.append(source=3, prev=0, prev_term=0, entries=[(1, A)])
    solo.close()


def test_changes_of_state_are_logged_once_with_their_facts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    solo = Solo(tmp_path)
    solo.lead_with_quorum()
    for number in range(20):
        solo.replica.propose(b"%d" % number, 1)
        solo.tick(after_s=0.01)
        solo.accept(2, solo.log.last_index)
        solo.settle()
    solo.append(source=3, term=2, prev=1, prev_term=1, entries=[])
    told = [(record.message, getattr(record, "term", None)) for record in caplog.records]
    assert told == [("asking for votes", 1), ("became leader", 1), ("stepped down", 2)]
    assert caplog.records[-1].__dict__["reason"] == "heard from the leader"
    solo.close()


def test_one_of_three_takes_over_when_the_leader_dies(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, nodes=3, seed=5)
    assert cluster.run_until(lambda: cluster.leader() is not None, 5)
    cluster.run(1)
    first = cluster.leader()
    assert first is not None
    assert all(node.live.has_quorum for node in cluster.up())
    cluster.crash(first.number)
    died_s = cluster.now_s
    assert cluster.run_until(lambda: cluster.leader() is not None, 10)
    assert cluster.now_s - died_s < 3
    second = cluster.leader()
    assert second is not None
    cluster.crash(second.number)
    cluster.run(10)
    assert cluster.leader() is None, "one of three is no majority"
    assert not any(node.live.has_quorum for node in cluster.up())
    cluster.close()


def test_a_follower_that_was_cut_off_comes_back_without_an_election(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, nodes=3, seed=6)
    assert cluster.run_until(lambda: cluster.leader() is not None, 5)
    cluster.run(1)
    leader = cluster.leader()
    assert leader is not None
    term = leader.live.term
    away = next(number for number in cluster.nodes if number != leader.number)
    cluster.partition({away}, set(cluster.nodes) - {away})
    cluster.run(20)
    cluster.heal()
    assert cluster.run_until(cluster.all_applied_the_same, 5)
    assert (leader.live.term, leader.live.is_leader) == (term, True)
    cluster.close()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"peers": [2, 3]}, "peers"),
        ({"peers": [0, 1, 2]}, "peers"),
        ({"election_timeout_min_ms": 300}, "election_timeout_min_ms"),
        ({"election_timeout_max_ms": 600}, "election_timeout_max_ms"),
        ({"leader_fallback_ms": 1_000}, "leader_fallback_ms"),
        ({"entry_max_ops": 0}, "entry_max_ops"),
        ({"queue_max_bytes": 1}, "queue_max_bytes"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: dict[str, object], field: str) -> None:
    given = {"node_id": 1, "peers": [1, 2, 3], "snapshot_dir": tmp_path} | settings
    with pytest.raises(InvalidField) as caught:
        RaftConfig(**given)  # type: ignore[arg-type]
    assert caught.value.field == field
