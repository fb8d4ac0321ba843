import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from raftsched.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BackfillState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKFILL_STATE_UNSPECIFIED: _ClassVar[BackfillState]
    BACKFILL_STATE_RUNNING: _ClassVar[BackfillState]
    BACKFILL_STATE_DONE: _ClassVar[BackfillState]
    BACKFILL_STATE_CANCELLED: _ClassVar[BackfillState]
BACKFILL_STATE_UNSPECIFIED: BackfillState
BACKFILL_STATE_RUNNING: BackfillState
BACKFILL_STATE_DONE: BackfillState
BACKFILL_STATE_CANCELLED: BackfillState

class Backfill(_message.Message):
    __slots__ = ("id", "job_id", "start", "end", "interval", "priority", "state", "total", "fired", "passed_over", "create_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    id: int
    job_id: int
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    interval: _duration_pb2.Duration
    priority: int
    state: BackfillState
    total: int
    fired: int
    passed_over: int
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[int] = ..., job_id: _Optional[int] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., priority: _Optional[int] = ..., state: _Optional[_Union[BackfillState, str]] = ..., total: _Optional[int] = ..., fired: _Optional[int] = ..., passed_over: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PreviewBackfillRequest(_message.Message):
    __slots__ = ("job_id", "start", "end", "read")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    read: _job_pb2.ReadOptions
    def __init__(self, job_id: _Optional[int] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class PreviewBackfillResponse(_message.Message):
    __slots__ = ("total", "passed_over", "index")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    total: int
    passed_over: int
    index: int
    def __init__(self, total: _Optional[int] = ..., passed_over: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class CreateBackfillRequest(_message.Message):
    __slots__ = ("backfill", "request_id")
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    request_id: str
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateBackfillResponse(_message.Message):
    __slots__ = ("backfill", "index")
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    index: int
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class GetBackfillRequest(_message.Message):
    __slots__ = ("id", "read")
    ID_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    id: int
    read: _job_pb2.ReadOptions
    def __init__(self, id: _Optional[int] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetBackfillResponse(_message.Message):
    __slots__ = ("backfill", "index")
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    index: int
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ListBackfillsRequest(_message.Message):
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

class ListBackfillsResponse(_message.Message):
    __slots__ = ("backfills", "next_page_token", "index")
    BACKFILLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    backfills: _containers.RepeatedCompositeFieldContainer[Backfill]
    next_page_token: str
    index: int
    def __init__(self, backfills: _Optional[_Iterable[_Union[Backfill, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class CancelBackfillRequest(_message.Message):
    __slots__ = ("id", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    request_id: str
    def __init__(self, id: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelBackfillResponse(_message.Message):
    __slots__ = ("backfill", "index")
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    backfill: Backfill
    index: int
    def __init__(self, backfill: _Optional[_Union[Backfill, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...
