"""Every error the client raises on purpose, built from the google.rpc details that a node answers with.

The docstring of a class is its default message. `reason` is stable and meant for programs; the message is for people.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

# Where gRPC carries google.rpc.Status.
_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of the request and what is wrong with it."""

    field: str
    description: str


class RaftschedError(Exception):
    """The cluster could not carry out the request."""

    # What a node says in ErrorInfo.reason for this class.
    default_reason: str = ""
    # Repeating the same request may succeed; the client has already done so until its time was over.
    retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        field: str = "",
        metadata: dict[str, str] | None = None,
        violations: Iterable[FieldViolation] = (),
        code: grpc.StatusCode | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.reason = reason or self.default_reason
        # The first field that is at fault; empty when none is.
        self.field = field
        self.metadata = metadata or {}
        self.violations = tuple(violations)
        # None when the client refused the request before sending it.
        self.code = code
        # Of a mutation: repeating it with this id cannot do it twice.
        self.request_id = ""
        # Of create_many: the jobs of the batches that were registered before this error.
        self.created_ids: tuple[int, ...] = ()
        super().__init__(self.message)

    def __str__(self) -> str:
        if self.field and not self.message.startswith(self.field):
            return f"{self.field}: {self.message}"
        return self.message


class InvalidField(RaftschedError, ValueError):
    """A field's value is not allowed."""

    default_reason = "INVALID_FIELD"


class NotImplementedField(RaftschedError):
    """This version of the cluster does not carry that field out."""

    default_reason = "FIELD_NOT_IMPLEMENTED"


class JobNotFound(RaftschedError):
    """There is no such job."""

    default_reason = "JOB_NOT_FOUND"


class ExecutionNotFound(RaftschedError):
    """There is no such execution."""

    default_reason = "EXECUTION_NOT_FOUND"


class UnknownName(RaftschedError):
    """No job of this cluster has ever used that name."""

    default_reason = "UNKNOWN_NAME"


class NameTaken(RaftschedError):
    """Another job of this namespace has that name."""

    default_reason = "NAME_TAKEN"


class IdempotencyConflict(RaftschedError):
    """That request_id was used before for a different request."""

    default_reason = "IDEMPOTENCY_CONFLICT"


class JobRunning(RaftschedError):
    """An execution of the job is running; it cannot be cancelled now."""

    default_reason = "JOB_RUNNING"


class JobFinished(RaftschedError):
    """The job has finished; there is nothing to cancel."""

    default_reason = "JOB_FINISHED"


class ExecutionFinished(RaftschedError):
    """The execution has finished; there is nothing to cancel."""

    default_reason = "EXECUTION_FINISHED"


class JobStateForbids(RaftschedError):
    """The state that the job is in does not allow that."""

    default_reason = "JOB_STATE_FORBIDS"


class LeaseOver(RaftschedError):
    """The execution is not leased under that token any more: another run of it may have begun."""

    default_reason = "LEASE_OVER"


class KeyNotOwned(RaftschedError):
    """The key is not claimed under that token: its time is over, or another run has claimed it since."""

    default_reason = "KEY_NOT_OWNED"


class EtagMismatch(RaftschedError):
    """The job has changed since it was read."""

    default_reason = "ETAG_MISMATCH"


class OverlapRefused(RaftschedError):
    """The job's overlap policy does not let it run now."""

    default_reason = "OVERLAP_REFUSED"


class BackfillNotFound(RaftschedError):
    """There is no such backfill."""

    default_reason = "BACKFILL_NOT_FOUND"


class NoResult(RaftschedError):
    """The execution has not succeeded, so there is no result of it."""

    default_reason = "NO_RESULT"


class WorkflowNotFound(RaftschedError):
    """There is no such workflow."""

    default_reason = "WORKFLOW_NOT_FOUND"


class DependencyCycle(InvalidField):
    """These jobs depend on each other in a circle; `metadata["path"]` shows it."""

    default_reason = "DEPENDENCY_CYCLE"


