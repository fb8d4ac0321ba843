"""What is removed once it is past its age or number, what stays, and that nothing stumbles over what is gone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, IllegalTransition, InvalidField
from raftsched.model.limits import DAY_MS, REPLAY_MAX_EXECUTIONS, YEAR_MS
from raftsched.model.retention import RetentionSettings
from raftsched.state.queries_executions import list_dead_letters, list_executions
from raftsched.state.results import JobCancelled, JobsCreated, Replayed
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import (
    CANCELLED,
    DEAD_LETTER,
    MINUTE_MS,
    START_MS,
    SUCCEEDED,
    Node,
    create_command,
    minutely,
    replayed,
)

LONG_MS = 80_000_000
AGE: dict[str, int] = {"age_ms": 30 * DAY_MS}
TICKS = minutely(10_000)


@pytest.fixture
def session(node: Node) -> int:
    return node.open_session(ttl_ms=LONG_MS)


def succeed_all(node: Node, session: int) -> list[int]:
    """Fires and runs what is due."""
    node.fire(limit=10_000)
    leased = node.lease(session, 10_000)
    if leased.executions:
        node.ack(leased.token, leased.executions, node.now_ms, node.now_ms)
    return list(leased.executions)


def run_minutes(node: Node, session: int, count: int) -> None:
    for _ in range(count):
        node.advance(MINUTE_MS)
        succeed_all(node, session)


def later(node: Node, by_ms: int) -> None:
    """Time passes; sessions that were not renewed end."""
    node.advance(by_ms)
    node.tick()


def kept(node: Node) -> list[int]:
    return [keys.unpack_id(key) for key, _ in node.table("executions")]


def kept_of(node: Node, job: int) -> list[int]:
    found = node.table("executions")
    return [keys.unpack_id(key) for key, value in found if rows.ExecutionRow.unpack(value).job == job]


# --- one-offs ---


def test_a_one_off_is_removed_with_all_that_is_its_own_once_its_execution_is_past_its_age(
    node: Node, session: int
) -> None:
    create = create_command(
        1, due_ms=START_MS, names=["mine"], payloads=[b"payload"], key="k", labels={"a": "b"}, max_attempts=5
    )
    node.want(JobsCreated, create)
    node.fire()
    leased = node.lease(session)
    node.fail(leased.token, [1])
    node.advance(1_000)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, [1], node.now_ms, node.now_ms)
    later(node, 30 * DAY_MS - 1)
    assert node.reclaim_all(**AGE) == 0
    node.advance(1)
    # The execution, and the session that ran it some time later.
    node.reclaim_all(**AGE)
    for table in ("executions", "jobs", "payloads", "names", "attempts", "extras"):
        assert node.table(table) == [], table
    assert node.create(names=["mine"]) == [2]


def test_what_is_unfinished_or_waits_stays_however_old(node: Node, session: int) -> None:
    node.create(4, due_ms=START_MS, max_attempts=9, max_backoff_ms=30 * DAY_MS, initial_backoff_ms=30 * DAY_MS)
    node.create(due_ms=START_MS + YEAR_MS)
    node.fire()
    leased = node.lease(session, 3)
    node.fail(leased.token, [1])
    node.ack(leased.token, [2], node.now_ms, node.now_ms)
    later(node, YEAR_MS // 2)
    node.reclaim_all(**AGE)
    # 1 backs off, 2 is over, 3 was lost, 4 was never leased, job 5 has not fired.
    assert kept(node) == [1, 3, 4]
    assert [keys.unpack_id(key) for key, _ in node.table("jobs")] == [1, 3, 4, 5]


def test_a_job_that_took_the_name_since_keeps_it(node: Node, session: int) -> None:
    node.create(due_ms=START_MS, names=["n"])
    succeed_all(node, session)
    node.advance(29 * DAY_MS)
    (second,) = node.create(due_ms=node.now_ms + YEAR_MS, names=["n"])
    node.advance(2 * DAY_MS)
    node.reclaim_all(**AGE)
    ((_, holder),) = node.table("names")
    assert keys.unpack_id(holder) == second


def test_a_job_goes_with_the_last_of_its_executions_only(node: Node, session: int) -> None:
    node.create(due_ms=START_MS)
    node.fire()
    node.fail(node.lease(session).token, [1], permanent=True)
    node.advance(31 * DAY_MS)
    node.want(Replayed, command_pb2.ReplayDeadLetters(executions=keys.pack_ids([1])))
    succeed_all(node, node.open_session())
    node.reclaim_all(**AGE)
    assert kept(node) == [2]
    assert node.job(1).last_execution == 2
    node.advance(31 * DAY_MS)
    node.reclaim_all(**AGE)
    assert (kept(node), node.table("jobs")) == ([], [])


def test_a_dead_letter_stays_with_its_job_until_it_is_replayed(node: Node, session: int) -> None:
    node.create(2, due_ms=START_MS, names=["a", "b"])
    node.fire()
    node.fail(node.lease(session).token, [1, 2], permanent=True)
    later(node, 10 * YEAR_MS)
    node.reclaim_all(**AGE)
    assert kept(node) == [1, 2]
    node.want(Replayed, command_pb2.ReplayDeadLetters(executions=keys.pack_ids([1])))
    succeed_all(node, node.open_session(ttl_ms=LONG_MS))
    later(node, YEAR_MS)
    node.reclaim_all(**AGE)
    assert kept(node) == [2]
    assert node.machine.counters.dead_letters == 1
    node.refused(ExecutionNotFound, command_pb2.ReplayDeadLetters(executions=keys.pack_ids([1])))


def test_a_cancelled_one_off_goes_as_one_that_ran(node: Node) -> None:
    node.create(due_ms=START_MS)
    node.fire()
    node.want(JobCancelled, command_pb2.CancelJob(job=1))
    node.advance(31 * DAY_MS)
    node.reclaim_all(**AGE)
    assert (kept(node), node.table("jobs")) == ([], [])
    assert node.machine.counters.jobs_cancelled == 0


def test_a_job_that_is_over_stays_as_long_as_a_dead_letter_of_it(node: Node, session: int) -> None:
    node.create(ticks_ms=TICKS, names=["n"])
    node.advance(MINUTE_MS)
    node.fire()
    node.fail(node.lease(session).token, [1], permanent=True)
    run_minutes(node, session, 1)
    node.want(JobCancelled, command_pb2.CancelJob(job=1))
    node.advance(31 * DAY_MS)
    node.reclaim_all(**AGE)
    # Else the dead letter would be without its job: what came after it waits for it.
    assert kept(node) == [1, 2]
    assert node.job(1).name == "n"


# --- recurring jobs ---


def test_a_recurring_job_keeps_what_is_young_and_goes_on(node: Node, session: int) -> None:
    (job,) = node.create(ticks_ms=TICKS)
    run_minutes(node, session, 50)
    node.reclaim_all(age_ms=20 * MINUTE_MS)
    assert kept(node) == list(range(31, 51))
    # Its history ends there, for readers too.
    node.machine.commit()
    with node.store.read() as view:
        page = list_executions(view, job, newest=50, limit=100)
    assert ([record.id for record in page.items], page.next) == (list(range(50, 30, -1)), None)
    run_minutes(node, session, 2)
    assert kept(node)[-1] == 52


@pytest.mark.parametrize("overlap", [job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_ALLOW])
def test_a_job_without_any_execution_left_fires_and_is_cancelled_as_before(
    node: Node, session: int, overlap: int
) -> None:
    node.create(ticks_ms=TICKS, overlap=overlap)
    run_minutes(node, session, 3)
    node.advance(MINUTE_MS - 1)
    node.reclaim_all(age_ms=1)
    assert kept(node) == []
    node.advance(1)
    assert succeed_all(node, session) == [4]
    node.reclaim_all(age_ms=1)
    node.advance(1)
    node.reclaim_all(age_ms=1)
    assert kept(node) == []
    node.want(JobCancelled, command_pb2.CancelJob(job=1))


def test_a_jobs_own_age_and_number_count_before_the_defaults(node: Node, session: int) -> None:
    short, long, few, default = (
        node.create(ticks_ms=TICKS, **settings)[0]
        for settings in (
            {"retention_age_ms": 5 * MINUTE_MS},
            {"retention_age_ms": YEAR_MS},
            {"retention_executions": 3},
            {},
        )
    )
    run_minutes(node, session, 40)
    node.reclaim_all(age_ms=20 * MINUTE_MS)
    counts = [len(kept_of(node, job)) for job in (short, long, few, default)]
    assert counts == [5, 40, 3, 20]
    # With a default number too.
    node.reclaim_all(age_ms=20 * MINUTE_MS, executions=8)
    assert len(kept_of(node, default)) == 8


def test_the_newest_by_number_stay_whatever_the_steps(node: Node, session: int) -> None:
    node.create(ticks_ms=TICKS, retention_executions=40)
    node.create(ticks_ms=TICKS, retention_executions=3)
    run_minutes(node, session, 100)
    node.reclaim_all(limit=7)
    node.reclaim_all(limit=7)
    # Of each the newest ones: the jobs fire in turn.
    assert kept_of(node, 1) == list(range(121, 201, 2))
    assert kept_of(node, 2) == [196, 198, 200]
    # Up to a fourth more stay before the oldest one is looked for again.
    for _ in range(30):
        run_minutes(node, session, 1)
        node.reclaim_all(limit=7)
        assert 40 <= len(kept_of(node, 1)) <= 50
        assert len(kept_of(node, 2)) == 3


def test_dead_letters_between_do_not_hold_up_the_others_of_a_recurring_job(node: Node, session: int) -> None:
    node.create(ticks_ms=TICKS, max_attempts=1, retention_executions=2)
    run_minutes(node, session, 2)
    node.advance(MINUTE_MS)
    node.fire()
    node.fail(node.lease(session).token, [3])
    run_minutes(node, session, 10)
    node.reclaim_all()
    assert kept(node) == [3, 12, 13]
    assert node.state_of(3) == DEAD_LETTER
    # When the job is cancelled and gone, it is shown all the same, and cannot be replayed.
    node.want(JobCancelled, command_pb2.CancelJob(job=1))
    node.advance(31 * DAY_MS)
    node.reclaim_all(**AGE)
    assert (kept(node), node.table("jobs")) == ([3], [])
    node.machine.commit()
    with node.store.read() as view:
        (letter,) = list_dead_letters(view, "default", after=None, limit=10).items
    assert (letter.execution.id, letter.job_name, letter.profile.handler) == (3, "", "h")
    node.refused(IllegalTransition, command_pb2.ReplayDeadLetters(executions=keys.pack_ids([3])))


def test_what_began_after_an_execution_that_is_under_way_stays_as_long(node: Node, session: int) -> None:
    """Else it would be found no more from the newest one, and run after its job was cancelled."""
    allow = {"overlap": job_pb2.OVERLAP_POLICY_ALLOW, "initial_backoff_ms": DAY_MS, "max_backoff_ms": DAY_MS}
    (job,) = node.create(ticks_ms=TICKS, **allow)
    node.advance(MINUTE_MS)
    node.fire()
    leased = node.lease(session)
    node.fail(leased.token, leased.executions)
    run_minutes(node, session, 10)
    node.reclaim_all(executions=2)
    assert kept(node) == list(range(1, 12))
    node.want(JobCancelled, command_pb2.CancelJob(job=job))
    assert node.state_of(1) == CANCELLED
    node.reclaim_all(executions=2)
    assert kept(node) == [10, 11]


def test_a_worker_whose_clock_is_wrong_neither_hastens_nor_delays_it(node: Node, session: int) -> None:
    node.create(2, due_ms=START_MS)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, [1], 5, 6)
    node.ack(leased.token, [2], keys.MAX_MS - 2, keys.MAX_MS - 1)
    node.advance(30 * DAY_MS - 1)
    node.reclaim_all(**AGE)
    assert kept(node) == [1, 2]
    node.advance(1)
    node.reclaim_all(**AGE)
    assert kept(node) == [2]
    # The far future counts as now for as long as it is one.
    assert node.state_of(2) == SUCCEEDED


# --- all the rest ---


def test_skipped_ranges_go_by_age(node: Node, session: int) -> None:
    (job,) = node.create(ticks_ms=TICKS)
    node.create(ticks_ms=TICKS, retention_age_ms=YEAR_MS)
    for _ in range(3):
        node.advance(5 * MINUTE_MS)
        succeed_all(node, session)
    before = {number: node.skipped(number) for number in (job, job + 1)}
    assert [len(found) for found in before.values()] == [3, 3]
    node.reclaim_all(age_ms=7 * MINUTE_MS)
    assert node.skipped(job) == before[job][1:]
    assert node.skipped(job + 1) == before[job + 1]


def test_sessions_go_some_time_after_they_have_ended(node: Node, session: int) -> None:
    closed = node.open_session()
    node.do(command_pb2.CloseSession(session=closed))
    node.advance(DAY_MS)
    node.reclaim_all(age_ms=DAY_MS + 1)
    assert len(node.table("sessions")) == 2
    node.reclaim_all(age_ms=DAY_MS)
    assert [keys.unpack_id(key) for key, _ in node.table("sessions")] == [session]


def test_idempotency_keys_go_by_age_and_then_name_another_request(node: Node) -> None:
    create = create_command(1, due_ms=START_MS + YEAR_MS, key="once")
    assert not node.want(JobsCreated, create).existed
    for number in range(25):
        node.want(JobsCreated, create_command(1, due_ms=START_MS + YEAR_MS, key=f"k-{number}"))
    node.advance(DAY_MS)
    assert node.want(JobsCreated, create).existed
    assert node.reclaim_all(request_id_age_ms=DAY_MS) == 0
    node.advance(1)
    assert node.reclaim(10, request_id_age_ms=DAY_MS).removed == 10
    assert node.reclaim_all(limit=10, request_id_age_ms=DAY_MS) == 16
    assert node.table("idempotency") == []
    assert not node.want(JobsCreated, create).existed


def test_keys_of_handlers_go_when_their_time_is_over(node: Node, session: int) -> None:
    leased = node.run(session)
    claim = command_pb2.ClaimKey(namespace="n", key="k", execution=1, token=leased.token, keep_ms=DAY_MS)
    node.do(claim)
    node.advance(DAY_MS)
    assert node.reclaim_all() == 0
    node.advance(1)
    assert node.reclaim_all() == 1
    assert node.table("dedup") == []


def test_without_any_bound_nothing_is_removed(node: Node, session: int) -> None:
    node.create(due_ms=START_MS)
    node.create(every_ms=MINUTE_MS, due_ms=START_MS)
    node.do(command_pb2.CloseSession(session=node.open_session()))
    run_minutes(node, session, 3)
    node.advance(10 * YEAR_MS)
    before = node.dump()
    assert node.reclaim_all() == 0
    assert node.dump() == before


# --- steps ---


def test_a_step_looks_at_no_more_than_its_limit_and_goes_on_where_the_last_one_ended(node: Node, session: int) -> None:
    node.create(100, due_ms=START_MS)
    succeed_all(node, session)
    node.advance(DAY_MS)
    removed = []
    while True:
        step = node.reclaim(30, age_ms=DAY_MS)
        removed.append(step.removed)
        if step.done:
            break
        # A restart or another leader makes no difference.
        node.machine.commit()
        node.reopen()
    assert removed == [30, 30, 30, 10]
    assert kept(node) == []
    assert node.table("jobs") == []


def test_a_walk_passes_what_stays_without_stopping_at_it(node: Node, session: int) -> None:
    node.create(50, due_ms=START_MS, retention_age_ms=YEAR_MS)
    node.create(50, due_ms=START_MS)
    succeed_all(node, session)
    node.advance(DAY_MS)
    assert [node.reclaim(20, age_ms=DAY_MS).removed for _ in range(5)] == [0, 0, 10, 20, 20]
    assert kept(node) == list(range(1, 51))


def test_a_pass_is_due_when_something_old_is_there_or_one_is_under_way(node: Node, session: int) -> None:
    def due(**settings: int) -> bool:
        return node.machine.reclaim_is_due(RetentionSettings(**settings), node.now_ms)

    assert not due()
    create = create_command(3, due_ms=START_MS, key="k")
    node.want(JobsCreated, create)
    succeed_all(node, session)
    assert not due()
    node.advance(7 * DAY_MS + 1)
    node.tick()
    assert (due(), due(request_id_age_ms=0)) == (True, False)
    node.reclaim_all(request_id_age_ms=7 * DAY_MS)
    assert not due()
    node.advance(23 * DAY_MS)
    assert (due(), due(age_ms=0), due(age_ms=0, executions=1)) == (True, False, True)
    node.reclaim(2, **AGE)
    assert due(age_ms=0)
    node.reclaim_all(**AGE)
    assert not due()


@pytest.mark.parametrize("field", ["age_ms", "request_id_age_ms"])
def test_an_age_that_cannot_be_is_refused(node: Node, field: str) -> None:
    for value in (-1, 11 * YEAR_MS):
        settings: dict[str, Any] = {field: value}
        assert node.refused(InvalidField, command_pb2.Reclaim(limit=1, **settings)).field == field


def test_removal_is_the_same_on_every_replica(node: Node, session: int, tmp_path_factory: Any) -> None:
    node.create(20, due_ms=START_MS, names=[f"n-{number}" for number in range(20)])
    node.create(ticks_ms=TICKS, retention_executions=4)
    run_minutes(node, session, 12)
    for _ in range(6):
        node.reclaim(9, age_ms=5 * MINUTE_MS, executions=7)
        run_minutes(node, session, 1)
    other = replayed(node, tmp_path_factory.mktemp("other"), commit_after=(3, 9, 20))
    assert other.dump() == node.dump()
    assert other.machine.digest == node.machine.digest
    other.machine.close()


# --- dead letters ---


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Node]:
    """A node whose check at the end is left out: it takes long with so many rows."""
    made = Node(tmp_path / "state")
    yield made
    made.machine.close()


def test_fifty_thousand_dead_letters_stay_and_are_all_replayed_in_batches(many: Node) -> None:
    node, total, batch = many, 50_000, 10_000
    session = node.open_session(ttl_ms=LONG_MS)
    for _ in range(total // batch):
        node.create(batch, due_ms=START_MS, max_attempts=1)
    done = 0
    while done < total:
        node.fire(limit=batch)
        leased = node.lease(session, batch)
        node.fail(leased.token, leased.executions)
        done += len(leased.executions)
    node.machine.commit()
    later(node, YEAR_MS)
    assert node.reclaim_all(limit=5_000, **AGE, executions=1) == 0
    assert node.machine.counters.dead_letters == total
    found: list[int] = []
    node.machine.commit()
    with node.store.read() as view:
        position = None
        while True:
            page = list_dead_letters(view, "default", after=position, limit=1_000)
            found += [letter.execution.id for letter in page.items]
            position = page.next
            if position is None:
                break
    assert sorted(found) == list(range(1, total + 1))
    successors: set[int] = set()
    for first in range(0, total, REPLAY_MAX_EXECUTIONS):
        column = keys.pack_ids(found[first : first + REPLAY_MAX_EXECUTIONS])
        successors |= set(node.want(Replayed, command_pb2.ReplayDeadLetters(executions=column)).executions)
    assert successors == set(range(total + 1, 2 * total + 1))
    assert node.machine.counters.dead_letters == 0
    session, succeeded = node.open_session(ttl_ms=LONG_MS), 0
    while done := len(succeed_all(node, session)):
        succeeded += done
    assert succeeded == total
    # Now that they are replayed they go, with the jobs at last.
    later(node, YEAR_MS)
    node.reclaim_all(limit=5_000, **AGE)
    assert (node.table("executions"), node.table("jobs")) == ([], [])
