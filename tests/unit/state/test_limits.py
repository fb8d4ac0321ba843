"""Limits of queues, tenants, handlers and concurrency keys: never passed, never a reason for others to wait."""

from collections import Counter
from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.limits import BURST_MAX, CONCURRENCY_MAX
from raftsched.state import put_limit
from raftsched.state.results import Done, Leased, LimitStored
from raftsched.store import keys, rows
from raftsched.v1 import limit_pb2
from tests.unit.state.support import QUEUE, Node, profile

OF_QUEUE, OF_TENANT, OF_HANDLER = (
    limit_pb2.LIMIT_SCOPE_QUEUE,
    limit_pb2.LIMIT_SCOPE_TENANT,
    limit_pb2.LIMIT_SCOPE_HANDLER,
)
# What `names` has of each, in the order of OF_QUEUE, OF_TENANT, OF_HANDLER.
SETTINGS = {OF_QUEUE: {"queue": "q"}, OF_TENANT: {"tenant": "t"}, OF_HANDLER: {"handler": "work"}}
NAMES = {OF_QUEUE: "q", OF_TENANT: "t", OF_HANDLER: "work"}


def put(
    node: Node, scope: int, name: str, *, concurrency: int = 0, rate_per_s: float = 0, burst: int = 0
) -> LimitStored:
    command = command_pb2.PutLimit(
        scope=scope, name=name, concurrency=concurrency, rate=round(rate_per_s * 1000), burst=burst
    )
    return node.want(LimitStored, command)


def delete(node: Node, scope: int, name: str) -> None:
    node.want(Done, command_pb2.DeleteLimit(scope=scope, name=name))


def counts(node: Node, leased: Leased) -> Counter[str]:
    """How many of each tenant or handler, whichever says more."""
    profiles = [node.machine.profile(number) for number in leased.profiles]
    return Counter(found.tenant or found.handler for found in profiles)


# --- concurrency ---


@pytest.mark.parametrize("scope", SETTINGS)
def test_no_more_than_the_limit_are_leased_at_once(node: Node, scope: int) -> None:
    put(node, scope, NAMES[scope], concurrency=3)
    node.create(10, **SETTINGS[scope])
    node.fire()
    session, other = node.open_session(), node.open_session()
    first = node.lease(session, 2, QUEUE, "q")
    second = node.lease(other, 100, QUEUE, "q")
    assert (len(first.executions), len(second.executions)) == (2, 1)
    assert node.lease(session, 100, QUEUE, "q").executions == ()
    node.check()
    node.ack(first.token, first.executions[:1])
    assert len(node.lease(other, 100, QUEUE, "q").executions) == 1
    node.check()


@pytest.mark.parametrize("scope", SETTINGS)
def test_every_way_a_lease_ends_makes_room(node: Node, scope: int) -> None:
    put(node, scope, NAMES[scope], concurrency=1)
    jobs = node.create(20, run_timeout_ms=1_000, **SETTINGS[scope])
    node.fire()
    session = node.open_session()

    def one() -> Leased:
        """The next, alone; after it there is no room."""
        leased = node.lease(session, 100, QUEUE, "q")
        assert len(leased.executions) == 1
        assert node.lease(session, 100, QUEUE, "q").executions == ()
        node.check()
        return leased

    leased = one()
    node.ack(leased.token, leased.executions)
    leased = one()
    node.fail(leased.token, leased.executions)
    leased = one()
    node.fail(leased.token, leased.executions, permanent=True)
    leased = one()
    node.release(leased.token, leased.executions)
    leased = one()
    assert leased.jobs[0] == jobs[3]
    node.do(command_pb2.CancelJob(job=leased.jobs[0], dropped_token=leased.token))
    one()
    node.advance(1_001)
    node.tick()
    one()
    node.do(command_pb2.CloseSession(session=session))
    session = node.open_session()
    one()
    node.advance(20_000)
    node.renew(session)
    one()


def test_an_execution_must_be_within_every_limit(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, concurrency=9)
    put(node, OF_TENANT, "t", concurrency=5)
    put(node, OF_HANDLER, "work", concurrency=3)
    for handler in ("work", "play"):
        for tenant in ("t", "u"):
            node.create(20, handler=handler, tenant=tenant)
    node.fire()
    leased = node.lease(node.open_session(), 100)
    profiles = [node.machine.profile(number) for number in leased.profiles]
    assert len(profiles) == 9
    assert Counter(found.tenant for found in profiles)["t"] <= 5
    assert Counter(found.handler for found in profiles)["work"] <= 3