class UnknownNode(InvalidField):
    """The workflow has no node of that name; `metadata["path"]` shows who depends on it."""

    default_reason = "UNKNOWN_NODE"


class CalendarNotFound(RaftschedError):
    """There is no such calendar."""

    default_reason = "CALENDAR_NOT_FOUND"


class CalendarInUse(RaftschedError):
    """The schedule of a job uses the calendar."""

    default_reason = "CALENDAR_IN_USE"


class NotDeadLetter(RaftschedError):
    """The execution is not in the dead letters."""

    default_reason = "NOT_DEAD_LETTER"


class Unavailable(RaftschedError):
    """No node could be reached."""

    default_reason = "UNAVAILABLE"
    retryable = True


class DeadlineExceeded(Unavailable):
    """No node answered in time; a mutation may still be carried out."""

    default_reason = "DEADLINE_EXCEEDED"


class Overloaded(Unavailable):
    """The nodes have as much waiting as they will hold."""

    default_reason = "OVERLOADED"


class NoQuorum(Unavailable):
    """The cluster has no leader that a majority follows, so nothing can be made durable."""

    default_reason = "NO_QUORUM"


class OutcomeUnknown(Unavailable):
    """The quorum did not answer in time; the request may still be carried out."""

    default_reason = "OUTCOME_UNKNOWN"


class NodeDraining(Unavailable):
    """The node is shutting down."""

    default_reason = "NODE_DRAINING"


class NodeDiverged(Unavailable):
    """The node's state differs from the quorum's; it serves nothing."""

    default_reason = "NODE_DIVERGED"


class ClientClosed(RaftschedError):
    """The client has been closed."""

    default_reason = "CLIENT_CLOSED"


_BY_REASON: dict[str, type[RaftschedError]] = {
    cls.default_reason: cls
    for cls in (
        InvalidField,
        NotImplementedField,
        JobNotFound,
        ExecutionNotFound,
        UnknownName,
        NameTaken,
        IdempotencyConflict,
        JobRunning,
        JobFinished,
        ExecutionFinished,
        JobStateForbids,
        EtagMismatch,
        OverlapRefused,
        BackfillNotFound,
        CalendarNotFound,
        CalendarInUse,
        NotDeadLetter,
        NoResult,
        WorkflowNotFound,
        DependencyCycle,
        UnknownNode,
        LeaseOver,
        KeyNotOwned,
        Overloaded,
        NoQuorum,
        OutcomeUnknown,
        NodeDraining,
        NodeDiverged,
    )
}

# For answers that carry no ErrorInfo: gRPC's own, from the transport. A call that the node cut off (CANCELLED, while
# it stops) is as unknown as one that lost its connection.
_BY_CODE: dict[grpc.StatusCode, type[RaftschedError]] = {
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidField,
}


def from_rpc(failure: grpc.aio.AioRpcError) -> RaftschedError:
    """The typed error for a failed call: by ErrorInfo.reason, else by the status code."""
    code = failure.code()
    message = failure.details() or ""
    info = error_details_pb2.ErrorInfo()
    violations: list[FieldViolation] = []
    for detail in _details(failure):
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad_request = error_details_pb2.BadRequest()
            detail.Unpack(bad_request)
            violations.extend(FieldViolation(item.field, item.description) for item in bad_request.field_violations)
    cls = _BY_REASON.get(info.reason) or _BY_CODE.get(code, RaftschedError)
    return cls(
        message,
        reason=info.reason or cls.default_reason or code.name,
        field=violations[0].field if violations else "",
        metadata=dict(info.metadata),
        violations=violations,
        code=code,
    )


def _details(failure: grpc.aio.AioRpcError) -> list[Any]:
    trailing: Any = failure.trailing_metadata()
    for key, value in trailing or ():
        if key == _DETAILS_KEY:
            status = status_pb2.Status()
            try:
                status.ParseFromString(value if isinstance(value, bytes) else value.encode())
            except DecodeError:
                return []
            return list(status.details)
    return []
