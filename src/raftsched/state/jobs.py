"""Finding the job that a command names."""

from raftsched.model.errors import JobNotFound
from raftsched.state.context import Context
from raftsched.store import keys


def find(context: Context, job: int) -> tuple[bytes, bytes]:
    """Key and row of a job. Raises JobNotFound."""
    key = keys.pack_id(job)
    row = context.writer.get(context.tables.jobs, key)
    if row is None:
        raise JobNotFound(job=str(job))
    return key, row
