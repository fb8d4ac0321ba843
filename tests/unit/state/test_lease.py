from raftsched.internal.v1 import command_pb2
from raftsched.state.machine import TOKEN_POSITION_BITS
from raftsched.state.results import Leased
from tests.unit.state.support import LEASED, START_MS, Node


def jobs_of(leased: Leased, node: Node) -> list[str]:
    """The tenants of a block, in its order."""
    return [node.machine.profile(profile).tenant for profile in leased.profiles]


def test_a_lease_takes_the_oldest_first_and_names_them_in_columns(node: Node) -> None:
    jobs = node.create(5, due_ms=START_MS - 7)
    session = node.open_session()
    node.fire()
    leased = node.lease(session, 3)
    assert list(leased.executions) == [1, 2, 3]
    assert list(leased.jobs) == jobs[:3]
    assert list(leased.scheduled_for_ms) == [START_MS - 7] * 3
    assert list(leased.attempts) == [1, 1, 1]
    assert {node.machine.profile(number).handler for number in leased.profiles} == {"h"}
    assert leased.payloads == ()
    row = node.execution(1)
    assert (row.status, row.session, row.token, row.leased_ms) == (LEASED, session, leased.token, START_MS)
    assert node.machine.ready_by_queue == {"default": 2}


def test_every_token_is_larger_than_all_before(node: Node) -> None:
    session = node.open_session()
    tokens = [node.run(session).token for _ in range(3)]
    assert tokens == sorted(set(tokens))
    assert node.run(session).token >> TOKEN_POSITION_BITS == node.machine.applied_index


def test_an_empty_queue_an_unknown_one_and_an_unknown_session_lease_nothing(node: Node) -> None:
    session = node.open_session()
    assert node.lease(session).executions == ()
    node.create()
    node.fire()
    assert node.lease(session, 5, "nobody", "x" * 600).executions == ()
    assert node.lease(session + 1).executions == ()
    assert node.lease(session, 0).executions == ()
    assert node.machine.ready_by_queue == {"default": 1}


def test_leases_of_one_entry_are_blocks_under_tokens_of_their_own(node: Node) -> None:
    session, other = node.open_session(), node.open_session()
    node.create(6)
    node.fire()
    mine = command_pb2.Lease(session=session, queues=["default"], limit=2)
    another = command_pb2.Lease(session=other, queues=["default"], limit=2)
    leased = [result for result in node.batch(mine, mine, another) if isinstance(result, Leased)]
    assert [list(block.executions) for block in leased] == [[1, 2], [3, 4], [5, 6]]
    assert len({block.token for block in leased}) == 3
    assert node.ack(leased[0].token, [1, 2, 3]) == [3]
    assert node.ack(leased[1].token, [3, 4]) == []


def test_only_the_queues_asked_for_are_leased_in_that_order(node: Node) -> None:
    for queue in ("a", "b", "c"):
        node.create(2, queue=queue)
    node.fire()
    leased = node.lease(node.open_session("a", "b", "c"), 3, "b", "a", "b")
    assert [node.machine.profile(number).queue for number in leased.profiles] == ["b", "b", "a"]
    assert node.machine.ready_by_queue == {"a": 1, "b": 0, "c": 2}


def test_higher_priorities_go_first_however_late_they_came(node: Node) -> None:
    node.create(2, priority=0)
    node.create(2, priority=9)
    node.create(2, priority=5)
    node.fire()
    leased = node.lease(node.open_session(), 5)
    assert [node.machine.profile(number).priority for number in leased.profiles] == [9, 9, 5, 5, 0]


def test_tenants_of_one_priority_share_a_lease_evenly(node: Node) -> None:
    node.create(50, tenant="noisy")
    node.create(3, tenant="quiet")
    node.create(3, tenant="calm")
    node.fire()
    leased = node.lease(node.open_session(), 12)
    assert sorted(jobs_of(leased, node)) == ["calm"] * 3 + ["noisy"] * 6 + ["quiet"] * 3


