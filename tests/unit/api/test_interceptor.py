"""Errors, admission and the access log around every call, seen from the other end of a real channel."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from raftsched.api.interceptor import CallInterceptor
from raftsched.model.errors import Code, JobNotFound, NameTaken, NoQuorum, RaftschedError
from raftsched.v1 import job_pb2, job_pb2_grpc, worker_pb2, worker_pb2_grpc

GetJob = Callable[[job_pb2.GetJobRequest, Any], Awaitable[job_pb2.GetJobResponse]]
Connect = Callable[[AsyncIterator[worker_pb2.WorkerMessage], Any], Any]


@asynccontextmanager
async def serving(
    get_job: GetJob | None = None, connect: Connect | None = None, max_calls: int = 100
) -> AsyncIterator[grpc.aio.Channel]:
    """A server whose GetJob and Connect do just this."""
    server = grpc.aio.server(interceptors=[CallInterceptor(max_calls=max_calls)])
    jobs, workers = job_pb2_grpc.JobServiceServicer(), worker_pb2_grpc.WorkerServiceServicer()
    if get_job is not None:
        jobs.GetJob = get_job
    if connect is not None:
        workers.Connect = connect
    job_pb2_grpc.add_JobServiceServicer_to_server(jobs, server)
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(workers, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)


def raising(error: BaseException) -> GetJob:
    async def get_job(_request: job_pb2.GetJobRequest, _context: Any) -> job_pb2.GetJobResponse:
        raise error

    return get_job


async def failure_of(channel: grpc.aio.Channel) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await job_pb2_grpc.JobServiceStub(channel).GetJob(job_pb2.GetJobRequest(id=1))
    return caught.value


def details_of(
    error: grpc.aio.AioRpcError,
) -> tuple[error_details_pb2.ErrorInfo, error_details_pb2.BadRequest | None]:
    status = rpc_status.from_call(error)
    assert status is not None
    info, bad_request = error_details_pb2.ErrorInfo(), None
    assert status.details[0].Unpack(info)
    if len(status.details) > 1:
        bad_request = error_details_pb2.BadRequest()
        assert status.details[1].Unpack(bad_request)
    return info, bad_request


async def test_an_error_arrives_with_reason_metadata_and_field() -> None:
    error = NameTaken(field="jobs[17].name", job_id="4")
    async with serving(raising(error)) as channel:
        failure = await failure_of(channel)
    assert failure.code() is grpc.StatusCode.ALREADY_EXISTS
    assert failure.details() == "jobs[17].name: Another job of this namespace has that name."
    info, bad_request = details_of(failure)
    assert (info.reason, info.domain, dict(info.metadata)) == ("NAME_TAKEN", "raftsched", {"job_id": "4"})
    assert bad_request is not None
    assert bad_request.field_violations[0].field == "jobs[17].name"
    assert bad_request.field_violations[0].reason == "NAME_TAKEN"


@pytest.mark.parametrize("code", list(Code))
async def test_every_code_arrives_as_its_own_status(code: Code) -> None:
    error = RaftschedError("no")
    error.code = code
    async with serving(raising(error)) as channel:
        failure = await failure_of(channel)
    assert failure.code().value[0] == code


async def test_texts_too_long_for_headers_are_cut_not_lost() -> None:
    error = RaftschedError("ж" * 50_000, field="ß" * 50_000, **{f"key{n}": "漢" * 50_000 for n in range(100)})
    async with serving(raising(error)) as channel:
        failure = await failure_of(channel)
    info, bad_request = details_of(failure)
    assert info.reason == "INTERNAL"
    assert info.metadata["key0"].startswith("漢")
    assert bad_request is not None
    assert bad_request.field_violations[0].description.startswith("ж")


async def test_an_unexpected_exception_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(raising(KeyError("a secret"))) as channel:
        failure = await failure_of(channel)
    assert failure.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(failure)
    error_id = details_of(failure)[0].metadata["error_id"]
    assert error_id in (failure.details() or "")
    logged = [record for record in caplog.records if getattr(record, "error_id", None) == error_id]
    assert len(logged) == 1
    assert logged[0].exc_info is not None
    assert "a secret" in caplog.text


async def test_a_failed_call_is_one_line_of_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(raising(NoQuorum())) as channel:
        await failure_of(channel)
    (record,) = [record for record in caplog.records if record.name == "raftsched.access"]
    assert record.levelno == logging.WARNING
    fields = vars(record)
    assert fields["method"] == "/raftsched.v1.JobService/GetJob"
    assert (fields["code"], fields["reason"]) == ("UNAVAILABLE", "NO_QUORUM")
    assert fields["peer"].startswith("ipv4:127.0.0.1:")
    assert fields["duration_ms"] >= 0


async def test_a_good_call_is_a_debug_line(caplog: pytest.LogCaptureFixture) -> None:
    async def get_job(_request: job_pb2.GetJobRequest, _context: Any) -> job_pb2.GetJobResponse:
        return job_pb2.GetJobResponse(index=5)

    caplog.set_level(logging.DEBUG, "raftsched.access")
    async with serving(get_job) as channel:
        response = await job_pb2_grpc.JobServiceStub(channel).GetJob(job_pb2.GetJobRequest(id=1))
    assert response.index == 5
    (record,) = [record for record in caplog.records if record.name == "raftsched.access"]
    assert (record.levelno, vars(record)["code"]) == (logging.DEBUG, "OK")


async def test_a_status_that_a_service_chose_itself_passes(caplog: pytest.LogCaptureFixture) -> None:
    async def get_job(_request: job_pb2.GetJobRequest, context: Any) -> job_pb2.GetJobResponse:
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "too far")
        raise AssertionError("abort does not return")

    caplog.set_level(logging.INFO)
    async with serving(get_job) as channel:
        failure = await failure_of(channel)
    assert (failure.code(), failure.details()) == (grpc.StatusCode.OUT_OF_RANGE, "too far")
    (record,) = [record for record in caplog.records if record.name == "raftsched.access"]
    assert vars(record)["code"] == "OUT_OF_RANGE"


async def test_a_wait_that_the_node_cancelled_tells_the_caller_to_go_elsewhere() -> None:
    async def get_job(_request: job_pb2.GetJobRequest, _context: Any) -> job_pb2.GetJobResponse:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone
        raise AssertionError("a cancelled future does not return")

    async with serving(get_job) as channel:
        failure = await failure_of(channel)
    assert failure.code() is grpc.StatusCode.UNAVAILABLE
    assert details_of(failure)[0].reason == "NODE_DRAINING"


async def test_a_call_that_its_caller_gave_up_is_cancelled_quietly(caplog: pytest.LogCaptureFixture) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def get_job(_request: job_pb2.GetJobRequest, _context: Any) -> job_pb2.GetJobResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("nobody sets that event")

    caplog.set_level(logging.INFO)
    async with serving(get_job) as channel:
        call = job_pb2_grpc.JobServiceStub(channel).GetJob(job_pb2.GetJobRequest(id=1))
        await asyncio.wait_for(begun.wait(), 5)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)
    assert caplog.records == []


async def test_calls_beyond_the_limit_are_refused_and_those_under_way_answered() -> None:
    release = asyncio.Event()
    under_way = 0
    full = asyncio.Event()

    async def get_job(_request: job_pb2.GetJobRequest, _context: Any) -> job_pb2.GetJobResponse:
        nonlocal under_way
        under_way += 1
        if under_way == 2:
            full.set()
        await release.wait()
        return job_pb2.GetJobResponse(index=1)

    async with serving(get_job, max_calls=2) as channel:
        stub = job_pb2_grpc.JobServiceStub(channel)
        calls = [stub.GetJob(job_pb2.GetJobRequest(id=1)) for _ in range(2)]
        await asyncio.wait_for(full.wait(), 5)
        failure = await failure_of(channel)
        assert failure.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details_of(failure)[0].reason == "OVERLOADED"
        release.set()
        assert [(await call).index for call in calls] == [1, 1]
        assert (await stub.GetJob(job_pb2.GetJobRequest(id=1))).index == 1


async def echo_then_fail(requests: AsyncIterator[worker_pb2.WorkerMessage], _context: Any) -> Any:
    async for request in requests:
        if request.WhichOneof("message") != "heartbeat":
            raise JobNotFound(field="heartbeat")
        yield worker_pb2.ServerMessage(renewed=worker_pb2.Renewed(sequence=request.heartbeat.sequence))


async def read_write_then_fail(requests: AsyncIterator[worker_pb2.WorkerMessage], context: Any) -> None:
    async for request in requests:
        if request.WhichOneof("message") != "heartbeat":
            raise JobNotFound(field="heartbeat")
        await context.write(worker_pb2.ServerMessage(renewed=worker_pb2.Renewed(sequence=request.heartbeat.sequence)))


@pytest.mark.parametrize("connect", [echo_then_fail, read_write_then_fail])
async def test_errors_in_streams_arrive_after_what_was_sent_before(connect: Connect) -> None:
    async with serving(connect=connect) as channel:
        call = worker_pb2_grpc.WorkerServiceStub(channel).Connect()
        for sequence in (1, 2):
            await call.write(worker_pb2.WorkerMessage(heartbeat=worker_pb2.Heartbeat(sequence=sequence)))
            assert (await call.read()).renewed.sequence == sequence
        await call.write(worker_pb2.WorkerMessage())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert details_of(caught.value)[0].reason == "JOB_NOT_FOUND"


async def test_writing_to_a_stream_whose_other_end_is_gone_is_no_incident(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def flood(_requests: AsyncIterator[worker_pb2.WorkerMessage], context: Any) -> None:
        try:
            while True:
                await context.write(worker_pb2.ServerMessage(renewed=worker_pb2.Renewed(sequence=1)))
        finally:
            ended.set()

    caplog.set_level(logging.INFO)
    async with serving(connect=flood) as channel:
        call = worker_pb2_grpc.WorkerServiceStub(channel).Connect()
        await call.read()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)
    assert caplog.records == []
