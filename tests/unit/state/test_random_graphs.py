"""Random graphs, driven at random, against a model that knows every job at once."""

import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model.dag import Rule, Verdict, judge
from raftsched.store import keys, rows
from tests.unit.state.graph_support import Graph
from tests.unit.state.support import DEAD_LETTER, PENDING, SUCCEEDED, Node

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


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
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