def test_a_limit_counts_over_all_queues_and_priorities(node: Node) -> None:
    put(node, OF_TENANT, "t", concurrency=4)
    for queue in ("a", "b"):
        for priority in (0, 5, 9):
            node.create(5, queue=queue, priority=priority, tenant="t")
    node.fire()
    assert len(node.lease(node.open_session(), 100, "a", "b").executions) == 4


def test_what_a_limit_holds_back_does_not_hold_up_others(node: Node) -> None:
    put(node, OF_TENANT, "slow", concurrency=1)
    put(node, OF_HANDLER, "heavy", concurrency=1)
    node.create(300, tenant="slow", priority=9)
    node.create(300, handler="heavy", priority=9)
    node.fire()
    session = node.open_session()
    assert sorted(counts(node, node.lease(session, 100)).values()) == [1, 1]
    node.create(5, handler="light", priority=1)
    node.fire()
    assert counts(node, node.lease(session, 100)) == {"light": 5}


def test_a_limit_put_on_what_is_ready_and_leased_already_counts_that_too(node: Node) -> None:
    node.create(20, handler="work")
    node.create(20, handler="play")
    node.fire()
    session = node.open_session()
    first = node.lease(session, 4)
    assert counts(node, first) == {"work": 2, "play": 2}
    assert put(node, OF_HANDLER, "work", concurrency=3).leased == 2
    assert counts(node, node.lease(session, 100)) == {"work": 1, "play": 18}
    assert put(node, OF_HANDLER, "work", concurrency=1).leased == 3
    node.ack(first.token, first.executions)
    assert node.lease(session, 100).executions == ()


def test_a_limit_that_is_raised_or_deleted_lets_go_what_it_held_back(node: Node) -> None:
    put(node, OF_TENANT, "t", concurrency=1)
    node.create(10, tenant="t")
    node.fire()
    session = node.open_session()
    node.lease(session, 100)
    assert node.lease(session, 100).executions == ()
    assert node.machine.leasable(QUEUE) == 0
    put(node, OF_TENANT, "t", concurrency=3)
    assert node.machine.leasable(QUEUE) == 9
    assert len(node.lease(session, 100).executions) == 2
    assert node.lease(session, 100).executions == ()
    delete(node, OF_TENANT, "t")
    assert len(node.lease(session, 100).executions) == 7
    assert node.table("limits") == []


def test_what_is_leased_is_counted_anew_after_a_restart(node: Node) -> None:
    put(node, OF_TENANT, "t", concurrency=3)
    for handler in ("a", "b"):
        node.create(5, tenant="t", handler=handler)
    node.fire()
    session = node.open_session()
    leased = node.lease(session, 100)
    node.ack(leased.token, leased.executions[:1])
    node.machine.commit()
    node.reopen()
    node.check()
    assert len(node.lease(session, 100).executions) == 1
    assert node.lease(session, 100).executions == ()


# --- concurrency keys ---


def test_jobs_with_a_concurrency_key_share_its_limit_within_a_namespace(node: Node) -> None:
    for handler in ("a", "b"):
        node.create(5, handler=handler, concurrency_key="db", concurrency_limit=2)
    node.create(5, handler="c", concurrency_key="disk", concurrency_limit=1)
    node.create(5, handler="d", namespace="other", concurrency_key="db", concurrency_limit=1)
    node.create(5, handler="e")
    node.fire()
    session = node.open_session()
    leased = node.lease(session, 100)
    found = counts(node, leased)
    assert found["a"] + found["b"] == 2
    assert (found["c"], found["d"], found["e"]) == (1, 1, 5)
    node.check()
    node.ack(leased.token, leased.executions)
    found = counts(node, node.lease(session, 100))
    assert found["a"] + found["b"] == 2
    assert (found["c"], found["d"]) == (1, 1)


def test_jobs_may_name_one_key_with_different_limits(node: Node) -> None:
    node.create(5, handler="patient", concurrency_key="db", concurrency_limit=1)
    node.create(5, handler="eager", concurrency_key="db", concurrency_limit=3)
    node.fire()
    session = node.open_session()
    assert counts(node, node.lease(session, 100)) == {"patient": 1, "eager": 2}
    assert node.lease(session, 100).executions == ()


