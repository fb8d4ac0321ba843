from itertools import pairwise
from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import (
    BackfillNotFound,
    EtagMismatch,
    IdempotencyConflict,
    InvalidField,
    JobNotFound,
    JobStateForbids,
)
from raftsched.state import backfill as backfill_states
from raftsched.state import backfill_steps
from raftsched.state.removal import remove_executions
from raftsched.state.results import BackfillChanged
from raftsched.store import keys
from raftsched.store.backfill_rows import BackfillRow, backfill_key
from raftsched.v1 import backfill_pb2, execution_pb2, job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, minutely

BACKFILL = execution_pb2.EXECUTION_CAUSE_BACKFILL
RUNNING = backfill_pb2.BACKFILL_STATE_RUNNING
DONE = backfill_pb2.BACKFILL_STATE_DONE
CANCELLED = backfill_pb2.BACKFILL_STATE_CANCELLED
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
SKIP = job_pb2.OVERLAP_POLICY_SKIP
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
REPLACE = job_pb2.OVERLAP_POLICY_REPLACE
SECOND_MS = 1_000


def earlier(count: int, until: int = 0) -> list[int]:
    """Ticks each minute, the last one `until` minutes before START_MS."""
    return [START_MS - MINUTE_MS * (until + number) for number in reversed(range(count))]


def create(node: Node, job: int, ticks_ms: list[int], **fields: Any) -> command_pb2.CreateBackfill:
    row = node.job(job)
    profile = command_pb2.Profile()
    profile.CopyFrom(node.machine.profile(row.profile))
    profile.priority = fields.pop("priority", 0)
    values = {
        "start_ms": ticks_ms[0] if ticks_ms else 0,
        "end_ms": ticks_ms[-1] + 1 if ticks_ms else 1,
        "interval_ms": SECOND_MS,
        "job_profile": row.profile,
        "job_schedule": row.schedule,
    }
    return command_pb2.CreateBackfill(
        job=job, ticks_ms=keys.pack_ids(ticks_ms), profile=profile.SerializeToString(), **{**values, **fields}
    )


def backfill(node: Node, number: int = 1) -> BackfillRow:
    return BackfillRow.unpack(dict(node.table("backfills"))[backfill_key(number)])


def counts(node: Node, number: int = 1) -> tuple[int, int, int, int]:
    row = backfill(node, number)
    return row.state, row.total, row.fired, row.passed_over


def run(node: Node, *, by_ms: int = SECOND_MS, number: int = 1, steps: int = 1_000) -> list[int]:
    """Ticks until the backfill is done, each execution succeeding at once; their scheduled times in order."""
    session = node.open_session(ttl_ms=3_600_000)
    ran: list[int] = []
    for _ in range(steps):
        if backfill(node, number).state != RUNNING:
            break
        node.tick()
        leased = node.lease(session)
        ran += leased.scheduled_for_ms
        if leased.executions:
            node.ack(leased.token, leased.executions)
        node.advance(by_ms)
    node.check()
    return ran


@pytest.mark.parametrize("policy", [SKIP, ALLOW, QUEUE, REPLACE])
def test_every_time_of_the_range_runs_oldest_first(node: Node, policy: int) -> None:
    (job,) = node.create(ticks_ms=minutely(5), overlap=policy, overlap_limit=5, priority=9)
    assert node.do(create(node, job, earlier(7), priority=3)) == BackfillChanged(1)
    assert counts(node) == (RUNNING, 7, 0, 0)
    assert run(node) == earlier(7)
    assert counts(node) == (DONE, 7, 7, 0)
    assert {(row.cause, node.machine.profile(row.profile).priority) for row in node.executions_of(job)} == {
        (BACKFILL, 3)
    }
    assert not [key for key, _ in node.table("deadlines") if key[0] == keys.BACKFILL]
    assert [key[:1] for key, _ in node.table("backfills")] == [b"\x01", b"\x02"]


def test_executions_fire_as_far_apart_as_is_asked(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5), overlap=ALLOW)
    node.do(create(node, job, earlier(5), interval_ms=10 * SECOND_MS))
    for _ in range(50):
        node.tick()
        node.advance(SECOND_MS)
    fired_ms = [row.fired_ms for row in reversed(node.executions_of(job))]
    assert len(fired_ms) == 5
    assert all(after - before >= 10 * SECOND_MS for before, after in pairwise(fired_ms))
    # However late: no burst.
    node.do(create(node, job, earlier(5, until=9), interval_ms=SECOND_MS))
    node.tick()
    node.advance(60 * SECOND_MS)
    before = node.machine.counters.executions
    node.tick()
    assert node.machine.counters.executions == before + 1


def test_what_has_an_execution_is_passed_over(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_steps, "SEARCH_AT_ONCE", 2)
    monkeypatch.setattr(backfill_states, "CHUNK", 3)
    session = node.open_session(ttl_ms=3_600_000)
    (job,) = node.create(ticks_ms=minutely(20), catch_up=job_pb2.CATCH_UP_POLICY_LATEST)
    for minutes in (2, 5, 6, 9):
        node.now_ms = START_MS + minutes * MINUTE_MS
        node.fire()
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
    node.do(create(node, job, minutely(9)))
    assert run(node) == [START_MS + minute * MINUTE_MS for minute in (1, 3, 4, 7, 8)]
    assert counts(node) == (DONE, 9, 5, 4)
    # Another one of the same range has nothing left to do.
    node.do(create(node, job, minutely(9)))
    assert run(node, number=2) == []
    assert counts(node, 2) == (DONE, 9, 0, 9)


