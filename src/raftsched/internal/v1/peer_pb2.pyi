from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerMessage(_message.Message):
    __slots__ = ("term", "hello", "welcome", "report", "append", "append_reply", "vote_request", "vote_reply", "timeout_now", "forward", "read_request", "read_reply", "change_request", "change_reply", "snapshot_chunk", "snapshot_reply")
    TERM_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLY_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    READ_REQUEST_FIELD_NUMBER: _ClassVar[int]
    READ_REPLY_FIELD_NUMBER: _ClassVar[int]
    CHANGE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHANGE_REPLY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_REPLY_FIELD_NUMBER: _ClassVar[int]
    term: int
    hello: Hello
    welcome: Welcome
    report: bytes
    append: AppendEntries
    append_reply: AppendReply
    vote_request: VoteRequest
    vote_reply: VoteReply
    timeout_now: TimeoutNow
    forward: Forward
    read_request: ReadRequest
    read_reply: ReadReply
    change_request: ChangeRequest
    change_reply: ChangeReply
    snapshot_chunk: SnapshotChunk
    snapshot_reply: SnapshotReply
    def __init__(self, term: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., report: _Optional[bytes] = ..., append: _Optional[_Union[AppendEntries, _Mapping]] = ..., append_reply: _Optional[_Union[AppendReply, _Mapping]] = ..., vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_reply: _Optional[_Union[VoteReply, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., forward: _Optional[_Union[Forward, _Mapping]] = ..., read_request: _Optional[_Union[ReadRequest, _Mapping]] = ..., read_reply: _Optional[_Union[ReadReply, _Mapping]] = ..., change_request: _Optional[_Union[ChangeRequest, _Mapping]] = ..., change_reply: _Optional[_Union[ChangeReply, _Mapping]] = ..., snapshot_chunk: _Optional[_Union[SnapshotChunk, _Mapping]] = ..., snapshot_reply: _Optional[_Union[SnapshotReply, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("node", "cluster", "to", "address", "membership_index")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_INDEX_FIELD_NUMBER: _ClassVar[int]
    node: int
    cluster: str
    to: int
    address: str
    membership_index: int
    def __init__(self, node: _Optional[int] = ..., cluster: _Optional[str] = ..., to: _Optional[int] = ..., address: _Optional[str] = ..., membership_index: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: int
    def __init__(self, node: _Optional[int] = ...) -> None: ...

class AppendEntries(_message.Message):
    __slots__ = ("prev_index", "prev_term", "commit_index", "entries", "round", "notice")
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    prev_index: int
    prev_term: int
    commit_index: int
    entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    round: int
    notice: bool
    def __init__(self, prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., commit_index: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ..., round: _Optional[int] = ..., notice: _Optional[bool] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("term", "command", "checksum")
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    term: int
    command: bytes
    checksum: int
    def __init__(self, term: _Optional[int] = ..., command: _Optional[bytes] = ..., checksum: _Optional[int] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("success", "match_index", "hint_index", "last_index", "round", "needs_snapshot", "prev_index")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    NEEDS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    success: bool
    match_index: int
    hint_index: int
    last_index: int
    round: int
    needs_snapshot: bool
    prev_index: int
    def __init__(self, success: _Optional[bool] = ..., match_index: _Optional[int] = ..., hint_index: _Optional[int] = ..., last_index: _Optional[int] = ..., round: _Optional[int] = ..., needs_snapshot: _Optional[bool] = ..., prev_index: _Optional[int] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("pre_vote", "for_term", "last_index", "last_term", "transfer")
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    FOR_TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    pre_vote: bool
    for_term: int
    last_index: int
    last_term: int
    transfer: bool
    def __init__(self, pre_vote: _Optional[bool] = ..., for_term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., transfer: _Optional[bool] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ("pre_vote", "for_term", "granted", "joined")
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    FOR_TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    pre_vote: bool
    for_term: int
    granted: bool
    joined: bool
    def __init__(self, pre_vote: _Optional[bool] = ..., for_term: _Optional[int] = ..., granted: _Optional[bool] = ..., joined: _Optional[bool] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Forward(_message.Message):
    __slots__ = ("commands", "ops")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedScalarFieldContainer[bytes]
    ops: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, commands: _Optional[_Iterable[bytes]] = ..., ops: _Optional[_Iterable[int]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("id", "index")
    ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    id: int
    index: int
    def __init__(self, id: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class ChangeRequest(_message.Message):
    __slots__ = ("id", "add", "remove", "transfer")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    id: int
    add: AddMember
    remove: int
    transfer: int
    def __init__(self, id: _Optional[int] = ..., add: _Optional[_Union[AddMember, _Mapping]] = ..., remove: _Optional[int] = ..., transfer: _Optional[int] = ...) -> None: ...

class AddMember(_message.Message):
    __slots__ = ("node", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class ChangeReply(_message.Message):
    __slots__ = ("id", "index", "reason", "message")
    ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    id: int
    index: int
    reason: str
    message: str
    def __init__(self, id: _Optional[int] = ..., index: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("transfer", "index", "index_term", "size", "sha256", "offset", "data")
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    transfer: int
    index: int
    index_term: int
    size: int
    sha256: bytes
    offset: int
    data: bytes
    def __init__(self, transfer: _Optional[int] = ..., index: _Optional[int] = ..., index_term: _Optional[int] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class SnapshotReply(_message.Message):
    __slots__ = ("transfer", "received", "rewind", "damaged", "installed_index")
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    REWIND_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    INSTALLED_INDEX_FIELD_NUMBER: _ClassVar[int]
    transfer: int
    received: int
    rewind: bool
    damaged: bool
    installed_index: int
    def __init__(self, transfer: _Optional[int] = ..., received: _Optional[int] = ..., rewind: _Optional[bool] = ..., damaged: _Optional[bool] = ..., installed_index: _Optional[int] = ...) -> None: ...
