"""Real gRPC servers for the unary services, that answer from a script."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from raftsched.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    job_pb2,
    job_pb2_grpc,
)

Answer = Callable[[Any, Any], Any]


class JobsNode(
    job_pb2_grpc.JobServiceServicer,
    execution_pb2_grpc.ExecutionServiceServicer,
    cluster_pb2_grpc.ClusterServiceServicer,
):
    """A node; what `script` holds is used up first, one item a call, before it answers well."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        # Awaited for each call; they may abort it.
        self.script: deque[Callable[[grpc.aio.ServicerContext[Any, Any]], Any]] = deque()
        self.jobs: dict[int, job_pb2.Job] = {}
        self.index = 0
        self.node = 1
        self.address = ""
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server()
        job_pb2_grpc.add_JobServiceServicer_to_server(self, self._server)
        execution_pb2_grpc.add_ExecutionServiceServicer_to_server(self, self._server)
        cluster_pb2_grpc.add_ClusterServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.stop(0)

    async def _begin(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        if self.script:
            await self.script.popleft()(context)

    async def CreateJob(self, request: job_pb2.CreateJobRequest, context: Any) -> job_pb2.CreateJobResponse:
        await self._begin(request, context)
        self.index += 1
        job = self.jobs[len(self.jobs) + 1] = job_pb2.Job()
        job.CopyFrom(request.job)
        job.id = len(self.jobs)
        return job_pb2.CreateJobResponse(job=job, index=self.index)

    async def BatchCreateJobs(self, request: Any, context: Any) -> job_pb2.BatchCreateJobsResponse:
        await self._begin(request, context)
        first = len(self.jobs) + 1
        for number, job in enumerate(request.jobs, start=first):
            self.jobs[number] = job
        return job_pb2.BatchCreateJobsResponse(job_ids=range(first, first + len(request.jobs)), index=9)

    async def GetJob(self, request: job_pb2.GetJobRequest, context: Any) -> job_pb2.GetJobResponse:
        await self._begin(request, context)
        return job_pb2.GetJobResponse(job=self.jobs[request.id or 1], index=self.index)

    async def ListJobs(self, request: job_pb2.ListJobsRequest, context: Any) -> job_pb2.ListJobsResponse:
        """Pages of two; the second one is empty."""
        await self._begin(request, context)
        page = int(request.page_token or 0)
        jobs = [] if page == 1 else [job_pb2.Job(id=2 * page + 1), job_pb2.Job(id=2 * page + 2)]
        return job_pb2.ListJobsResponse(jobs=jobs, next_page_token=str(page + 1) if page < 3 else "", index=self.index)

    async def CancelJob(self, request: Any, context: Any) -> job_pb2.CancelJobResponse:
        await self._begin(request, context)
        return job_pb2.CancelJobResponse(job=job_pb2.Job(id=request.id, state=job_pb2.JOB_STATE_CANCELLED))

    async def ListExecutions(self, request: Any, context: Any) -> execution_pb2.ListExecutionsResponse:
        await self._begin(request, context)
        execution = execution_pb2.Execution(id=7, job_id=request.job_id, state=execution_pb2.EXECUTION_STATE_RUNNING)
        return execution_pb2.ListExecutionsResponse(executions=[execution])

    async def ReplayDeadLetters(self, request: Any, context: Any) -> execution_pb2.ReplayDeadLettersResponse:
        await self._begin(request, context)
        new = [number + 10_000 for number in request.execution_ids]
        return execution_pb2.ReplayDeadLettersResponse(new_execution_ids=new)

    async def GetStatus(self, request: Any, context: Any) -> cluster_pb2.GetStatusResponse:
        await self._begin(request, context)
        return cluster_pb2.GetStatusResponse(node=self.node, leader=3, health=cluster_pb2.NODE_HEALTH_SERVING)


def refusal(code: grpc.StatusCode, reason: str, *, message: str = "no", field: str = "", **metadata: str) -> Any:
    """A step of a script: fails the call the way a node does."""

    async def refuse(context: Any) -> None:
        status = status_pb2.Status(code=code.value[0], message=message)
        info = any_pb2.Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="raftsched", metadata=metadata))
        status.details.append(info)
        if field:
            bad = any_pb2.Any()
            violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=message)
            bad.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
            status.details.append(bad)
        await context.abort_with_status(rpc_status.to_status(status))

    return refuse


async def hang(_context: Any) -> None:
    """A step of a script: never answers."""
    await asyncio.Event().wait()
