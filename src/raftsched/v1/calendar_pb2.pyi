import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from raftsched.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Calendar(_message.Message):
    __slots__ = ("namespace", "name", "dates", "windows")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    dates: _containers.RepeatedScalarFieldContainer[str]
    windows: _containers.RepeatedCompositeFieldContainer[CalendarWindow]
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., dates: _Optional[_Iterable[str]] = ..., windows: _Optional[_Iterable[_Union[CalendarWindow, _Mapping]]] = ...) -> None: ...

class CalendarWindow(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    def __init__(self, start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PutCalendarRequest(_message.Message):
    __slots__ = ("calendar", "request_id")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    request_id: str
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class PutCalendarResponse(_message.Message):
    __slots__ = ("calendar", "index")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    index: int
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class GetCalendarRequest(_message.Message):
    __slots__ = ("namespace", "name", "read")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    read: _job_pb2.ReadOptions
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., read: _Optional[_Union[_job_pb2.ReadOptions, _Mapping]] = ...) -> None: ...

class GetCalendarResponse(_message.Message):
    __slots__ = ("calendar", "index")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    calendar: Calendar
    index: int
    def __init__(self, calendar: _Optional[_Union[Calendar, _Mapping]] = ..., index: _Optional[int] = ...) -> None: ...

class ListCalendarsRequest(_message.Message):
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

class ListCalendarsResponse(_message.Message):
    __slots__ = ("calendars", "next_page_token", "index")
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    calendars: _containers.RepeatedCompositeFieldContainer[Calendar]
    next_page_token: str
    index: int
    def __init__(self, calendars: _Optional[_Iterable[_Union[Calendar, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class DeleteCalendarRequest(_message.Message):
    __slots__ = ("namespace", "name", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteCalendarResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...
