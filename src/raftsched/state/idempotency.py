"""Which request created which jobs: an idempotency key answers a repeated request with what the first one did."""

from dataclasses import dataclass

from raftsched.state.context import Context
from raftsched.store import keys, rows

FINGERPRINT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Known:
    """An earlier request's fingerprint and its jobs."""

    fingerprint: bytes
    job_ids: range


def find(context: Context, namespace: str, key: str) -> Known | None:
    """The request that used this key first."""
    value = context.writer.get(context.tables.idempotency, keys.idempotency(namespace, key))
    if value is None:
        return None
    fingerprint, first, count = rows.IDEMPOTENCY.unpack(value)
    return Known(fingerprint, range(first, first + count))


def remember(context: Context, namespace: str, key: str, fingerprint: bytes, first: int, count: int) -> None:
    """The jobs from `first` on were created under this key."""
    put(context, keys.idempotency(namespace, key), rows.IDEMPOTENCY.pack(fingerprint, first, count))


def put(context: Context, key: bytes, value: bytes) -> None:
    """A row for a key that has none, with the time it came, by which it is removed one day."""
    context.writer.put(context.tables.idempotency, key, value)
    context.writer.put(context.tables.idempotency, keys.idempotency_time(context.now_ms, key), b"")


def forget_old(context: Context, before_ms: int, limit: int) -> int:
    """Removes at most `limit` keys that came before then; how many."""
    found: list[bytes] = []
    end = keys.idempotency_time(max(before_ms, 0), b"")
    cursor = context.writer.cursor(context.tables.idempotency)
    if cursor.first():
        for key in cursor.iternext(values=False):
            if len(found) == limit or key >= end:
                break
            # A key's own row may sort among the times: its first bytes are those of a hash.
            if len(key) == keys.IDEMPOTENCY_TIME_BYTES:
                found.append(key)
    for key in found:
        context.writer.delete(context.tables.idempotency, key)
        context.writer.delete(context.tables.idempotency, key[keys.ID_BYTES :])
    return len(found)


def oldest_ms(context: Context) -> int | None:
    """When the oldest key that is kept came; None when there is none."""
    cursor = context.writer.cursor(context.tables.idempotency)
    if cursor.first():
        for key in cursor.iternext(values=False):
            if len(key) == keys.IDEMPOTENCY_TIME_BYTES:
                return keys.unpack_id(key[: keys.ID_BYTES])
            if not key.startswith(b"\0\0"):
                # Times begin so: none follows.
                break
    return None
