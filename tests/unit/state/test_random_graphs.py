"""Random graphs, driven at random, against a model that knows every job at once."""

import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model.dag import Rule, Verdict, judge
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.graph_support import Graph
from tests.unit.state.support import DEAD_LETTER, MINUTE_MS, PENDING, SUCCEEDED, Node

S, F, K = "succeeded", "failed", "skipped"


class Model:
    """What must follow from how the executions have ended, as a fixed point over the whole graph."""

    def __init__(self, upstreams: list[list[int]], rules: dict[int, Rule]) -> None:
        self.upstreams = upstreams
        self.rules = rules
        self.fired = {number for number, of_node in enumerate(upstreams) if not of_node}
        self.cancelled: set[int] = set()
        # Of those that fired: how the newest execution that has ended ended.
        self.ended: dict[int, str] = {}

    def verdict(self, number: int) -> Verdict:
        outcomes = [self.outcome(upstream) for upstream in self.upstreams[number]]
        return judge(
            self.rules[number],
            len(outcomes),
            succeeded=outcomes.count(S),
            failed=outcomes.count(F),
            skipped=outcomes.count(K),
        )

    def outcome(self, number: int) -> str | None:
        if number in self.cancelled:
            return K
        if number in self.fired:
            return self.ended.get(number)
        return F if self.memo[number] is Verdict.NEVER else None

    def settle(self) -> None:
        """Upstreams come first in the numbering, so one pass in order is enough."""
        self.memo: dict[int, Verdict] = {}
        for number in range(len(self.upstreams)):
            if number not in self.fired and number not in self.cancelled:
                self.memo[number] = self.verdict(number)
                if self.memo[number] is Verdict.MET:
                    self.fired.add(number)

    def state(self, number: int) -> int:
        if number in self.cancelled:
            return rows.JOB_CANCELLED
        if number in self.fired:
            return rows.JOB_FIRED
        return rows.JOB_UPSTREAM_FAILED if self.memo[number] is Verdict.NEVER else rows.JOB_BLOCKED


def random_graph(rng: random.Random, count: int, shape: str) -> tuple[list[list[int]], dict[int, Rule]]:
    """Upstreams before downstreams."""
    upstreams: list[list[int]] = []
    for number in range(count):
        if shape == "chain":
            upstreams.append([number - 1] if number else [])
        elif shape == "diamonds":
            # A top, two sides, and a bottom that is the next top.
            step = number % 3
            upstreams.append([[number - 1, number - 2] if number else [], [number - 1], [number - 2]][step])
        else:
            few = rng.randrange(4) if rng.random() < 0.8 else rng.randrange(40)
            upstreams.append(rng.sample(range(number), min(number, few)))
    rules = {number: rng.choice(list(Rule)) for number, of_node in enumerate(upstreams) if of_node}
    return upstreams, rules


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), count=st.integers(2, 60), shape=st.sampled_from(["chain", "diamonds", "any"]))
def test_a_graph_does_what_its_rules_say(seed: int, count: int, shape: str) -> None:
    rng = random.Random(seed)
    upstreams, rules = random_graph(rng, count, shape)
    model = Model(upstreams, rules)
    model.settle()
    with tempfile.TemporaryDirectory() as directory:
        world = Graph(Node(Path(directory)))
        jobs = world.create(upstreams, rules=rules)
        world.node.fire()
        for _ in range(3 * count):
            _act(rng, world, model, jobs)
            world.drain()
            model.settle()
            assert [world.state(job) for job in jobs] == [model.state(number) for number in range(count)]
        for number, job in enumerate(jobs):
            runs = world.node.executions_of(job)
            replays = sum(bool(row.replayed_as) for row in runs)
            assert len(runs) == replays + (number in model.fired)
        world.node.check()
        world.node.store.close()


