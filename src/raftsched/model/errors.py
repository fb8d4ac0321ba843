"""Every error this project raises on purpose, and the two tables that map them to gRPC and HTTP.

The docstring of a class is its default message. `metadata` travels to callers as google.rpc.ErrorInfo metadata;
`field` as a google.rpc.BadRequest field violation.
"""

from enum import IntEnum


class Code(IntEnum):
    """The canonical status codes this project uses, by their numbers in google.rpc.Code."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


# google.rpc.Code -> HTTP status, as in googleapis' code.proto, except that a failed precondition is a conflict here.
HTTP_STATUS: dict[Code, int] = {
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 409,
    Code.ABORTED: 409,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
}


class RaftschedError(Exception):
    """The request could not be carried out."""

    code: Code = Code.INTERNAL
    # Stable, UPPER_SNAKE_CASE; programs switch on it.
    reason: str = "INTERNAL"

    def __init__(self, message: str = "", *, field: str = "", **metadata: str) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.field = field
        self.metadata = metadata
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidField(RaftschedError):
    """A field's value is not allowed."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_FIELD"


class DependencyCycle(InvalidField):
    """These jobs depend on each other in a circle."""

    reason = "DEPENDENCY_CYCLE"


class UnknownNode(InvalidField):
    """The workflow has no node of that name."""

    reason = "UNKNOWN_NODE"


class NotImplementedField(RaftschedError):
    """This field is part of the API but this version does not carry it out yet."""

    code = Code.UNIMPLEMENTED
    reason = "FIELD_NOT_IMPLEMENTED"


class JobNotFound(RaftschedError):
    """There is no such job."""

    code = Code.NOT_FOUND
    reason = "JOB_NOT_FOUND"


class ExecutionNotFound(RaftschedError):
    """There is no such execution."""

    code = Code.NOT_FOUND
    reason = "EXECUTION_NOT_FOUND"


class NoResult(RaftschedError):
    """The execution has not succeeded, so there is no result of it."""

    code = Code.FAILED_PRECONDITION
    reason = "NO_RESULT"


class WorkflowNotFound(RaftschedError):
    """There is no such workflow."""

    code = Code.NOT_FOUND
    reason = "WORKFLOW_NOT_FOUND"


class UnknownName(RaftschedError):
    """No job of this cluster has ever used that name."""

    code = Code.NOT_FOUND
    reason = "UNKNOWN_NAME"


class NameTaken(RaftschedError):
    """Another job of this namespace has that name."""

    code = Code.ALREADY_EXISTS
    reason = "NAME_TAKEN"


class IdempotencyConflict(RaftschedError):
    """That request_id was used before for a different request."""

    code = Code.ALREADY_EXISTS
    reason = "IDEMPOTENCY_CONFLICT"


class JobRunning(RaftschedError):
    """An execution of the job is running; it cannot be cancelled now."""

    code = Code.FAILED_PRECONDITION
    reason = "JOB_RUNNING"


class JobFinished(RaftschedError):
    """The job has finished; there is nothing to cancel."""

    code = Code.FAILED_PRECONDITION
    reason = "JOB_FINISHED"


class ExecutionFinished(RaftschedError):
    """The execution has finished; there is nothing to cancel."""

    code = Code.FAILED_PRECONDITION
    reason = "EXECUTION_FINISHED"


class JobStateForbids(RaftschedError):
    """The state that the job is in does not allow that."""

    code = Code.FAILED_PRECONDITION
    reason = "JOB_STATE_FORBIDS"


class EtagMismatch(RaftschedError):
    """The job has changed since it was read; read it again."""

    code = Code.ABORTED
    reason = "ETAG_MISMATCH"


class OverlapRefused(RaftschedError):
    """The job's overlap policy does not let it run now."""

    code = Code.FAILED_PRECONDITION
    reason = "OVERLAP_REFUSED"


class BackfillNotFound(RaftschedError):
    """There is no such backfill."""

    code = Code.NOT_FOUND
    reason = "BACKFILL_NOT_FOUND"


class CalendarNotFound(RaftschedError):
    """There is no such calendar."""

    code = Code.NOT_FOUND
    reason = "CALENDAR_NOT_FOUND"


class CalendarInUse(RaftschedError):
    """The schedule of a job uses the calendar."""

    code = Code.FAILED_PRECONDITION
    reason = "CALENDAR_IN_USE"


