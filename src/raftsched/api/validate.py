"""Checks of single values that callers and workers send, each with an error that says what would be right.

Sizes of texts are counted in characters; the bounds and their reasons are in raftsched.model.limits.
"""

import re

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.model import limits
from raftsched.model.errors import InvalidField, ProtocolViolation
from raftsched.v1 import job_pb2, worker_pb2

_NAMESPACE = re.compile(rf"[a-z0-9-]{{1,{limits.NAMESPACE_MAX_LENGTH}}}")
_QUEUE = re.compile(rf"[a-z0-9._-]{{1,{limits.QUEUE_MAX_LENGTH}}}")
_HANDLER = re.compile(rf"[A-Za-z0-9_.:/-]{{1,{limits.HANDLER_MAX_LENGTH}}}")
_NODE_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{limits.NODE_NAME_MAX_LENGTH}}}")
_LABEL_KEY = re.compile(rf"[a-z0-9._/-]{{1,{limits.LABEL_KEY_MAX_LENGTH}}}")
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?: *;[ -~]*)?")
# A name, an IPv4 address, or an IPv6 address in brackets.
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]")
_WILDCARDS = frozenset({"0.0.0.0", "[::]"})
_PORT_MAX = 65_535
# C0, DEL and C1, and the line separators: they break logs, terminals and tables.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# protobuf's own bounds: years 1–9999, and ±10,000 years.
_TIMESTAMP_MIN_S = -62_135_596_800
_TIMESTAMP_MAX_S = 253_402_300_799
_DURATION_MAX_S = 315_576_000_000
_NANOS_PER_MS = 1_000_000
_NANOS_MAX = 999_999_999


def check_namespace(namespace: str, field: str = "namespace") -> None:
    """Raises InvalidField."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidField(f"1–{limits.NAMESPACE_MAX_LENGTH} characters of a–z, 0–9 and - are right", field=field)


def check_queue(queue: str, field: str = "queue") -> None:
    """Raises InvalidField."""
    if not _QUEUE.fullmatch(queue):
        raise InvalidField(f"1–{limits.QUEUE_MAX_LENGTH} characters of a–z, 0–9, . _ and - are right", field=field)


def check_handler(handler: str, field: str = "handler") -> None:
    """Raises InvalidField."""
    if not _HANDLER.fullmatch(handler):
        raise InvalidField(
            f"1–{limits.HANDLER_MAX_LENGTH} characters of A–Z, a–z, 0–9, _ . : / and - are right", field=field
        )


def check_node_name(name: str, field: str) -> None:
    """Of a workflow's node. Raises InvalidField."""
    if not _NODE_NAME.fullmatch(name):
        raise InvalidField(
            f"1–{limits.NODE_NAME_MAX_LENGTH} characters of A–Z, a–z, 0–9, _ . and - are right", field=field
        )


def check_node_id(node_id: int, field: str = "id") -> None:
    """Raises InvalidField."""
    if not 1 <= node_id <= limits.NODE_ID_MAX:
        raise InvalidField(f"a node's id is 1–{limits.NODE_ID_MAX}", field=field)


def check_node_address(address: str, field: str = "address") -> None:
    """Where everybody reaches a node. Raises InvalidField."""
    host, _, port = address.rpartition(":")
    if not _HOST.fullmatch(host) or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= _PORT_MAX:
        raise InvalidField("host:port is right", field=field)
    if host in _WILDCARDS:
        raise InvalidField(f"{host} is no address that others can connect to", field=field)


def check_text(text: str, max_length: int, field: str) -> None:
    """For names that people choose freely; may be empty. Raises InvalidField."""
    if len(text) > max_length:
        raise InvalidField(
            f"{len(text)} characters are too many; at most {max_length} are right", field=field, limit=str(max_length)
        )
    if _CONTROL.search(text):
        raise InvalidField("control characters are not allowed", field=field)


def check_payload(payload: bytes, field: str = "payload") -> None:
    """Raises InvalidField."""
    if len(payload) > limits.PAYLOAD_MAX_BYTES:
        raise InvalidField(
            f"{len(payload):,} bytes are too many; at most {limits.PAYLOAD_MAX_BYTES:,} are right",
            field=field,
            limit=str(limits.PAYLOAD_MAX_BYTES),
        )


def check_content_type(content_type: str, field: str = "content_type") -> None:
    """Raises InvalidField."""
    if len(content_type) > limits.CONTENT_TYPE_MAX_LENGTH or not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidField(
            "a media type such as application/json is right,"
            f" up to {limits.CONTENT_TYPE_MAX_LENGTH} characters of printable ASCII",
            field=field,
        )


def check_label(key: str, value: str, field: str = "labels") -> None:
    """Raises InvalidField, naming the label in brackets after `field`."""
    if not _LABEL_KEY.fullmatch(key):
        raise InvalidField(
            f"the key `{key[: limits.LABEL_KEY_MAX_LENGTH]}` is not 1–{limits.LABEL_KEY_MAX_LENGTH} characters"
            " of a–z, 0–9, . _ / and -",
            field=field,
        )
    check_text(value, limits.LABEL_VALUE_MAX_LENGTH, f"{field}[{key}]")