def test_a_key_goes_with_a_limit(node: Node) -> None:
    for settings in ({"concurrency_key": "db"}, {"concurrency_limit": 2}):
        command = command_pb2.CreateJobs(profiles=[profile(**settings).SerializeToString()])
        command.jobs.add()
        assert node.refused(InvalidField, command).field == "profiles[0].concurrency_key"


# --- rates ---


def test_a_rate_lets_its_burst_through_and_then_one_at_a_time(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=4, burst=6)
    node.create(100)
    node.fire()
    session = node.open_session()
    assert len(node.lease(session, 100).executions) == 6
    assert node.lease(session, 100).executions == ()
    assert node.machine.refill_ms(QUEUE) == node.now_ms + 250
    node.advance(249)
    assert node.lease(session, 100).executions == ()
    node.advance(1)
    assert len(node.lease(session, 100).executions) == 1
    node.advance(1_000)
    assert len(node.lease(session, 100).executions) == 4
    node.advance(3_600_000)
    assert len(node.lease(session, 100).executions) == 6


def test_a_burst_of_none_is_what_a_second_brings_and_at_least_one(node: Node) -> None:
    assert put(node, OF_TENANT, "a", rate_per_s=20).row.burst == 20
    assert put(node, OF_TENANT, "b", rate_per_s=0.01).row.burst == 1


def test_a_slow_rate_is_exact_however_often_it_is_asked(node: Node) -> None:
    put(node, OF_HANDLER, "work", rate_per_s=0.3, burst=2)
    node.create(100, handler="work")
    node.fire()
    session = node.open_session()
    leased = 0
    for _ in range(1_000):
        leased += len(node.lease(session, 100).executions)
        node.advance(37)
    assert leased == 2 + 999 * 37 * 3 // 10_000


def test_the_next_of_a_rate_is_told_for_the_first_millisecond_in_which_it_may_go(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=3, burst=1)
    node.create(3)
    node.fire()
    session = node.open_session()
    node.lease(session, 100)
    assert node.lease(session, 100).executions == ()
    assert node.machine.refill_ms(QUEUE) == node.now_ms + 334
    node.advance(334)
    assert len(node.lease(session, 100).executions) == 1


def test_a_rate_counts_attempts_and_not_what_it_did_not_lease(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=4)
    jobs = node.create(4)
    node.fire()
    node.do(command_pb2.CancelJob(job=jobs[0]))
    session = node.open_session()
    leased = node.lease(session, 2)
    node.release(leased.token, leased.executions)
    assert len(node.lease(session, 100).executions) == 2


def test_a_clock_that_stands_still_brings_nothing_and_one_that_jumps_no_more_than_the_burst(node: Node) -> None:
    put(node, OF_TENANT, "t", rate_per_s=1_000, burst=5)
    node.create(100, tenant="t")
    node.fire()
    session = node.open_session()
    assert sum(len(node.lease(session, 3).executions) for _ in range(50)) == 5
    node.advance(10**9)
    assert sum(len(node.lease(session, 3).executions) for _ in range(50)) == 5
    node.now_ms -= 10**8
    assert node.lease(session, 3).executions == ()


def test_putting_a_limit_again_fills_no_bucket(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=5)
    node.create(100)
    node.fire()
    session = node.open_session()
    assert len(node.lease(session, 100).executions) == 5
    before = node.dump()
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=5)
    assert node.dump() == before
    put(node, OF_QUEUE, QUEUE, rate_per_s=2, burst=50)
    assert node.lease(session, 100).executions == ()
    node.advance(1_000)
    assert len(node.lease(session, 100).executions) == 2


def test_a_smaller_burst_keeps_no_more_than_itself(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=50)
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=2)
    node.create(10)
    node.fire()
    assert len(node.lease(node.open_session(), 100).executions) == 2


def test_what_waits_for_a_rate_and_for_room_waits_for_both(node: Node) -> None:
    put(node, OF_QUEUE, QUEUE, rate_per_s=1, burst=2, concurrency=1)
    node.create(10)
    node.fire()
    session = node.open_session()
    first = node.lease(session, 100)
    assert len(first.executions) == 1
    assert node.lease(session, 100).executions == ()
    assert node.machine.refill_ms(QUEUE) is None
    node.ack(first.token, first.executions)
    second = node.lease(session, 100)
    assert len(second.executions) == 1
    node.ack(second.token, second.executions)
    assert node.lease(session, 100).executions == ()
    assert node.machine.refill_ms(QUEUE) == node.now_ms + 1_000


