"""The calls of JobService that change a job which is registered already."""

import uuid
from collections.abc import Callable

from raftsched.api.convert import future_or_now_ms
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_update import update_command
from raftsched.api.messages import job_message, timestamp
from raftsched.api.recurrence import calendars_for
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.validate import check_id, check_payload, check_request_id, check_text
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import EtagMismatch, InvalidField, JobNotFound, OutcomeUnknown, ReadTimeout
from raftsched.state.queries import JobRecord, get_job
from raftsched.state.results import Triggered
from raftsched.v1 import job_pb2, job_pb2_grpc

Mutation = (
    job_pb2.PauseJobRequest
    | job_pb2.ResumeJobRequest
    | job_pb2.TriggerJobRequest
    | job_pb2.RescheduleJobRequest
    | job_pb2.DeleteJobRequest
)
# Updates without an etag are made of the job as it is; so often it may change meanwhile.
UPDATE_ROUNDS = 5


class JobLifecycle(job_pb2_grpc.JobServiceServicer):
    """The part of JobService that this file is about."""

    def __init__(self, gate: CoreGate, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._gate = gate
        self._core = gate.core

    async def PauseJob(self, request: job_pb2.PauseJobRequest, context: Context) -> job_pb2.PauseJobResponse:
        _check(request)
        check_text(request.note, limits.PAUSE_NOTE_MAX_LENGTH, "note")
        pause = command_pb2.PauseJob(job=request.id, note=request.note)
        await self._gate.submit(command_pb2.Command(pause_job=pause), context)
        index = self._gate.answered_index
        return job_pb2.PauseJobResponse(job=await self._read_back(request.id, context), index=index)

    async def ResumeJob(self, request: job_pb2.ResumeJobRequest, context: Context) -> job_pb2.ResumeJobResponse:
        _check(request)
        resume = command_pb2.ResumeJob(job=request.id)
        await self._gate.submit(command_pb2.Command(resume_job=resume), context)
        index = self._gate.answered_index
        return job_pb2.ResumeJobResponse(job=await self._read_back(request.id, context), index=index)

    async def UpdateJob(self, request: job_pb2.UpdateJobRequest, context: Context) -> job_pb2.UpdateJobResponse:
        refuse_unknown_fields(request)
        check_id(request.job.id, "job.id")
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        for _ in range(UPDATE_ROUNDS):
            # Not older than what the caller may have read the etag of.
            await self._gate.wait_readable(job_pb2.ReadOptions(linearizable=True), context)
            with self._core.store.read() as view:
                stored = job_message(found(get_job(view, request.job.id), job_id=str(request.job.id)))
            with calendars_for((stored, request.job), self._core.store) as find:
                update = update_command(stored, request, self._wall_ms(), find)
            if update is None:
                # Also when it is a repetition that has become this since.
                return job_pb2.UpdateJobResponse(job=stored, index=self._gate.answered_index)
            if request.etag and request.etag != stored.etag:
                raise EtagMismatch(field="etag", job_id=str(request.job.id))
            try:
                await self._gate.submit(command_pb2.Command(update_job=update), context)
            except EtagMismatch:
                if request.etag:
                    raise
                continue
            index = self._gate.answered_index
            return job_pb2.UpdateJobResponse(job=await self._read_back(request.job.id, context), index=index)
        raise EtagMismatch("others change the job all the time; try again", job_id=str(request.job.id))

    async def RescheduleJob(
        self, request: job_pb2.RescheduleJobRequest, context: Context
    ) -> job_pb2.RescheduleJobResponse:
        _check(request)
        if not request.HasField("run_at"):
            raise InvalidField("unset; a time is right", field="run_at")
        run_at_ms = future_or_now_ms(request.run_at, "run_at", self._wall_ms())
        reschedule = command_pb2.RescheduleJob(job=request.id, due_ms=run_at_ms)
        await self._gate.submit(command_pb2.Command(reschedule_job=reschedule), context)
        index = self._gate.answered_index
        return job_pb2.RescheduleJobResponse(job=await self._read_back(request.id, context), index=index)

    async def TriggerJob(self, request: job_pb2.TriggerJobRequest, context: Context) -> job_pb2.TriggerJobResponse:
        _check(request)
        check_payload(request.payload)
        if request.ignore_overlap and request.refuse_overlap:
            raise InvalidField("goes with ignore_overlap as little as yes with no", field="refuse_overlap")
        # A key of our own makes a command that is proposed twice, because its first answer was late, run once.
        trigger = command_pb2.TriggerJob(
            job=request.id,
            payload=request.payload if request.HasField("payload") else None,
            ignore_overlap=request.ignore_overlap,
            refuse_overlap=request.refuse_overlap,
            key=request.request_id if request.HasField("request_id") else str(uuid.uuid4()),
        )
        triggered = await self._gate.submit(command_pb2.Command(trigger_job=trigger), context)
        assert isinstance(triggered, Triggered)
        return job_pb2.TriggerJobResponse(
            execution_id=triggered.execution,
            scheduled_for=timestamp(triggered.scheduled_for_ms),
            skipped=triggered.skipped,
            index=self._gate.answered_index,
        )

    async def DeleteJob(self, request: job_pb2.DeleteJobRequest, context: Context) -> job_pb2.DeleteJobResponse:
        _check(request)
        await self._gate.submit(command_pb2.Command(delete_job=command_pb2.DeleteJob(job=request.id)), context)
        return job_pb2.DeleteJobResponse(index=self._gate.answered_index)

    async def _read_back(self, job_id: int, context: Context) -> job_pb2.Job:
        """The job after a mutation of it, for the answer."""
        try:
            await self._gate.wait_readable(job_pb2.ReadOptions(), context)
        except ReadTimeout:
            raise OutcomeUnknown(
                "It was carried out, but this node could not read the job back in time. Repeat it with the same"
                " request_id.",
                job_id=str(job_id),
            ) from None
        with self._core.store.read() as view:
            return job_message(found(get_job(view, job_id), job_id=str(job_id)))


def found(record: JobRecord | None, **key: str) -> JobRecord:
    """Raises JobNotFound with that key."""
    if record is None:
        raise JobNotFound(**key)
    return record


def _check(request: Mutation) -> None:
    refuse_unknown_fields(request)
    check_id(request.id)
    if request.HasField("request_id"):
        check_request_id(request.request_id)
