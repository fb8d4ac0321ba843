"""Fields of protobuf messages: filled from what callers give, and read as plain values."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.client.errors import InvalidField

E = TypeVar("E", bound=StrEnum)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def assign(message: Message, field: str, value: Any) -> None:
    fill(lambda: setattr(message, field, value), field)


def fill(action: Callable[[], object], field: str) -> None:
    try:
        action()
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidField(str(error), field=field) from error


def set_time(message: Timestamp, value: datetime, field: str) -> None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidField("must be a datetime with a time zone", field=field)
    fill(lambda: message.FromDatetime(value), field)


def set_duration(message: Duration, value: timedelta, field: str) -> None:
    """Raises InvalidField."""
    if not isinstance(value, timedelta):
        raise InvalidField("must be a timedelta", field=field)
    message.SetInParent()
    fill(lambda: message.FromTimedelta(value), field)


def time_value(message: Timestamp) -> datetime:
    return EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def optional_time(message: Message, field: str) -> datetime | None:
    return time_value(getattr(message, field)) if message.HasField(field) else None


def span_value(message: Duration) -> timedelta:
    return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def member_name(enum: type[E], value: E | str, field: str) -> str:
    try:
        return str(enum(value))
    except ValueError as error:
        names = ", ".join(str(member) for member in enum)
        raise InvalidField(f"{value!r} is not one of {names}", field=field) from error


def enum_value(enum: type[E], name: Callable[[Any], str], number: int, prefix: str) -> E:
    """The member for a wire number; UNSPECIFIED for one that only a newer node knows."""
    try:
        return enum(name(number).removeprefix(prefix))
    except ValueError:
        return enum("UNSPECIFIED")
