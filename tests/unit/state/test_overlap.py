"""Overlap policies: what of a job may be under way at once, whoever asks for its occurrences."""

from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.state import overlap
from raftsched.state.results import LeaseEnded, Replayed
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2, worker_pb2
from tests.unit.state.support import (
    CANCELLED,
    LEASED,
    MINUTE_MS,
    PENDING,
    RUNNING,
    START_MS,
    SUCCEEDED,
    Node,
    replayed,
)

SKIP = job_pb2.OVERLAP_POLICY_SKIP
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
REPLACE = job_pb2.OVERLAP_POLICY_REPLACE
OVERLAP = execution_pb2.SKIP_REASON_OVERLAP
TRIGGER = execution_pb2.EXECUTION_CAUSE_TRIGGER
BACKFILL = execution_pb2.EXECUTION_CAUSE_BACKFILL


def minutely_job(node: Node, **settings: object) -> int:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, **settings)
    return job


def next_minute(node: Node) -> None:
    node.fire()
    node.advance(MINUTE_MS)


def ask(node: Node, job: int, cause: int = TRIGGER, **settings: object) -> overlap.Start:
    """An occurrence beside the schedule, at the replicated clock's time."""
    context = node.machine._context
    key = keys.pack_id(job)
    row = context.writer.get_all(context.tables.jobs, [key])[0]
    return overlap.start(context, key, row, context.now_ms, cause, **settings)  # type: ignore[arg-type]


