"""JobService: registers, reads, lists and cancels jobs."""

import asyncio
import uuid
from collections.abc import Callable, Sequence

from raftsched.api.convert import create_jobs_command, job_difference
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_lifecycle import JobLifecycle, found
from raftsched.api.job_listing import list_page
from raftsched.api.messages import job_message
from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.api.recurrence import calendars_for, uses_calendars
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.unstoppable import DROP_TIMEOUT_S, Unstoppable
from raftsched.api.validate import check_id, check_job_filter, check_job_name, check_namespace, check_request_id
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import (
    IdempotencyConflict,
    InvalidField,
    JobNotFound,
    JobRunning,
    RaftschedError,
)
from raftsched.model.limits import BATCH_MAX_BYTES, BATCH_MAX_JOBS
from raftsched.state.queries import DEFAULT_NAME, JobFilter, JobRecord, find_job_by_name, get_job
from raftsched.state.queries_handlers import HandlerNames
from raftsched.state.results import CancelNeedsWorker, JobsCreated, KeyConflict
from raftsched.store.environment import View
from raftsched.v1 import job_pb2

# Requests from this size on are converted on another thread, so that the event loop can send heartbeats meanwhile.
THREAD_FROM_JOBS = 50
# Names and labels count too, not only payloads; the rest of BATCH_MAX_BYTES is for what the core adds to a command.
COMMAND_MAX_BYTES = BATCH_MAX_BYTES - 1_024
# An execution can change hands between the question to its worker and the answer; so often we ask the next one.
CANCEL_ROUNDS = 4


