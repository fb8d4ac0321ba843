"""Priorities, tenants and their weights, handlers: who gets what of a queue, and how long anybody waits at most."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.state.results import Leased, LimitStored
from raftsched.state.turns import PRIORITY_TURN
from raftsched.v1 import limit_pb2
from tests.unit.state.support import Node


def put_weight(node: Node, tenant: str, weight: int) -> None:
    command = command_pb2.PutLimit(scope=limit_pb2.LIMIT_SCOPE_TENANT, name=tenant, weight=weight)
    node.want(LimitStored, command)


def priorities(node: Node, leased: Leased) -> list[int]:
    return [node.machine.profile(number).priority for number in leased.profiles]


def tenants(node: Node, leased: Leased) -> list[str]:
    return [node.machine.profile(number).tenant for number in leased.profiles]


def handlers(node: Node, leased: Leased) -> list[str]:
    return [node.machine.profile(number).handler for number in leased.profiles]


# --- priorities ---


def test_of_ten_executions_one_goes_to_a_lower_priority(node: Node) -> None:
    node.create(100, priority=9)
    node.create(100, priority=1)
    node.fire()
    session = node.open_session()
    leased = [number for _ in range(40) for number in priorities(node, node.lease(session, 1))]
    assert leased == ([9] * 9 + [1]) * 4


def test_one_large_lease_is_dealt_out_as_many_small_ones(node: Node) -> None:
    node.create(100, priority=9)
    node.create(100, priority=1)
    node.fire()
    assert Counter(priorities(node, node.lease(node.open_session(), 40))) == {9: 36, 1: 4}


def test_lower_priorities_take_turns_with_what_is_theirs(node: Node) -> None:
    for priority in (9, 5, 2, 0):
        node.create(200, priority=priority)
    node.fire()
    session = node.open_session()
    leased = [number for _ in range(60) for number in priorities(node, node.lease(session, 1))]
    assert leased[9::10] == [5, 2, 0, 5, 2, 0]
    assert Counter(leased)[9] == 54


def test_with_one_priority_alone_nothing_is_kept_of_turns(node: Node) -> None:
    node.create(50, priority=3)
    node.fire()
    session = node.open_session()
    node.lease(session, 45)
    node.create(50, priority=7)
    node.fire()
    assert priorities(node, node.lease(session, 9)) == [7] * 9


def test_whose_turn_it_is_among_priorities_survives_a_restart(node: Node) -> None:
    node.create(50, priority=9)
    node.create(50, priority=1)
    node.fire()
    session = node.open_session()
    node.lease(session, 7)
    node.machine.commit()
    node.reopen()
    assert priorities(node, node.lease(session, 1)) == [9]
    assert priorities(node, node.lease(session, 1)) == [9]
    assert priorities(node, node.lease(session, 1)) == [1]


def test_payloads_that_cut_a_lease_short_do_not_turn_priorities_round(node: Node) -> None:
    node.create(60, priority=9, payloads=[bytes(100)] * 60)
    node.create(60, priority=1, payloads=[bytes(100)] * 60)
    node.fire()
    session = node.open_session()
    leased = [
        number for _ in range(10) for number in priorities(node, node.lease(session, 1_000, payload_bytes_limit=500))
    ]
    assert Counter(leased) == {9: 45, 1: 5}


@settings(max_examples=15, deadline=None)
@given(
    ready=st.dictionaries(st.integers(0, 9), st.integers(1, 120), min_size=2, max_size=6),
    limits=st.lists(st.integers(1, 40), min_size=5, max_size=40),
)
def test_no_priority_waits_for_more_than_the_stated_number_of_others(ready: dict[int, int], limits: list[int]) -> None:
    with TemporaryDirectory() as directory:
        node = Node(Path(directory) / "state")
        for priority, count in ready.items():
            node.create(count, priority=priority)
        node.fire(10_000)
        session = node.open_session()
        left = dict(ready)
        waited = dict.fromkeys(ready, 0)
        # The most lower priorities that there were while one waited.
        lower = dict.fromkeys(ready, 0)
        for limit in limits:
            others = len([priority for priority, count in left.items() if count]) - 1
            leased = Counter(priorities(node, node.lease(session, limit)))
            assert sum(leased.values()) == min(limit, sum(left.values()))
            for priority, count in leased.items():
                left[priority] -= count
            for priority in ready:
                if leased[priority] or not left[priority]:
                    waited[priority] = lower[priority] = 0
                else:
                    waited[priority] += sum(leased.values())
                    lower[priority] = max(lower[priority], others)
                    assert waited[priority] < PRIORITY_TURN * lower[priority]
        node.machine.close()


@settings(max_examples=15, deadline=None)
@given(limits=st.lists(st.integers(1, 25), min_size=1, max_size=12))
def test_how_a_number_is_split_into_leases_does_not_change_the_shares(limits: list[int]) -> None:
    def shares(parts: list[int]) -> tuple[Counter[int], Counter[str]]:
        with TemporaryDirectory() as directory:
            node = Node(Path(directory) / "state")
            put_weight(node, "b", 3)
            for priority in (9, 4, 0):
                for tenant in ("a", "b"):
                    node.create(400, priority=priority, tenant=tenant)
            node.fire(10_000)
            session = node.open_session()
            blocks = [node.lease(session, part) for part in parts]
            node.machine.close()
            names = [node.machine.profile(number) for block in blocks for number in block.profiles]
            return Counter(name.priority for name in names), Counter(
                name.tenant for name in names if name.priority == 9
            )

    assert shares(limits) == shares([1] * sum(limits))


# --- tenants ---


def test_a_tenants_turn_is_as_many_executions_as_its_weight(node: Node) -> None:
    for tenant in ("a", "b", "c"):
        node.create(60, tenant=tenant)
    put_weight(node, "b", 3)
    node.fire()
    session = node.open_session()
    leased = [tenant for _ in range(20) for tenant in tenants(node, node.lease(session, 1))]
    assert leased == ["a", "b", "b", "b", "c"] * 4


def test_a_turn_that_was_begun_goes_on_with_the_next_lease(node: Node) -> None:
    put_weight(node, "a", 4)
    for tenant in ("a", "b"):
        node.create(60, tenant=tenant)
    node.fire()
    session = node.open_session()
    assert tenants(node, node.lease(session, 3)) == ["a"] * 3
    node.machine.commit()
    node.reopen()
    assert tenants(node, node.lease(session, 3)) == ["a", "a", "b"]
    assert tenants(node, node.lease(session, 4)) == ["a", "a", "a", "b"]


def test_over_many_leases_tenants_get_shares_by_weight(node: Node) -> None:
    for tenant, weight in (("a", 1), ("b", 5), ("c", 2)):
        put_weight(node, tenant, weight)
        node.create(1_000, tenant=tenant)
    node.fire(10_000)
    session = node.open_session()
    leased = Counter(tenant for size in [7, 100, 13, 200] * 2 for tenant in tenants(node, node.lease(session, size)))
    assert leased == {"a": 80, "b": 400, "c": 160}


def test_who_has_nothing_ready_leaves_its_share_to_the_others(node: Node) -> None:
    put_weight(node, "rich", 100)
    node.create(2, tenant="rich")
    node.create(20, tenant="poor")
    node.fire()
    leased = node.lease(node.open_session(), 10)
    assert Counter(tenants(node, leased)) == {"rich": 2, "poor": 8}


def test_a_weight_is_a_tenants_alone_and_at_most_one_hundred(node: Node) -> None:
    for command, field in (
        (command_pb2.PutLimit(scope=limit_pb2.LIMIT_SCOPE_TENANT, name="a", weight=101), "limit.weight"),
        (command_pb2.PutLimit(scope=limit_pb2.LIMIT_SCOPE_QUEUE, name="a", weight=1), "limit.weight"),
    ):
        assert node.refused(InvalidField, command).field == field


# --- handlers of a tenant ---


def test_handlers_of_a_tenant_take_turns_and_each_is_served_oldest_first(node: Node) -> None:
    first = node.create(30, handler="many")
    node.fire()
    second = node.create(3, handler="few")
    node.fire()
    session = node.open_session()
    blocks = [node.lease(session, 1) for _ in range(8)]
    assert [name for block in blocks for name in handlers(node, block)] == ["many", "few"] * 3 + ["many", "many"]
    jobs = [job for block in blocks for job in block.jobs]
    assert jobs[0::2][:3] + jobs[6:] == [first[0], first[1], first[2], first[3], first[4]]
    assert jobs[1:6:2] == second


def test_a_thousand_handlers_cost_no_more_than_what_is_leased_of_them(node: Node) -> None:
    for number in range(300):
        node.create(1, handler=f"h{number}")
    node.fire()
    session = node.open_session()
    reads = []
    ready = node.machine._context.ready
    select = ready.select

    def counted(*arguments: object) -> object:
        selection = select(*arguments)  # type: ignore[arg-type]
        reads.append(len(selection.picks))
        return selection

    ready.select = counted  # type: ignore[method-assign, assignment]
    for _ in range(5):
        node.lease(session, 2)
    assert reads == [2] * 5


def test_the_short_way_for_queues_with_one_lane_leases_the_same(tmp_path: Path) -> None:
    quick, slow = Node(tmp_path / "quick"), Node(tmp_path / "slow")
    slow.machine._context.ready._lanes.sole = lambda _queue: None  # type: ignore[method-assign]
    for node in (quick, slow):
        session = node.open_session("a", "b")
        for count in (5, 3, 9):
            node.create(count, queue="a", tenant="t")
            node.create(count, queue="b")
            node.fire()
            for limit in (1, 4, 2):
                node.lease(session, limit, "b", "a")
    assert quick.dump() == slow.dump()
    assert quick.machine.digest == slow.machine.digest
    for node in (quick, slow):
        node.machine.close()


def test_a_queue_is_shared_once_it_had_a_second_priority_or_tenant(node: Node) -> None:
    for queue, other in (("one", {}), ("one", {"handler": "other"}), ("two", {}), ("two", {"tenant": "t"})):
        node.create(1, queue=queue, **other)
    node.create(1, queue="three", priority=1)
    node.create(1, queue="three", priority=2)
    node.fire()
    for _ in range(2):
        assert [node.machine.is_shared(queue) for queue in ("one", "two", "three", "none")] == [
            False,
            True,
            True,
            False,
        ]
        node.machine.commit()
        node.reopen()
