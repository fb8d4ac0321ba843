"""PauseJob and ResumeJob over a real channel."""

import grpc
from google.protobuf.duration_pb2 import Duration

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

MINUTE_MS = 60_000


async def create(api: Api, **fields: object) -> job_pb2.Job:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=60)), **fields)
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job


async def test_a_paused_job_says_why_and_since_when(api: Api) -> None:
    job = await create(api)
    api.core.now_ms += 5_000
    paused = (await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id, note="no mail today"))).job
    assert (paused.state, paused.pause_note) == (job_pb2.JOB_STATE_PAUSED, "no mail today")
    assert paused.pause_time.ToMilliseconds() == START_MS + 5_000
    assert not paused.HasField("next_run_time")
    listed = await api.jobs.ListJobs(job_pb2.ListJobsRequest(filter=job_pb2.JobFilter(state=job_pb2.JOB_STATE_PAUSED)))
    assert list(listed.jobs) == [paused]
    again = await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id, note="other"))
    paused.pause_note = "other"
    assert again.job == paused, "since when stays"


async def test_a_resumed_job_is_as_it_was(api: Api) -> None:
    job = await create(api)
    await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id))
    resumed = await api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=job.id))
    assert resumed.job == job
    assert (await api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=job.id))).job == job


async def test_what_came_due_meanwhile_is_caught_up(api: Api) -> None:
    job = await create(api)
    await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id))
    api.core.now_ms += 10 * MINUTE_MS
    api.core.fire()
    await api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=job.id))
    api.core.fire()
    listed = await api.executions.ListExecutions(
        execution_pb2.ListExecutionsRequest(job_id=job.id, read=job_pb2.ReadOptions(linearizable=True))
    )
    assert [one.scheduled_for.ToMilliseconds() for one in listed.executions] == [START_MS + 10 * MINUTE_MS]


async def test_what_will_not_run_again_can_be_neither_paused_nor_resumed(api: Api) -> None:
    job = await create(api)
    await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=job.id))
    for ask in (
        api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id)),
        api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=job.id)),
    ):
        async with refused() as told:
            await ask
        assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_FORBIDS")


async def test_bad_requests_name_their_field(api: Api) -> None:
    async with refused() as told:
        await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=1, note="x" * 501))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "note")
    async with refused() as told:
        await api.jobs.ResumeJob(job_pb2.ResumeJobRequest())
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "id")
    async with refused() as told:
        await api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=1, request_id=""))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "request_id")
    async with refused() as told:
        await api.jobs.ResumeJob(job_pb2.ResumeJobRequest(id=77))
    assert told.code == grpc.StatusCode.NOT_FOUND


async def test_failures_in_a_row_pause_a_job_that_asks_for_it(api: Api) -> None:
    job = await create(api, pause_after_failures=2)
    assert job.pause_after_failures == 2
    session = api.core.open_session()
    for _ in range(2):
        api.core.now_ms += MINUTE_MS
        api.core.fire()
        api.core.fail(api.core.lease(session))
    paused = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job.id, read=job_pb2.ReadOptions(linearizable=True)))).job
    assert (paused.state, paused.pause_note) == (
        job_pb2.JOB_STATE_PAUSED,
        "2 executions in a row became dead letters",
    )


async def test_a_one_off_has_no_failures_in_a_row(api: Api) -> None:
    job = job_pb2.Job(handler="h", pause_after_failures=1)
    job.run_at.GetCurrentTime()
    async with refused() as told:
        await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "job.pause_after_failures")
