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

class AlarmKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ALARM_KIND_UNSPECIFIED: _ClassVar[AlarmKind]
    ALARM_KIND_DEAD_LETTERS: _ClassVar[AlarmKind]

class NodeHealth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_HEALTH_UNSPECIFIED: _ClassVar[NodeHealth]
    NODE_HEALTH_SERVING: _ClassVar[NodeHealth]
    NODE_HEALTH_NO_QUORUM: _ClassVar[NodeHealth]
    NODE_HEALTH_DRAINING: _ClassVar[NodeHealth]
    NODE_HEALTH_DIVERGED: _ClassVar[NodeHealth]
    NODE_HEALTH_NOT_A_MEMBER: _ClassVar[NodeHealth]

class NodeRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_ROLE_UNSPECIFIED: _ClassVar[NodeRole]
    NODE_ROLE_VOTER: _ClassVar[NodeRole]
    NODE_ROLE_LEARNER: _ClassVar[NodeRole]

class VerificationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERIFICATION_STATE_UNSPECIFIED: _ClassVar[VerificationState]
    VERIFICATION_STATE_RUNNING: _ClassVar[VerificationState]
    VERIFICATION_STATE_ALONE: _ClassVar[VerificationState]
    VERIFICATION_STATE_SAME: _ClassVar[VerificationState]
    VERIFICATION_STATE_DIFFERS: _ClassVar[VerificationState]
    VERIFICATION_STATE_DAMAGED: _ClassVar[VerificationState]
    VERIFICATION_STATE_CANCELLED: _ClassVar[VerificationState]
ALARM_KIND_UNSPECIFIED: AlarmKind
ALARM_KIND_DEAD_LETTERS: AlarmKind
NODE_HEALTH_UNSPECIFIED: NodeHealth
NODE_HEALTH_SERVING: NodeHealth
NODE_HEALTH_NO_QUORUM: NodeHealth
NODE_HEALTH_DRAINING: NodeHealth
NODE_HEALTH_DIVERGED: NodeHealth
NODE_HEALTH_NOT_A_MEMBER: NodeHealth
NODE_ROLE_UNSPECIFIED: NodeRole
NODE_ROLE_VOTER: NodeRole
NODE_ROLE_LEARNER: NodeRole
VERIFICATION_STATE_UNSPECIFIED: VerificationState
VERIFICATION_STATE_RUNNING: VerificationState
VERIFICATION_STATE_ALONE: VerificationState
VERIFICATION_STATE_SAME: VerificationState
VERIFICATION_STATE_DIFFERS: VerificationState
VERIFICATION_STATE_DAMAGED: VerificationState
VERIFICATION_STATE_CANCELLED: VerificationState

class GetStatusRequest(_message.Message):
    __slots__ = ("read",)
    READ_FIELD_NUMBER: _ClassVar[int]
    read: _job_pb2.ReadOptions
    def __init__(self, read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("node", "leader", "has_quorum", "term", "commit_index", "applied_index", "first_log_index", "state_digest", "replicated_clock", "version", "nodes", "shard_owners", "queues", "workers", "jobs", "executions", "dead_letters", "oldest_due_time", "health", "cluster_id", "time_zone_database", "alarms", "kept")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    HAS_QUORUM_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    FIRST_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_CLOCK_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARD_OWNERS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_DATABASE_FIELD_NUMBER: _ClassVar[int]
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    node: int
    leader: int
    has_quorum: bool
    term: int
    commit_index: int
    applied_index: int
    first_log_index: int
    state_digest: str
    replicated_clock: _timestamp_pb2.Timestamp
    version: str
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    shard_owners: _containers.RepeatedScalarFieldContainer[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    jobs: int
    executions: int
    dead_letters: int
    oldest_due_time: _timestamp_pb2.Timestamp
    health: NodeHealth
    cluster_id: str
    time_zone_database: str
    alarms: _containers.RepeatedCompositeFieldContainer[Alarm]
    kept: Kept
    def __init__(self, node: _Optional[int] = ..., leader: _Optional[int] = ..., has_quorum: _Optional[bool] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., first_log_index: _Optional[int] = ..., state_digest: _Optional[str] = ..., replicated_clock: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., shard_owners: _Optional[_Iterable[int]] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., jobs: _Optional[int] = ..., executions: _Optional[int] = ..., dead_letters: _Optional[int] = ..., oldest_due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., health: _Optional[_Union[NodeHealth, str]] = ..., cluster_id: _Optional[str] = ..., time_zone_database: _Optional[str] = ..., alarms: _Optional[_Iterable[_Union[Alarm, _Mapping]]] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ...) -> None: ...

class Alarm(_message.Message):
    __slots__ = ("kind", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: AlarmKind
    message: str
    def __init__(self, kind: _Optional[_Union[AlarmKind, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("skipped_ranges", "attempts", "request_ids", "dedup_keys", "sessions")
    SKIPPED_RANGES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    DEDUP_KEYS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    skipped_ranges: int
    attempts: int
    request_ids: int
    dedup_keys: int
    sessions: int
    def __init__(self, skipped_ranges: _Optional[int] = ..., attempts: _Optional[int] = ..., request_ids: _Optional[int] = ..., dedup_keys: _Optional[int] = ..., sessions: _Optional[int] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "address", "connected", "match_index", "role")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    connected: bool
    match_index: int
    role: NodeRole
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., connected: _Optional[bool] = ..., match_index: _Optional[int] = ..., role: _Optional[_Union[NodeRole, str]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "ready", "workers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    ready: int
    workers: int
    def __init__(self, name: _Optional[str] = ..., ready: _Optional[int] = ..., workers: _Optional[int] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("session", "name", "queues", "leased", "expire_time")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    session: int
    name: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    leased: int
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, session: _Optional[int] = ..., name: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., leased: _Optional[int] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StartVerificationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartVerificationResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class GetVerificationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetVerificationResponse(_message.Message):
    __slots__ = ("node", "index", "state", "content_hash", "state_rows", "log_entries", "duration_ms", "problem", "same", "other")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    STATE_ROWS_FIELD_NUMBER: _ClassVar[int]
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    SAME_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    node: int
    index: int
    state: VerificationState
    content_hash: str
    state_rows: int
    log_entries: int
    duration_ms: int
    problem: str
    same: _containers.RepeatedScalarFieldContainer[int]
    other: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., index: _Optional[int] = ..., state: _Optional[_Union[VerificationState, str]] = ..., content_hash: _Optional[str] = ..., state_rows: _Optional[int] = ..., log_entries: _Optional[int] = ..., duration_ms: _Optional[int] = ..., problem: _Optional[str] = ..., same: _Optional[_Iterable[int]] = ..., other: _Optional[_Iterable[int]] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BackupResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class AddNodeRequest(_message.Message):
    __slots__ = ("id", "address")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class AddNodeResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("to",)
    TO_FIELD_NUMBER: _ClassVar[int]
    to: int
    def __init__(self, to: _Optional[int] = ...) -> None: ...

class TransferLeadershipResponse(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: int
    def __init__(self, leader: _Optional[int] = ...) -> None: ...
