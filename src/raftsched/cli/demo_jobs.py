"""What the demo registers, and what must have become of it in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from raftsched.client import JobSpec, RetryPolicy, SyncClient

NAMESPACE = "demo"
# Jobs of the demo carry their kind under this label.
KIND = "demo.kind"

ONCE_HANDLER = "demo.once"
TICK_HANDLER = "demo.tick"
FLAKY_HANDLER = "demo.flaky"
DOOMED_HANDLER = "demo.doomed"

ONCE_JOBS = 400
FLAKY_JOBS = 10
DOOMED_JOBS = 5
# The flaky handler fails this often before it succeeds.
FLAKY_FAILURES = 2
DOOMED_ATTEMPTS = 2
# Seconds between ticks; divisors of 60, so that ticks fall on multiples of them.
CRON_PERIODS_S = (2, 3, 5)

_QUICK = timedelta(milliseconds=300)


@dataclass(frozen=True)
class Registered:
    """The ids of the demo's jobs; `ticking` maps a job to its period in seconds."""

    once: Sequence[int]
    flaky: Sequence[int]
    doomed: Sequence[int]
    ticking: dict[int, int]


def once_jobs(first_run: datetime, span: timedelta) -> list[JobSpec]:
    """One-off jobs, spread evenly over `span`."""
    return [
        JobSpec(
            ONCE_HANDLER,
            run_at=first_run + span * number / ONCE_JOBS,
            payload={"number": number},
            labels={KIND: "once"},
        )
        for number in range(ONCE_JOBS)
    ]


def register(client: SyncClient, first_run: datetime, span: timedelta) -> Registered:
    """Registers everything: two atomic batches for the one-offs, one job a call for the recurring ones."""
    once = client.create_many(once_jobs(first_run, span), request_id="demo-once")
    flaky = [
        JobSpec(
            FLAKY_HANDLER,
            run_at=first_run + span * number / FLAKY_JOBS,
            labels={KIND: "flaky"},
            retry=RetryPolicy(max_attempts=FLAKY_FAILURES + 1, initial_backoff=_QUICK),
        )
        for number in range(FLAKY_JOBS)
    ]
    doomed = [
        JobSpec(
            DOOMED_HANDLER,
            run_at=first_run + span * number / DOOMED_JOBS,
            labels={KIND: "doomed"},
            retry=RetryPolicy(max_attempts=DOOMED_ATTEMPTS, initial_backoff=_QUICK),
        )
        for number in range(DOOMED_JOBS)
    ]
    failing = client.create_many([*flaky, *doomed], request_id="demo-failing")
    ticking = {}
    for period_s in CRON_PERIODS_S:
        job = client.create(
            TICK_HANDLER, cron=f"*/{period_s} * * * * *", name=f"every-{period_s}-seconds", labels={KIND: "ticking"}
        )
        ticking[job.id] = period_s
    return Registered(once, failing[:FLAKY_JOBS], failing[FLAKY_JOBS:], ticking)
