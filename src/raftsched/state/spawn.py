"""Starts one execution of a job beside its schedule: a replay, a trigger, a backfill, a dependency that is met."""

from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context
from raftsched.state.lifecycle import status
from raftsched.store import keys, rows

_PENDING = status(ExecutionState.PENDING)


def spawn(
    context: Context, job_key: bytes, job: bytes, scheduled_for_ms: int, cause: int, *, profile: bytes | None = None
) -> tuple[bytes, bytes]:
    """A new PENDING execution, the newest of its job; its key, and the job's row as it was written.

    `job` is the job's row as it is now. `cause` is a value of raftsched.v1.ExecutionCause. `profile`, the key of one,
    stands in for the job's own.
    """
    context.state.executions += 1
    number = context.state.executions
    key = keys.pack_id(number)
    profile = job[rows.JOB_PROFILE] if profile is None else profile
    head = (
        job_key
        + job[rows.JOB_LAST_EXECUTION]
        + keys.pack_id(scheduled_for_ms)
        + bytes((cause,))
        + job[rows.JOB_PAYLOAD_BYTES]
        + profile
        + keys.pack_id(context.now_ms)
    )
    unleased = bytes(rows.EXECUTION_STATUS - len(head))
    rest = bytes(rows.EXECUTION_BYTES - rows.EXECUTION_STATUS - 1)
    context.writer.put(context.tables.executions, key, head + unleased + _PENDING + rest)
    job = job[:1] + key + job[9:]
    context.writer.put(context.tables.jobs, job_key, job)
    context.ready.add({context.catalog.profile(profile).lane: [number]})
    return key, job
