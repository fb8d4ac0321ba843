import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAP_POLICY_UNSPECIFIED: _ClassVar[GapPolicy]
    GAP_POLICY_SHIFT: _ClassVar[GapPolicy]
    GAP_POLICY_SKIP: _ClassVar[GapPolicy]

class FoldPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FOLD_POLICY_UNSPECIFIED: _ClassVar[FoldPolicy]
    FOLD_POLICY_FIRST: _ClassVar[FoldPolicy]
    FOLD_POLICY_LAST: _ClassVar[FoldPolicy]
    FOLD_POLICY_BOTH: _ClassVar[FoldPolicy]

class CalendarRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALENDAR_RULE_UNSPECIFIED: _ClassVar[CalendarRule]
    CALENDAR_RULE_EXCLUDE: _ClassVar[CalendarRule]
    CALENDAR_RULE_NEXT_OPEN_DAY: _ClassVar[CalendarRule]

class DependencyRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEPENDENCY_RULE_UNSPECIFIED: _ClassVar[DependencyRule]
    DEPENDENCY_RULE_ALL_SUCCESS: _ClassVar[DependencyRule]
    DEPENDENCY_RULE_ALL_DONE: _ClassVar[DependencyRule]
    DEPENDENCY_RULE_ANY_SUCCESS: _ClassVar[DependencyRule]
    DEPENDENCY_RULE_NONE_FAILED: _ClassVar[DependencyRule]

