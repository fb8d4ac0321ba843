import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from raftsched.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecutionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_STATE_UNSPECIFIED: _ClassVar[ExecutionState]
    EXECUTION_STATE_PENDING: _ClassVar[ExecutionState]
    EXECUTION_STATE_LEASED: _ClassVar[ExecutionState]
    EXECUTION_STATE_RUNNING: _ClassVar[ExecutionState]
    EXECUTION_STATE_SUCCEEDED: _ClassVar[ExecutionState]
    EXECUTION_STATE_FAILED: _ClassVar[ExecutionState]
    EXECUTION_STATE_DEAD_LETTER: _ClassVar[ExecutionState]
    EXECUTION_STATE_CANCELLED: _ClassVar[ExecutionState]
    EXECUTION_STATE_SNOOZED: _ClassVar[ExecutionState]

class ExecutionCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_CAUSE_UNSPECIFIED: _ClassVar[ExecutionCause]
    EXECUTION_CAUSE_SCHEDULE: _ClassVar[ExecutionCause]
    EXECUTION_CAUSE_TRIGGER: _ClassVar[ExecutionCause]
    EXECUTION_CAUSE_BACKFILL: _ClassVar[ExecutionCause]
    EXECUTION_CAUSE_REPLAY: _ClassVar[ExecutionCause]
    EXECUTION_CAUSE_DEPENDENCY: _ClassVar[ExecutionCause]

class AttemptOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_OUTCOME_UNSPECIFIED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_SUCCEEDED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_FAILED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_LEASE_LOST: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_TIMED_OUT: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_SNOOZED: _ClassVar[AttemptOutcome]

class SkipReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SKIP_REASON_UNSPECIFIED: _ClassVar[SkipReason]
    SKIP_REASON_OVERLAP: _ClassVar[SkipReason]
    SKIP_REASON_CATCH_UP: _ClassVar[SkipReason]
    SKIP_REASON_CANCELLED: _ClassVar[SkipReason]
    SKIP_REASON_PAUSED: _ClassVar[SkipReason]
    SKIP_REASON_START_DEADLINE: _ClassVar[SkipReason]
    SKIP_REASON_CALENDAR: _ClassVar[SkipReason]
    SKIP_REASON_UPDATED: _ClassVar[SkipReason]
    SKIP_REASON_UPSTREAM: _ClassVar[SkipReason]
EXECUTION_STATE_UNSPECIFIED: ExecutionState
EXECUTION_STATE_PENDING: ExecutionState
EXECUTION_STATE_LEASED: ExecutionState
EXECUTION_STATE_RUNNING: ExecutionState
EXECUTION_STATE_SUCCEEDED: ExecutionState
EXECUTION_STATE_FAILED: ExecutionState
EXECUTION_STATE_DEAD_LETTER: ExecutionState
EXECUTION_STATE_CANCELLED: ExecutionState
EXECUTION_STATE_SNOOZED: ExecutionState
EXECUTION_CAUSE_UNSPECIFIED: ExecutionCause
EXECUTION_CAUSE_SCHEDULE: ExecutionCause
EXECUTION_CAUSE_TRIGGER: ExecutionCause
EXECUTION_CAUSE_BACKFILL: ExecutionCause
EXECUTION_CAUSE_REPLAY: ExecutionCause
EXECUTION_CAUSE_DEPENDENCY: ExecutionCause
ATTEMPT_OUTCOME_UNSPECIFIED: AttemptOutcome
ATTEMPT_OUTCOME_SUCCEEDED: AttemptOutcome
ATTEMPT_OUTCOME_FAILED: AttemptOutcome
ATTEMPT_OUTCOME_LEASE_LOST: AttemptOutcome
ATTEMPT_OUTCOME_TIMED_OUT: AttemptOutcome
ATTEMPT_OUTCOME_SNOOZED: AttemptOutcome
SKIP_REASON_UNSPECIFIED: SkipReason
SKIP_REASON_OVERLAP: SkipReason
SKIP_REASON_CATCH_UP: SkipReason
SKIP_REASON_CANCELLED: SkipReason
SKIP_REASON_PAUSED: SkipReason
SKIP_REASON_START_DEADLINE: SkipReason
SKIP_REASON_CALENDAR: SkipReason
SKIP_REASON_UPDATED: SkipReason
SKIP_REASON_UPSTREAM: SkipReason

