"""Removal among all else, in any order: indexes stay true, and nothing goes that has not ended or is a dead letter."""

import random
from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.limits import HOUR_MS
from raftsched.state.lifecycle import IS_TERMINAL
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import DEAD_LETTER, MINUTE_MS, Node, minutely, replayed

STEPS = 250
TICKS = minutely(2_000)


def must_stay(node: Node) -> set[bytes]:
    """What may not be removed as it is now."""
    found = set()
    for key, value in node.table("executions"):
        row = rows.ExecutionRow.unpack(value)
        if row.status not in IS_TERMINAL or (row.status == DEAD_LETTER and not row.replayed_as):
            found.add(key)
    return found


def step(node: Node, rng: random.Random, session: int) -> None:
    """One command of anyone."""
    jobs = [keys.unpack_id(key) for key, _ in node.table("jobs")]
    kind = rng.randrange(8)
    if kind == 0:
        settings = {
            "max_attempts": rng.choice((1, 3)),
            "max_elapsed_ms": rng.choice((0, 0, 90_000)),
            "retention_age_ms": rng.choice((0, 0, 5 * MINUTE_MS)),
            "retention_executions": rng.choice((0, 0, 1, 3)),
            "overlap": rng.choice((job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_ALLOW)),
        }
        name = f"n-{node.machine.counters.jobs}"
        if rng.random() < 0.5:
            node.create(due_ms=node.now_ms, names=[name], payloads=[b"p"], key=name, **settings)
        else:
            node.create(ticks_ms=TICKS, names=[name], **settings)
    elif kind in (1, 2):
        node.fire()
        leased = node.lease(session, rng.randint(1, 20))
        for execution in leased.executions:
            failure = command_pb2.Fail()
            ended = {"token": leased.token, "execution": execution, "ended_ms": node.now_ms}
            choice = rng.randrange(6)
            if choice == 0:
                failure.failures.add(**ended, retry_after_ms=rng.randint(1, 120_000))
            elif choice == 1:
                failure.failures.add(**ended, snooze=True, retry_after_ms=rng.randint(1, 120_000))
            elif choice == 2:
                failure.failures.add(**ended, permanent=True)
            else:
                node.ack(leased.token, [execution], node.now_ms, node.now_ms)
                continue
            node.do(failure)
    elif kind == 3 and jobs:
        node.do(command_pb2.CancelJob(job=rng.choice(jobs)))
    elif kind == 4:
        letters = [key[12:] for key, _ in node.table("dead_letters")]
        if letters:
            node.do(command_pb2.ReplayDeadLetters(executions=rng.choice(letters)))
    elif kind == 5:
        node.advance(rng.choice((1, 1_000, MINUTE_MS, 7 * MINUTE_MS)))
        node.renew(session)
    else:
        before = must_stay(node)
        defaults = {
            "age_ms": rng.choice((0, 4 * MINUTE_MS, HOUR_MS)),
            "executions": rng.choice((0, 0, 2)),
            "request_id_age_ms": rng.choice((0, 10 * MINUTE_MS)),
        }
        node.reclaim(rng.choice((1, 3, 10, 200)), **defaults)
        assert before <= {key for key, _ in node.table("executions")}


@pytest.mark.parametrize("seed", range(6))
def test_removal_leaves_every_index_true(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    node = Node(tmp_path / "state")
    session = node.open_session(ttl_ms=80_000_000)
    for number in range(STEPS):
        step(node, rng, session)
        if number % 10 == 0:
            node.check()
            if rng.random() < 0.2:
                node.machine.commit()
                node.reopen()
    node.check()
    removed = node.machine.counters.executions - len(node.table("executions"))
    assert removed > 10
    other = replayed(node, tmp_path / "other", commit_after=(5, 50, 120))
    assert other.dump() == node.dump()
    assert other.machine.digest == node.machine.digest
    other.machine.close()
    node.machine.close()
