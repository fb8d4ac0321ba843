"""Commands in any order: whatever callers, workers and pumps do, nothing is lost and every index stays true."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raftsched.internal.v1 import command_pb2
from raftsched.model.transitions import EXECUTION_TRANSITIONS, ExecutionState
from raftsched.state.results import CancelNeedsWorker, JobCancelled, Leased, Rejected
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from raftsched.v1.execution_pb2 import SKIP_REASON_START_DEADLINE
from tests.unit.state.support import (
    CANCELLED,
    DEAD_LETTER,
    FAILED,
    LEASED,
    MINUTE_MS,
    PENDING,
    RUNNING,
    START_MS,
    SUCCEEDED,
    Node,
    replayed,
)

QUEUES = ("a", "b")
FIRST_TICK_MS = START_MS + MINUTE_MS
CRON_TICKS = 3


def reachable() -> dict[int, set[int]]:
    """What one command may make of each state: a path through the transition table."""
    found: dict[int, set[int]] = {int(state): {int(state)} for state in ExecutionState}
    for _ in ExecutionState:
        for (state, _), after in EXECUTION_TRANSITIONS.items():
            for targets in found.values():
                if state in targets:
                    targets.add(int(after))
    return found


REACHABLE = reachable()
JOB_SETTINGS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(0, 1),
        "tenant": st.sampled_from(["", "t", "u"]),
        "max_attempts": st.integers(1, 3),
        "run_timeout_ms": st.sampled_from([0, 20_000]),
        "jitter_ms": st.sampled_from([0, 0, 5_000]),
        "overlap": st.sampled_from(list(job_pb2.OverlapPolicy.values())[1:]),
        "overlap_limit": st.sampled_from([0, 2]),
        "catch_up": st.sampled_from(list(job_pb2.CatchUpPolicy.values())[1:]),
        "catch_up_window_ms": st.sampled_from([0, 0, 20_000]),
        "catch_up_limit": st.sampled_from([0, 0, 3]),
        "catch_up_interval_ms": st.sampled_from([0, 0, 4_000]),
        "max_runs": st.sampled_from([0, 0, 0, 4]),
        "start_deadline_ms": st.sampled_from([0, 0, 10_000]),
    }
)


class AnyOrder(RuleBasedStateMachine):
    """Drives one machine; the model is what was accepted, and which tick each recurring job began with."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.node = Node(Path(self.directory.name) / "state")
        self.uncommitted_from = 0
        self.states: dict[int, int] = {}
        self.succeeded: set[int] = set()
        self.blocks: list[Leased] = []
        # Recurring job -> (first tick, milliseconds between ticks).
        self.series: dict[int, tuple[int, int]] = {}
        self.last_cron_tick_ms = 0
        self.open()

    # --- callers ---

    @rule(options=JOB_SETTINGS, count=st.integers(1, 70), in_ms=st.sampled_from([-5_000, 0, 30_000]))
    def create_one_offs(self, options: dict[str, object], count: int, in_ms: int) -> None:
        self.node.create(count, due_ms=self.node.now_ms + in_ms, payloads=[bytes(30)] * count, **options)

    @rule(options=JOB_SETTINGS, every_ms=st.sampled_from([1_000, 7_000]))
    def create_interval(self, options: dict[str, object], every_ms: int) -> None:
        first_ms = self.node.now_ms + 500
        for job in self.node.create(2, every_ms=every_ms, due_ms=first_ms, **options):
            self.series[job] = (first_ms, every_ms)

    @rule(options=JOB_SETTINGS)
    def create_cron(self, options: dict[str, object]) -> None:
        next_ms = self.node.now_ms - self.node.now_ms % MINUTE_MS + MINUTE_MS
        ticks_ms = [next_ms + MINUTE_MS * number for number in range(CRON_TICKS)]
        for job in self.node.create(2, ticks_ms=ticks_ms, **options):
            row = self.node.job(job)
            waits = row.state == rows.JOB_WAITING
            self.series[job] = (row.scheduled_for_ms if waits else next_ms, MINUTE_MS)

    @precondition(lambda self: self.node.machine.counters.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.integers(1, self.node.machine.counters.jobs))
        result = self.node.do(command_pb2.CancelJob(job=job))
        if isinstance(result, CancelNeedsWorker) and data.draw(st.booleans()):
            result = self.node.do(command_pb2.CancelJob(job=job, dropped_token=result.token))
        assert isinstance(result, JobCancelled | CancelNeedsWorker | Rejected)

    @rule()
    def replay(self) -> None:
        dead = [keys.unpack_dead_letter(key)[2] for key, _ in self.node.table("dead_letters")][:3]
        self.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids(dead)))

    # --- workers ---

    @rule(ttl_ms=st.sampled_from([5_000, 60_000]))
    def open(self, ttl_ms: int = 60_000) -> None:
        if len(self.node.machine.sessions) < 3:
            self.node.open_session(*QUEUES, ttl_ms=ttl_ms)

    @precondition(lambda self: self.node.machine.sessions)
    @rule(data=st.data(), limit=st.integers(1, 40), bytes_limit=st.sampled_from([0, 100]))
    def lease(self, data: st.DataObject, limit: int, bytes_limit: int) -> None:
        session = data.draw(st.sampled_from(sorted(self.node.machine.sessions)))
        leased = self.node.lease(session, limit, *QUEUES, payload_bytes_limit=bytes_limit)
        if leased.executions:
            self.blocks = [*self.blocks[-5:], leased]

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), what=st.sampled_from(["ack", "ack", "ack", "start", "fail", "give up", "release"]))
    def report(self, data: st.DataObject, what: str) -> None:
        """A worker speaks of a part of a block, which may be no longer its own."""
        block = data.draw(st.sampled_from(self.blocks))
        first = data.draw(st.integers(0, len(block.executions) - 1))
        part = block.executions[first : first + data.draw(st.integers(1, 40))]
        if what == "ack":
            stale = self.node.ack(block.token, part)
            self.succeeded |= set(part) - set(stale)
        elif what == "start":
            self.node.start(block.token, part)
        elif what == "release":
            self.node.release(block.token, part)
        else:
            self.node.fail(block.token, part, permanent=what == "give up")

    @precondition(lambda self: self.node.machine.sessions)
    @rule(data=st.data(), holds=st.booleans())
    def renew(self, data: st.DataObject, holds: bool) -> None:
        session = data.draw(st.sampled_from(sorted(self.node.machine.sessions)))
        tokens = [block.token for block in self.blocks if holds and block.session == session]
        self.node.renew(session, *tokens)

    @precondition(lambda self: self.node.machine.sessions)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.node.machine.sessions)))
        self.node.do(command_pb2.CloseSession(session=session))

    # --- pumps and time ---

    @rule(limit=st.sampled_from([5, 200]), first=st.sampled_from([0, 1]))
    def fire(self, limit: int, first: int) -> None:
        self.node.fire(limit, range(first, keys.SHARDS))

    @rule(limit=st.sampled_from([1, 200]))
    def tick(self, limit: int) -> None:
        self.node.tick(limit)

    @rule()
    def extend(self) -> None:
        for need in self.node.machine.schedules_to_extend(self.node.now_ms):
            ticks_ms = [need.last_tick_ms + MINUTE_MS * number for number in range(1, CRON_TICKS + 1)]
            self.node.do(
                command_pb2.ExtendTicks(schedule=need.schedule_id, after_ms=need.last_tick_ms, ticks_ms=ticks_ms)
            )

    @rule(by_ms=st.sampled_from([1, 400, 3_000, 61_000, 900_000]))
    def wait(self, by_ms: int) -> None:
        self.node.advance(by_ms)

    @rule()
    def lead(self) -> None:
        self.node.do(command_pb2.LeaderStarted(session_grace_ms=5_000))

    @rule()
    def commit(self) -> None:
        self.node.machine.commit()
        self.uncommitted_from = len(self.node.entries)

    @rule()
    def crash(self) -> None:
        digest, tail = self.node.machine.digest, self.node.entries[self.uncommitted_from :]
        self.node.reopen()
        del self.node.entries[self.uncommitted_from :]
        for entry in tail:
            self.node.apply(entry)
        assert self.node.machine.digest == digest

    # --- what must hold ---

    @invariant()
    def indexes_are_true(self) -> None:
        self.node.check()

    @invariant()
    def states_change_by_the_table_and_an_accepted_completion_is_final(self) -> None:
        found = {keys.unpack_id(key): value[rows.EXECUTION_STATUS] for key, value in self.node.table("executions")}
        for execution, state in found.items():
            assert state in REACHABLE[self.states.get(execution, int(PENDING))]
        self.states = found
        assert all(found[execution] == SUCCEEDED for execution in self.succeeded)

    @invariant()
    def every_tick_fired_once_or_is_recorded_as_skipped(self) -> None:
        replays = {
            row.replayed_as
            for _, value in self.node.table("executions")
            if (row := rows.ExecutionRow.unpack(value)).replayed_as
        }
        fired: dict[int, list[int]] = {}
        for key, value in self.node.table("executions"):
            row = rows.ExecutionRow.unpack(value)
            assert row.scheduled_for_ms <= row.fired_ms
            if keys.unpack_id(key) not in replays and not self._is_too_late(row):
                fired.setdefault(row.job, []).append(row.scheduled_for_ms)
        for key, value in self.node.table("extras"):
            if key[8] == keys.EXTRA_WAITING:
                fired.setdefault(keys.unpack_id(key[:8]), []).append(rows.WAITING.unpack_from(value)[0])
        for job, (first_ms, every_ms) in self.series.items():
            row_of_job = self.node.job(job)
            if row_of_job.state == rows.JOB_CANCELLED:
                continue
            passed = list(fired.get(job, ()))
            for skip_first_ms, skip_last_ms, count, _ in self.node.skipped(job):
                skipped = range(skip_first_ms, skip_last_ms + 1, every_ms)
                assert len(skipped) == count
                passed += skipped
            waits = row_of_job.state == rows.JOB_WAITING
            until_ms = row_of_job.scheduled_for_ms if waits else row_of_job.scheduled_for_ms + 1
            assert sorted(passed) == list(range(first_ms, until_ms, every_ms)), job

    def _is_too_late(self, row: rows.ExecutionRow) -> bool:
        """Whether what has become of it is recorded: it never started."""
        if (row.status, row.attempt) != (CANCELLED, 0):
            return False
        return any(
            first_ms <= row.scheduled_for_ms <= last_ms
            for first_ms, last_ms, _, reason in self.node.skipped(row.job)
            if reason == SKIP_REASON_START_DEADLINE
        )

    def teardown(self) -> None:
        if not hasattr(self, "node"):
            return
        self.finish()
        other = replayed(self.node, Path(self.directory.name) / "other", range(0, len(self.node.entries), 4))
        assert other.machine.digest == self.node.machine.digest
        assert other.dump() == self.node.dump()
        other.machine.close()
        self.node.machine.close()
        self.directory.cleanup()

    def finish(self) -> None:
        """With a worker that does its work, everything comes to an end."""
        node = self.node
        for job in self.series:
            node.do(command_pb2.CancelJob(job=job))
        node.advance(7_200_000)
        node.tick(10_000)
        session = node.open_session(*QUEUES, ttl_ms=80_000_000)
        for _ in range(40):
            node.advance(120_000)
            node.fire(10_000)
            leased = node.lease(session, 10_000, *QUEUES)
            if leased.executions:
                node.ack(leased.token, leased.executions)
                # Those that ran before; of an overlap queue the next one has started.
                for job in self.series:
                    node.do(command_pb2.CancelJob(job=job))
            elif node.machine.next_due_ms(range(keys.SHARDS)) is None:
                break
        node.check()
        ended = {int(SUCCEEDED), int(DEAD_LETTER), int(CANCELLED)}
        under_way = {int(PENDING), int(LEASED), int(RUNNING), int(FAILED)}
        states = [value[rows.EXECUTION_STATUS] for key, value in node.table("executions")]
        alive = [state for state in states if state in under_way]
        assert not alive, alive
        assert set(states) <= ended


AnyOrder.TestCase.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
test_any_order_of_commands = AnyOrder.TestCase