class CalendarChanged(RaftschedError):
    """The calendar was changed by somebody else meanwhile; try again."""

    code = Code.ABORTED
    reason = "CALENDAR_CHANGED"


class NotDeadLetter(RaftschedError):
    """The execution is not in the dead letters."""

    code = Code.FAILED_PRECONDITION
    reason = "NOT_DEAD_LETTER"


class IllegalTransition(RaftschedError):
    """That event is not allowed in the state the execution is in."""

    code = Code.FAILED_PRECONDITION
    reason = "ILLEGAL_TRANSITION"


class TooManyRequests(RaftschedError):
    """This node has as much waiting as it will hold; try again shortly."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "OVERLOADED"


class NoQuorum(RaftschedError):
    """The cluster has no leader that a majority follows, so nothing can be made durable; try again."""

    code = Code.UNAVAILABLE
    reason = "NO_QUORUM"


class OutcomeUnknown(RaftschedError):
    """No answer from the quorum in time; the request may still be carried out. Repeat it with the same request_id."""

    code = Code.UNAVAILABLE
    reason = "OUTCOME_UNKNOWN"


class ReadTimeout(RaftschedError):
    """This node did not reach the state asked for in time. Read again, from another node, or without min_index."""

    code = Code.DEADLINE_EXCEEDED
    reason = "READ_TIMEOUT"


class ClockUnsure(RaftschedError):
    """This node cannot tell yet whether its clock is right, hence not when a job is due; use another, or try again."""

    code = Code.UNAVAILABLE
    reason = "CLOCK_UNSURE"


class NodeDraining(RaftschedError):
    """This node is shutting down; use another."""

    code = Code.UNAVAILABLE
    reason = "NODE_DRAINING"


class NodeDiverged(RaftschedError):
    """This node's state differs from the quorum's; it serves nothing until it is rebuilt."""

    code = Code.UNAVAILABLE
    reason = "NODE_DIVERGED"


class MemberExists(RaftschedError):
    """That node, or that address, belongs to the cluster already; remove the node first."""

    code = Code.ALREADY_EXISTS
    reason = "MEMBER_EXISTS"


class NodeNotFound(RaftschedError):
    """The cluster has no such node."""

    code = Code.NOT_FOUND
    reason = "NODE_NOT_FOUND"


class MembershipChangeInProgress(RaftschedError):
    """Another change of the cluster's nodes is not complete yet; there is one at a time."""

    code = Code.FAILED_PRECONDITION
    reason = "MEMBERSHIP_CHANGE_IN_PROGRESS"


class LeaderNotReady(RaftschedError):
    """The leader has just been elected and does not know yet all that was decided before; try again."""

    code = Code.FAILED_PRECONDITION
    reason = "LEADER_NOT_READY"


class QuorumAtRisk(RaftschedError):
    """Too few of the nodes that would be left are connected to the leader for them to go on."""

    code = Code.FAILED_PRECONDITION
    reason = "QUORUM_AT_RISK"


class CannotLead(RaftschedError):
    """That node cannot lead: it does not vote yet, or has no connection to the leader."""

    code = Code.FAILED_PRECONDITION
    reason = "CANNOT_LEAD"


class LeaseOver(RaftschedError):
    """The execution is not leased under that token any more: another run of it may have begun."""

    code = Code.FAILED_PRECONDITION
    reason = "LEASE_OVER"


class KeyNotOwned(RaftschedError):
    """The key is not claimed under that token: its time is over, or another run has claimed it since."""

    code = Code.FAILED_PRECONDITION
    reason = "KEY_NOT_OWNED"


class ProtocolViolation(RaftschedError):
    """The worker stream carried a message that its protocol does not allow here."""

    code = Code.INVALID_ARGUMENT
    reason = "PROTOCOL_VIOLATION"


class WrongCluster(RaftschedError):
    """This node belongs to another cluster than the session does."""

    code = Code.FAILED_PRECONDITION
    reason = "WRONG_CLUSTER"


class StoreCorrupt(RaftschedError):
    """The data on disk is damaged; the node stops rather than serve it."""

    code = Code.INTERNAL
    reason = "STORE_CORRUPT"


class ImpossibleState(RaftschedError):
    """The state machine met something its rules exclude; the node stops rather than diverge."""

    code = Code.INTERNAL
    reason = "IMPOSSIBLE_STATE"