def test_tenants_take_turns_from_lease_to_lease(node: Node) -> None:
    for tenant in ("a", "b", "c"):
        node.create(6, tenant=tenant)
    node.fire()
    session = node.open_session()
    served = [tenant for _ in range(6) for tenant in jobs_of(node.lease(session, 1), node)]
    assert served == ["a", "b", "c", "a", "b", "c"]


def test_a_turn_passes_on_when_its_tenant_has_nothing_left(node: Node) -> None:
    for tenant, count in (("a", 3), ("b", 1), ("c", 3)):
        node.create(count, tenant=tenant)
    node.fire()
    session = node.open_session()
    assert jobs_of(node.lease(session, 2), node) == ["a", "b"]
    assert jobs_of(node.lease(session, 100), node) == ["c", "c", "c", "a", "a"]


def test_what_does_not_divide_evenly_goes_on_with_the_next_tenant(node: Node) -> None:
    for tenant in ("a", "b", "c"):
        node.create(10, tenant=tenant)
    node.fire()
    session = node.open_session()
    assert jobs_of(node.lease(session, 4), node) == ["a", "a", "b", "c"]
    assert sorted(jobs_of(node.lease(session, 1), node)) == ["b"]


def test_turns_survive_a_restart(node: Node) -> None:
    for tenant in ("a", "b"):
        node.create(3, tenant=tenant)
    node.fire()
    session = node.open_session()
    assert jobs_of(node.lease(session, 1), node) == ["a"]
    node.machine.commit()
    node.reopen()
    assert jobs_of(node.lease(session, 1), node) == ["b"]


def test_a_lease_spans_many_runs(node: Node) -> None:
    session = node.open_session()
    for _ in range(7):
        node.create(3)
        node.fire()
    assert list(node.lease(session, 10).executions) == list(range(1, 11))
    assert list(node.lease(session, 100).executions) == list(range(11, 22))


def test_payloads_come_in_the_order_of_the_block(node: Node) -> None:
    node.create(3, payloads=[b"one", b"", b"three"])
    node.fire()
    assert list(node.lease(node.open_session()).payloads) == [b"one", b"", b"three"]


def test_a_block_ends_before_its_payloads_pass_the_limit(node: Node) -> None:
    node.create(5, payloads=[bytes(40)] * 5)
    node.fire()
    session = node.open_session()
    assert list(node.lease(session, payload_bytes_limit=100).executions) == [1, 2]
    assert list(node.lease(session, payload_bytes_limit=80).executions) == [3, 4]
    assert node.machine.ready_by_queue == {"default": 1}


def test_a_payload_above_the_limit_is_leased_alone(node: Node) -> None:
    node.create(2, payloads=[bytes(400)] * 2)
    node.fire()
    assert list(node.lease(node.open_session(), payload_bytes_limit=100).executions) == [1]


def test_tenants_share_a_block_that_payloads_cut_short(node: Node) -> None:
    for tenant in ("a", "b"):
        node.create(4, tenant=tenant, payloads=[bytes(40)] * 4)
    node.fire()
    session = node.open_session()
    assert jobs_of(node.lease(session, payload_bytes_limit=100), node) == ["a", "b"]
    assert jobs_of(node.lease(session, 1, payload_bytes_limit=100), node) == ["a"]
    assert jobs_of(node.lease(session, payload_bytes_limit=100), node) == ["b", "a"]


def test_another_nodes_lease_says_nothing_here_but_changes_the_same(node: Node) -> None:
    session = node.open_session()
    node.create(2)
    node.fire()
    lease = command_pb2.Lease(session=session, queues=["default"], limit=5)
    command = command_pb2.Command(origin=7, request=1, lease=lease)
    entry = command_pb2.Entry(now_ms=node.now_ms, commands=[command.SerializeToString()])
    assert node.apply(entry.SerializeToString()).results == []
    assert [node.state_of(execution) for execution in (1, 2)] == [LEASED, LEASED]
