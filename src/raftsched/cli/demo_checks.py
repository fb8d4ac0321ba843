"""Judges the demo: what the cluster says became of every job, against what the workers wrote down themselves."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from raftsched.cli.demo_jobs import (
    DOOMED_ATTEMPTS,
    DOOMED_HANDLER,
    FLAKY_FAILURES,
    FLAKY_HANDLER,
    KIND,
    ONCE_HANDLER,
    TICK_HANDLER,
    Registered,
)
from raftsched.cli.demo_record import Run
from raftsched.client import (
    ClusterStatus,
    DeadLetter,
    Execution,
    ExecutionState,
    Job,
    JobState,
    SkippedOccurrence,
    SyncClient,
)

_EXAMPLES = 3
# A tick this close before the cancel may or may not have fired.
_CANCEL_EDGE_MS = 1_000


@dataclass(frozen=True)
class Check:
    """One line of the verdict."""

    what: str
    expected: str
    found: str
    holds: bool


def judge(client: SyncClient, registered: Registered, runs: Sequence[Run]) -> list[Check]:
    """Asks the cluster for every job, execution, skipped tick and dead letter of the demo."""
    once = list(client.list(labels={KIND: "once"}, linearizable=True))
    flaky = list(client.list(labels={KIND: "flaky"}, linearizable=True))
    last = [
        client.get_execution(job.last_execution_id, linearizable=True)
        for job in flaky
        if job.last_execution_id is not None
    ]
    checks = once_checks(registered.once, once, runs)
    for job_id, period_s in registered.ticking.items():
        job = client.get(job_id, linearizable=True)
        executions = list(client.executions(job_id, linearizable=True))
        skipped = list(client.skipped(job_id, linearizable=True))
        checks.append(tick_check(job, period_s, executions, skipped, runs))
    checks += flaky_checks(registered.flaky, flaky, last, runs)
    checks.append(dead_letter_check(registered.doomed, list(client.dead_letters(linearizable=True))))
    return checks


def once_checks(ids: Sequence[int], jobs: Sequence[Job], runs: Sequence[Run]) -> list[Check]:
    """Every one-off is listed once, has succeeded, and a worker says that it ran it."""
    succeeded = {job.id for job in jobs if job.state == JobState.SUCCEEDED}
    ran = Counter(run.job_id for run in runs if run.handler == ONCE_HANDLER)
    again = sum(count - 1 for count in ran.values())
    return [
        Check(
            "once-jobs registered, none missing, none twice",
            str(len(ids)),
            str(len(jobs)),
            sorted(job.id for job in jobs) == sorted(ids),
        ),
        Check(
            "once-jobs that the cluster says succeeded",
            str(len(ids)),
            _count_and_missing(succeeded, ids),
            succeeded == set(ids),
        ),
        Check(
            "once-jobs that the workers wrote down",
            str(len(ids)),
            # Not a fault: at least once is the promise.
            _count_and_missing(set(ran), ids) + (f", {again} of them once more after the kill" if again else ""),
            set(ran) == set(ids),
        ),
    ]


def flaky_checks(
    ids: Sequence[int], jobs: Sequence[Job], last_executions: Sequence[Execution], runs: Sequence[Run]
) -> list[Check]:
    """Jobs that fail at first are tried again until they succeed, at the right attempt."""
    succeeded = {job.id for job in jobs if job.state == JobState.SUCCEEDED}
    attempts = {execution.attempt for execution in last_executions}
    tried: dict[int, set[int]] = {}
    for run in runs:
        if run.handler == FLAKY_HANDLER:
            tried.setdefault(run.job_id, set()).add(run.attempt)
    wanted = set(range(1, FLAKY_FAILURES + 2))
    complete = {job_id for job_id in ids if tried.get(job_id) == wanted}
    return [
        Check(
            f"jobs that fail {FLAKY_FAILURES} times succeed at attempt {FLAKY_FAILURES + 1}",
            f"{len(ids)} at attempt {FLAKY_FAILURES + 1}",
            f"{len(succeeded)} at attempt {_listing(attempts)}",
            succeeded == set(ids) and attempts == {FLAKY_FAILURES + 1},
        ),
        Check(
            "all their attempts, as the workers wrote them down",
            str(len(ids)),
            _count_and_missing(complete, ids),
            complete == set(ids),
        ),
    ]


def dead_letter_check(ids: Sequence[int], letters: Sequence[DeadLetter]) -> Check:
    """Exactly the jobs that always fail are in the dead letters, after all their attempts."""
    right = {
        letter.execution.job_id
        for letter in letters
        if letter.handler == DOOMED_HANDLER and letter.execution.attempt == DOOMED_ATTEMPTS and letter.execution.error
    }
    return Check(
        f"dead letters: jobs that always fail, after {DOOMED_ATTEMPTS} attempts",
        str(len(ids)),
        str(len(letters)),
        right == set(ids) and len(letters) == len(ids),
    )


def tick_check(
    job: Job,
    period_s: int,
    executions: Sequence[Execution],
    skipped: Sequence[SkippedOccurrence],
    runs: Sequence[Run],
) -> Check:
    """Each tick between registration and cancel ran once, or is recorded as skipped; no other time did."""
    assert job.create_time is not None
    assert job.cancel_time is not None
    fired = Counter(_ms(one.scheduled_for) for one in executions)
    left_out = Counter(
        tick_ms
        for one in skipped
        for tick_ms in _ticks_ms(_ms(one.scheduled_for) - 1, _ms(one.last_scheduled_for), period_s)
    )
    accounted = fired + left_out
    must = set(_ticks_ms(_ms(job.create_time), _ms(job.cancel_time) - _CANCEL_EDGE_MS, period_s))
    may = set(_ticks_ms(_ms(job.create_time), _ms(job.cancel_time), period_s))
    written = {(run.job_id, run.scheduled_for_ms) for run in runs if run.handler == TICK_HANDLER}
    ended = {ExecutionState.SUCCEEDED, ExecutionState.CANCELLED}
    succeeded = [one for one in executions if one.state == ExecutionState.SUCCEEDED]
    problems = [
        f"{len(found)} {what}"
        for what, found in (
            ("missing", must - set(accounted)),
            ("not on the schedule", set(accounted) - may),
            ("twice", [tick for tick, count in accounted.items() if count > 1]),
            ("unfinished", [one for one in executions if one.state not in ended]),
            (
                "not written down by a worker",
                [one for one in succeeded if (job.id, _ms(one.scheduled_for)) not in written],
            ),
        )
        if found
    ]
    return Check(
        f"ticks of */{period_s} * * * * *, each once",
        f"{len(must)} to {len(may)}" if len(must) < len(may) else str(len(may)),
        ", ".join([f"{len(fired)} ran, {len(left_out)} recorded as skipped", *problems]),
        not problems,
    )


def agreement_check(statuses: Mapping[int, ClusterStatus], nodes: int) -> Check:
    """All nodes have the same state at the same log index."""
    states = {(status.applied_index, status.state_digest) for status in statuses.values()}
    return Check(
        "all nodes hold the same state",
        f"{nodes} nodes, one digest",
        f"{len(statuses)} nodes: " + "; ".join(f"{digest[:12]} at index {index}" for index, digest in sorted(states)),
        len(states) == 1 and len(statuses) == nodes,
    )


def repetition_check(registered: Registered, repeated: Sequence[int]) -> Check:
    """Registering again with the same request_id, after the leader died, gave the jobs that were there."""
    other = len(set(repeated) - set(registered.once))
    return Check(
        "the same batch sent again to the new leader",
        "the same job ids",
        f"{other} other job ids" if other else "the same job ids",
        list(repeated) == list(registered.once),
    )


def _ticks_ms(after_ms: int, until_ms: int, period_s: int) -> range:
    """Multiples of the period later than `after_ms` and not later than `until_ms`."""
    period_ms = period_s * 1000
    return range(after_ms - after_ms % period_ms + period_ms, until_ms + 1, period_ms)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _count_and_missing(found: set[int], wanted: Iterable[int]) -> str:
    missing = set(wanted) - found
    return f"{len(found)}, missing job {_listing(missing)}" if missing else str(len(found))


def _listing(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    rest = f" and {len(ordered) - _EXAMPLES} more" if len(ordered) > _EXAMPLES else ""
    return ", ".join(map(str, ordered[:_EXAMPLES])) + rest if ordered else "none"
