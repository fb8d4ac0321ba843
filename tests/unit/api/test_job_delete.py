"""DeleteJob over a real channel."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from raftsched.v1 import job_pb2
from tests.unit.api.support import Api, refused

LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


async def create(api: Api) -> int:
    job = job_pb2.Job(handler="h", name="n", interval=job_pb2.Interval(every=Duration(seconds=60)))
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job.id


async def delete(api: Api, job: int) -> None:
    await api.jobs.DeleteJob(job_pb2.DeleteJobRequest(id=job))


def by_name(read: job_pb2.ReadOptions | None = None) -> job_pb2.GetJobRequest:
    return job_pb2.GetJobRequest(name=job_pb2.JobName(name="n"), read=read)


async def test_a_deleted_job_is_not_found_any_more_and_deleting_it_again_is_harmless(api: Api) -> None:
    job = await create(api)
    await delete(api, job)
    await delete(api, job)
    for request in (job_pb2.GetJobRequest(id=job), by_name()):
        async with refused() as told:
            await api.jobs.GetJob(request)
        assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    assert not (await api.jobs.ListJobs(job_pb2.ListJobsRequest())).jobs
    async with refused() as told:
        await delete(api, job + 1)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")


async def test_a_request_whose_job_is_removed_says_so_and_another_under_its_id_is_still_a_conflict(api: Api) -> None:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=60)))
    request = job_pb2.CreateJobRequest(job=job, request_id="once")
    created = (await api.jobs.CreateJob(request)).job.id
    await delete(api, created)
    async with refused() as told:
        await api.jobs.CreateJob(request)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    assert "has been removed since" in told.message
    assert told.metadata["job_id"] == str(created)
    job.payload = b"another"
    async with refused() as told:
        await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job, request_id="once"))
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")


async def test_a_job_is_deleted_and_created_again_many_times(api: Api) -> None:
    for _ in range(100):
        job = await create(api)
        assert (await api.jobs.GetJob(by_name(LINEARIZABLE))).job.id == job
        await delete(api, job)
        with pytest.raises(grpc.aio.AioRpcError):
            await api.jobs.GetJob(by_name(LINEARIZABLE))


async def test_what_a_worker_holds_keeps_its_job(api: Api) -> None:
    job = await create(api)
    api.core.now_ms += 60_000
    api.core.fire()
    leased = api.core.lease(api.core.open_session())
    async with refused() as told:
        await delete(api, job)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_FORBIDS")
    api.core.succeed(leased)
    await delete(api, job)