# --- many ---


def pile_up(node: Node, count: int, **settings: object) -> None:
    """`count` executions that are ready, as one run of the queue without rows of their own."""
    node.create(1, **settings)
    node.fire()
    (execution,) = [keys.unpack_id(key[keys.RUN_FIRST]) for key, _ in node.table("ready")][-1:]
    lane = node.machine._context.catalog.profile(keys.pack_small_id(node.execution(execution).profile)).lane
    context = node.machine._context
    first = 1 << 40
    for number in range(0, count, count // 20):
        context.ready.add_runs([(lane, first + 2 * number, count // 20)])


def test_a_million_that_wait_for_one_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path / "million")
    put(node, OF_TENANT, "noisy", concurrency=1)
    pile_up(node, 1_000_000, tenant="noisy")
    session = node.open_session()
    assert len(node.lease(session, 1_000).executions) == 1
    assert node.machine.ready_by_queue[QUEUE] == 1_000_000
    steps = 0
    context = node.machine._context
    cursor_of = context.writer.cursor

    class Counted:
        def __init__(self, cursor: object) -> None:
            self._cursor = cursor

        def __getattr__(self, name: str) -> object:
            nonlocal steps
            steps += 1
            return getattr(self._cursor, name)

    monkeypatch.setattr(context.writer, "cursor", lambda table: Counted(cursor_of(table)))
    for _ in range(20):
        assert node.lease(session, 1_000).executions == ()
    assert steps == 0
    node.create(1, tenant="quiet")
    node.fire()
    steps = 0
    assert counts(node, node.lease(session, 1_000)) == {"quiet": 1}
    assert steps < 20
    assert node.machine.leasable(QUEUE) == 0
    node.machine.close()


def test_many_blocked_keys_are_looked_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        node.create(2, concurrency_key=f"k{number}", concurrency_limit=1)
    node.fire()
    session = node.open_session()
    assert len(node.lease(session, 1_000).executions) == 50
    limits = node.machine._context.limits
    asked: list[int] = []
    key_room = limits.key_room
    monkeypatch.setattr(limits, "key_room", lambda key, limit: asked.append(key) or key_room(key, limit))
    for _ in range(10):
        assert node.lease(session, 1_000).executions == ()
    assert len(asked) == 50


# --- commands ---


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"scope": 0, "name": "a", "concurrency": 1}, "limit.scope"),
        ({"scope": 4, "name": "a", "concurrency": 1}, "limit.scope"),
        ({"scope": OF_QUEUE, "name": "", "concurrency": 1}, "limit.name"),
        ({"scope": OF_QUEUE, "name": "ü" * 300, "concurrency": 1}, "limit.name"),
        ({"scope": OF_QUEUE, "name": "a", "concurrency": CONCURRENCY_MAX + 1}, "limit.concurrency"),
        ({"scope": OF_QUEUE, "name": "a", "rate": 10**9 + 1}, "limit.rate"),
        ({"scope": OF_QUEUE, "name": "a", "rate": 1, "burst": BURST_MAX + 1}, "limit.burst"),
        ({"scope": OF_QUEUE, "name": "a", "concurrency": 1, "burst": 1}, "limit.burst"),
        ({"scope": OF_QUEUE, "name": "a"}, "limit"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(node: Node, settings: dict[str, object], field: str) -> None:
    assert node.refused(InvalidField, command_pb2.PutLimit(**settings)).field == field  # type: ignore[arg-type]


def test_deleting_what_is_not_there_is_harmless(node: Node) -> None:
    delete(node, OF_QUEUE, "nobody")
    put(node, OF_QUEUE, "q", concurrency=1)
    delete(node, OF_QUEUE, "q")
    delete(node, OF_QUEUE, "q")
    node.refused(InvalidField, command_pb2.DeleteLimit(scope=9, name="q"))


def test_there_are_only_so_many_limits(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_limit.limits, "LIMITS_MAX", 2)
    put(node, OF_QUEUE, "a", concurrency=1)
    put(node, OF_TENANT, "a", concurrency=1)
    node.refused(InvalidField, command_pb2.PutLimit(scope=OF_HANDLER, name="a", concurrency=1))
    put(node, OF_QUEUE, "a", concurrency=2)
    assert [rows.LimitRow.unpack(value).concurrency for _, value in node.table("limits")] == [2, 1]