def _act(rng: random.Random, world: Graph, model: Model, jobs: list[int]) -> None:
    """Lets something happen, now and then twice."""
    node = world.node
    action = rng.random()
    if action < 0.75:
        held = world.take()
        if not held:
            return
        job = rng.choice(sorted(held))
        execution = held[job][0]
        token = world.held.pop(execution)
        fails = rng.random() < 0.3
        for _ in range(rng.choice((1, 1, 2))):
            node.fail(token, [execution], permanent=True) if fails else node.ack(token, [execution])
        model.ended[jobs.index(job)] = F if fails else S
    elif action < 0.9:
        dead = [
            number
            for number, job in enumerate(jobs)
            if number in model.fired
            and number not in model.cancelled
            and node.job(job).last_execution
            and node.state_of(node.job(job).last_execution) == DEAD_LETTER
        ]
        if dead:
            execution = node.job(jobs[rng.choice(dead)]).last_execution
            command = command_pb2.ReplayDeadLetters(executions=keys.pack_ids([execution]))
            node.batch(command, command)
    else:
        number = rng.randrange(len(jobs))
        last = node.job(jobs[number]).last_execution
        waits = number not in model.fired or (last and node.state_of(last) == PENDING)
        if waits and number not in model.cancelled:
            command_twice = command_pb2.CancelJob(job=jobs[number])
            node.batch(command_twice, command_twice)
            model.cancelled.add(number)
            model.ended.pop(number, None)


def test_10_000_jobs_each_run_once_after_those_they_wait_for(tmp_path: Path) -> None:
    rng = random.Random(7)
    upstreams = [
        rng.sample(range(max(0, number - 300), number), min(number, rng.choice((1, 2, 2, 5, 8)))) if number % 50 else []
        for number in range(10_000)
    ]
    # And in the middle of it 500 to one, and one to 500.
    upstreams[5_000] = list(range(4_500, 5_000))
    for number in range(5_001, 5_501):
        upstreams[number] = [5_000]
    world = Graph(Node(tmp_path))
    jobs = world.create(upstreams)
    ended: set[int] = set()
    rounds = 0
    while True:
        world.drain()
        held = world.take()
        if not held:
            break
        for job in held:
            assert all(jobs[upstream] in ended for upstream in upstreams[job - jobs[0]])
        by_token: dict[int, list[int]] = {}
        for execution, token in world.held.items():
            by_token.setdefault(token, []).append(execution)
        for token, executions in by_token.items():
            assert not world.node.ack(token, executions)
        world.held.clear()
        ended.update(held)
        rounds += 1
    assert ended == set(jobs)
    assert rounds > 20
    assert world.node.machine.counters.executions == 10_000
    assert {row.status for row in (world.node.execution(number) for number in range(1, 10_001))} == {SUCCEEDED}


