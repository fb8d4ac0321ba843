"""TriggerJob: an execution of a job now, beside its schedule, under its overlap policy."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import IdempotencyConflict, InvalidField, JobStateForbids, OverlapRefused
from raftsched.model.limits import PAYLOAD_MAX_BYTES, REQUEST_ID_MAX_LENGTH
from raftsched.state import idempotency, jobs, overlap
from raftsched.state.context import Context
from raftsched.state.results import Triggered
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2

# No execution of such a job is ever to begin, or only when those it depends on let it.
_NOT_IN = (rows.JOB_CANCELLED, rows.JOB_BLOCKED, rows.JOB_UPSTREAM_FAILED)
_SECOND_MS = 1_000


def apply_trigger_job(context: Context, command: command_pb2.TriggerJob) -> Triggered:
    """Raises InvalidField, JobNotFound, IdempotencyConflict, JobStateForbids or OverlapRefused, having written nothing.

    A key that was used before answers with what was started then.
    """
    if len(command.payload) > PAYLOAD_MAX_BYTES:
        raise InvalidField(f"is larger than {PAYLOAD_MAX_BYTES} bytes", field="payload")
    if len(command.key) > REQUEST_ID_MAX_LENGTH:
        raise InvalidField("is too long", field="request_id")
    job_key, job = jobs.find(context, command.job)
    remembered = keys.trigger(job_key, command.key)
    known = context.writer.get(context.tables.idempotency, remembered) if command.key else None
    fingerprint = _fingerprint(command)
    if known is not None:
        before, execution, scheduled_for_ms, skipped = rows.TRIGGERED.unpack(known)
        if before != fingerprint:
            raise IdempotencyConflict(field="request_id", job=str(command.job), execution=str(execution))
        return Triggered(execution, scheduled_for_ms, skipped=bool(skipped))
    if job[rows.JOB_STATE] in _NOT_IN:
        raise JobStateForbids("a job that is cancelled or waits for others cannot be triggered", job=str(command.job))
    if command.refuse_overlap and not command.ignore_overlap and overlap.is_refused(context, job_key, job):
        raise OverlapRefused(job=str(command.job))
    scheduled_for_ms = _free_time_ms(context, job_key, job)
    started = overlap.start(
        context,
        job_key,
        job,
        scheduled_for_ms,
        execution_pb2.EXECUTION_CAUSE_TRIGGER,
        payload=command.payload if command.HasField("payload") else None,
        ignore_overlap=command.ignore_overlap,
    )
    context.writer.put(
        context.tables.extras, keys.extra(job_key, keys.EXTRA_LAST_TRIGGER), keys.pack_id(scheduled_for_ms)
    )
    execution = keys.unpack_id(started.execution) if started.execution is not None else 0
    if command.key:
        row = rows.TRIGGERED.pack(fingerprint, execution, scheduled_for_ms, started.skipped)
        idempotency.put(context, remembered, row)
    return Triggered(execution, scheduled_for_ms, skipped=started.skipped)


def _fingerprint(command: command_pb2.TriggerJob) -> bytes:
    flags = bytes((command.HasField("payload"), command.ignore_overlap, command.refuse_overlap))
    return keys.digest_key((flags, command.payload))[:16]


def _free_time_ms(context: Context, job_key: bytes, job: bytes) -> int:
    """Now, or as soon after as the job has no other occurrence: handlers tell occurrences apart by their time."""
    last = context.writer.get(context.tables.extras, keys.extra(job_key, keys.EXTRA_LAST_TRIGGER))
    time_ms = context.now_ms if last is None else max(context.now_ms, keys.unpack_id(last) + 1)
    tick_ms = keys.unpack_id(job[rows.JOB_SCHEDULED_FOR])
    if job[rows.JOB_SCHEDULE] == bytes(4):
        return time_ms + (time_ms == tick_ms)
    # Ticks of a cron schedule are whole seconds.
    every_ms = context.catalog.schedule(job[rows.JOB_SCHEDULE]).every_ms
    is_tick = (time_ms - tick_ms) % every_ms == 0 if every_ms else time_ms % _SECOND_MS == 0
    return time_ms + is_tick
