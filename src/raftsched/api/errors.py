"""From an error to what a caller sees of it: google.rpc.Status with ErrorInfo and, for a field, BadRequest."""

from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from raftsched.model.errors import RaftschedError

DOMAIN = "raftsched"
# Status and details travel in HTTP/2 headers, percent- and base64-encoded; gRPC refuses more than 8 KiB of them.
MESSAGE_MAX_BYTES = 512
FIELD_MAX_BYTES = 256
METADATA_MAX_ITEMS = 8
METADATA_VALUE_MAX_BYTES = 128


def status_of(error: RaftschedError) -> status_pb2.Status:
    """`error` as callers get it. Texts are cut to what fits in gRPC's trailing metadata."""
    message = clipped(str(error), MESSAGE_MAX_BYTES)
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    for key, value in list(error.metadata.items())[:METADATA_MAX_ITEMS]:
        info.metadata[key] = clipped(value, METADATA_VALUE_MAX_BYTES)
    status = status_pb2.Status(code=int(error.code), message=message, details=[_packed(info)])
    if error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=clipped(error.field, FIELD_MAX_BYTES),
            description=clipped(error.message, MESSAGE_MAX_BYTES),
            reason=error.reason,
        )
        status.details.append(_packed(error_details_pb2.BadRequest(field_violations=[violation])))
    return status


def clipped(text: str, max_bytes: int) -> str:
    """`text` with at most `max_bytes` of UTF-8, marked when something was cut off."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    mark = "…"
    return data[: max_bytes - len(mark.encode())].decode("utf-8", "ignore") + mark


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