class Backoff(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKOFF_UNSPECIFIED: _ClassVar[Backoff]
    BACKOFF_EXPONENTIAL: _ClassVar[Backoff]
    BACKOFF_FIXED: _ClassVar[Backoff]
    BACKOFF_LINEAR: _ClassVar[Backoff]

class OverlapPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_POLICY_UNSPECIFIED: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_SKIP: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_ALLOW: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_QUEUE: _ClassVar[OverlapPolicy]
    OVERLAP_POLICY_REPLACE: _ClassVar[OverlapPolicy]

class CatchUpPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CATCH_UP_POLICY_UNSPECIFIED: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_LATEST: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_ALL: _ClassVar[CatchUpPolicy]
    CATCH_UP_POLICY_NONE: _ClassVar[CatchUpPolicy]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_SCHEDULED: _ClassVar[JobState]
    JOB_STATE_ACTIVE: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_DEAD_LETTER: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
    JOB_STATE_PAUSED: _ClassVar[JobState]
    JOB_STATE_COMPLETED: _ClassVar[JobState]
    JOB_STATE_BLOCKED: _ClassVar[JobState]
    JOB_STATE_UPSTREAM_FAILED: _ClassVar[JobState]
GAP_POLICY_UNSPECIFIED: GapPolicy
GAP_POLICY_SHIFT: GapPolicy
GAP_POLICY_SKIP: GapPolicy
FOLD_POLICY_UNSPECIFIED: FoldPolicy
FOLD_POLICY_FIRST: FoldPolicy
FOLD_POLICY_LAST: FoldPolicy
FOLD_POLICY_BOTH: FoldPolicy
CALENDAR_RULE_UNSPECIFIED: CalendarRule
CALENDAR_RULE_EXCLUDE: CalendarRule
CALENDAR_RULE_NEXT_OPEN_DAY: CalendarRule
DEPENDENCY_RULE_UNSPECIFIED: DependencyRule
DEPENDENCY_RULE_ALL_SUCCESS: DependencyRule
DEPENDENCY_RULE_ALL_DONE: DependencyRule
DEPENDENCY_RULE_ANY_SUCCESS: DependencyRule
DEPENDENCY_RULE_NONE_FAILED: DependencyRule
BACKOFF_UNSPECIFIED: Backoff
BACKOFF_EXPONENTIAL: Backoff
BACKOFF_FIXED: Backoff
BACKOFF_LINEAR: Backoff
OVERLAP_POLICY_UNSPECIFIED: OverlapPolicy
OVERLAP_POLICY_SKIP: OverlapPolicy
OVERLAP_POLICY_ALLOW: OverlapPolicy
OVERLAP_POLICY_QUEUE: OverlapPolicy
OVERLAP_POLICY_REPLACE: OverlapPolicy
CATCH_UP_POLICY_UNSPECIFIED: CatchUpPolicy
CATCH_UP_POLICY_LATEST: CatchUpPolicy
CATCH_UP_POLICY_ALL: CatchUpPolicy
CATCH_UP_POLICY_NONE: CatchUpPolicy
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_ACTIVE: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_DEAD_LETTER: JobState
JOB_STATE_CANCELLED: JobState
JOB_STATE_PAUSED: JobState
JOB_STATE_COMPLETED: JobState
JOB_STATE_BLOCKED: JobState
JOB_STATE_UPSTREAM_FAILED: JobState

class Job(_message.Message):
    __slots__ = ("id", "namespace", "name", "handler", "payload", "content_type", "queue", "priority", "tenant", "labels", "run_at", "cron", "interval", "dependencies", "jitter", "retry", "run_timeout", "start_deadline", "overlap", "catch_up", "retention", "max_runs", "overlap_limit", "catch_up_window", "catch_up_limit", "catch_up_interval", "concurrency_key", "concurrency_limit", "pause_after_failures", "state", "create_time", "next_run_time", "last_execution_id", "cancel_time", "etag", "pause_note", "pause_time", "workflow_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    START_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_AFTER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TIME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    PAUSE_NOTE_FIELD_NUMBER: _ClassVar[int]
    PAUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    namespace: str
    name: str
    handler: str
    payload: bytes
    content_type: str
    queue: str
    priority: int
    tenant: str
    labels: _containers.ScalarMap[str, str]
    run_at: _timestamp_pb2.Timestamp
    cron: Cron
    interval: Interval
    dependencies: Dependencies
    jitter: _duration_pb2.Duration
    retry: RetryPolicy
    run_timeout: _duration_pb2.Duration
    start_deadline: _duration_pb2.Duration
    overlap: OverlapPolicy
    catch_up: CatchUpPolicy
    retention: Retention
    max_runs: int
    overlap_limit: int
    catch_up_window: _duration_pb2.Duration
    catch_up_limit: int
    catch_up_interval: _duration_pb2.Duration
    concurrency_key: str
    concurrency_limit: int
    pause_after_failures: int
    state: JobState
    create_time: _timestamp_pb2.Timestamp
    next_run_time: _timestamp_pb2.Timestamp
    last_execution_id: int
    cancel_time: _timestamp_pb2.Timestamp
    etag: str
    pause_note: str
    pause_time: _timestamp_pb2.Timestamp
    workflow_id: int
    def __init__(self, id: _Optional[int] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., handler: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., tenant: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cron: _Optional[_Union[Cron, _Mapping]] = ..., interval: _Optional[_Union[Interval, _Mapping]] = ..., dependencies: _Optional[_Union[Dependencies, _Mapping]] = ..., jitter: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., run_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., overlap: _Optional[_Union[OverlapPolicy, str]] = ..., catch_up: _Optional[_Union[CatchUpPolicy, str]] = ..., retention: _Optional[_Union[Retention, _Mapping]] = ..., max_runs: _Optional[int] = ..., overlap_limit: _Optional[int] = ..., catch_up_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., catch_up_limit: _Optional[int] = ..., catch_up_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., concurrency_key: _Optional[str] = ..., concurrency_limit: _Optional[int] = ..., pause_after_failures: _Optional[int] = ..., state: _Optional[_Union[JobState, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_execution_id: _Optional[int] = ..., cancel_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., etag: _Optional[str] = ..., pause_note: _Optional[str] = ..., pause_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., workflow_id: _Optional[int] = ...) -> None: ...

class Cron(_message.Message):
    __slots__ = ("expression", "time_zone", "more_expressions", "exclude", "gap", "fold", "start", "end", "calendars")
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    MORE_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    expression: str
    time_zone: str
    more_expressions: _containers.RepeatedScalarFieldContainer[str]
    exclude: _containers.RepeatedScalarFieldContainer[str]
    gap: GapPolicy
    fold: FoldPolicy
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    calendars: _containers.RepeatedCompositeFieldContainer[CalendarUse]
    def __init__(self, expression: _Optional[str] = ..., time_zone: _Optional[str] = ..., more_expressions: _Optional[_Iterable[str]] = ..., exclude: _Optional[_Iterable[str]] = ..., gap: _Optional[_Union[GapPolicy, str]] = ..., fold: _Optional[_Union[FoldPolicy, str]] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., calendars: _Optional[_Iterable[_Union[CalendarUse, _Mapping]]] = ...) -> None: ...

class CalendarUse(_message.Message):
    __slots__ = ("calendar", "rule")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    calendar: str
    rule: CalendarRule
    def __init__(self, calendar: _Optional[str] = ..., rule: _Optional[_Union[CalendarRule, str]] = ...) -> None: ...

class Interval(_message.Message):
    __slots__ = ("every", "start", "end")
    EVERY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    every: _duration_pb2.Duration
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    def __init__(self, every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Dependencies(_message.Message):
    __slots__ = ("job_ids", "rule")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    rule: DependencyRule
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ..., rule: _Optional[_Union[DependencyRule, str]] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("max_attempts", "initial_backoff", "max_backoff", "multiplier", "jitter", "backoff", "max_elapsed", "non_retryable_errors")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_ELAPSED_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_ERRORS_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    initial_backoff: _duration_pb2.Duration
    max_backoff: _duration_pb2.Duration
    multiplier: float
    jitter: float
    backoff: Backoff
    max_elapsed: _duration_pb2.Duration
    non_retryable_errors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_backoff: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., jitter: _Optional[float] = ..., backoff: _Optional[_Union[Backoff, str]] = ..., max_elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., non_retryable_errors: _Optional[_Iterable[str]] = ...) -> None: ...

class Retention(_message.Message):
    __slots__ = ("max_age", "max_executions")
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    MAX_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    max_age: _duration_pb2.Duration
    max_executions: int
    def __init__(self, max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_executions: _Optional[int] = ...) -> None: ...

class CreateJobRequest(_message.Message):
    __slots__ = ("job", "request_id")
    JOB_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    job: Job
    request_id: str
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateJobResponse(_message.Message):
    __slots__ = ("job", "existed", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    existed: bool
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., existed: _Optional[bool] = ..., index: _Optional[int] = ...) -> None: ...

class BatchCreateJobsRequest(_message.Message):
    __slots__ = ("jobs", "request_id")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    request_id: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class BatchCreateJobsResponse(_message.Message):
    __slots__ = ("job_ids", "existed", "index")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    existed: bool
    index: int
    def __init__(self, job_ids: _Optional[_Iterable[int]] = ..., existed: _Optional[bool] = ..., index: _Optional[int] = ...) -> None: ...

class ReadOptions(_message.Message):
    __slots__ = ("linearizable", "min_index")
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    MIN_INDEX_FIELD_NUMBER: _ClassVar[int]
    linearizable: bool
    min_index: int
    def __init__(self, linearizable: _Optional[bool] = ..., min_index: _Optional[int] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("id", "name", "read")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: JobName
    read: ReadOptions
    def __init__(self, id: _Optional[int] = ..., name: _Optional[_Union[JobName, _Mapping]] = ..., read: _Optional[_Union[ReadOptions, _Mapping]] = ...) -> None: ...

class JobName(_message.Message):
    __slots__ = ("namespace", "name")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token", "read")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    page_size: int
    page_token: str
    read: ReadOptions
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[ReadOptions, _Mapping]] = ...) -> None: ...

class JobFilter(_message.Message):
    __slots__ = ("namespace", "state", "handler", "labels", "queue")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    state: JobState
    handler: str
    labels: _containers.ScalarMap[str, str]
    queue: str
    def __init__(self, namespace: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., handler: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., queue: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token", "index")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    index: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    request_id: str
    def __init__(self, id: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class UpdateJobRequest(_message.Message):
    __slots__ = ("job", "update_mask", "etag", "request_id")
    JOB_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    job: Job
    update_mask: _field_mask_pb2.FieldMask
    etag: str
    request_id: str
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., etag: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("id", "note", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    note: str
    request_id: str
    def __init__(self, id: _Optional[int] = ..., note: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    request_id: str
    def __init__(self, id: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class TriggerJobRequest(_message.Message):
    __slots__ = ("id", "payload", "ignore_overlap", "refuse_overlap", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    IGNORE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    REFUSE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    payload: bytes
    ignore_overlap: bool
    refuse_overlap: bool
    request_id: str
    def __init__(self, id: _Optional[int] = ..., payload: _Optional[bytes] = ..., ignore_overlap: _Optional[bool] = ..., refuse_overlap: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class TriggerJobResponse(_message.Message):
    __slots__ = ("execution_id", "scheduled_for", "skipped", "index")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FOR_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    scheduled_for: _timestamp_pb2.Timestamp
    skipped: bool
    index: int
    def __init__(self, execution_id: _Optional[int] = ..., scheduled_for: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., skipped: _Optional[bool] = ..., index: _Optional[int] = ...) -> None: ...

class RescheduleJobRequest(_message.Message):
    __slots__ = ("id", "run_at", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    run_at: _timestamp_pb2.Timestamp
    request_id: str
    def __init__(self, id: _Optional[int] = ..., run_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class RescheduleJobResponse(_message.Message):
    __slots__ = ("job", "index")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    job: Job
    index: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    request_id: str
    def __init__(self, id: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...