class TickModel:
    """Graphs under recurring jobs: what must follow for each job and tick, from the ends in the order they came."""

    def __init__(self, upstreams: list[list[int]], rules: dict[int, Rule], recurring: list[bool]) -> None:
        self.upstreams, self.rules, self.recurring = upstreams, rules, recurring
        # By job and tick (0: of a job that runs once), how it ended; of these, what has started.
        self.ended: dict[tuple[int, int], str] = {}
        # An instance begins with the first of its recurring upstreams to end, whatever becomes of that.
        self.begun: set[tuple[int, int]] = set()
        self.started: set[tuple[int, int]] = set()
        self.unmet: set[tuple[int, int]] = set()

    def settle(self, ticks: list[int]) -> None:
        """Upstreams come first, so one pass over the jobs is enough."""
        for number, of_node in enumerate(self.upstreams):
            if not of_node:
                continue
            for tick in ticks if self.recurring[number] else [0]:
                if (number, tick) not in self.started:
                    self._decide(number, tick)

    def _decide(self, number: int, tick: int) -> None:
        outcomes = [self.ended.get((up, tick if self.recurring[up] else 0)) for up in self.upstreams[number]]
        if not tick or any(
            self.recurring[up] and outcome for up, outcome in zip(self.upstreams[number], outcomes, strict=True)
        ):
            self.begun.add((number, tick))
        begun = (number, tick) in self.begun
        verdict = judge(
            self.rules[number],
            len(outcomes),
            succeeded=outcomes.count(S),
            failed=outcomes.count(F),
            skipped=outcomes.count(K),
        )
        self.unmet.discard((number, tick))
        if self.ended.get((number, tick)) == F:
            del self.ended[(number, tick)]
        if begun and verdict is Verdict.MET:
            self.started.add((number, tick))
        elif begun and verdict is Verdict.NEVER:
            self.unmet.add((number, tick))
            self.ended[(number, tick)] = F


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), count=st.integers(4, 14))
def test_a_graph_under_recurring_jobs_does_what_its_rules_say_for_each_tick(seed: int, count: int) -> None:
    rng = random.Random(seed)
    roots = rng.randrange(1, 4)
    upstreams = [[] if at < roots else rng.sample(range(at), min(at, rng.randrange(1, 4))) for at in range(count)]
    rules = {number: rng.choice(list(Rule)) for number, of_node in enumerate(upstreams) if of_node}
    # Roots are recurring, or run once; so is what depends on one that is.
    recurring = [rng.random() < 0.7 for _ in range(roots)] + [False] * (count - roots)
    for number in range(roots, count):
        recurring[number] = any(recurring[upstream] for upstream in upstreams[number])
    model = TickModel(upstreams, rules, recurring)
    with tempfile.TemporaryDirectory() as directory:
        world = Graph(Node(Path(directory)))
        node = world.node
        jobs: list[int] = []
        for number in range(roots):
            every_ms = MINUTE_MS if recurring[number] else 0
            jobs += node.create(
                every_ms=every_ms, due_ms=node.now_ms + MINUTE_MS, max_attempts=1, overlap=job_pb2.OVERLAP_POLICY_ALLOW
            )
        outside = {at: [jobs[up] for up in upstreams[roots + at] if up < roots] for at in range(count - roots)}
        inside = [[up - roots for up in of_node if up >= roots] for of_node in upstreams[roots:]]
        jobs += world.create(inside, outside=outside, rules={at - roots: rule for at, rule in rules.items()})
        ticks: list[int] = []
        for _ in range(6):
            node.advance(MINUTE_MS)
            ticks.append(node.now_ms)
            for _ in range(rng.randrange(2 * count)):
                _end_one(rng, world, model, jobs)
                world.drain()
                model.settle(ticks)
                _compare(world, model, jobs, roots)
        # What has come to its end is not kept.
        while world.take():
            _end_one(rng, world, model, jobs)
            world.drain()
            model.settle(ticks)
        _compare(world, model, jobs, roots)
        node.check()
        node.store.close()


def _end_one(rng: random.Random, world: Graph, model: TickModel, jobs: list[int]) -> None:
    """Ends an execution, or replays one that failed and whose failure starts nothing, now and then twice."""
    node = world.node
    held = world.take()
    if not held:
        return
    job = rng.choice(sorted(held))
    execution = rng.choice(held[job])
    row = node.execution(execution)
    number = jobs.index(job)
    token = world.held.pop(execution)
    fails = rng.random() < 0.3
    for _ in range(rng.choice((1, 1, 2))):
        node.fail(token, [execution], permanent=True) if fails else node.ack(token, [execution])
    tick = row.scheduled_for_ms if model.recurring[number] else 0
    model.ended[(number, tick)] = F if fails else S
    if fails and rng.random() < 0.5:
        command = command_pb2.ReplayDeadLetters(executions=keys.pack_ids([execution]))
        node.batch(command, command)


def _compare(world: Graph, model: TickModel, jobs: list[int], roots: int) -> None:
    for number in range(roots, len(jobs)):
        runs = world.node.executions_of(jobs[number])
        first_runs = [row for row in runs if row.cause == execution_pb2.EXECUTION_CAUSE_DEPENDENCY]
        times = [row.scheduled_for_ms if model.recurring[number] else 0 for row in first_runs]
        assert sorted(times) == sorted(tick for at, tick in model.started if at == number)
        if model.recurring[number]:
            skipped = [first_ms for first_ms, *_ in world.node.skipped(jobs[number])]
            assert sorted(skipped) == sorted(tick for at, tick in model.unmet if at == number)
        else:
            failed = world.state(jobs[number]) == rows.JOB_UPSTREAM_FAILED
            assert failed == ((number, 0) in model.unmet)