def waiting(node: Node, job: int) -> list[int]:
    """Scheduled times in the job's overlap queue, in order, in minutes after START_MS."""
    prefix = keys.extra(keys.pack_id(job), keys.EXTRA_WAITING)
    found = [rows.WAITING.unpack_from(value)[0] for key, value in node.table("extras") if key.startswith(prefix)]
    return [(time_ms - START_MS) // MINUTE_MS for time_ms in found]


def statuses(node: Node, job: int) -> list[int]:
    """Oldest first."""
    return [row.status for row in reversed(node.executions_of(job))]


def test_allow_starts_as_many_as_the_limit_and_records_the_others(node: Node) -> None:
    job = minutely_job(node, overlap=ALLOW, overlap_limit=2)
    for _ in range(4):
        next_minute(node)
    assert statuses(node, job) == [PENDING, PENDING]
    assert node.skipped(job) == [(START_MS + 2 * MINUTE_MS, START_MS + 3 * MINUTE_MS, 2, OVERLAP)]
    session = node.open_session(ttl_ms=3_600_000)
    leased = node.lease(session, limit=1)
    node.ack(leased.token, leased.executions)
    next_minute(node)
    assert statuses(node, job) == [SUCCEEDED, PENDING, PENDING]
    node.check()


def test_queue_starts_the_oldest_waiting_one_in_the_entry_that_ends_the_one_before(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE, overlap_limit=2)
    for _ in range(4):
        next_minute(node)
    assert statuses(node, job) == [PENDING]
    assert waiting(node, job) == [1, 2]
    assert node.skipped(job) == [(START_MS + 3 * MINUTE_MS, START_MS + 3 * MINUTE_MS, 1, OVERLAP)]
    session = node.open_session(ttl_ms=3_600_000)
    for left in ([2], [], []):
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
        assert waiting(node, job) == left
    assert [(row.scheduled_for_ms - START_MS) // MINUTE_MS for row in node.executions_of(job)] == [2, 1, 0]
    assert statuses(node, job) == [SUCCEEDED] * 3
    node.check()


def test_a_queue_goes_on_after_a_dead_letter_and_after_a_restart(node: Node, tmp_path: Path) -> None:
    job = minutely_job(node, overlap=QUEUE, max_attempts=1)
    for _ in range(3):
        next_minute(node)
    node.machine.commit()
    node.reopen()
    session = node.open_session(ttl_ms=3_600_000)
    leased = node.lease(session)
    node.fail(leased.token, leased.executions)
    assert waiting(node, job) == [2]
    leased = node.lease(session)
    node.start(leased.token, leased.executions)
    node.do(command_pb2.CloseSession(session=session))
    assert statuses(node, job)[-1] == PENDING, "a lost lease is no end"
    assert waiting(node, job) == [2]
    node.check()
    assert replayed(node, tmp_path / "other", commit_after=range(0, 30, 4)).machine.digest == node.machine.digest


def test_a_full_queue_of_a_hundred_by_default(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE, catch_up=job_pb2.CATCH_UP_POLICY_ALL)
    node.fire()
    node.advance(150 * MINUTE_MS)
    for _ in range(110):
        node.fire()
    assert len(waiting(node, job)) == 100
    assert node.skipped(job) == [(START_MS + 101 * MINUTE_MS, START_MS + 150 * MINUTE_MS, 50, OVERLAP)]
    assert node.job(job).scheduled_for_ms == START_MS + 151 * MINUTE_MS


def test_replace_takes_the_lease_of_a_running_one_and_tells_its_worker(node: Node) -> None:
    job = minutely_job(node, overlap=REPLACE)
    node.fire()
    session = node.open_session(ttl_ms=3_600_000)
    leased = node.lease(session)
    node.start(leased.token, leased.executions)
    node.advance(MINUTE_MS)
    node.fire()
    (first,) = leased.executions
    reason = worker_pb2.CANCEL_REASON_REPLACED
    assert node.effects.leases_ended == [LeaseEnded(session, leased.token, [first], reason)]
    assert statuses(node, job) == [CANCELLED, PENDING]
    assert node.ack(leased.token, leased.executions) == [first]
    assert node.state_of(first) == CANCELLED
    node.check()


@pytest.mark.parametrize("left_as", [PENDING, "backing off", LEASED])
def test_replace_cancels_what_waits_leases_or_backs_off(node: Node, left_as: object) -> None:
    job = minutely_job(node, overlap=REPLACE, initial_backoff_ms=10 * MINUTE_MS, max_backoff_ms=10 * MINUTE_MS)
    node.fire()
    if left_as != PENDING:
        leased = node.lease(node.open_session(ttl_ms=3_600_000))
        if left_as != LEASED:
            node.fail(leased.token, leased.executions)
    node.advance(MINUTE_MS)
    node.fire()
    assert statuses(node, job) == [CANCELLED, PENDING]
    assert node.skipped(job) == []
    node.check()


def test_skip_counts_a_trigger_that_is_not_finished(node: Node) -> None:
    job = minutely_job(node)
    started = ask(node, job)
    assert started.execution is not None
    node.fire()
    assert node.skipped(job) == [(START_MS, START_MS, 1, OVERLAP)]
    node.check()


def test_a_trigger_of_a_running_skip_job_is_recorded_as_skipped(node: Node) -> None:
    job = minutely_job(node)
    node.fire()
    node.advance(1_234)
    node.tick()
    assert ask(node, job).skipped
    assert node.skipped(job) == [(START_MS + 1_234, START_MS + 1_234, 1, OVERLAP)]
    assert statuses(node, job) == [PENDING]


def test_skip_holds_when_an_older_one_outlives_one_that_ignored_it(node: Node) -> None:
    job = minutely_job(node)
    node.fire()
    session = node.open_session(ttl_ms=3_600_000)
    first = node.lease(session)
    for _ in range(3):
        assert ask(node, job, ignore_overlap=True).execution is not None
    node.machine.commit()
    node.reopen()
    others = node.lease(session)
    node.ack(others.token, others.executions)
    assert ask(node, job).skipped
    node.advance(MINUTE_MS)
    node.fire()
    assert node.skipped(job) == [(START_MS, START_MS + MINUTE_MS, 2, OVERLAP)], "the first still runs"
    node.ack(first.token, first.executions)
    assert node.table("unfinished") == []
    node.advance(MINUTE_MS)
    node.fire()
    assert statuses(node, job)[-1] == PENDING
    node.check()


def test_a_replay_that_is_not_finished_counts_under_every_policy(node: Node) -> None:
    session = node.open_session(ttl_ms=3_600_000)
    for policy in (SKIP, QUEUE):
        (job,) = node.create(every_ms=MINUTE_MS, due_ms=node.now_ms, overlap=policy, max_attempts=1, queue=f"q{policy}")
        node.fire()
        dead = node.lease(session, 10, f"q{policy}")
        node.fail(dead.token, dead.executions)
        command = command_pb2.ReplayDeadLetters(executions=keys.pack_ids(dead.executions))
        node.want(Replayed, command)
        node.advance(MINUTE_MS)
        node.fire()
        assert len(node.executions_of(job)) == 2
        assert bool(waiting(node, job)) == (policy == QUEUE)
        assert bool(node.skipped(job)) == (policy == SKIP)
        node.check()


def test_a_backfill_obeys_the_limit_and_the_queue_of_its_job(node: Node) -> None:
    limited = minutely_job(node, overlap=ALLOW, overlap_limit=1)
    assert ask(node, limited, BACKFILL).execution is not None
    assert ask(node, limited, BACKFILL).skipped
    queueing = minutely_job(node, overlap=QUEUE)
    assert ask(node, queueing, BACKFILL).execution is not None
    assert ask(node, queueing, BACKFILL).queued


def test_an_own_payload_waits_with_its_occurrence(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE, payloads=[b"of the job"])
    ask(node, job)
    assert ask(node, job, payload=b"own").queued
    session = node.open_session()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    newest = node.job(job).last_execution
    assert dict(node.table("execution_payloads")) == {keys.pack_id(newest): b"own"}
    assert node.execution(newest).payload_bytes == 3


def test_what_waits_is_recorded_as_cancelled_with_its_job(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE)
    for _ in range(3):
        next_minute(node)
    node.do(command_pb2.CancelJob(job=job))
    assert waiting(node, job) == []
    reason = execution_pb2.SKIP_REASON_CANCELLED
    assert [(first, skip[-1]) for first, *skip in node.skipped(job)][:1] == [(START_MS + MINUTE_MS, reason)]
    assert sum(skip[2] for skip in node.skipped(job)) == 3
    assert statuses(node, job) == [CANCELLED]
    node.check()


def test_a_worker_that_dies_with_its_node_does_not_block_a_skip_job_for_ever(node: Node) -> None:
    job = minutely_job(node)
    node.fire()
    session = node.open_session(ttl_ms=30_000)
    leased = node.lease(session)
    node.start(leased.token, leased.executions)
    node.advance(MINUTE_MS)
    node.tick()
    other = node.open_session(ttl_ms=600_000)
    again = node.lease(other)
    node.ack(again.token, again.executions)
    node.fire()
    assert statuses(node, job) == [SUCCEEDED, PENDING]
    assert node.state_of(leased.executions[0]) != RUNNING


def give_profile_of(node: Node, job: int, other: int) -> None:
    """As UpdateJob does."""
    context = node.machine._context
    key = keys.pack_id(job)
    row = context.writer.get_all(context.tables.jobs, [key])[0]
    profile = context.writer.get_all(context.tables.jobs, [keys.pack_id(other)])[0][rows.JOB_PROFILE]
    row = row[:21] + profile + row[25:]
    context.writer.put(context.tables.jobs, key, row)
    overlap.policy_changed(context, key, row)


def test_a_job_that_no_longer_queues_skips_while_what_it_had_started_runs(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE)
    for _ in range(3):
        next_minute(node)
    (other,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS + 10**9, overlap=SKIP)
    give_profile_of(node, job, other)
    assert node.table("unfinished") == []
    assert node.skipped(job) == [(START_MS + MINUTE_MS, START_MS + 2 * MINUTE_MS, 2, execution_pb2.SKIP_REASON_UPDATED)]
    next_minute(node)
    assert node.skipped(job)[-1] == (START_MS + 3 * MINUTE_MS, START_MS + 3 * MINUTE_MS, 1, OVERLAP)
    leased = node.lease(node.open_session(ttl_ms=3_600_000))
    node.ack(leased.token, leased.executions)
    next_minute(node)
    assert statuses(node, job) == [SUCCEEDED, PENDING]
    node.check()


def test_what_waits_long_has_its_whole_run_timeout(node: Node) -> None:
    job = minutely_job(node, overlap=QUEUE, overlap_limit=1, run_timeout_ms=30_000)
    session = node.open_session(ttl_ms=86_400_000)
    node.fire()
    first = node.lease(session)
    node.now_ms = START_MS + MINUTE_MS
    node.fire()
    node.ack(first.token, first.executions)
    node.advance(3_600_000)
    node.tick()
    assert statuses(node, job) == [SUCCEEDED, PENDING]
    second = node.lease(session)
    node.advance(29_999)
    node.tick()
    assert statuses(node, job)[1] == LEASED
    assert node.ack(second.token, second.executions) == []


def test_a_changed_policy_counts_what_is_under_way_already(node: Node) -> None:
    job = minutely_job(node, overlap=ALLOW)
    for _ in range(2):
        next_minute(node)
    (other,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS + 10**9, overlap=QUEUE)
    give_profile_of(node, job, other)
    next_minute(node)
    assert waiting(node, job) == [2]
    session = node.open_session(ttl_ms=3_600_000)
    leased = node.lease(session)
    node.ack(leased.token, leased.executions[:1])
    assert waiting(node, job) == [2]
    node.ack(leased.token, leased.executions[1:])
    assert waiting(node, job) == []
    assert node.machine._context.tracked == set()
    assert statuses(node, job) == [SUCCEEDED, SUCCEEDED, PENDING]
