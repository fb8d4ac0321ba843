from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CancelReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_REASON_UNSPECIFIED: _ClassVar[CancelReason]
    CANCEL_REASON_REQUESTED: _ClassVar[CancelReason]
    CANCEL_REASON_RUN_TIMEOUT: _ClassVar[CancelReason]
    CANCEL_REASON_LEASE_LOST: _ClassVar[CancelReason]
    CANCEL_REASON_REPLACED: _ClassVar[CancelReason]
CANCEL_REASON_UNSPECIFIED: CancelReason
CANCEL_REASON_REQUESTED: CancelReason
CANCEL_REASON_RUN_TIMEOUT: CancelReason
CANCEL_REASON_LEASE_LOST: CancelReason
CANCEL_REASON_REPLACED: CancelReason

class WorkerMessage(_message.Message):
    __slots__ = ("hello", "credit", "started", "heartbeat", "ack", "fail", "cancel_answer", "release", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_ANSWER_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    credit: Credit
    started: Started
    heartbeat: Heartbeat
    ack: Ack
    fail: Fail
    cancel_answer: CancelAnswer
    release: Release
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., fail: _Optional[_Union[Fail, _Mapping]] = ..., cancel_answer: _Optional[_Union[CancelAnswer, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("welcome", "lease_batch", "confirm", "renewed", "cancel_execution", "drain", "session_lost")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    LEASE_BATCH_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    SESSION_LOST_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    lease_batch: LeaseBatch
    confirm: Confirm
    renewed: Renewed
    cancel_execution: CancelExecution
    drain: Drain
    session_lost: SessionLost
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., lease_batch: _Optional[_Union[LeaseBatch, _Mapping]] = ..., confirm: _Optional[_Union[Confirm, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., cancel_execution: _Optional[_Union[CancelExecution, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., session_lost: _Optional[_Union[SessionLost, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("worker", "session", "queues", "cluster_id")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    worker: str
    session: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    cluster_id: str
    def __init__(self, worker: _Optional[str] = ..., session: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session", "node", "session_ttl_ms", "heartbeat_interval_ms", "started_after_ms", "cluster_id")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    session: int
    node: int
    session_ttl_ms: int
    heartbeat_interval_ms: int
    started_after_ms: int
    cluster_id: str
    def __init__(self, session: _Optional[int] = ..., node: _Optional[int] = ..., session_ttl_ms: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., started_after_ms: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("total",)
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    total: int
    def __init__(self, total: _Optional[int] = ...) -> None: ...

class LeaseBatch(_message.Message):
    __slots__ = ("token", "execution_ids", "job_ids", "scheduled_for_ms", "attempts", "kinds", "kind_indexes", "payloads", "upstreams")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FOR_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    KIND_INDEXES_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAMS_FIELD_NUMBER: _ClassVar[int]
    token: int
    execution_ids: _containers.RepeatedScalarFieldContainer[int]
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    scheduled_for_ms: _containers.RepeatedScalarFieldContainer[int]
    attempts: _containers.RepeatedScalarFieldContainer[int]
    kinds: _containers.RepeatedCompositeFieldContainer[JobKind]
    kind_indexes: _containers.RepeatedScalarFieldContainer[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    upstreams: _containers.RepeatedCompositeFieldContainer[Upstreams]
    def __init__(self, token: _Optional[int] = ..., execution_ids: _Optional[_Iterable[int]] = ..., job_ids: _Optional[_Iterable[int]] = ..., scheduled_for_ms: _Optional[_Iterable[int]] = ..., attempts: _Optional[_Iterable[int]] = ..., kinds: _Optional[_Iterable[_Union[JobKind, _Mapping]]] = ..., kind_indexes: _Optional[_Iterable[int]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., upstreams: _Optional[_Iterable[_Union[Upstreams, _Mapping]]] = ...) -> None: ...

class Upstreams(_message.Message):
    __slots__ = ("execution_id", "executions")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    executions: _containers.RepeatedCompositeFieldContainer[UpstreamExecution]
    def __init__(self, execution_id: _Optional[int] = ..., executions: _Optional[_Iterable[_Union[UpstreamExecution, _Mapping]]] = ...) -> None: ...

class UpstreamExecution(_message.Message):
    __slots__ = ("node", "job_id", "execution_id")
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    node: str
    job_id: int
    execution_id: int
    def __init__(self, node: _Optional[str] = ..., job_id: _Optional[int] = ..., execution_id: _Optional[int] = ...) -> None: ...

class JobKind(_message.Message):
    __slots__ = ("namespace", "handler", "queue", "content_type", "tenant", "run_timeout_ms", "max_attempts")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    handler: str
    queue: str
    content_type: str
    tenant: str
    run_timeout_ms: int
    max_attempts: int
    def __init__(self, namespace: _Optional[str] = ..., handler: _Optional[str] = ..., queue: _Optional[str] = ..., content_type: _Optional[str] = ..., tenant: _Optional[str] = ..., run_timeout_ms: _Optional[int] = ..., max_attempts: _Optional[int] = ...) -> None: ...

class LeasedExecutions(_message.Message):
    __slots__ = ("token", "execution_ids")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    token: int
    execution_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, token: _Optional[int] = ..., execution_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("leases", "started_ms")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeasedExecutions]
    started_ms: int
    def __init__(self, leases: _Optional[_Iterable[_Union[LeasedExecutions, _Mapping]]] = ..., started_ms: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sequence", "held_tokens")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HELD_TOKENS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    held_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequence: _Optional[int] = ..., held_tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("sequence", "leases")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    leases: _containers.RepeatedCompositeFieldContainer[Completed]
    def __init__(self, sequence: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[Completed, _Mapping]]] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ("token", "execution_ids", "started_ms", "ended_ms", "results")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    token: int
    execution_ids: _containers.RepeatedScalarFieldContainer[int]
    started_ms: _containers.RepeatedScalarFieldContainer[int]
    ended_ms: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, token: _Optional[int] = ..., execution_ids: _Optional[_Iterable[int]] = ..., started_ms: _Optional[_Iterable[int]] = ..., ended_ms: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Fail(_message.Message):
    __slots__ = ("sequence", "failures")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    def __init__(self, sequence: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("token", "execution_id", "started_ms", "ended_ms", "error", "permanent", "error_class", "retry_after_ms", "snooze", "error_bases")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SNOOZE_FIELD_NUMBER: _ClassVar[int]
    ERROR_BASES_FIELD_NUMBER: _ClassVar[int]
    token: int
    execution_id: int
    started_ms: int
    ended_ms: int
    error: str
    permanent: bool
    error_class: str
    retry_after_ms: int
    snooze: bool
    error_bases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, token: _Optional[int] = ..., execution_id: _Optional[int] = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., error: _Optional[str] = ..., permanent: _Optional[bool] = ..., error_class: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., snooze: _Optional[bool] = ..., error_bases: _Optional[_Iterable[str]] = ...) -> None: ...

class Confirm(_message.Message):
    __slots__ = ("sequence", "stale_execution_ids", "retry")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STALE_EXECUTION_IDS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    stale_execution_ids: _containers.RepeatedScalarFieldContainer[int]
    retry: bool
    def __init__(self, sequence: _Optional[int] = ..., stale_execution_ids: _Optional[_Iterable[int]] = ..., retry: _Optional[bool] = ...) -> None: ...

class CancelExecution(_message.Message):
    __slots__ = ("execution_id", "token", "question", "reason")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    execution_id: int
    token: int
    question: int
    reason: CancelReason
    def __init__(self, execution_id: _Optional[int] = ..., token: _Optional[int] = ..., question: _Optional[int] = ..., reason: _Optional[_Union[CancelReason, str]] = ...) -> None: ...

class CancelAnswer(_message.Message):
    __slots__ = ("question", "begun")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    question: int
    begun: bool
    def __init__(self, question: _Optional[int] = ..., begun: _Optional[bool] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeasedExecutions]
    def __init__(self, leases: _Optional[_Iterable[_Union[LeasedExecutions, _Mapping]]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionLost(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
