"""Keys that handlers claim: one owner at a time, results for those who come later, an end to all of it."""

from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField, KeyNotOwned, LeaseOver
from raftsched.state import dedup
from raftsched.state.results import Done, KeyClaimed
from tests.unit.state.support import START_MS, Node, replayed

DAY_MS = limits.DAY_MS


def claim(node: Node, token: int, execution: int = 1, key: str = "k", **settings: Any) -> KeyClaimed:
    values: dict[str, Any] = {"namespace": "default", "keep_ms": DAY_MS, **settings}
    return node.want(KeyClaimed, command_pb2.ClaimKey(key=key, execution=execution, token=token, **values))


def complete(node: Node, token: int, key: str = "k", result: bytes = b"") -> None:
    node.want(Done, command_pb2.CompleteKey(namespace="default", key=key, token=token, result=result))


def leased_again(node: Node, session: int) -> int:
    """The token of the next lease, after the session that held the execution has ended."""
    node.do(command_pb2.CloseSession(session=session))
    return node.lease(node.open_session()).token


def test_the_first_to_claim_owns_the_key_and_may_claim_it_again(node: Node) -> None:
    leased = node.run(node.open_session(), 2)
    first = claim(node, leased.token, 1)
    assert (first.claimed, first.token, first.expiry_ms) == (True, leased.token, START_MS + DAY_MS)
    assert claim(node, leased.token, 1).claimed
    # The other execution of the same lease is another run.
    other = claim(node, leased.token, 2)
    assert other == KeyClaimed(False, False, b"", leased.token, START_MS + DAY_MS)
    assert claim(node, leased.token, 2, key="another").claimed
    assert claim(node, leased.token, 2, namespace="elsewhere").claimed


def test_whoever_comes_after_completion_is_given_the_result(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    claim(node, leased.token)
    complete(node, leased.token, result=b"receipt 7")
    token = leased_again(node, session)
    assert claim(node, token) == KeyClaimed(False, True, b"receipt 7", leased.token, START_MS + DAY_MS)


def test_a_run_that_lost_its_lease_before_it_completed_is_taken_over_and_cannot_complete(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    claim(node, leased.token)
    token = leased_again(node, session)
    assert claim(node, token).claimed
    late = command_pb2.CompleteKey(namespace="default", key="k", token=leased.token)
    node.refused(KeyNotOwned, late)
    complete(node, token, result=b"once")
    node.refused(KeyNotOwned, late)


def test_a_run_whose_lease_is_over_claims_nothing_but_completes_what_nobody_took(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    claim(node, leased.token)
    node.do(command_pb2.CloseSession(session=session))
    keep: dict[str, Any] = {"namespace": "default", "keep_ms": DAY_MS}
    node.refused(LeaseOver, command_pb2.ClaimKey(key="k", execution=1, token=leased.token, **keep))
    node.refused(LeaseOver, command_pb2.ClaimKey(key="new", execution=99, token=leased.token, **keep))
    complete(node, leased.token)


def test_a_key_that_was_completed_stays_so_whatever_is_repeated(node: Node) -> None:
    leased = node.run(node.open_session())
    claim(node, leased.token)
    complete(node, leased.token, result=b"first")
    before = node.dump()
    complete(node, leased.token, result=b"second")
    assert claim(node, leased.token).result == b"first"
    assert node.dump() == before


def test_a_key_is_kept_for_its_time_after_its_last_change(node: Node) -> None:
    session = node.open_session(ttl_ms=80_000_000)
    leased = node.run(session)
    claim(node, leased.token, keep_ms=10_000)
    node.advance(9_999)
    complete(node, leased.token)
    node.advance(9_999)
    assert claim(node, leased.token, keep_ms=10_000).completed
    node.advance(1)
    node.refused(KeyNotOwned, command_pb2.CompleteKey(namespace="default", key="k", token=leased.token))
    assert claim(node, leased.token, keep_ms=10_000).claimed
    assert len(node.table("dedup")) == 2


def test_keys_whose_time_is_over_are_removed_in_bounded_steps(node: Node) -> None:
    leased = node.run(node.open_session())
    for number in range(30):
        claim(node, leased.token, key=f"k-{number}", keep_ms=1_000 if number < 25 else DAY_MS)
    node.advance(1_001)
    node.do(command_pb2.Tick(limit=1))
    context = node.machine._context
    assert dedup.next_expiry_ms(context) == START_MS + 1_000
    assert [dedup.forget_expired(context, 10) for _ in range(4)] == [10, 10, 5, 0]
    assert len(node.table("dedup")) == 10
    assert dedup.next_expiry_ms(context) == START_MS + DAY_MS


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"key": ""}, "key"),
        ({"key": "x" * 201}, "key"),
        ({"key": "k", "keep_ms": 999}, "keep"),
        ({"key": "k", "keep_ms": limits.YEAR_MS + 1}, "keep"),
    ],
)
def test_a_claim_that_cannot_be_is_refused(node: Node, settings: dict[str, Any], field: str) -> None:
    leased = node.run(node.open_session())
    values: dict[str, Any] = {
        "namespace": "default",
        "keep_ms": DAY_MS,
        "execution": 1,
        "token": leased.token,
        **settings,
    }
    assert node.refused(InvalidField, command_pb2.ClaimKey(**values)).field == field


def test_a_result_that_is_too_large_is_refused(node: Node) -> None:
    leased = node.run(node.open_session())
    claim(node, leased.token)
    large = command_pb2.CompleteKey(namespace="default", key="k", token=leased.token, result=bytes(64 * 1024 + 1))
    assert node.refused(InvalidField, large).field == "result"


def test_claims_are_the_same_on_every_replica(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    session = node.open_session()
    leased = node.run(session)
    claim(node, leased.token)
    token = leased_again(node, session)
    claim(node, token)
    complete(node, token, result=b"r")
    other = replayed(node, tmp_path_factory.mktemp("other"), commit_after=(3,))
    assert other.dump() == node.dump()
    assert other.machine.digest == node.machine.digest
    other.machine.close()