class JobService(JobLifecycle):
    """One per server. `wall_ms` tells what "now" means in a request."""

    def __init__(self, gate: CoreGate, wall_ms: Callable[[], int]) -> None:
        super().__init__(gate, wall_ms)
        self._cancelling = Unstoppable()
        self._handlers = HandlerNames()

    async def CreateJob(self, request: job_pb2.CreateJobRequest, context: Context) -> job_pb2.CreateJobResponse:
        if not request.HasField("job"):
            raise InvalidField("A job is required.", field="job")
        try:
            created = await self._create(request, [request.job], context)
        except RaftschedError as error:
            error.field = _outside_batch(error.field)
            raise
        index = self._gate.answered_index
        job_id = created.job_ids[0]
        try:
            job = await self._read_back(job_id, context)
        except JobNotFound:
            raise JobNotFound(
                "The job of this request was created, and has been removed since.", job_id=str(job_id)
            ) from None
        return job_pb2.CreateJobResponse(job=job, existed=created.existed, index=index)

    async def BatchCreateJobs(
        self, request: job_pb2.BatchCreateJobsRequest, context: Context
    ) -> job_pb2.BatchCreateJobsResponse:
        if not request.jobs:
            raise InvalidField("At least one job is required.", field="jobs")
        if len(request.jobs) > BATCH_MAX_JOBS:
            raise InvalidField(f"At most {BATCH_MAX_JOBS:,} jobs at once.", field="jobs", limit=str(BATCH_MAX_JOBS))
        created = await self._create(request, request.jobs, context)
        return job_pb2.BatchCreateJobsResponse(
            job_ids=created.job_ids, existed=created.existed, index=self._gate.answered_index
        )

    async def GetJob(self, request: job_pb2.GetJobRequest, context: Context) -> job_pb2.GetJobResponse:
        refuse_unknown_fields(request)
        key = request.WhichOneof("key")
        if key is None:
            raise InvalidField("An id or a name is required.", field="id")
        if key == "id":
            check_id(request.id)
        else:
            check_job_name(request.name.name, "name.name")
            check_namespace(request.name.namespace or DEFAULT_NAME, "name.namespace")
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            return job_pb2.GetJobResponse(job=job_message(_look_up(view, request)), index=view.state().applied_index)

    async def ListJobs(self, request: job_pb2.ListJobsRequest, context: Context) -> job_pb2.ListJobsResponse:
        refuse_unknown_fields(request)
        limit = page_size(request.page_size)
        scope = request.filter.SerializeToString(deterministic=True)
        position = decode_token(request.page_token, Listing.JOBS, scope)
        check_job_filter(request.filter)
        await self._gate.wait_readable(request.read, context)
        after_id = position[0] if position else 0
        page = await list_page(
            self._core.store, self._handlers, _job_filter(request.filter), after_id=after_id, limit=limit
        )
        return job_pb2.ListJobsResponse(
            jobs=map(job_message, page.items),
            next_page_token=encode_token(Listing.JOBS, scope, page.next) if page.next is not None else "",
            index=page.index,
        )

    async def CancelJob(self, request: job_pb2.CancelJobRequest, context: Context) -> job_pb2.CancelJobResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        await self._cancelling.run(self._cancel(request.id, context))
        index = self._gate.answered_index
        return job_pb2.CancelJobResponse(job=await self._read_back(request.id, context), index=index)

    async def _create(
        self,
        request: job_pb2.CreateJobRequest | job_pb2.BatchCreateJobsRequest,
        jobs: Sequence[job_pb2.Job],
        context: Context,
    ) -> JobsCreated:
        """Raises IdempotencyConflict, NameTaken, InvalidField and what the core raises."""
        batch = isinstance(request, job_pb2.BatchCreateJobsRequest)
        # A key of our own makes a command that is proposed twice, because its first answer was late, create once.
        request_id = request.request_id if request.HasField("request_id") else str(uuid.uuid4())

        def convert() -> command_pb2.Command:
            refuse_unknown_fields(request)
            with calendars_for(jobs, self._core.store) as find:
                return create_jobs_command(jobs, request_id, self._wall_ms(), batch=batch, find_calendar=find)

        if uses_calendars(jobs):
            await self._gate.wait_readable(job_pb2.ReadOptions(linearizable=True), context)
        command = await asyncio.to_thread(convert) if len(jobs) >= THREAD_FROM_JOBS else convert()
        if command.ByteSize() > COMMAND_MAX_BYTES:
            raise InvalidField(
                f"The request makes a log entry of {command.ByteSize():,} bytes; at most {COMMAND_MAX_BYTES:,} are"
                " right: send it in several parts.",
                field="jobs" if batch else "job",
                limit=str(COMMAND_MAX_BYTES),
            )
        result = await self._gate.submit(command, context, ops=len(jobs))
        if isinstance(result, KeyConflict):
            raise await self._conflict(jobs, result, context, batch=batch)
        assert isinstance(result, JobsCreated)
        return result

    async def _conflict(
        self, jobs: Sequence[job_pb2.Job], conflict: KeyConflict, context: Context, *, batch: bool
    ) -> IdempotencyConflict:
        """Says how the request differs from the one that used its key first."""
        await self._gate.wait_readable(job_pb2.ReadOptions(), context)
        first_id = str(conflict.job_ids[0])
        if len(jobs) != len(conflict.job_ids):
            return IdempotencyConflict(
                f"That request_id was used for a request with {len(conflict.job_ids)} jobs; this one has {len(jobs)}.",
                field="request_id",
                first_job_id=first_id,
                differs="jobs",
            )
        difference = (
            await asyncio.to_thread(self._first_difference, jobs, conflict.job_ids)
            if len(jobs) >= THREAD_FROM_JOBS
            else self._first_difference(jobs, conflict.job_ids)
        )
        if difference is None:
            # Such as the start of an interval, which is not stored.
            return IdempotencyConflict(field="request_id", first_job_id=first_id)
        number, names = difference
        where = ", ".join(names)
        return IdempotencyConflict(
            "That request_id was used before for a request that differs in"
            f" {f'jobs[{number}]: {where}' if batch else where}.",
            field="request_id",
            first_job_id=first_id,
            differs=where,
        )

    def _first_difference(
        self, jobs: Sequence[job_pb2.Job], first_ids: Sequence[int]
    ) -> tuple[int, Sequence[str]] | None:
        """Position of the first job that is not as the stored one, and the fields in which it differs."""
        with self._core.store.read() as view:
            for number, (job, job_id) in enumerate(zip(jobs, first_ids, strict=True)):
                stored = get_job(view, job_id)
                # One that has been removed since tells nothing.
                names = job_difference(job_message(stored), job) if stored is not None else ()
                if names:
                    return number, names
        return None

    async def _cancel(self, job: int, context: Context) -> None:
        command = command_pb2.Command(cancel_job=command_pb2.CancelJob(job=job))
        for _ in range(CANCEL_ROUNDS):
            result = await self._gate.submit(command, context, at_least_s=DROP_TIMEOUT_S)
            if not isinstance(result, CancelNeedsWorker):
                return
            dropped = await self._core.ask_worker(result.session, result.execution, result.token, DROP_TIMEOUT_S)
            if not dropped:
                raise JobRunning(
                    "An execution of the job is running; it cannot be cancelled now."
                    if dropped is False
                    else "A worker holds an execution of the job and did not say in time whether it has begun.",
                    execution_id=str(result.execution),
                )
            command.cancel_job.dropped_token = result.token
        raise JobRunning("The job's execution went from worker to worker meanwhile; try again.")


def _look_up(view: View, request: job_pb2.GetJobRequest) -> JobRecord:
    if request.WhichOneof("key") == "id":
        return found(get_job(view, request.id), job_id=str(request.id))
    namespace = request.name.namespace or DEFAULT_NAME
    return found(find_job_by_name(view, namespace, request.name.name), namespace=namespace, name=request.name.name)


def _job_filter(given: job_pb2.JobFilter) -> JobFilter:
    return JobFilter(
        namespace=given.namespace,
        state=given.state,
        handler=given.handler,
        queue=given.queue,
        labels=dict(given.labels),
    )


def _outside_batch(field: str) -> str:
    """A single create reaches the state machine as a batch of one; its caller knows the job as "job"."""
    return "job" + field.removeprefix("jobs[0]") if field.startswith("jobs[0]") else field
