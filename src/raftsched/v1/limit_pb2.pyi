from raftsched.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LimitScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIMIT_SCOPE_UNSPECIFIED: _ClassVar[LimitScope]
    LIMIT_SCOPE_QUEUE: _ClassVar[LimitScope]
    LIMIT_SCOPE_TENANT: _ClassVar[LimitScope]
    LIMIT_SCOPE_HANDLER: _ClassVar[LimitScope]
LIMIT_SCOPE_UNSPECIFIED: LimitScope
LIMIT_SCOPE_QUEUE: LimitScope
LIMIT_SCOPE_TENANT: LimitScope
LIMIT_SCOPE_HANDLER: LimitScope

class Limit(_message.Message):
    __slots__ = ("scope", "name", "concurrency", "rate_per_s", "burst", "weight", "leased")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    scope: LimitScope
    name: str
    concurrency: int
    rate_per_s: float
    burst: int
    weight: int
    leased: int
    def __init__(self, scope: _Optional[_Union[LimitScope, str]] = ..., name: _Optional[str] = ..., concurrency: _Optional[int] = ..., rate_per_s: _Optional[float] = ..., burst: _Optional[int] = ..., weight: _Optional[int] = ..., leased: _Optional[int] = ...) -> None: ...

class PutLimitRequest(_message.Message):
    __slots__ = ("limit", "request_id")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    limit: Limit
    request_id: str
    def __init__(self, limit: _Optional[_Union[Limit, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class PutLimitResponse(_message.Message):
    __slots__ = ("limit", "index")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    limit: Limit
    index: int
    def __init__(self, limit: _Optional[_Union[Limit, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ListLimitsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "read")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class ListLimitsResponse(_message.Message):
    __slots__ = ("limits", "next_page_token", "index")
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    next_page_token: str
    index: int
    def __init__(self, limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class DeleteLimitRequest(_message.Message):
    __slots__ = ("scope", "name", "request_id")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    scope: LimitScope
    name: str
    request_id: str
    def __init__(self, scope: _Optional[_Union[LimitScope, str]] = ..., name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteLimitResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...
