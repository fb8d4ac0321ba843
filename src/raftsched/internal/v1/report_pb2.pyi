from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeReport(_message.Message):
    __slots__ = ("applied_index", "state_digest", "worker_credit", "wall_ms", "verified")
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    WORKER_CREDIT_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    applied_index: int
    state_digest: bytes
    worker_credit: int
    wall_ms: int
    verified: Verified
    def __init__(self, applied_index: _Optional[int] = ..., state_digest: _Optional[bytes] = ..., worker_credit: _Optional[int] = ..., wall_ms: _Optional[int] = ..., verified: _Optional[_Union[Verified, _Mapping]] = ...) -> None: ...

class Verified(_message.Message):
    __slots__ = ("index", "content_hash")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    index: int
    content_hash: bytes
    def __init__(self, index: _Optional[int] = ..., content_hash: _Optional[bytes] = ...) -> None: ...
