"""A recurring job that is through: it waits for nothing any more, and its name is free."""

from raftsched.state import catch_up
from raftsched.state.context import Context
from raftsched.store import rows

_COMPLETED = bytes((rows.JOB_COMPLETED,))


def complete(context: Context, job_key: bytes, job: bytes) -> bytes:
    """For a recurring job that stands in neither due nor starved; its row as it is then written."""
    context.ticks.use(context.catalog.schedule(job[rows.JOB_SCHEDULE]), -1)
    catch_up.caught_up(context, job_key, job)
    job = _COMPLETED + job[1:]
    context.writer.put(context.tables.jobs, job_key, job)
    return job
