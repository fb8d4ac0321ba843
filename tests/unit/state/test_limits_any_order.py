"""Limits under commands in any order: none is ever passed, counts stay true, and replicas agree whatever they remember.

Beside the machine under test runs a second one that is restarted all the time: it never has anything parked, no turns
in memory, and what is leased counted anew. Both must do the same.
"""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Leased
from raftsched.store import keys
from raftsched.v1 import limit_pb2
from tests.unit.state.support import LEASED, RUNNING, Node

QUEUES = ("a", "b")
TENANTS = ("t", "u", "v")
HANDLERS = ("g", "h")
NAMES = {
    limit_pb2.LIMIT_SCOPE_QUEUE: QUEUES,
    limit_pb2.LIMIT_SCOPE_TENANT: TENANTS,
    limit_pb2.LIMIT_SCOPE_HANDLER: HANDLERS,
}
FIELDS = {1: "queue", 2: "tenant", 3: "handler"}
SCOPED = st.sampled_from([(scope, name) for scope, names in NAMES.items() for name in names])
KEYS = st.sampled_from([("", 0), ("", 0), ("k", 1), ("k", 3), ("l", 2)])


class LimitsInAnyOrder(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.node = Node(Path(self.directory.name) / "state")
        self.cold = Node(Path(self.directory.name) / "cold", node_id=9)
        self.applied = 0
        self.blocks: list[Leased] = []
        # By scope and name: concurrency, and rate in 1,000 s, burst and what was leased since (time, count).
        self.concurrency: dict[tuple[int, str], int] = {}
        self.rates: dict[tuple[int, str], tuple[int, int, list[tuple[int, int]]]] = {}
        self.session = self.node.open_session(*QUEUES, ttl_ms=3_600_000)
        for tenant in TENANTS:
            for handler in HANDLERS:
                self.create("a", tenant, handler, 1, ("", 0), 6)

    @rule(
        queue=st.sampled_from(QUEUES),
        tenant=st.sampled_from(TENANTS),
        handler=st.sampled_from(HANDLERS),
        priority=st.integers(0, 2),
        key=KEYS,
        count=st.integers(1, 30),
    )
    def create(self, queue: str, tenant: str, handler: str, priority: int, key: tuple[str, int], count: int) -> None:
        name, limit = key
        self.node.create(
            count,
            due_ms=self.node.now_ms,
            queue=queue,
            tenant=tenant,
            handler=handler,
            priority=priority,
            concurrency_key=name,
            concurrency_limit=limit,
            payloads=[bytes(10)] * count,
        )
        self.node.fire()

    @rule(
        scoped=SCOPED, concurrency=st.sampled_from([0, 1, 3]), rate=st.sampled_from([0, 500, 4_000]), more=st.booleans()
    )
    def put(self, scoped: tuple[int, str], concurrency: int, rate: int, more: bool) -> None:
        scope, name = scoped
        is_tenant = scope == limit_pb2.LIMIT_SCOPE_TENANT
        if not (concurrency or rate or is_tenant):
            return
        burst = (7 if more else 2) if rate else 0
        command = command_pb2.PutLimit(scope=scope, name=name, concurrency=concurrency, rate=rate, burst=burst)
        if is_tenant:
            command.weight = 3 if more else 1
        self.node.do(command)
        self.concurrency[scoped] = concurrency
        if not rate:
            self.rates.pop(scoped, None)
        elif scoped not in self.rates or self.rates[scoped][:2] != (rate, burst):
            self.rates[scoped] = (rate, burst, [])

    @rule(scoped=SCOPED)
    def delete(self, scoped: tuple[int, str]) -> None:
        self.node.do(command_pb2.DeleteLimit(scope=scoped[0], name=scoped[1]))
        self.concurrency.pop(scoped, None)
        self.rates.pop(scoped, None)

    @rule(limits=st.lists(st.sampled_from([1, 2, 7, 100]), min_size=1, max_size=4))
    def leases(self, limits: list[int]) -> None:
        for limit in limits:
            self.lease(limit, 0)

    @rule(limit=st.sampled_from([1, 2, 7, 100]), bytes_limit=st.sampled_from([0, 35]))
    def lease(self, limit: int, bytes_limit: int) -> None:
        before = {scoped: self._held_under(scoped) for scoped in self.concurrency}
        block = self.node.lease(self.session, limit, *QUEUES, payload_bytes_limit=bytes_limit)
        for scoped, concurrency in self.concurrency.items():
            held = self._held_under(scoped)
            assert not concurrency or held == before[scoped] or held <= concurrency
        if len(block.executions) < limit and not bytes_limit:
            # It got all there was.
            assert self.node.lease(self.session, 100, *QUEUES).executions == ()
            assert not any(map(self.node.machine.leasable, QUEUES))
        if not block.executions:
            return
        self.blocks.append(block)
        for scoped, (_, _, leased) in self.rates.items():
            leased.append((self.node.now_ms, self._count(scoped, block)))

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), what=st.sampled_from(["ack", "ack", "fail", "release", "start"]))
    def report(self, data: st.DataObject, what: str) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        first = data.draw(st.integers(0, len(block.executions) - 1))
        part = list(block.executions[first : first + data.draw(st.integers(1, 20))])
        {"ack": self.node.ack, "fail": self.node.fail, "release": self.node.release, "start": self.node.start}[what](
            block.token, part
        )

    @rule()
    def lose_the_session(self) -> None:
        self.node.do(command_pb2.CloseSession(session=self.session))
        self.session = self.node.open_session(*QUEUES, ttl_ms=3_600_000)

    @precondition(lambda self: self.node.machine.counters.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.node.do(command_pb2.CancelJob(job=data.draw(st.integers(1, self.node.machine.counters.jobs))))

    @rule(by_ms=st.sampled_from([0, 1, 250, 3_000, 10**7]))
    def wait(self, by_ms: int) -> None:
        self.node.advance(by_ms)

    @rule()
    def restart(self) -> None:
        self.node.machine.commit()
        self.node.reopen()

    @invariant()
    def replicas_agree_whatever_they_remember(self) -> None:
        for entry in self.node.entries[self.applied :]:
            self.cold.machine.commit()
            self.cold.reopen()
            self.cold.apply(entry)
        self.applied = len(self.node.entries)
        assert self.cold.machine.digest == self.node.machine.digest
        assert self.cold.dump() == self.node.dump()

    @invariant()
    def no_limit_is_passed(self) -> None:
        """Of concurrency keys; `lease` looks at the others, which may have been lowered meanwhile."""
        self.node.check()
        by_key: dict[str, int] = {}
        for execution, profile in self._held():
            assert execution
            if profile.concurrency_key:
                by_key[profile.concurrency_key] = by_key.get(profile.concurrency_key, 0) + 1
        assert by_key.get("k", 0) <= 3
        assert by_key.get("l", 0) <= 2

    @invariant()
    def no_rate_is_passed(self) -> None:
        """In any time, no more than the burst and what the time brings."""
        for rate, burst, leased in self.rates.values():
            for first, (began_ms, _) in enumerate(leased):
                total = 0
                for at_ms, count in leased[first:]:
                    total += count
                    assert total * 1_000_000 <= burst * 1_000_000 + rate * (at_ms - began_ms)

    def _held(self) -> list[tuple[int, command_pb2.Profile]]:
        held = []
        for key, _ in self.node.table("executions"):
            row = self.node.execution(keys.unpack_id(key))
            if row.status in (LEASED, RUNNING):
                held.append((keys.unpack_id(key), self.node.machine.profile(row.profile)))
        return held

    def _held_under(self, scoped: tuple[int, str]) -> int:
        scope, name = scoped
        return sum(getattr(profile, FIELDS[scope]) == name for _, profile in self._held())

    def _count(self, scoped: tuple[int, str], block: Leased) -> int:
        scope, name = scoped
        return sum(getattr(self.node.machine.profile(number), FIELDS[scope]) == name for number in block.profiles)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.node.machine.close()
            self.cold.machine.close()
            self.directory.cleanup()


LimitsInAnyOrder.TestCase.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
test_limits_in_any_order = LimitsInAnyOrder.TestCase
