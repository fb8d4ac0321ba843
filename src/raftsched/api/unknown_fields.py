"""Refuses requests with fields that this version does not know: nothing may be accepted and then ignored."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.v1 import workflow_pb2


def refuse_unknown_fields(request: Message) -> None:
    """Raises InvalidField, naming the message that holds the unknown field; the request itself is "request"."""
    _refuse_many_labels(request)
    # protobuf drops unknown fields wherever they are in one call: what is lost shows in the size.
    known = type(request)()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    if known.ByteSize() != request.ByteSize():
        _name_unknown_field(request, "")
        raise InvalidField("It holds a field that is not known to this version of the server.", field="request")


def _refuse_many_labels(request: Message) -> None:
    """Before anything copies them: the time that takes grows faster than their number."""
    holders: list[tuple[str, Any]] = [
        (field.name, value) for field, value in request.ListFields() if field.name in ("job", "filter")
    ]
    holders += [(f"jobs[{number}]", job) for number, job in enumerate(getattr(request, "jobs", ()))]
    if isinstance(request, workflow_pb2.CreateWorkflowRequest):
        holders += [(f"nodes[{number}].job", node.job) for number, node in enumerate(request.nodes)]
    for name, holder in holders:
        if len(holder.labels) > limits.LABELS_MAX_COUNT:
            raise InvalidField(
                f"{len(holder.labels)} labels are too many; at most {limits.LABELS_MAX_COUNT} are right",
                field=f"{name}.labels",
            )


def _name_unknown_field(message: Message, path: str) -> None:
    """Raises InvalidField for the first one it finds."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        number = str(unknown[0].field_number)
        raise InvalidField(
            f"Field {number} is not known to this version of the server.", field=path or "request", number=number
        )
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE or _is_map(field):
            continue
        inner = f"{path}.{field.name}" if path else field.name
        if field.is_repeated:
            for position, item in enumerate(value):
                _name_unknown_field(item, f"{inner}[{position}]")
        else:
            _name_unknown_field(value, inner)


def _is_map(field: FieldDescriptor) -> bool:
    """Maps of this API have plain values."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry
