"""Which request created which jobs: an idempotency key answers a repeated request with what the first one did."""

from dataclasses import dataclass

from raftsched.state import timed_keys
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
    end = keys.idempotency_time(max(before_ms, 0), b"")
    return timed_keys.remove_before(context, context.tables.idempotency, end, limit)


def oldest_ms(context: Context) -> int | None:
    """When the oldest key that is kept came; None when there is none."""
    return timed_keys.oldest_ms(context, context.tables.idempotency)
