"""The demo's verdict notices each kind of loss it is there to notice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from raftsched.cli.demo_checks import agreement_check, dead_letter_check, flaky_checks, once_checks, tick_check
from raftsched.cli.demo_jobs import DOOMED_HANDLER, FLAKY_HANDLER, ONCE_HANDLER, TICK_HANDLER
from raftsched.cli.demo_record import Run
from raftsched.client import (
    ClusterStatus,
    DeadLetter,
    Execution,
    ExecutionState,
    Job,
    JobState,
    Kept,
    NodeHealth,
    SkippedOccurrence,
    SkipReason,
)
from raftsched.client.convert import job_value
from raftsched.v1 import job_pb2

START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(job_id: int, state: JobState = JobState.SUCCEEDED) -> Job:
    return replace(job_value(job_pb2.Job(id=job_id)), state=state)


def execution(
    job_id: int,
    seconds: float = 0,
    *,
    state: ExecutionState = ExecutionState.SUCCEEDED,
    attempt: int = 1,
    error: str = "",
) -> Execution:
    return Execution(
        id=1000 + job_id,
        job_id=job_id,
        scheduled_for=at(seconds),
        state=state,
        attempt=attempt,
        lost_leases=0,
        fire_time=None,
        lease_time=None,
        start_time=None,
        end_time=None,
        token=1,
        worker="w",
        error=error,
        retry_time=None,
        replayed_as=None,
    )


def run(handler: str, job_id: int, seconds: float = 0, attempt: int = 1) -> Run:
    return Run(handler, job_id, 1000 + job_id, round(at(seconds).timestamp() * 1000), attempt, 1, 1)


def verdict(checks: list) -> list[bool]:  # type: ignore[type-arg]
    return [check.holds for check in checks]


ONCE_RUNS = [run(ONCE_HANDLER, 1), run(ONCE_HANDLER, 2)]


def test_once_jobs_hold_when_all_succeeded_and_ran_even_twice() -> None:
    checks = once_checks([1, 2], [job(1), job(2)], [*ONCE_RUNS, ONCE_RUNS[0]])
    assert verdict(checks) == [True, True, True]
    assert checks[2].found == "2, 1 of them once more after the kill"


def test_a_missing_a_doubled_and_an_unfinished_once_job_are_noticed() -> None:
    assert verdict(once_checks([1, 2], [job(1)], ONCE_RUNS)) == [False, False, True]
    assert verdict(once_checks([1, 2], [job(1), job(2), job(2)], ONCE_RUNS)) == [False, True, True]
    assert verdict(once_checks([1, 2], [job(1), job(2, JobState.ACTIVE)], ONCE_RUNS)) == [True, False, True]


def test_a_once_job_that_no_worker_ran_is_noticed_and_named() -> None:
    checks = once_checks([1, 2], [job(1), job(2)], ONCE_RUNS[:1])
    assert verdict(checks) == [True, True, False]
    assert checks[2].found == "1, missing job 2"


FLAKY_RUNS = [run(FLAKY_HANDLER, 1, attempt=attempt) for attempt in (1, 2, 3)]


def test_flaky_jobs_hold_when_the_third_attempt_succeeded() -> None:
    assert verdict(flaky_checks([1], [job(1)], [execution(1, attempt=3)], FLAKY_RUNS)) == [True, True]


def test_a_flaky_job_with_a_lost_or_an_additional_attempt_is_noticed() -> None:
    assert verdict(flaky_checks([1], [job(1)], [execution(1, attempt=2)], FLAKY_RUNS)) == [False, True]
    assert verdict(flaky_checks([1], [job(1)], [execution(1, attempt=3)], FLAKY_RUNS[1:])) == [True, False]
    assert verdict(flaky_checks([1], [job(1, JobState.DEAD_LETTER)], [execution(1, attempt=3)], FLAKY_RUNS)) == [
        False,
        True,
    ]


def letter(job_id: int, handler: str = DOOMED_HANDLER, attempt: int = 2) -> DeadLetter:
    dead = execution(job_id, state=ExecutionState.DEAD_LETTER, attempt=attempt, error="on purpose")
    return DeadLetter(execution=dead, namespace="demo", handler=handler, job_name="", dead_time=at(9))


@pytest.mark.parametrize(
    ("letters", "holds"),
    [
        ([letter(1), letter(2)], True),
        ([letter(1)], False),
        ([letter(1), letter(2), letter(3)], False),
        ([letter(1), letter(2, attempt=1)], False),
        ([letter(1), letter(2, handler=ONCE_HANDLER)], False),
        ([letter(1), letter(1)], False),
    ],
)
def test_dead_letters_are_exactly_the_jobs_that_always_fail(letters: list[DeadLetter], holds: bool) -> None:
    assert dead_letter_check([1, 2], letters).holds is holds


TICKING = replace(job(7, JobState.CANCELLED), create_time=at(0.5), cancel_time=at(10.2))
# Every two seconds; the one at 10 s is too close to the cancel to be sure of.
TICKS = (2, 4, 6, 8)


def ticks(*seconds: float, state: ExecutionState = ExecutionState.SUCCEEDED) -> list[Execution]:
    return [execution(7, second, state=state) for second in seconds]


def tick_runs(*seconds: float) -> list[Run]:
    return [run(TICK_HANDLER, 7, second) for second in seconds]


def skipped(first_s: float, last_s: float, count: int) -> SkippedOccurrence:
    return SkippedOccurrence(
        scheduled_for=at(first_s), last_scheduled_for=at(last_s), count=count, reason=SkipReason.CATCH_UP
    )


def test_ticks_hold_when_each_ran_or_is_recorded_as_skipped() -> None:
    assert tick_check(TICKING, 2, ticks(*TICKS), [], tick_runs(*TICKS)).holds
    assert tick_check(TICKING, 2, ticks(*TICKS, 10), [], tick_runs(*TICKS, 10)).holds
    check = tick_check(TICKING, 2, ticks(2, 8), [skipped(4, 6, 2)], tick_runs(2, 8))
    assert check.holds
    assert check.found == "2 ran, 2 recorded as skipped"
    cancelled = ticks(10, state=ExecutionState.CANCELLED)
    assert tick_check(TICKING, 2, ticks(*TICKS) + cancelled, [], tick_runs(*TICKS)).holds


@pytest.mark.parametrize(
    ("executions", "left_out", "runs", "problem"),
    [
        (ticks(2, 4, 8), [], tick_runs(*TICKS), "1 missing"),
        (ticks(*TICKS, 5), [], tick_runs(*TICKS, 5), "1 not on the schedule"),
        (ticks(*TICKS, 12), [], tick_runs(*TICKS, 12), "1 not on the schedule"),
        (ticks(*TICKS, 4), [], tick_runs(*TICKS), "1 twice"),
        (ticks(*TICKS), [skipped(4, 4, 1)], tick_runs(*TICKS), "1 twice"),
        (ticks(2, 4, 6) + ticks(8, state=ExecutionState.PENDING), [], tick_runs(*TICKS), "1 unfinished"),
        (ticks(*TICKS), [], tick_runs(2, 4, 8), "1 not written down by a worker"),
    ],
)
def test_a_wrong_tick_is_noticed(
    executions: list[Execution], left_out: list[SkippedOccurrence], runs: list[Run], problem: str
) -> None:
    check = tick_check(TICKING, 2, executions, left_out, runs)
    assert not check.holds
    assert problem in check.found


def status(node: int, index: int, digest: str) -> ClusterStatus:
    return ClusterStatus(
        node=node,
        leader=1,
        has_quorum=True,
        term=1,
        commit_index=index,
        applied_index=index,
        first_log_index=1,
        state_digest=digest,
        replicated_clock=None,
        version="",
        nodes=(),
        shard_owners=(),
        queues=(),
        workers=(),
        jobs=0,
        executions=0,
        dead_letters=0,
        oldest_due_time=None,
        health=NodeHealth.SERVING,
        cluster_id="",
        time_zone_database="",
        alarms=(),
        kept=Kept(skipped_ranges=0, attempts=0, request_ids=0, dedup_keys=0, sessions=0),
    )


def test_nodes_agree_only_with_one_digest_at_one_index_on_all() -> None:
    same = {node: status(node, 9, "aa") for node in (1, 2, 3)}
    assert agreement_check(same, 3).holds
    assert not agreement_check(same | {3: status(3, 9, "bb")}, 3).holds
    assert not agreement_check(same | {3: status(3, 8, "aa")}, 3).holds
    assert not agreement_check({1: same[1], 2: same[2]}, 3).holds
