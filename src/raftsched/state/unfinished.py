"""Which executions of a job are not finished, for the jobs of which that has to be known.

Those are the jobs whose overlap policy asks for it at every occurrence (Profile.tracks_unfinished), and for a while
those of `context.tracked`. Of any other job with the policy SKIP only the newest execution can be unfinished.
"""

from raftsched.state.context import Context
from raftsched.store import keys


def of_job(context: Context, job_key: bytes, limit: int | None = None) -> list[bytes]:
    """Keys of the unfinished executions of a job that is kept track of, oldest first, up to `limit`."""
    found: list[bytes] = []
    cursor = context.writer.cursor(context.tables.unfinished)
    if cursor.set_range(job_key):
        for key in cursor.iternext(values=False):
            if not key.startswith(job_key) or len(found) == limit:
                break
            found.append(key[keys.ID_BYTES :])
    return found


def add(context: Context, job_key: bytes, execution: bytes) -> None:
    context.writer.put(context.tables.unfinished, keys.unfinished(job_key, execution), b"")


def remove(context: Context, job_key: bytes, execution: bytes) -> bool:
    """Whether it stood there."""
    return context.writer.delete(context.tables.unfinished, keys.unfinished(job_key, execution))


def track(context: Context, job_key: bytes) -> None:
    """From now on, until none of its executions is unfinished, this job is kept track of whatever its profile says."""
    if job_key not in context.tracked:
        context.writer.put(context.tables.meta, keys.META_TRACKED + job_key, b"")
        context.tracked.add(job_key)


def untrack(context: Context, job_key: bytes) -> None:
    if job_key in context.tracked:
        context.writer.delete(context.tables.meta, keys.META_TRACKED + job_key)
        context.tracked.discard(job_key)


def any_tracked(context: Context) -> bool:
    """Whether any execution of any job stands here; costs next to nothing."""
    return context.writer.has_rows(context.tables.unfinished)
