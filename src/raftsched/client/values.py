"""What goes into and comes out of the client: plain values, with aware datetimes in UTC and timedeltas."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from raftsched.client.schedules import CalendarUse, FoldPolicy, GapPolicy


class JobState(StrEnum):
    """Where a job stands."""

    UNSPECIFIED = "UNSPECIFIED"
    SCHEDULED = "SCHEDULED"  # waits for its next occurrence
    ACTIVE = "ACTIVE"  # a one-off whose execution is pending, leased, running or backing off
    SUCCEEDED = "SUCCEEDED"
    DEAD_LETTER = "DEAD_LETTER"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"  # its schedule has ended, or it has run max_runs times
    PAUSED = "PAUSED"  # nothing fires until it is resumed
    BLOCKED = "BLOCKED"  # waits for the jobs it depends on
    UPSTREAM_FAILED = "UPSTREAM_FAILED"  # its rule cannot be met unless an upstream's dead letter is replayed


class ExecutionState(StrEnum):
    """Where an execution stands."""

    UNSPECIFIED = "UNSPECIFIED"
    PENDING = "PENDING"
    LEASED = "LEASED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # the last attempt failed and the next one waits for its backoff
    DEAD_LETTER = "DEAD_LETTER"
    CANCELLED = "CANCELLED"
    SNOOZED = "SNOOZED"  # its handler has put it off; no attempt was used


class AttemptOutcome(StrEnum):
    """How an attempt ended; UNSPECIFIED: it has not."""

    UNSPECIFIED = "UNSPECIFIED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LEASE_LOST = "LEASE_LOST"
    TIMED_OUT = "TIMED_OUT"
    SNOOZED = "SNOOZED"  # uses no attempt


class Backoff(StrEnum):
    """How the delay grows from attempt to attempt."""

    UNSPECIFIED = "UNSPECIFIED"
    EXPONENTIAL = "EXPONENTIAL"
    FIXED = "FIXED"
    LINEAR = "LINEAR"


class ExecutionCause(StrEnum):
    """Why an execution was started."""

    UNSPECIFIED = "UNSPECIFIED"
    SCHEDULE = "SCHEDULE"
    TRIGGER = "TRIGGER"
    BACKFILL = "BACKFILL"
    REPLAY = "REPLAY"
    DEPENDENCY = "DEPENDENCY"


class OverlapPolicy(StrEnum):
    """What becomes of an occurrence that comes due while the previous one is not finished."""

    UNSPECIFIED = "UNSPECIFIED"
    SKIP = "SKIP"
    ALLOW = "ALLOW"
    QUEUE = "QUEUE"
    REPLACE = "REPLACE"


class CatchUpPolicy(StrEnum):
    """Which of several missed occurrences run."""

    UNSPECIFIED = "UNSPECIFIED"
    LATEST = "LATEST"
    ALL = "ALL"
    NONE = "NONE"


class SkipReason(StrEnum):
    """Why an occurrence did not run."""

    UNSPECIFIED = "UNSPECIFIED"
    OVERLAP = "OVERLAP"
    CATCH_UP = "CATCH_UP"
    CANCELLED = "CANCELLED"
    PAUSED = "PAUSED"
    START_DEADLINE = "START_DEADLINE"
    CALENDAR = "CALENDAR"
    UPDATED = "UPDATED"
    UPSTREAM = "UPSTREAM"  # the dependency rule could not be met, or an upstream had no execution for that time


class DependencyRule(StrEnum):
    """When a job that depends on others runs. One that was cancelled counts as skipped: no success, no failure."""

    UNSPECIFIED = "UNSPECIFIED"
    ALL_SUCCESS = "ALL_SUCCESS"  # each has succeeded
    ALL_DONE = "ALL_DONE"  # each has ended, however it did
    ANY_SUCCESS = "ANY_SUCCESS"  # one has succeeded
    NONE_FAILED = "NONE_FAILED"  # each has ended, none has failed


@dataclass(frozen=True, slots=True)
class Retention:
    """Which finished executions, and skipped ranges, of a job are kept; None and 0 are the cluster's defaults."""

    # From the end of an execution.
    max_age: timedelta | None = None
    # The newest executions; up to a fourth more may be kept.
    max_executions: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an attempt that failed is tried again; see RetryPolicy in job.proto for the bounds.

    No attempt begins later than `max_elapsed` after the first one. `non_retryable_errors` are classes of exceptions as
    workers name them, "module.Class" or "ValueError": what derives from one is not retried either.
    """

    max_attempts: int = 3
    initial_backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(hours=1)
    multiplier: float = 2.0
    # 1.0 is full jitter: any delay up to the computed one.
    jitter: float = 0.0
    backoff: Backoff = Backoff.EXPONENTIAL
    max_elapsed: timedelta | None = None
    non_retryable_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job to register: a handler and exactly one schedule, `run_at`, `cron`, `every` or `depends_on`.

    `depends_on` holds ids of up to 500 jobs; `rule` says when their ends let this one run.

    `payload` is handed to the handler: bytes as they are, a str in UTF-8, anything else as JSON. The content type
    follows from that unless given. Datetimes must be aware. What is None or empty takes the cluster's default.
    """

    handler: str
    _: KW_ONLY
    run_at: datetime | None = None
    cron: str | None = None
    time_zone: str = ""
    every: timedelta | None = None
    start: datetime | None = None
    end: datetime | None = None
    # With cron: further expressions, those whose times are left out, and what clock changes and calendars do.
    more_crons: Sequence[str] = ()
    exclude: Sequence[str] = ()
    gap: GapPolicy = GapPolicy.UNSPECIFIED
    fold: FoldPolicy = FoldPolicy.UNSPECIFIED
    calendars: Sequence[CalendarUse | str] = ()
    depends_on: Sequence[int] = ()
    rule: DependencyRule = DependencyRule.UNSPECIFIED
    payload: Any = None
    content_type: str = ""
    namespace: str = ""
    name: str = ""
    queue: str = ""
    priority: int = 0
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    retry: RetryPolicy | None = None
    run_timeout: timedelta | None = None
    overlap: OverlapPolicy = OverlapPolicy.UNSPECIFIED
    catch_up: CatchUpPolicy = CatchUpPolicy.UNSPECIFIED
    jitter: timedelta | None = None
    pause_after_failures: int = 0
    concurrency_key: str = ""
    concurrency_limit: int = 0
    # How many may wait (QUEUE), or be unfinished at once (ALLOW).
    overlap_limit: int = 0
    # Of missed occurrences: the longest delay, how many run (ALL), and how far apart (ALL), which is less than `every`.
    catch_up_window: timedelta | None = None
    catch_up_limit: int = 0
    catch_up_interval: timedelta | None = None
    # Recurring jobs are completed once so many occurrences have fired, or wait in the overlap queue; 0: never.
    max_runs: int = 0
    # What did not start so long after its time is skipped.
    start_deadline: timedelta | None = None
    retention: Retention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A registered job."""

    id: int
    namespace: str
    name: str
    handler: str
    payload: bytes
    content_type: str
    queue: str
    priority: int
    tenant: str
    labels: dict[str, str]
    # Exactly one of these three is set, or `depends_on` is not empty.
    run_at: datetime | None
    cron: str | None
    every: timedelta | None
    # Of a cron schedule; else empty.
    time_zone: str
    # None for an interval: its ticks are anchored, but it is not stored to what.
    start: datetime | None
    jitter: timedelta
    retry: RetryPolicy
    run_timeout: timedelta | None
    overlap: OverlapPolicy
    catch_up: CatchUpPolicy
    state: JobState
    create_time: datetime | None
    next_run_time: datetime | None
    # The newest execution; None before the first.
    last_execution_id: int | None
    cancel_time: datetime | None
    # In the answer to create: the request_id had registered this same job before.
    existed: bool = False
    # Dead letters in a row after which it is paused; 0: never.
    pause_after_failures: int = 0
    # At most so many executions of all jobs of the namespace with this key are leased or running at once; "": any.
    concurrency_key: str = ""
    concurrency_limit: int = 0
    # Changes with the job's settings; see Client.update.
    etag: str = ""
    # Ids of the jobs that it depends on, and when their ends let it run.
    depends_on: tuple[int, ...] = ()
    rule: DependencyRule = DependencyRule.UNSPECIFIED
    # None: it was created in none.
    workflow_id: int | None = None
    # While PAUSED: why, and since when.
    pause_note: str = ""
    pause_time: datetime | None = None
    # Of its schedule; as in JobSpec.
    end: datetime | None = None
    more_crons: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    gap: GapPolicy = GapPolicy.UNSPECIFIED
    fold: FoldPolicy = FoldPolicy.UNSPECIFIED
    calendars: tuple[CalendarUse, ...] = ()
    overlap_limit: int = 0
    catch_up_window: timedelta | None = None
    catch_up_limit: int = 0
    catch_up_interval: timedelta | None = None
    max_runs: int = 0
    start_deadline: timedelta | None = None
    retention: Retention = Retention()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of an execution, from its lease on."""

    # From 1; a lost lease and a snooze use no attempt, so that the run after them has the same number.
    number: int
    worker: str
    lease_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    outcome: AttemptOutcome
    error: str
    error_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What became of one occurrence of a job."""

    id: int
    job_id: int
    scheduled_for: datetime
    state: ExecutionState
    # Attempts begun, from 1; 0 before the first lease.
    attempt: int
    lost_leases: int
    fire_time: datetime | None
    lease_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    token: int
    worker: str
    error: str
    # When it runs again, in FAILED and SNOOZED.
    retry_time: datetime | None
    # The execution that a replay of this dead letter started.
    replayed_as: int | None
    # The newest ones, oldest first; in the answer of get_execution only.
    attempts: tuple[Attempt, ...] = ()
    cause: ExecutionCause = ExecutionCause.UNSPECIFIED
    # A caller wants it cancelled, and its worker was told.
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered:
    """What came of a trigger."""

    # None when it was skipped, or waits in the job's overlap queue.
    execution_id: int | None
    scheduled_for: datetime
    skipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """An execution that another one follows."""

    # In the workflow of both; empty outside of one.
    node: str
    job_id: int
    execution_id: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a workflow to register. `job` has a schedule only if `depends_on`, names of other nodes, is empty."""

    name: str
    job: JobSpec
    _: KW_ONLY
    depends_on: Sequence[str] = ()
    rule: DependencyRule = DependencyRule.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node of a registered workflow. `job` is None once the job has been removed."""

    name: str
    job: Job | None
    depends_on: tuple[str, ...]
    rule: DependencyRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A registered workflow."""

    id: int
    # By node.
    job_ids: Mapping[str, int]
    # The request_id had registered this same workflow before.
    existed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedOccurrence:
    """A range of occurrences of one job that did not run, and why."""

    scheduled_for: datetime
    last_scheduled_for: datetime
    count: int
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """What happened to a scheduled time of a job, or to several neighbouring ones that were skipped for one reason."""

    scheduled_for: datetime
    # Equal to scheduled_for unless count is more than 1.
    last_scheduled_for: datetime
    count: int
    # Exactly one of these three: its newest execution, why it was skipped, or that it waits in the overlap queue.
    execution: Execution | None = None
    skipped: SkipReason | None = None
    queued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """Whether a run owns a key; if not, whether it is completed, with the result, or still another run's."""

    claimed: bool
    completed: bool
    result: bytes
    owner_token: int
    expire_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An execution that ran out of attempts, or failed for good, and was not replayed."""

    execution: Execution
    namespace: str
    handler: str
    job_name: str
    dead_time: datetime | None


class LimitScope(StrEnum):
    """What a limit is of."""

    UNSPECIFIED = "UNSPECIFIED"
    QUEUE = "QUEUE"
    TENANT = "TENANT"
    HANDLER = "HANDLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How fast, and how many at once, executions of a queue, tenant or handler are leased; see limit.proto."""

    scope: LimitScope
    name: str
    # 0 for these two: any number.
    concurrency: int
    rate_per_s: float
    # Executions that may be leased at once after a quiet time; 0 without a rate.
    burst: int
    # A tenant's share when tenants are served in turn; 0 for others.
    weight: int
    # Executions leased or running now.
    leased: int
