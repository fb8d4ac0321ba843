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
    value = rows.IDEMPOTENCY.pack(fingerprint, first, count)
    context.writer.put(context.tables.idempotency, keys.idempotency(namespace, key), value)
