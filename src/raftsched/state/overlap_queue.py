"""The overlap queue of a job: occurrences that wait until those before them are finished, the first come first."""

from dataclasses import dataclass

from raftsched.state.context import Context
from raftsched.store import keys, rows


@dataclass(frozen=True, slots=True)
class Waiting:
    """An occurrence in the queue, with its place. `profile` is the key of one, if it does not run under the job's."""

    place: int
    scheduled_for_ms: int
    cause: int
    profile: bytes | None
    # None: the job's own.
    payload: bytes | None

    @classmethod
    def unpack(cls, key: bytes, value: bytes) -> "Waiting":
        scheduled_for_ms, cause, profile = rows.WAITING.unpack_from(value)
        payload = value[rows.WAITING.size :] if cause & rows.OWN_PAYLOAD else None
        own = keys.pack_small_id(profile) if profile else None
        place = keys.unpack_id(key[-keys.ID_BYTES :])
        return cls(place, scheduled_for_ms, cause & ~rows.OWN_PAYLOAD, own, payload)


def of_job(context: Context, job_key: bytes, limit: int | None = None) -> list[Waiting]:
    """Those of a job in their order, up to `limit`."""
    prefix = keys.extra(job_key, keys.EXTRA_WAITING)
    found: list[Waiting] = []
    cursor = context.writer.cursor(context.tables.extras)
    if cursor.set_range(prefix):
        for key, value in cursor.iternext():
            if not key.startswith(prefix) or len(found) == limit:
                break
            found.append(Waiting.unpack(key, value))
    return found


def find(context: Context, job_key: bytes, place: int) -> Waiting | None:
    key = keys.extra_waiting(job_key, place)
    value = context.writer.get(context.tables.extras, key)
    return Waiting.unpack(key, value) if value is not None else None


def add(
    context: Context, job_key: bytes, scheduled_for_ms: int, cause: int, profile: bytes | None, payload: bytes | None
) -> int:
    """Puts an occurrence at the end; its place."""
    end = keys.after_prefix(keys.extra(job_key, keys.EXTRA_WAITING)) or b""
    cursor = context.writer.cursor(context.tables.extras)
    found = cursor.set_range(end)
    place = 1
    if (cursor.prev() if found else cursor.last()) and cursor.key().startswith(keys.extra(job_key, keys.EXTRA_WAITING)):
        place = keys.unpack_id(cursor.key()[-keys.ID_BYTES :]) + 1
    if payload is not None:
        cause |= rows.OWN_PAYLOAD
    value = rows.WAITING.pack(scheduled_for_ms, cause, keys.unpack_small_id(profile) if profile is not None else 0)
    value += payload or b""
    context.writer.put(context.tables.extras, keys.extra_waiting(job_key, place), value)
    return place


def remove(context: Context, job_key: bytes, place: int) -> None:
    context.writer.delete(context.tables.extras, keys.extra_waiting(job_key, place))
