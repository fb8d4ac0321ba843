"""Whether an occurrence may start while others of its job are not finished, and what becomes of it when it may not."""

from dataclasses import dataclass

from raftsched.state.context import Context
from raftsched.state.spawn import spawn


@dataclass(frozen=True, slots=True)
class Start:
    """What became of an occurrence; `job` is the job's row as it is now."""

    execution: bytes | None
    # It waits in the job's overlap queue.
    queued: bool
    # It was recorded as skipped.
    skipped: bool
    job: bytes


def start(
    context: Context,
    job_key: bytes,
    job: bytes,
    scheduled_for_ms: int,
    cause: int,
    *,
    profile: bytes | None = None,
    ignore_overlap: bool = False,
) -> Start:
    """Starts an occurrence under the job's overlap policy; `job` is the job's row as it is now.

    `cause` is a value of raftsched.v1.ExecutionCause. `profile`, the key of one, stands in for the job's own.
    """
    execution, job = spawn(context, job_key, job, scheduled_for_ms, cause, profile=profile)
    return Start(execution, queued=False, skipped=False, job=job)
