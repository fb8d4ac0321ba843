"""The public gRPC API as these tests call it: blocking, any node, blind retries under one request id.

It is written on the bare stubs and not on raftsched.client, so that what a test proves is proved of the server.
"""

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from raftsched.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    job_pb2,
    job_pb2_grpc,
    workflow_pb2_grpc,
)
from tests.cluster.processes import PATIENCE

T = TypeVar("T")

RETRYABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}

# A node that gave no answer is not asked again so soon when others can be.
SIT_OUT_S = 5.0


def error_of(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, list[str]]:
    """Status code, ErrorInfo reason and the fields named in BadRequest of a refused call."""
    status = rpc_status.from_call(error)
    reason, fields = "", []
    for detail in [] if status is None else status.details:
        info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(bad):
            fields += [violation.field for violation in bad.field_violations]
    return error.code(), reason, fields


class Node:
    """Stubs of one node."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sits_out_until = 0.0
        # Without its own pool of subchannels a test would see the backoff of a node that another test killed.
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_receive_message_length", 64 << 20),
            ("grpc.max_send_message_length", 64 << 20),
        ]
        self.channel = grpc.insecure_channel(address, options)
        self.jobs = job_pb2_grpc.JobServiceStub(self.channel)
        self.executions = execution_pb2_grpc.ExecutionServiceStub(self.channel)
        self.cluster = cluster_pb2_grpc.ClusterServiceStub(self.channel)
        self.workflows = workflow_pb2_grpc.WorkflowServiceStub(self.channel)

    def status(self, timeout_s: float = 2.0) -> cluster_pb2.GetStatusResponse | None:
        """None when the node does not answer."""
        try:
            return self.cluster.GetStatus(cluster_pb2.GetStatusRequest(), timeout=timeout_s * PATIENCE)
        except grpc.RpcError as error:
            if error.code() in RETRYABLE:
                return None
            raise

    def retire(self) -> None:
        """Calls that any node will do for do not go here any more."""
        self.sits_out_until = float("inf")

    def close(self) -> None:
        self.channel.close()


class Api:
    """Calls that go on over the nodes until one answers or the deadline passes."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.nodes = [Node(address) for address in addresses]
        self._turn = itertools.count()
        # Attempts that failed and were tried again, by their status code.
        self.retried: Counter[str] = Counter()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def add(self, address: str) -> None:
        self.nodes.append(Node(address))

    def call(self, attempt: Callable[[Node], T], deadline_s: float = 40.0, node: Node | None = None) -> T:
        """Tries nodes in turn (or `node` alone). Raises what a node refused, or the last failure when time is up."""
        deadline = time.monotonic() + deadline_s * PATIENCE
        while True:
            chosen = node or self._next_node()
            try:
                return attempt(chosen)
            except grpc.RpcError as error:
                if error.code() not in RETRYABLE or time.monotonic() > deadline:
                    raise
                self.retried[error.code().name] += 1
            chosen.sits_out_until = max(chosen.sits_out_until, time.monotonic() + SIT_OUT_S)
            time.sleep(0.05)

    def _next_node(self) -> Node:
        """In turn, those that failed lately left out as long as there are others."""
        now = time.monotonic()
        usable = [node for node in self.nodes if node.sits_out_until < now] or self.nodes
        return usable[next(self._turn) % len(usable)]

    def create(
        self, job: job_pb2.Job, request_id: str | None = None, node: Node | None = None, deadline_s: float = 40.0
    ) -> job_pb2.CreateJobResponse:
        request = job_pb2.CreateJobRequest(job=job, request_id=request_id or uuid.uuid4().hex)
        return self.call(lambda n: n.jobs.CreateJob(request, timeout=5 * PATIENCE), deadline_s, node)

    def create_batch(self, jobs: Sequence[job_pb2.Job], request_id: str | None = None) -> Sequence[int]:
        request = job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id=request_id or uuid.uuid4().hex)
        timeout_s = (5 + len(jobs) / 500) * PATIENCE
        return self.call(lambda n: n.jobs.BatchCreateJobs(request, timeout=timeout_s)).job_ids

    def get(self, job_id: int, *, linearizable: bool = True) -> job_pb2.Job:
        request = job_pb2.GetJobRequest(id=job_id, read=job_pb2.ReadOptions(linearizable=linearizable))
        return self.call(lambda n: n.jobs.GetJob(request, timeout=5 * PATIENCE)).job

    def cancel(self, job_id: int, node: Node | None = None) -> job_pb2.Job:
        request = job_pb2.CancelJobRequest(id=job_id, request_id=uuid.uuid4().hex)
        return self.call(lambda n: n.jobs.CancelJob(request, timeout=10 * PATIENCE), node=node).job

    def executions(self, job_id: int) -> list[execution_pb2.Execution]:
        """All executions of the job, oldest first, linearizable."""

        def fetch(token: str) -> tuple[Sequence[execution_pb2.Execution], str]:
            request = execution_pb2.ListExecutionsRequest(
                job_id=job_id, page_size=1_000, page_token=token, read=job_pb2.ReadOptions(linearizable=True)
            )
            answer = self.call(lambda n: n.executions.ListExecutions(request, timeout=5 * PATIENCE))
            return answer.executions, answer.next_page_token

        return list(_pages(fetch))[::-1]

    def skips(self, job_id: int) -> list[execution_pb2.SkippedOccurrence]:
        def fetch(token: str) -> tuple[Sequence[execution_pb2.SkippedOccurrence], str]:
            request = execution_pb2.ListSkippedOccurrencesRequest(
                job_id=job_id, page_size=1_000, page_token=token, read=job_pb2.ReadOptions(linearizable=True)
            )
            answer = self.call(lambda n: n.executions.ListSkippedOccurrences(request, timeout=5 * PATIENCE))
            return answer.occurrences, answer.next_page_token

        return list(_pages(fetch))

    def list_jobs(self, **job_filter: Any) -> list[job_pb2.Job]:
        def fetch(token: str) -> tuple[Sequence[job_pb2.Job], str]:
            request = job_pb2.ListJobsRequest(
                filter=job_pb2.JobFilter(**job_filter),
                page_size=1_000,
                page_token=token,
                read=job_pb2.ReadOptions(linearizable=True),
            )
            answer = self.call(lambda n: n.jobs.ListJobs(request, timeout=5 * PATIENCE))
            return answer.jobs, answer.next_page_token

        return list(_pages(fetch))


def _pages(fetch: Callable[[str], tuple[Sequence[Any], str]]) -> Iterator[Any]:
    token = ""
    while True:
        items, token = fetch(token)
        yield from items
        if not token:
            return
