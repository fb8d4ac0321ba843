"""Overlap policies against a model of a few lines, over random histories of several jobs."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, replayed

SKIP = job_pb2.OVERLAP_POLICY_SKIP
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
REPLACE = job_pb2.OVERLAP_POLICY_REPLACE
OVERLAP = execution_pb2.SKIP_REASON_OVERLAP
FINISHED = (4, 6, 7)
DAY_MS = 86_400_000


@dataclass
class Model:
    """What a policy promises, in the simplest words there are: times of occurrences in lists."""

    policy: int
    limit: int
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    skipped: int = 0
    replaced: int = 0

    def comes(self, time_ms: int, *, ignores: bool = False) -> None:
        busy = bool(self.running)
        if not ignores:
            if (self.policy == SKIP and busy) or (
                self.policy == ALLOW and self.limit and len(self.running) >= self.limit
            ):
                self.skipped += 1
                return
            if self.policy == QUEUE and (busy or self.waiting):
                if len(self.waiting) < self.limit:
                    self.waiting.append(time_ms)
                else:
                    self.skipped += 1
                return
            if self.policy == REPLACE:
                self.replaced += len(self.running)
                self.running = []
        self.running.append(time_ms)

    def ends(self, time_ms: int) -> None:
        self.running.remove(time_ms)
        if self.policy == QUEUE and not self.running and self.waiting:
            self.running.append(self.waiting.pop(0))


class Run:
    def __init__(self, node: Node, seed: int) -> None:
        self.node = node
        self.chance = random.Random(seed)
        self.models: dict[int, Model] = {}
        for policy, limit in ((SKIP, 0), (ALLOW, 0), (ALLOW, 2), (QUEUE, 3), (REPLACE, 0)):
            # The first tick of all is a minute away; each job's queue is named after it.
            (job,) = node.create(
                every_ms=MINUTE_MS,
                due_ms=START_MS + MINUTE_MS,
                overlap=policy,
                overlap_limit=limit,
                max_attempts=2,
                initial_backoff_ms=10,
                max_backoff_ms=10,
            )
            self.models[job] = Model(policy, limit)
        self.session = node.open_session(ttl_ms=DAY_MS)
        self.held: list[tuple[int, int]] = []
        self.minutes = 0

    def tick(self) -> None:
        # What backs off is due before, and stays unfinished.
        self.node.advance(MINUTE_MS)
        self.minutes += 1
        self.node.now_ms = START_MS + self.minutes * MINUTE_MS
        self.node.fire()
        for model in self.models.values():
            model.comes(self.node.now_ms)

    def trigger(self) -> None:
        self.node.advance(7)
        self.node.tick()
        job = self.chance.choice(list(self.models))
        ignores = self.chance.random() < 0.3
        self.node.do(command_pb2.TriggerJob(job=job, ignore_overlap=ignores))
        last = dict(self.node.table("extras"))[keys.extra(keys.pack_id(job), keys.EXTRA_LAST_TRIGGER)]
        self.models[job].comes(keys.unpack_id(last), ignores=ignores)

    def lease(self) -> None:
        leased = self.node.lease(self.session, limit=self.chance.randrange(1, 6))
        self.held += [(leased.token, number) for number in leased.executions]

    def finish(self) -> None:
        if self.held:
            token, number = self.held.pop(self.chance.randrange(len(self.held)))
            before = self.node.execution(number)
            how = self.chance.choice(("ack", "fail", "bury", "release", "cancel"))
            if how == "ack":
                self.node.ack(token, [number])
            elif how == "release":
                self.node.release(token, [number])
            elif how == "cancel":
                self.node.do(command_pb2.CancelExecution(execution=number, dropped_token=token))
            else:
                self.node.fail(token, [number], permanent=how == "bury")
            after = self.node.execution(number)
            if before.status not in FINISHED and after.status in FINISHED:
                self.models[before.job].ends(before.scheduled_for_ms)

    def lose_session(self) -> None:
        self.node.do(command_pb2.CloseSession(session=self.session))
        self.session = self.node.open_session(ttl_ms=DAY_MS)
        self.held = []

    def replay(self) -> None:
        dead = [keys.unpack_dead_letter(key)[2] for key, _ in self.node.table("dead_letters")]
        if dead:
            number = self.chance.choice(dead)
            row = self.node.execution(number)
            self.node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids([number])))
            self.models[row.job].comes(row.scheduled_for_ms, ignores=True)

    def restart(self) -> None:
        self.node.machine.commit()
        self.node.reopen()

    def step(self) -> None:
        actions = (self.tick, self.trigger, self.lease, self.finish, self.lose_session, self.replay, self.restart)
        self.chance.choices(actions, weights=(4, 3, 5, 9, 1, 2, 1))[0]()

    def check(self) -> None:
        extras = self.node.table("extras")
        for job, model in self.models.items():
            unfinished = [row.scheduled_for_ms for row in self.node.executions_of(job) if row.status not in FINISHED]
            assert sorted(unfinished) == sorted(model.running), (job, model.policy)
            prefix = keys.extra(keys.pack_id(job), keys.EXTRA_WAITING)
            waiting = [rows.WAITING.unpack_from(value)[0] for key, value in extras if key.startswith(prefix)]
            assert waiting == model.waiting
            assert sum(count for _, _, count, reason in self.node.skipped(job) if reason == OVERLAP) == model.skipped
        self.node.check()


@pytest.mark.parametrize("seed", range(8))
def test_every_history_goes_as_the_model_says(node: Node, seed: int, tmp_path: Path) -> None:
    run = Run(node, seed)
    for _ in range(150):
        run.step()
        run.check()
    models = run.models.values()
    assert sum(model.skipped for model in models)
    assert sum(model.replaced for model in models)
    assert replayed(node, tmp_path / "other", commit_after=range(0, 999, 7)).machine.digest == node.machine.digest