def check_request_id(request_id: str, field: str = "request_id") -> None:
    """An idempotency key that is present. Raises InvalidField."""
    if not request_id:
        raise InvalidField(
            f"empty; 1–{limits.REQUEST_ID_MAX_LENGTH} characters are right, or leave it unset", field=field
        )
    check_text(request_id, limits.REQUEST_ID_MAX_LENGTH, field)


def check_id(number: int, field: str = "id") -> None:
    """Raises InvalidField for 0, which no job, execution or session has."""
    if not number:
        raise InvalidField("0 or unset; an id from 1 is right", field=field)


def check_job_name(name: str, field: str = "name") -> None:
    """For a lookup, which needs a name. Raises InvalidField."""
    if not name:
        raise InvalidField(f"empty; 1–{limits.NAME_MAX_LENGTH} characters are right", field=field)
    check_text(name, limits.NAME_MAX_LENGTH, field)


def check_job_filter(wanted: job_pb2.JobFilter) -> None:
    """Raises InvalidField for what no job can have, since that would look like an empty answer."""
    if wanted.namespace:
        check_namespace(wanted.namespace, "filter.namespace")
    if wanted.handler:
        check_handler(wanted.handler, "filter.handler")
    if wanted.queue:
        check_queue(wanted.queue, "filter.queue")
    if wanted.state not in job_pb2.JobState.values():
        names = ", ".join(name for name in job_pb2.JobState.keys()[1:])
        raise InvalidField(f"{wanted.state} is not a state; right are {names}", field="filter.state")
    if len(wanted.labels) > limits.LABELS_MAX_COUNT:
        raise InvalidField(f"at most {limits.LABELS_MAX_COUNT} labels are right", field="filter.labels")
    for key, value in wanted.labels.items():
        check_label(key, value, "filter.labels")


def check_hello(hello: worker_pb2.Hello) -> None:
    """A worker's first message. Raises ProtocolViolation."""
    try:
        if not hello.worker:
            raise InvalidField(f"empty; 1–{limits.WORKER_NAME_MAX_LENGTH} characters are right", field="hello.worker")
        check_text(hello.worker, limits.WORKER_NAME_MAX_LENGTH, "hello.worker")
        if not 1 <= len(hello.queues) <= limits.SESSION_QUEUES_MAX:
            raise InvalidField(
                f"{len(hello.queues)} queues; 1–{limits.SESSION_QUEUES_MAX} are right", field="hello.queues"
            )
        for number, queue in enumerate(hello.queues):
            check_queue(queue, f"hello.queues[{number}]")
        if len(set(hello.queues)) != len(hello.queues):
            raise InvalidField("a queue is named twice", field="hello.queues")
    except InvalidField as error:
        raise ProtocolViolation(error.message, field=error.field) from None


def timestamp_ms(timestamp: Timestamp, field: str) -> int:
    """Milliseconds since the epoch, rounded up, so that nothing happens early, but to no time that is no Timestamp.

    Raises InvalidField.
    """
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (_TIMESTAMP_MIN_S <= seconds <= _TIMESTAMP_MAX_S and 0 <= nanos <= _NANOS_MAX):
        raise InvalidField(
            "not a valid Timestamp: seconds (not milliseconds) of the years 1–9999, nanos in 0–999,999,999 are right",
            field=field,
        )
    return min(seconds * 1000 - (-nanos // _NANOS_PER_MS), _TIMESTAMP_MAX_S * 1000 + 999)


def duration_ms(duration: Duration, field: str, *, low_ms: int, high_ms: int) -> int:
    """Milliseconds. Raises InvalidField outside of low_ms–high_ms, for what is no valid Duration, and for fractions of
    a millisecond, which would make a series of ticks drift."""
    seconds, nanos = duration.seconds, duration.nanos
    if abs(seconds) > _DURATION_MAX_S or abs(nanos) > _NANOS_MAX or seconds * nanos < 0:
        raise InvalidField(
            "not a valid Duration: seconds and nanos of one sign are right, nanos below one second", field=field
        )
    if nanos % _NANOS_PER_MS:
        raise InvalidField("not a whole number of milliseconds", field=field)
    span_ms = milliseconds(duration)
    if not low_ms <= span_ms <= high_ms:
        raise InvalidField(
            f"{span_text(span_ms)} is not within {span_text(low_ms)} – {span_text(high_ms)}", field=field
        )
    return span_ms


def milliseconds(duration: Duration) -> int:
    """Of a Duration that has passed duration_ms."""
    return duration.seconds * 1000 + duration.nanos // _NANOS_PER_MS


def span_text(span_ms: int) -> str:
    """For people: in the largest unit that it is a whole number of."""
    for unit_ms, unit in (
        (limits.YEAR_MS, "year"),
        (limits.DAY_MS, "day"),
        (limits.HOUR_MS, "h"),
        (limits.SECOND_MS, "s"),
    ):
        if span_ms and span_ms % unit_ms == 0:
            count = span_ms // unit_ms
            return f"{count} {unit}{'s' if count > 1 and unit_ms >= limits.DAY_MS else ''}"
    return f"{span_ms} ms" if span_ms else "0"
