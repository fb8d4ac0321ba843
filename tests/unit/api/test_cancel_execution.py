"""CancelExecution over a real channel, in every state that an execution can be in."""

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


async def fired(api: Api) -> None:
    """Execution 1 is PENDING."""
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000))
    await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))
    api.core.fire()


async def cancel(api: Api) -> execution_pb2.Execution:
    return (await api.executions.CancelExecution(execution_pb2.CancelExecutionRequest(id=1))).execution


async def test_what_waits_is_cancelled_at_once(api: Api) -> None:
    await fired(api)
    assert (await cancel(api)).state == execution_pb2.EXECUTION_STATE_CANCELLED
    assert (await cancel(api)).state == execution_pb2.EXECUTION_STATE_CANCELLED
    assert api.core.asked == []
    assert not api.core.lease(api.core.open_session()).executions


async def test_what_its_worker_dropped_is_cancelled(api: Api) -> None:
    await fired(api)
    leased = api.core.lease(api.core.open_session())
    api.core.worker_answer = True
    answer = await cancel(api)
    assert (answer.state, answer.cancel_requested) == (execution_pb2.EXECUTION_STATE_CANCELLED, False)
    assert api.core.asked == [(1, 1, leased.token)]


async def test_what_has_begun_or_may_have_is_asked_to_stop(api: Api) -> None:
    for answer in (False, None):
        await fired(api)
        session = api.core.open_session()
        leased = api.core.lease(session)
        api.core.worker_answer = answer
        (number,) = leased.executions
        request = execution_pb2.CancelExecutionRequest(id=number)
        asked = (await api.executions.CancelExecution(request)).execution
        assert (asked.state, asked.cancel_requested) == (execution_pb2.EXECUTION_STATE_LEASED, True)
        api.core.fail(leased, permanent=False)
        request = execution_pb2.GetExecutionRequest(id=number, read=LINEARIZABLE)
        ended = (await api.executions.GetExecution(request)).execution
        assert (ended.state, ended.error) == (execution_pb2.EXECUTION_STATE_CANCELLED, "no such host")


async def test_what_runs_is_asked_to_stop_and_may_still_succeed(api: Api) -> None:
    await fired(api)
    leased = api.core.lease(api.core.open_session())
    api.core.started(leased)
    answer = await cancel(api)
    assert (answer.state, answer.cancel_requested) == (execution_pb2.EXECUTION_STATE_RUNNING, True)
    assert answer.cause == execution_pb2.EXECUTION_CAUSE_SCHEDULE
    api.core.succeed(leased)
    request = execution_pb2.GetExecutionRequest(id=1, read=LINEARIZABLE)
    ended = (await api.executions.GetExecution(request)).execution
    assert ended.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
    async with refused() as told:
        await cancel(api)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EXECUTION_FINISHED")


async def test_bad_requests_name_their_field(api: Api) -> None:
    async with refused() as told:
        await api.executions.CancelExecution(execution_pb2.CancelExecutionRequest())
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "id")
    async with refused() as told:
        await api.executions.CancelExecution(execution_pb2.CancelExecutionRequest(id=1, request_id=""))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "request_id")
    async with refused() as told:
        await cancel(api)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "EXECUTION_NOT_FOUND")
