"""Fields of protobuf messages: filled from what callers give, and read as plain values."""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.client.errors import InvalidField

E = TypeVar("E", bound=StrEnum)
M = TypeVar("M", bound=Message)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# What a field takes, for people.
_RIGHT = {
    FieldDescriptor.TYPE_STRING: "a string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "True or False",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_UINT32: "a whole number from 0 to 4,294,967,295",
    FieldDescriptor.TYPE_UINT64: "a whole number from 0 on",
}


def build(kind: type[M], /, **fields: Any) -> M:
    """A message with these fields. Raises InvalidField, which names the one that is at fault."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        for field, value in fields.items():
            of_kind = kind.DESCRIPTOR.fields_by_name[field]
            if value is not None and not of_kind.is_repeated and of_kind.message_type is None:
                assign(kind(), field, value)
        raise


def assign(message: Message, field: str, value: Any, path: str = "") -> None:
    """Raises InvalidField, which names the field, or `path`, where callers know it under another name."""
    try:
        setattr(message, field, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise _not_right(message, field, value, path or field) from error


def extend(message: Message, field: str, items: Iterable[Any], path: str = "") -> None:
    """Adds to a repeated field. Raises InvalidField, as assign."""
    path = path or field
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidField(f"a sequence is right, not {reprlib.repr(items)}", field=path)
    container = getattr(message, field)
    for number, item in enumerate(items):
        try:
            container.append(item)
        except (TypeError, ValueError) as error:
            raise _not_right(message, field, item, f"{path}[{number}]") from error


def set_labels(message: Message, labels: Mapping[str, str]) -> None:
    """Raises InvalidField."""
    if not isinstance(labels, Mapping):
        raise InvalidField(f"a mapping of strings to strings is right, not {reprlib.repr(labels)}", field="labels")
    container = getattr(message, "labels")  # noqa: B009
    for key, value in labels.items():
        if not isinstance(key, str):
            raise InvalidField(f"the key {reprlib.repr(key)} is not a string", field="labels")
        fill(partial(container.update, {key: value}), f"labels[{key}]", f"{reprlib.repr(value)} is not a string")


@contextmanager
def within(path: str) -> Iterator[None]:
    """Fields that are refused in here are parts of `path`."""
    try:
        yield
    except InvalidField as error:
        error.field = f"{path}.{error.field}"
        raise


def _not_right(message: Message, field: str, value: Any, path: str) -> InvalidField:
    kind = message.DESCRIPTOR.fields_by_name[field].type
    if kind == FieldDescriptor.TYPE_STRING and isinstance(value, str):
        return InvalidField("has characters that are not Unicode", field=path)
    right = _RIGHT.get(kind, "a value of this field")
    return InvalidField(f"{reprlib.repr(value)} is not {right}", field=path)


def fill(action: Callable[[], object], field: str, message: str = "") -> None:
    try:
        action()
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidField(message or str(error), field=field) from error


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