def test_nothing_is_run_of_which_the_history_is_not_kept_any_more(node: Node) -> None:
    session = node.open_session(ttl_ms=3_600_000)
    (job,) = node.create(ticks_ms=minutely(20))
    for minutes in (3, 6):
        node.now_ms = START_MS + minutes * MINUTE_MS
        node.fire()
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
    context = node.machine._context
    first = keys.pack_id(1)
    remove_executions(context, [first], context.writer.get_all(context.tables.executions, [first]))
    node.do(create(node, job, minutely(6)))
    assert run(node) == []
    assert counts(node) == (DONE, 6, 0, 6)


def test_it_waits_for_what_runs_whatever_the_policy(node: Node) -> None:
    session = node.open_session(ttl_ms=3_600_000)
    for policy in (SKIP, QUEUE, REPLACE):
        (job,) = node.create(every_ms=60 * MINUTE_MS, due_ms=node.now_ms, overlap=policy, overlap_limit=3)
        node.fire()
        leased = node.lease(session)
        number = node.want(BackfillChanged, create(node, job, [node.now_ms - 60 * MINUTE_MS])).backfill
        for _ in range(5):
            node.tick()
            node.advance(SECOND_MS)
        assert counts(node, number) == (RUNNING, 1, 0, 0)
        assert len(node.executions_of(job)) == 1
        node.ack(leased.token, leased.executions)
        node.tick()
        assert counts(node, number) == (DONE, 1, 1, 0)
        waiting = node.lease(session)
        node.ack(waiting.token, waiting.executions)
        assert node.skipped(job) == []


def test_a_paused_job_is_left_alone(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    node.do(create(node, job, earlier(2)))
    node.do(command_pb2.PauseJob(job=job))
    for _ in range(5):
        node.tick()
        node.advance(SECOND_MS)
    assert node.executions_of(job) == []
    node.do(command_pb2.ResumeJob(job=job))
    assert run(node) == earlier(2)


def test_a_cancelled_one_fires_nothing_more(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5), overlap=ALLOW)
    node.do(create(node, job, earlier(9)))
    run(node, steps=3)
    fired = backfill(node).fired
    assert 0 < fired < 9
    for _ in range(2):
        assert node.do(command_pb2.CancelBackfill(backfill=1)) == BackfillChanged(1)
        assert counts(node) == (CANCELLED, 9, fired, 0)
    run(node, steps=5)
    assert len(node.executions_of(job)) == fired
    assert not [key for key, _ in node.table("deadlines") if key[0] == keys.BACKFILL]
    node.refused(BackfillNotFound, command_pb2.CancelBackfill(backfill=9))
    # The rest of the range is for the next one.
    node.do(create(node, job, earlier(9)))
    assert run(node, number=2) == earlier(9)[fired:]


def test_cancelling_or_deleting_the_job_ends_it(node: Node) -> None:
    jobs = node.create(2, ticks_ms=minutely(5), overlap=ALLOW)
    for job in jobs:
        node.do(create(node, job, earlier(9)))
    node.do(command_pb2.CancelJob(job=jobs[0]))
    node.do(command_pb2.DeleteJob(job=jobs[1]))
    node.tick()
    assert counts(node) == (CANCELLED, 9, 0, 0)
    assert not [key for key, _ in node.table("deadlines") if key[0] in (keys.BACKFILL, keys.DELETION)]
    assert [key[:1] for key, _ in node.table("backfills")] == [b"\x01", b"\x02"]


def test_the_same_key_makes_one_backfill(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    command = create(node, job, earlier(3), key="k")
    assert node.do(command) == BackfillChanged(1)
    before = node.dump()
    assert node.do(command) == BackfillChanged(1)
    assert node.dump() == before
    node.refused(IdempotencyConflict, create(node, job, earlier(3), key="k", interval_ms=2 * SECOND_MS))
    run(node)
    assert node.do(command) == BackfillChanged(1)


def test_what_cannot_be_filled_is_refused(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    (once,) = node.create(due_ms=START_MS + 1)
    good = create(node, job, earlier(3))
    node.refused(JobNotFound, command_pb2.CreateBackfill(job=9, **_fields(good)))
    node.refused(JobStateForbids, create(node, once, earlier(3)))
    node.refused(EtagMismatch, create(node, job, earlier(3), job_profile=99))
    node.refused(InvalidField, create(node, job, []))
    node.refused(InvalidField, create(node, job, [*earlier(3), START_MS - 5 * MINUTE_MS]))
    node.refused(InvalidField, create(node, job, earlier(3), end_ms=START_MS - MINUTE_MS))
    node.refused(InvalidField, create(node, job, earlier(3), interval_ms=1))
    node.refused(InvalidField, create(node, job, earlier(3), priority=10))
    node.refused(InvalidField, create(node, job, minutely(1)))
    broken = create(node, job, earlier(3))
    broken.profile = b"\xff\xff"
    node.refused(InvalidField, broken)
    node.do(good)
    node.refused(JobStateForbids, create(node, job, earlier(3)))
    node.do(command_pb2.CancelJob(job=job))
    node.refused(JobStateForbids, good)


def test_a_restart_goes_on_where_it_was(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5), overlap=ALLOW)
    node.do(create(node, job, earlier(6)))
    first = run(node, steps=4)
    node.machine.commit()
    node.reopen()
    assert first + run(node) == earlier(6)


def _fields(command: command_pb2.CreateBackfill) -> dict[str, Any]:
    return {field.name: value for field, value in command.ListFields() if field.name != "job"}
