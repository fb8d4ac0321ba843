"""TriggerJob over a real channel."""

import grpc
from google.protobuf.duration_pb2 import Duration

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


async def create(api: Api) -> int:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=60)), payload=b"job's")
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job.id


async def test_a_job_runs_now_with_a_payload_of_its_own(api: Api) -> None:
    job = await create(api)
    api.core.now_ms += 5_000
    answer = await api.jobs.TriggerJob(job_pb2.TriggerJobRequest(id=job, payload=b"own"))
    assert (answer.execution_id, answer.skipped) == (1, False)
    assert answer.scheduled_for.ToMilliseconds() == START_MS + 5_000
    leased = api.core.lease(api.core.open_session())
    assert list(leased.payloads) == [b"own"]
    request = execution_pb2.GetExecutionRequest(id=1, read=LINEARIZABLE)
    assert (await api.executions.GetExecution(request)).execution.cause == execution_pb2.EXECUTION_CAUSE_TRIGGER


async def test_the_same_request_id_starts_one_execution(api: Api) -> None:
    job = await create(api)
    request = job_pb2.TriggerJobRequest(id=job, ignore_overlap=True, request_id="once")
    first = await api.jobs.TriggerJob(request)
    again = await api.jobs.TriggerJob(request)
    assert again.execution_id == first.execution_id
    request.request_id = "twice"
    assert (await api.jobs.TriggerJob(request)).execution_id == 2
    request.payload = b"other"
    async with refused() as told:
        await api.jobs.TriggerJob(request)
    assert (told.code, told.reason, told.field) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "IDEMPOTENCY_CONFLICT",
        "request_id",
    )


async def test_the_overlap_policy_holds(api: Api) -> None:
    job = await create(api)
    await api.jobs.TriggerJob(job_pb2.TriggerJobRequest(id=job))
    skipped = await api.jobs.TriggerJob(job_pb2.TriggerJobRequest(id=job))
    assert (skipped.execution_id, skipped.skipped) == (0, True)
    async with refused() as told:
        await api.jobs.TriggerJob(job_pb2.TriggerJobRequest(id=job, refuse_overlap=True))
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "OVERLAP_REFUSED")


async def test_bad_requests_name_their_field(api: Api) -> None:
    for request, field in (
        (job_pb2.TriggerJobRequest(), "id"),
        (job_pb2.TriggerJobRequest(id=1, payload=bytes(256 * 1024 + 1)), "payload"),
        (job_pb2.TriggerJobRequest(id=1, ignore_overlap=True, refuse_overlap=True), "refuse_overlap"),
        (job_pb2.TriggerJobRequest(id=1, request_id=""), "request_id"),
    ):
        async with refused() as told:
            await api.jobs.TriggerJob(request)
        assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    async with refused() as told:
        await api.jobs.TriggerJob(job_pb2.TriggerJobRequest(id=1))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
