"""Bytes that are no message, or a strange one: every method answers with a typed error, and the server lives."""

import random
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from raftsched.api.server import Service
from raftsched.v1 import (
    backfill_pb2,
    calendar_pb2,
    cluster_pb2,
    dedup_pb2,
    execution_pb2,
    job_pb2,
    limit_pb2,
    worker_pb2,
    worker_pb2_grpc,
    workflow_pb2,
)
from tests.unit.api.support import Api, refused, running_api

REQUESTS: dict[str, type[Message]] = {
    "/raftsched.v1.JobService/CreateJob": job_pb2.CreateJobRequest,
    "/raftsched.v1.JobService/BatchCreateJobs": job_pb2.BatchCreateJobsRequest,
    "/raftsched.v1.JobService/GetJob": job_pb2.GetJobRequest,
    "/raftsched.v1.JobService/ListJobs": job_pb2.ListJobsRequest,
    "/raftsched.v1.JobService/CancelJob": job_pb2.CancelJobRequest,
    "/raftsched.v1.JobService/UpdateJob": job_pb2.UpdateJobRequest,
    "/raftsched.v1.JobService/PauseJob": job_pb2.PauseJobRequest,
    "/raftsched.v1.JobService/ResumeJob": job_pb2.ResumeJobRequest,
    "/raftsched.v1.JobService/TriggerJob": job_pb2.TriggerJobRequest,
    "/raftsched.v1.JobService/RescheduleJob": job_pb2.RescheduleJobRequest,
    "/raftsched.v1.JobService/DeleteJob": job_pb2.DeleteJobRequest,
    "/raftsched.v1.ExecutionService/GetExecution": execution_pb2.GetExecutionRequest,
    "/raftsched.v1.ExecutionService/CancelExecution": execution_pb2.CancelExecutionRequest,
    "/raftsched.v1.ExecutionService/ListExecutions": execution_pb2.ListExecutionsRequest,
    "/raftsched.v1.ExecutionService/ListSkippedOccurrences": execution_pb2.ListSkippedOccurrencesRequest,
    "/raftsched.v1.ExecutionService/ListOccurrences": execution_pb2.ListOccurrencesRequest,
    "/raftsched.v1.ExecutionService/ListDeadLetters": execution_pb2.ListDeadLettersRequest,
    "/raftsched.v1.ExecutionService/ReplayDeadLetters": execution_pb2.ReplayDeadLettersRequest,
    "/raftsched.v1.ExecutionService/GetResult": execution_pb2.GetResultRequest,
    "/raftsched.v1.WorkflowService/CreateWorkflow": workflow_pb2.CreateWorkflowRequest,
    "/raftsched.v1.WorkflowService/GetWorkflow": workflow_pb2.GetWorkflowRequest,
    "/raftsched.v1.DedupService/Claim": dedup_pb2.ClaimRequest,
    "/raftsched.v1.DedupService/Complete": dedup_pb2.CompleteRequest,
    "/raftsched.v1.LimitService/PutLimit": limit_pb2.PutLimitRequest,
    "/raftsched.v1.LimitService/ListLimits": limit_pb2.ListLimitsRequest,
    "/raftsched.v1.LimitService/DeleteLimit": limit_pb2.DeleteLimitRequest,
    "/raftsched.v1.CalendarService/PutCalendar": calendar_pb2.PutCalendarRequest,
    "/raftsched.v1.CalendarService/GetCalendar": calendar_pb2.GetCalendarRequest,
    "/raftsched.v1.CalendarService/ListCalendars": calendar_pb2.ListCalendarsRequest,
    "/raftsched.v1.CalendarService/DeleteCalendar": calendar_pb2.DeleteCalendarRequest,
    "/raftsched.v1.BackfillService/PreviewBackfill": backfill_pb2.PreviewBackfillRequest,
    "/raftsched.v1.BackfillService/CreateBackfill": backfill_pb2.CreateBackfillRequest,
    "/raftsched.v1.BackfillService/GetBackfill": backfill_pb2.GetBackfillRequest,
    "/raftsched.v1.BackfillService/ListBackfills": backfill_pb2.ListBackfillsRequest,
    "/raftsched.v1.BackfillService/CancelBackfill": backfill_pb2.CancelBackfillRequest,
    "/raftsched.v1.ClusterService/GetStatus": cluster_pb2.GetStatusRequest,
    "/raftsched.v1.ClusterService/StartVerification": cluster_pb2.StartVerificationRequest,
    "/raftsched.v1.ClusterService/GetVerification": cluster_pb2.GetVerificationRequest,
    "/raftsched.v1.ClusterService/AddNode": cluster_pb2.AddNodeRequest,
    "/raftsched.v1.ClusterService/RemoveNode": cluster_pb2.RemoveNodeRequest,
    "/raftsched.v1.ClusterService/TransferLeadership": cluster_pb2.TransferLeadershipRequest,
}
NOT_OUR_FAULT = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
    # A min_index that is not reached within the call's deadline.
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


