"""CancelJob over a real channel, in every state that an execution can be in."""

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.state.results import Leased
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused


async def create(api: Api, **fields: object) -> int:
    due = Timestamp(seconds=START_MS // 1000 + 60)
    job = job_pb2.Job(handler="h", run_at=due, **fields)
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job.id


async def cancel(api: Api, job: int) -> job_pb2.Job:
    return (await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=job))).job


def fire(api: Api) -> None:
    api.core.now_ms = START_MS + 61_000
    api.core.fire()


def fire_and_lease(api: Api) -> Leased:
    fire(api)
    return api.core.lease(api.core.open_session())


async def execution_of(api: Api, job: int) -> execution_pb2.Execution:
    response = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(job_id=job))
    return response.executions[0]


async def test_a_job_that_waits_is_cancelled_and_a_repetition_is_harmless(api: Api) -> None:
    job = await create(api)
    cancelled = await cancel(api, job)
    assert cancelled.state == job_pb2.JOB_STATE_CANCELLED
    assert cancelled.cancel_time.ToMilliseconds() == START_MS
    assert not cancelled.HasField("next_run_time")
    api.core.now_ms += 5_000
    assert await cancel(api, job) == cancelled


async def test_a_cancelled_job_gives_its_name_back(api: Api) -> None:
    await cancel(api, await create(api, name="nightly"))
    job = await create(api, name="nightly")
    found = await api.jobs.GetJob(job_pb2.GetJobRequest(name=job_pb2.JobName(name="nightly")))
    assert found.job.id == job


async def test_a_pending_execution_is_cancelled_with_its_job(api: Api) -> None:
    job = await create(api)
    fire(api)
    assert (await cancel(api, job)).state == job_pb2.JOB_STATE_CANCELLED
    assert (await execution_of(api, job)).state == execution_pb2.EXECUTION_STATE_CANCELLED
    assert list(api.core.lease(api.core.open_session()).executions) == []


async def test_a_leased_execution_is_cancelled_once_its_worker_has_dropped_it(api: Api) -> None:
    job = await create(api)
    leased = fire_and_lease(api)
    api.core.worker_answer = True
    assert (await cancel(api, job)).state == job_pb2.JOB_STATE_CANCELLED
    assert api.core.asked == [(leased.session, leased.executions[0], leased.token)]
    assert (await execution_of(api, job)).state == execution_pb2.EXECUTION_STATE_CANCELLED


async def test_a_leased_execution_that_has_begun_keeps_its_job(api: Api) -> None:
    job = await create(api)
    leased = fire_and_lease(api)
    api.core.worker_answer = False
    async with refused() as told:
        await cancel(api, job)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
    assert told.metadata["execution_id"] == str(leased.executions[0])
    assert (await execution_of(api, job)).state == execution_pb2.EXECUTION_STATE_LEASED


async def test_a_worker_that_does_not_answer_counts_as_running(api: Api) -> None:
    job = await create(api)
    fire_and_lease(api)
    async with refused() as told:
        await cancel(api, job)
    assert told.reason == "JOB_RUNNING"
    assert "did not say" in told.message


async def test_an_execution_that_changes_hands_again_and_again_ends_the_attempt(api: Api) -> None:
    job = await create(api)
    fire_and_lease(api)
    api.core.worker_answer = True

    async def ask_worker(session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        dropped = await type(api.core).ask_worker(api.core, session, execution, token, timeout_s)
        # Before the answer is used, the session ends and another worker takes the execution.
        api.core.close_session(session)
        api.core.lease(api.core.open_session())
        return dropped

    api.core.ask_worker = ask_worker  # type: ignore[method-assign]
    async with refused() as told:
        await cancel(api, job)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
    assert 1 < len(api.core.asked) < 10


async def test_a_running_execution_keeps_its_job(api: Api) -> None:
    job = await create(api)
    api.core.started(fire_and_lease(api))
    async with refused() as told:
        await cancel(api, job)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING")
    assert api.core.asked == []


async def test_a_finished_one_off_has_nothing_to_cancel(api: Api) -> None:
    job = await create(api)
    api.core.succeed(fire_and_lease(api))
    async with refused() as told:
        await cancel(api, job)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_FINISHED")


async def test_a_job_in_backoff_is_cancelled(api: Api) -> None:
    job = await create(api, retry=job_pb2.RetryPolicy(max_attempts=5, initial_backoff=Duration(seconds=30)))
    api.core.fail(fire_and_lease(api), permanent=False)
    assert (await cancel(api, job)).state == job_pb2.JOB_STATE_CANCELLED
    assert (await execution_of(api, job)).state == execution_pb2.EXECUTION_STATE_CANCELLED


async def test_an_unknown_job_is_not_found(api: Api) -> None:
    async with refused() as told:
        await cancel(api, 99)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")


async def test_ids_and_request_ids_are_checked(api: Api) -> None:
    async with refused() as told:
        await cancel(api, 0)
    assert told.field == "id"
    async with refused() as told:
        await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=1, request_id=""))
    assert told.field == "request_id"
