"""The etag of a job: it changes with every change of the job's settings, and with nothing else."""

import hashlib

from raftsched.store import keys, rows

_BYTES = 8


def etag_of(row: bytes, payload: bytes, every_ms: int) -> str:
    """Of a job's row; `every_ms` is that of its schedule, 0 when that is no interval."""
    hashed = hashlib.blake2b(digest_size=_BYTES)
    # Size of the payload, profile, schedule; length of the name, name, labels.
    for part in (row[17:29], row[45:], _time(row, every_ms), payload):
        hashed.update(keys.pack_small_id(len(part)))
        hashed.update(part)
    return hashed.hexdigest()


def _time(row: bytes, every_ms: int) -> bytes:
    """What is a setting of the time in a job's row: when it runs once, or the phase of its interval."""
    scheduled_for = row[rows.JOB_SCHEDULED_FOR]
    if every_ms:
        return keys.pack_id(keys.unpack_id(scheduled_for) % every_ms)
    return scheduled_for if row[rows.JOB_SCHEDULE] == bytes(4) else b""
