"""What applying a command yields: results for the node that asked, and effects every node may act on.

Results are never serialized: each replica computes its own, and only the origin's pending table uses them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from raftsched.model.errors import RaftschedError
from raftsched.store.rows import LimitRow


@dataclass(frozen=True, slots=True)
class Rejected:
    """The command changed nothing."""

    error: RaftschedError


@dataclass(frozen=True, slots=True)
class JobsCreated:
    """Ids in the request's order. `existed`: the idempotency key had been used for this same request."""

    job_ids: Sequence[int]
    existed: bool


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The idempotency key belongs to another request, which created these jobs."""

    job_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The job is CANCELLED, now or since an earlier request."""

    job: int


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The job is as the command wants it, now or since an earlier request."""

    job: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """`execution` 0: it was skipped, or waits in the job's overlap queue."""

    execution: int
    scheduled_for_ms: int
    skipped: bool


@dataclass(frozen=True, slots=True)
class BackfillChanged:
    """The backfill is as the command wants it, now or since an earlier request."""

    backfill: int


@dataclass(frozen=True, slots=True)
class ExecutionCancelled:
    """The execution is CANCELLED, or runs and was asked to stop."""

    execution: int


@dataclass(frozen=True, slots=True)
class CancelNeedsWorker:
    """The job's execution is LEASED: only its worker knows whether it has begun."""

    job: int
    execution: int
    token: int
    session: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The new executions, in the request's order."""

    executions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Fired:
    """Due rows consumed, and whether more of these shards are due already."""

    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session: int


@dataclass(frozen=True, slots=True)
class Upstream:
    """An execution that another one follows. `node` is its name in the workflow of both, empty outside of one."""

    node: str
    job: int
    execution: int


@dataclass(frozen=True, slots=True)
class Leased:
    """A block of executions under one fencing token, in columns. Empty when nothing was ready.

    `rows` are the execution rows' immutable heads; `payloads` is empty when none has one.
    """

    session: int
    token: int
    executions: Sequence[int]
    jobs: Sequence[int]
    scheduled_for_ms: Sequence[int]
    attempts: Sequence[int]
    profiles: Sequence[int]
    payloads: Sequence[bytes] = ()
    # By execution, for those that follow others.
    upstreams: Sequence[tuple[int, Sequence[Upstream]]] = ()


@dataclass(frozen=True, slots=True)
class Renewed:
    """`lost`: sessions that were unknown or over; every lease of theirs is gone."""

    lost: Sequence[int]


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Rows removed, beside what goes with them; whether that was the end of a pass over everything."""

    removed: int
    done: bool


@dataclass(frozen=True, slots=True)
class KeyClaimed:
    """Whether the key is the caller's; else whether it is completed, with the result. `token` is the owner's."""

    claimed: bool
    completed: bool
    result: bytes
    token: int
    expiry_ms: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Answer to Ack, Fail, Started and Release: the executions that were refused as stale."""

    stale: Sequence[int]


@dataclass(frozen=True, slots=True)
class VerificationStarted:
    """Every node that applies entry `index` hashes its state as of it."""

    index: int


@dataclass(frozen=True, slots=True)
class LimitStored:
    """The limit as it is now; `leased` executions count against its concurrency."""

    row: LimitRow
    leased: int


@dataclass(frozen=True, slots=True)
class Done:
    """Carried out; there is nothing more to say."""


Result = (
    Rejected
    | JobsCreated
    | KeyConflict
    | JobCancelled
    | JobChanged
    | ExecutionCancelled
    | BackfillChanged
    | Triggered
    | CancelNeedsWorker
    | Replayed
    | Fired
    | SessionOpened
    | Leased
    | Renewed
    | KeyClaimed
    | Reclaimed
    | Settled
    | VerificationStarted
    | LimitStored
    | Done
)


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease was ended by the state machine, not by its worker: tell the worker, if it is connected here.

    `reason` is a value of raftsched.v1.CancelReason. With REQUESTED the lease may go on: the handler is asked to stop.
    """

    session: int
    token: int
    executions: Sequence[int]
    reason: int


@dataclass(slots=True)
class Effects:
    """What one entry did, beside the store. `results` holds only what this node asked for."""

    results: list[tuple[int, Result]] = field(default_factory=list)
    leases_ended: list[LeaseEnded] = field(default_factory=list)
    sessions_ended: list[int] = field(default_factory=list)
    shards_changed: bool = False
    # Something became ready in these queues.
    ready_queues: set[str] = field(default_factory=set)
    # The entry asks for the state to be verified as of its end.
    verify: bool = False
