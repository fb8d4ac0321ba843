"""Every kind of command in any order, on jobs with every policy: test_any_order.py with all there is.

The model is small: which jobs must still be there, how each recurring job ticks, what was confirmed. What must hold
after each command is in support.Node.check and below.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from raftsched.internal.v1 import command_pb2
from raftsched.model.transitions import TERMINAL
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2, limit_pb2
from tests.unit.state.support import CANCELLED, DEAD_LETTER, SUCCEEDED, create_command, profile
from tests.unit.state.test_any_order import QUEUES, AnyOrder

_OF_SCHEDULE = 0
RULES = [value for value in job_pb2.DependencyRule.values() if value]
POLICIES = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(0, 2),
        "tenant": st.sampled_from(["", "t", "u"]),
        "handler": st.sampled_from(["h", "slow"]),
        "max_attempts": st.integers(1, 3),
        "jitter_ms": st.sampled_from([0, 0, 5_000]),
        "overlap": st.sampled_from([value for value in job_pb2.OverlapPolicy.values() if value]),
        "overlap_limit": st.sampled_from([1, 2, 3]),
        "catch_up": st.sampled_from([value for value in job_pb2.CatchUpPolicy.values() if value]),
        "catch_up_window_ms": st.sampled_from([0, 0, 100_000]),
        "catch_up_limit": st.sampled_from([0, 2]),
        "catch_up_interval_ms": st.sampled_from([0, 1_500]),
        "start_deadline_ms": st.sampled_from([0, 0, 20_000]),
        "pause_after_failures": st.sampled_from([0, 0, 1]),
        "concurrency_key": st.sampled_from(["", "", "k"]),
    }
)


def as_profile(options: dict[str, object]) -> dict[str, object]:
    """The options as a job of them may be: limits only where they mean something."""
    chosen = dict(options)
    if chosen["overlap"] not in (job_pb2.OVERLAP_POLICY_ALLOW, job_pb2.OVERLAP_POLICY_QUEUE):
        chosen["overlap_limit"] = 0
    if chosen["catch_up"] != job_pb2.CATCH_UP_POLICY_ALL:
        chosen["catch_up_limit"] = chosen["catch_up_interval_ms"] = 0
    chosen["concurrency_limit"] = 1 if chosen["concurrency_key"] else 0
    return chosen


class AnyCommand(AnyOrder):
    """Jobs whose schedule was changed, or that are gone, are left out of the count of their ticks."""

    # --- callers ---

    @rule(options=POLICIES, every_ms=st.sampled_from([1_000, 7_000]))
    def create_series(self, options: dict[str, object], every_ms: int) -> None:
        first_ms = self.node.now_ms + 500
        for job in self.node.create(2, every_ms=every_ms, due_ms=first_ms, **as_profile(options)):
            self.series[job] = (first_ms, every_ms)

    @rule(options=POLICIES, max_runs=st.integers(1, 3))
    def create_short_series(self, options: dict[str, object], max_runs: int) -> None:
        first_ms = self.node.now_ms + 500
        self.node.create(2, every_ms=1_000, due_ms=first_ms, max_runs=max_runs, **as_profile(options))

    @precondition(lambda self: self.node.machine.counters.jobs)
    @rule(data=st.data(), how=st.sampled_from(RULES))
    def create_dependent(self, data: st.DataObject, how: int) -> None:
        jobs = st.integers(1, self.node.machine.counters.jobs)
        upstreams = data.draw(st.lists(jobs, min_size=1, max_size=4, unique=True))
        command = create_command(2, due_ms=0, dependency_rule=how)
        for job in command.jobs:
            job.upstreams = keys.pack_ids(sorted(upstreams))
        self.node.do(command)

    @rule(how=st.sampled_from(RULES), roots=st.integers(1, 2), recurring=st.booleans())
    def create_workflow(self, how: int, roots: int, recurring: bool) -> None:
        """Roots, two that depend on all of them, and one that depends on those."""
        due_ms = self.node.now_ms + 500
        command = create_command(roots, due_ms=due_ms, every_ms=7_000 if recurring else 0)
        command.profiles.append(profile(dependency_rule=how).SerializeToString(deterministic=True))
        for upstreams in (range(roots), range(roots), (roots, roots + 1)):
            command.jobs.add(profile=1, upstream_positions=upstreams)
        command.nodes.extend(f"n{number}" for number in range(len(command.jobs)))
        self.node.do(command)

    @precondition(lambda self: self.node.machine.counters.jobs)
    @rule(data=st.data(), what=st.sampled_from(["pause", "resume", "trigger", "reschedule", "delete", "delete"]))
    def change(self, data: st.DataObject, what: str) -> None:
        job = data.draw(st.integers(1, self.node.machine.counters.jobs))
        if what == "pause":
            self.node.do(command_pb2.PauseJob(job=job, note="n"))
        elif what == "resume":
            self.node.do(command_pb2.ResumeJob(job=job))
        elif what == "trigger":
            trigger = command_pb2.TriggerJob(
                job=job, ignore_overlap=data.draw(st.booleans()), refuse_overlap=data.draw(st.booleans())
            )
            if data.draw(st.booleans()):
                trigger.payload = b"another"
            self.node.do(trigger)
        elif what == "reschedule":
            self.node.do(command_pb2.RescheduleJob(job=job, due_ms=self.node.now_ms + 700))
        else:
            self.series.pop(job, None)
            self.node.do(command_pb2.DeleteJob(job=job))

    @precondition(lambda self: self.series)
    @rule(data=st.data(), count=st.integers(1, 5))
    def backfill(self, data: st.DataObject, count: int) -> None:
        job = data.draw(st.sampled_from(sorted(self.series)))
        row = self.node.job(job)
        first_ms, every_ms = self.series[job]
        ticks = list(range(first_ms, self.node.now_ms, every_ms))[-count:]
        if not ticks:
            return
        settings_of_job = self.node.machine.profile(row.profile)
        result = self.node.do(
            command_pb2.CreateBackfill(
                job=job,
                start_ms=ticks[0],
                end_ms=ticks[-1] + 1,
                interval_ms=1_000,
                profile=settings_of_job.SerializeToString(deterministic=True),
                job_profile=row.profile,
                job_schedule=row.schedule,
                ticks_ms=keys.pack_ids(ticks),
            )
        )
        assert result is not None

    @precondition(lambda self: self.node.machine.counters.executions)
    @rule(data=st.data(), begun=st.sampled_from([None, True, False]))
    def cancel_execution(self, data: st.DataObject, begun: bool | None) -> None:
        execution = data.draw(st.integers(1, self.node.machine.counters.executions))
        found = dict(self.node.table("executions")).get(keys.pack_id(execution))
        command = command_pb2.CancelExecution(execution=execution)
        if found is not None and begun is not None:
            token = rows.ExecutionRow.unpack(found).token
            command.begun_token, command.dropped_token = (token, 0) if begun else (0, token)
        self.node.do(command)

    @rule(scope=st.sampled_from([value for value in limit_pb2.LimitScope.values() if value]), data=st.data())
    def limit(self, scope: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["a", "t", "h", "slow"]))
        if data.draw(st.booleans()):
            self.node.do(command_pb2.DeleteLimit(scope=scope, name=name))
        else:
            concurrency, rate = data.draw(st.sampled_from([(0, 2_000), (1, 0), (3, 5_000)]))
            weight = 2 if scope == limit_pb2.LIMIT_SCOPE_TENANT else 1
            put = command_pb2.PutLimit(scope=scope, name=name, concurrency=concurrency, rate=rate, weight=weight)
            self.node.do(put)

    # --- workers ---

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), snooze=st.booleans(), after_ms=st.sampled_from([0, 900, 30_000]))
    def fail_with_a_wish(self, data: st.DataObject, snooze: bool, after_ms: int) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        command = command_pb2.Fail()
        for execution in block.executions[:5]:
            command.failures.add(
                token=block.token,
                execution=execution,
                started_ms=5,
                ended_ms=6,
                error="boom",
                error_classes=["app.Boom", "Exception"],
                retry_after_ms=max(after_ms, 1) if snooze else after_ms,
                snooze=snooze,
            )
        self.node.do(command)

    @rule(key=st.sampled_from(["x", "y"]), data=st.data())
    def claim(self, key: str, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from([block.token for block in self.blocks] or [1]))
        claim = command_pb2.ClaimKey(namespace="default", key=key, execution=1, token=token, keep_ms=5_000)
        complete = command_pb2.CompleteKey(namespace="default", key=key, token=token, result=b"r")
        self.node.batch(*[claim, complete][: data.draw(st.integers(1, 2))])

    # --- pumps ---

    @rule(limit=st.sampled_from([3, 1_000]), executions=st.sampled_from([0, 1]))
    def reclaim(self, limit: int, executions: int) -> None:
        """A job that is finished may go with its last execution."""
        reclaim = command_pb2.Reclaim(limit=limit, age_ms=900_000, executions=executions, request_id_age_ms=100_000_000)
        dead = self.node.table("dead_letters")
        self.node.do(reclaim)
        assert self.node.table("dead_letters") == dead, "nobody has replayed or deleted them"
        kept = {keys.unpack_id(key) for key, _ in self.node.table("executions")}
        gone = [execution for execution in self.states if execution not in kept]
        assert all(self.states[execution] in map(int, TERMINAL) for execution in gone), "what is under way stays"
        self.states = {execution: state for execution, state in self.states.items() if execution in kept}
        self.succeeded &= kept
        if gone:
            # Their ticks can be counted no more.
            self.series.clear()

    # --- what must hold ---

    @invariant()
    def every_tick_fired_once_or_is_recorded_as_skipped(self) -> None:
        """Or waits in the overlap queue. Triggers and backfills come beside the ticks."""
        accounted: dict[int, list[int]] = {job: [] for job in self.series}
        for _, value in self.node.table("executions"):
            row = rows.ExecutionRow.unpack(value)
            if row.job in accounted and row.cause == _OF_SCHEDULE:
                accounted[row.job].append(row.scheduled_for_ms)
        for key, value in self.node.table("extras"):
            if key[8] == keys.EXTRA_WAITING and (job := keys.unpack_id(key[:8])) in accounted:
                scheduled_for_ms, cause, _ = rows.WAITING.unpack_from(value)
                if not cause:
                    accounted[job].append(scheduled_for_ms)
        for job, (first_ms, every_ms) in self.series.items():
            row_of_job = self.node.job(job)
            if row_of_job.state == rows.JOB_CANCELLED:
                continue
            passed = accounted[job]
            for skip_first_ms, skip_last_ms, count, _ in self.node.skipped(job):
                if (skip_first_ms - first_ms) % every_ms == 0 or count > 1:
                    skipped = range(skip_first_ms, skip_last_ms + 1, every_ms)
                    assert len(skipped) == count
                    passed += skipped
            # A starved job, paused or not, names the last tick that is over, and not the one it waits for.
            is_over = row_of_job.state == rows.JOB_STARVED or (
                row_of_job.state == rows.JOB_PAUSED and row_of_job.scheduled_for_ms in passed
            )
            until_ms = row_of_job.scheduled_for_ms + is_over
            assert sorted(passed) == list(range(first_ms, until_ms, every_ms)), job

    @invariant()
    def nothing_runs_beside_another_where_it_must_not(self) -> None:
        unfinished: dict[int, int] = {}
        for _, value in self.node.table("executions"):
            row = rows.ExecutionRow.unpack(value)
            if row.status not in map(int, TERMINAL) and row.cause == _OF_SCHEDULE:
                unfinished[row.job] = unfinished.get(row.job, 0) + 1
        for job, count in unfinished.items():
            settings_of_job = self.node.machine.profile(self.node.job(job).profile)
            if settings_of_job.overlap == job_pb2.OVERLAP_POLICY_ALLOW:
                assert count <= (settings_of_job.overlap_limit or count)
            else:
                assert count == 1

    def finish(self) -> None:
        """With a worker that does its work, and nobody who holds it up, everything comes to an end."""
        node = self.node
        for scope in limit_pb2.LimitScope.values():
            for name in ("a", "t", "h", "slow"):
                node.do(command_pb2.DeleteLimit(scope=scope, name=name))
        jobs = [keys.unpack_id(key) for key, _ in node.table("jobs")]
        for job in jobs:
            node.do(command_pb2.ResumeJob(job=job))
        node.advance(7_200_000)
        node.tick(10_000)
        session = node.open_session(*QUEUES, ttl_ms=80_000_000)
        for cycle in range(120):
            node.advance(120_000)
            node.tick(10_000)
            node.fire(10_000)
            leased = node.lease(session, 10_000, *QUEUES)
            if leased.executions:
                node.ack(leased.token, leased.executions)
            if cycle == 20:
                for job in jobs:
                    node.do(command_pb2.CancelJob(job=job))
        node.check()
        states = {value[rows.EXECUTION_STATUS] for _, value in node.table("executions")}
        assert states <= {int(SUCCEEDED), int(DEAD_LETTER), int(CANCELLED)}
        assert node.machine.next_due_ms(range(keys.SHARDS)) is None
        assert not node.table("unfinished")
        assert not node.table("leases")


AnyCommand.TestCase.settings = settings(max_examples=15, stateful_step_count=50, deadline=None)
test_any_command_in_any_order = AnyCommand.TestCase