def test_every_public_unary_method_is_tried() -> None:
    services = [
        file.services_by_name[name]
        for file, name in (
            (job_pb2.DESCRIPTOR, "JobService"),
            (execution_pb2.DESCRIPTOR, "ExecutionService"),
            (cluster_pb2.DESCRIPTOR, "ClusterService"),
            (backfill_pb2.DESCRIPTOR, "BackfillService"),
            (calendar_pb2.DESCRIPTOR, "CalendarService"),
            (dedup_pb2.DESCRIPTOR, "DedupService"),
            (limit_pb2.DESCRIPTOR, "LimitService"),
            (workflow_pb2.DESCRIPTOR, "WorkflowService"),
        )
    ]
    methods = [method for service in services for method in service.methods if not method.server_streaming]
    assert {f"/{method.containing_service.full_name}/{method.name}" for method in methods} == set(REQUESTS)


@pytest.mark.parametrize("method", REQUESTS)
async def test_bytes_that_are_no_message_are_refused(api: Api, method: str, caplog: pytest.LogCaptureFixture) -> None:
    async with refused() as told:
        await api.channel.unary_unary(method)(b"\xff\xff\xff\xff")
    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PROTOCOL_VIOLATION")
    assert "Traceback" not in caplog.text


async def test_no_request_is_the_servers_fault(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(11)
    for method, kind in REQUESTS.items():
        call = api.channel.unary_unary(method)
        for _ in range(40):
            request = strange(kind, rng)
            code = await call(request.SerializeToString(), timeout=0.2).code()
            assert code in NOT_OUR_FAULT, (method, request)
    assert "Traceback" not in caplog.text


def strange(kind: type[Message], rng: random.Random, depth: int = 0) -> Message:
    """A message of this kind with some of its fields set to values that somebody might send by mistake."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.4:
            continue
        values = [value_for(field, rng, depth) for _ in range(rng.randint(1, 3))]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[rng.choice(TEXTS)] = rng.choice(TEXTS)
        elif field.is_repeated:
            getattr(message, field.name).extend(values)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(values[0])
        else:
            setattr(message, field.name, values[0])
    return message


TEXTS = ("", "default", "h", "a b", "ß" * 300, "\x00", "../../etc", "x" * 5_000, "* * * * *", "UTC", "0 0 31 2 *")
NUMBERS = (0, 1, 2, 77, 2**31 - 1)


def value_for(field: Any, rng: random.Random, depth: int) -> Any:
    if field.message_type is not None:
        if depth > 3 or field.message_type.GetOptions().map_entry:
            return None if depth <= 3 else field.message_type._concrete_class()
        return strange(field.message_type._concrete_class, rng, depth + 1)
    if field.enum_type is not None:
        return rng.choice([0, 1, 2, 99])
    if field.cpp_type == field.CPPTYPE_STRING:
        return rng.choice(TEXTS).encode() if field.type == field.TYPE_BYTES else rng.choice(TEXTS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e308])
    if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_INT32):
        return rng.choice([*NUMBERS, -1, -(2**31)])
    return rng.choice(NUMBERS)


class Listener(worker_pb2_grpc.WorkerServiceServicer):
    async def Connect(self, request_iterator: AsyncIterator[worker_pb2.WorkerMessage], context: Any) -> None:
        async for _ in request_iterator:
            await context.write(worker_pb2.ServerMessage())


async def test_a_stream_with_bytes_that_are_no_message_ends_with_a_typed_error(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    workers = Service(
        "raftsched.v1.WorkerService",
        lambda server: worker_pb2_grpc.add_WorkerServiceServicer_to_server(Listener(), server),
    )
    async with running_api(tmp_path, services=(workers,)) as api:
        call = api.channel.stream_stream("/raftsched.v1.WorkerService/Connect")()
        await call.write(worker_pb2.WorkerMessage().SerializeToString())
        await call.read()
        await call.write(b"\xff\xff\xff\xff")
        async with refused() as told:
            await call.read()
    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PROTOCOL_VIOLATION")
    assert "Traceback" not in caplog.text
