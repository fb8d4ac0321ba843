from raftsched.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkflowNode(_message.Message):
    __slots__ = ("name", "job", "depends_on", "rule")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: _job_pb2.Job
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    rule: _job_pb2.DependencyRule
    def __init__(self, name: _Optional[str] = ..., job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., depends_on: _Optional[_Iterable[str]] = ..., rule: _Optional[_Union[_job_pb2.DependencyRule, str]] = ...) -> None: ...

class CreateWorkflowRequest(_message.Message):
    __slots__ = ("nodes", "request_id")
    NODES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[WorkflowNode]
    request_id: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[WorkflowNode, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateWorkflowResponse(_message.Message):
    __slots__ = ("workflow_id", "job_ids", "existed", "index")
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    workflow_id: int
    job_ids: _containers.RepeatedScalarFieldContainer[int]
    existed: bool
    index: int
    def __init__(self, workflow_id: _Optional[int] = ..., job_ids: _Optional[_Iterable[int]] = ..., existed: _Optional[bool] = ..., index: _Optional[int] = ...) -> None: ...

class GetWorkflowRequest(_message.Message):
    __slots__ = ("id", "page_size", "page_token", "read")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    id: int
    page_size: int
    page_token: str
    read: _job_pb2.ReadOptions
    def __init__(self, id: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetWorkflowResponse(_message.Message):
    __slots__ = ("id", "nodes", "next_page_token", "index")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    id: int
    nodes: _containers.RepeatedCompositeFieldContainer[WorkflowNode]
    next_page_token: str
    index: int
    def __init__(self, id: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[WorkflowNode, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...
