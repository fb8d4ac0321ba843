import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimRequest(_message.Message):
    __slots__ = ("namespace", "key", "token", "keep", "execution_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    key: str
    token: int
    keep: _duration_pb2.Duration
    execution_id: int
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., token: _Optional[int] = ..., keep: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., execution_id: _Optional[int] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("claimed", "completed", "result", "owner_token", "expire_time", "index")
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    claimed: bool
    completed: bool
    result: bytes
    owner_token: int
    expire_time: _timestamp_pb2.Timestamp
    index: int
    def __init__(self, claimed: _Optional[bool] = ..., completed: _Optional[bool] = ..., result: _Optional[bytes] = ..., owner_token: _Optional[int] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("namespace", "key", "token", "result")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    key: str
    token: int
    result: bytes
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., token: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...