class Execution(_message.Message):
    __slots__ = ("id", "job_id", "scheduled_for", "state", "attempt", "lost_leases", "fire_time", "lease_time", "start_time", "end_time", "token", "worker", "error", "retry_time", "replayed_as", "cause", "attempts", "cancel_requested")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LOST_LEASES_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_TIME_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_AS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    id: int
    job_id: int
    scheduled_for: _timestamp_pb2.Timestamp
    state: ExecutionState
    attempt: int
    lost_leases: int
    fire_time: _timestamp_pb2.Timestamp
    lease_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    token: int
    worker: str
    error: str
    retry_time: _timestamp_pb2.Timestamp
    replayed_as: int
    cause: ExecutionCause
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    cancel_requested: bool
    def __init__(self, id: _Optional[int] = ..., job_id: _Optional[int] = ..., scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[ExecutionState, str]] = ..., attempt: _Optional[int] = ..., lost_leases: _Optional[int] = ..., fire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., token: _Optional[int] = ..., worker: _Optional[str] = ..., error: _Optional[str] = ..., retry_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replayed_as: _Optional[int] = ..., cause: _Optional[_Union[ExecutionCause, str]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., cancel_requested: _Optional[bool] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("number", "worker", "lease_time", "start_time", "end_time", "outcome", "error", "error_class")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LEASE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    number: int
    worker: str
    lease_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    outcome: AttemptOutcome
    error: str
    error_class: str
    def __init__(self, number: _Optional[int] = ..., worker: _Optional[str] = ..., lease_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[_Union[AttemptOutcome, str]] = ..., error: _Optional[str] = ..., error_class: _Optional[str] = ...) -> None: ...

class GetExecutionRequest(_message.Message):
    __slots__ = ("id", "read")
    ID_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    id: int
    read: _job_pb2.ReadOptions
    def __init__(self, id: _Optional[int] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetExecutionResponse(_message.Message):
    __slots__ = ("execution", "index")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    execution: Execution
    index: int
    def __init__(self, execution: _Optional[_Union[Execution, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ListExecutionsRequest(_message.Message):
    __slots__ = ("job_id", "page_size", "page_token", "read")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, job_id: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class ListExecutionsResponse(_message.Message):
    __slots__ = ("executions", "next_page_token", "index")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[Execution]
    next_page_token: str
    index: int
    def __init__(self, executions: _Optional[_Iterable[_Union[Execution, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class SkippedOccurrence(_message.Message):
    __slots__ = ("scheduled_for", "reason", "count", "last_scheduled_for")
    SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    scheduled_for: _timestamp_pb2.Timestamp
    reason: SkipReason
    count: int
    last_scheduled_for: _timestamp_pb2.Timestamp
    def __init__(self, scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[_Union[SkipReason, str]] = ..., count: _Optional[int] = ..., last_scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListSkippedOccurrencesRequest(_message.Message):
    __slots__ = ("job_id", "page_size", "page_token", "read")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, job_id: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class ListSkippedOccurrencesResponse(_message.Message):
    __slots__ = ("occurrences", "next_page_token", "index")
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    occurrences: _containers.RepeatedCompositeFieldContainer[SkippedOccurrence]
    next_page_token: str
    index: int
    def __init__(self, occurrences: _Optional[_Iterable[_Union[SkippedOccurrence, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("execution", "namespace", "handler", "job_name", "dead_time")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    DEAD_TIME_FIELD_NUMBER: _ClassVar[int]
    execution: Execution
    namespace: str
    handler: str
    job_name: str
    dead_time: _timestamp_pb2.Timestamp
    def __init__(self, execution: _Optional[_Union[Execution, _Mapping]] = ..., namespace: _Optional[str] = ..., handler: _Optional[str] = ..., job_name: _Optional[str] = ..., dead_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token", "read")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token", "index")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    index: int
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class ReplayDeadLettersRequest(_message.Message):
    __slots__ = ("execution_ids", "request_id")
    EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    execution_ids: _containers.RepeatedScalarFieldContainer[int]
    request_id: str
    def __init__(self, execution_ids: _Optional[_Iterable[int]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReplayDeadLettersResponse(_message.Message):
    __slots__ = ("new_execution_ids", "index")
    NEW_EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    new_execution_ids: _containers.RepeatedScalarFieldContainer[int]
    index: int
    def __init__(self, new_execution_ids: _Optional[_Iterable[int]] = ..., index: _Optional[int] = ...) -> None: ...

class ListOccurrencesRequest(_message.Message):
    __slots__ = ("job_id", "start", "end", "page_size", "page_token", "read")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, job_id: _Optional[int] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class Occurrence(_message.Message):
    __slots__ = ("scheduled_for", "last_scheduled_for", "count", "execution", "skipped", "queued")
    SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    LAST_SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    scheduled_for: _timestamp_pb2.Timestamp
    last_scheduled_for: _timestamp_pb2.Timestamp
    count: int
    execution: Execution
    skipped: SkipReason
    queued: bool
    def __init__(self, scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., execution: _Optional[_Union[Execution, _Mapping]] = ..., skipped: _Optional[_Union[SkipReason, str]] = ..., queued: _Optional[bool] = ...) -> None: ...

class ListOccurrencesResponse(_message.Message):
    __slots__ = ("occurrences", "next_page_token", "index")
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    occurrences: _containers.RepeatedCompositeFieldContainer[Occurrence]
    next_page_token: str
    index: int
    def __init__(self, occurrences: _Optional[_Iterable[_Union[Occurrence, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class CancelExecutionRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    request_id: str
    def __init__(self, id: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelExecutionResponse(_message.Message):
    __slots__ = ("execution", "index")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    execution: Execution
    index: int
    def __init__(self, execution: _Optional[_Union[Execution, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class GetResultRequest(_message.Message):
    __slots__ = ("execution_id", "read")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    read: _job_pb2.ReadOptions
    def __init__(self, execution_id: _Optional[int] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetResultResponse(_message.Message):
    __slots__ = ("result", "index")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    index: int
    def __init__(self, result: _Optional[bytes] = ..., index: _Optional[int] = ...) -> None: ...
