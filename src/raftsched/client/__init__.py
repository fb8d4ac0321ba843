"""The Python SDK of raftsched: a client to register jobs, and a worker that runs them.

    async with Client(["host:7101"]) as client:
        job = await client.create("reports.nightly", cron="0 2 * * *", time_zone="Europe/Berlin")

`SyncClient` is the same for scripts without an event loop. A worker:

    app = Worker(["host:7101"])

    @app.handler("reports.nightly")
    async def nightly(context, payload): ...

    app.run()
"""

from raftsched.client.context import Context, ExecutionStopped, StopReason
from raftsched.client.dedup import Dedup, KeyBusy
from raftsched.client.errors import (
    BackfillNotFound,
    ClientClosed,
    DeadlineExceeded,
    EtagMismatch,
    ExecutionFinished,
    ExecutionNotFound,
    FieldViolation,
    IdempotencyConflict,
    InvalidField,
    JobFinished,
    JobNotFound,
    JobRunning,
    JobStateForbids,
    KeyNotOwned,
    LeaseOver,
    NameTaken,
    NodeDiverged,
    NodeDraining,
    NoQuorum,
    NotDeadLetter,
    NotImplementedField,
    OutcomeUnknown,
    OverlapRefused,
    Overloaded,
    RaftschedError,
    Unavailable,
    UnknownName,
)
from raftsched.client.failures import PlainFailure
from raftsched.client.jobs import Client
from raftsched.client.outcomes import PermanentError, RetryAfter, Snooze
from raftsched.client.sync import SyncClient
from raftsched.client.values import (
    Attempt,
    AttemptOutcome,
    Backoff,
    CatchUpPolicy,
    ClusterStatus,
    DeadLetter,
    Execution,
    ExecutionCause,
    ExecutionState,
    Job,
    JobSpec,
    JobState,
    KeyClaim,
    NodeHealth,
    NodeRole,
    NodeStatus,
    OverlapPolicy,
    QueueStatus,
    RetryPolicy,
    SkippedOccurrence,
    SkipReason,
    Triggered,
    WorkerStatus,
)
from raftsched.client.worker import Worker, WorkerStats

__all__ = [
    "Attempt",
    "AttemptOutcome",
    "BackfillNotFound",
    "Backoff",
    "CatchUpPolicy",
    "Client",
    "ClientClosed",
    "ClusterStatus",
    "Context",
    "DeadLetter",
    "DeadlineExceeded",
    "Dedup",
    "EtagMismatch",
    "Execution",
    "ExecutionCause",
    "ExecutionFinished",
    "ExecutionNotFound",
    "ExecutionState",
    "ExecutionStopped",
    "FieldViolation",
    "IdempotencyConflict",
    "InvalidField",
    "Job",
    "JobFinished",
    "JobNotFound",
    "JobRunning",
    "JobSpec",
    "JobState",
    "JobStateForbids",
    "KeyBusy",
    "KeyClaim",
    "KeyNotOwned",
    "LeaseOver",
    "NameTaken",
    "NoQuorum",
    "NodeDiverged",
    "NodeDraining",
    "NodeHealth",
    "NodeRole",
    "NodeStatus",
    "NotDeadLetter",
    "NotImplementedField",
    "OutcomeUnknown",
    "OverlapPolicy",
    "OverlapRefused",
    "Overloaded",
    "PermanentError",
    "PlainFailure",
    "QueueStatus",
    "RaftschedError",
    "RetryAfter",
    "RetryPolicy",
    "SkipReason",
    "SkippedOccurrence",
    "Snooze",
    "StopReason",
    "SyncClient",
    "Triggered",
    "Unavailable",
    "UnknownName",
    "Worker",
    "WorkerStats",
    "WorkerStatus",
]
