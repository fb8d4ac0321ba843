"""The asyncio client: registers, reads and cancels jobs, and reads what became of them, through any node."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from raftsched.client import convert
from raftsched.client.backfill_calls import BackfillCalls
from raftsched.client.calendar_calls import CalendarCalls
from raftsched.client.channels import ChannelPool, Stubs
from raftsched.client.cluster_values import (
    ClusterStatus,
    NodeStatus,
)
from raftsched.client.create_calls import CreateCalls
from raftsched.client.errors import RaftschedError
from raftsched.client.fields import assign, build, extend, set_labels, set_time, within
from raftsched.client.key_calls import KeyCalls
from raftsched.client.limit_calls import LimitCalls
from raftsched.client.values import (
    DeadLetter,
    Execution,
    Job,
    JobState,
    Occurrence,
    SkippedOccurrence,
    Triggered,
)
from raftsched.client.workflow_calls import WorkflowCalls
from raftsched.v1 import cluster_pb2, execution_pb2, job_pb2

T = TypeVar("T")
M = TypeVar("M")

# What one ReplayDeadLetters takes; see execution.proto.
BATCH_REPLAYS = 1_000


class Client(BackfillCalls, CreateCalls, CalendarCalls, KeyCalls, LimitCalls, WorkflowCalls):
    """Talks to a cluster through the nodes at `addresses` ("host:port"), any of them.

    Each call is repeated on other nodes until one answers or `timeout_s` has passed; a mutation carries the same
    request_id each time, so it is carried out once. Reads see what this client wrote before, whichever node answers;
    `linearizable=True` makes them see what anyone wrote. Every method may raise a RaftschedError.
    Without `credentials` connections are not encrypted.

    Use it as an async context manager, or close it.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        namespace: str = "default",
        *,
        timeout_s: float = 30.0,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._pool = ChannelPool(addresses, credentials)
        self.namespace = namespace
        self._timeout_s = timeout_s
        # The highest Raft index in any answer: reads ask for at least that.
        self._index = 0

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that this client knows."""
        return self._pool.addresses

    async def close(self) -> None:
        """Closes the connections; calls under way fail with ClientClosed."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, job_id: int, *, linearizable: bool = False) -> Job:
        """The job with that id. Raises JobNotFound."""
        request = build(job_pb2.GetJobRequest, id=job_id, read=self._read(linearizable))
        answer: job_pb2.GetJobResponse = await self._call(lambda stubs: stubs.jobs.GetJob, request)
        return convert.job_value(answer.job)

    async def get_by_name(self, name: str, *, namespace: str = "", linearizable: bool = False) -> Job:
        """The newest job with that name. Raises JobNotFound."""
        request = build(
            job_pb2.GetJobRequest,
            name=build(job_pb2.JobName, namespace=namespace or self.namespace, name=name),
            read=self._read(linearizable),
        )
        answer: job_pb2.GetJobResponse = await self._call(lambda stubs: stubs.jobs.GetJob, request)
        return convert.job_value(answer.job)

    def list(
        self,
        *,
        namespace: str = "",
        state: JobState | None = None,
        handler: str = "",
        labels: Mapping[str, str] | None = None,
        queue: str = "",
        page_size: int = 0,
        linearizable: bool = False,
    ) -> AsyncIterator[Job]:
        """The jobs that match all that is given, in order of id, page by page as they are consumed."""
        job_filter = build(job_pb2.JobFilter, namespace=namespace or self.namespace, handler=handler, queue=queue)
        set_labels(job_filter, labels or {})
        if state is not None:
            convert.set_job_state(job_filter, state)
        request = build(job_pb2.ListJobsRequest, filter=job_filter, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.jobs.ListJobs, request, linearizable, lambda page: page.jobs, convert.job_value
        )

    async def cancel(self, job_id: int, *, request_id: str | None = None) -> Job:
        """Cancels the job and returns it; harmless when repeated.

        Raises JobRunning while an execution of it runs, JobFinished when nothing is left to cancel, JobNotFound.
        """
        request = build(job_pb2.CancelJobRequest, id=job_id, request_id=convert.request_id(request_id))
        answer: job_pb2.CancelJobResponse = await self._mutate(lambda stubs: stubs.jobs.CancelJob, request)
        return convert.job_value(answer.job)

    async def pause(self, job_id: int, note: str = "", *, request_id: str | None = None) -> Job:
        """Lets nothing of the job fire until it is resumed; what is under way goes on.

        Harmless when repeated; another note replaces the one before.
        Raises JobStateForbids when nothing of it is to come, JobNotFound.
        """
        request = build(job_pb2.PauseJobRequest, id=job_id, note=note, request_id=convert.request_id(request_id))
        answer: job_pb2.PauseJobResponse = await self._mutate(lambda stubs: stubs.jobs.PauseJob, request)
        return convert.job_value(answer.job)

    async def resume(self, job_id: int, *, request_id: str | None = None) -> Job:
        """Lets a paused job go on; its catch-up policy says what of the missed occurrences runs.

        Harmless for one that is not paused. Raises JobStateForbids when it will not run again, JobNotFound.
        """
        request = build(job_pb2.ResumeJobRequest, id=job_id, request_id=convert.request_id(request_id))
        answer: job_pb2.ResumeJobResponse = await self._mutate(lambda stubs: stubs.jobs.ResumeJob, request)
        return convert.job_value(answer.job)

    async def delete(self, job_id: int, *, request_id: str | None = None) -> None:
        """Removes the job with its history; its name is free at once. Harmless when repeated.

        Raises JobStateForbids while an execution of it is leased or running, JobNotFound.
        """
        request = build(job_pb2.DeleteJobRequest, id=job_id, request_id=convert.request_id(request_id))
        await self._mutate(lambda stubs: stubs.jobs.DeleteJob, request)

    async def update(self, job_id: int, /, *, etag: str = "", request_id: str | None = None, **changes: Any) -> Job:
        """Changes the settings that are given, named as in JobSpec; a part of a schedule stands for all of it.

        A tick that is already due fires under the old settings, once; executions under way keep those that they were
        fired with. With the `etag` of an earlier answer it raises EtagMismatch if the job has changed since. Raises
        InvalidField, NameTaken, JobStateForbids, JobNotFound.
        """
        with within("job"):
            job, names = convert.job_changes(changes)
            assign(job, "id", job_id)
        request = build(job_pb2.UpdateJobRequest, job=job, etag=etag, request_id=convert.request_id(request_id))
        request.update_mask.paths.extend(names)
        answer: job_pb2.UpdateJobResponse = await self._mutate(lambda stubs: stubs.jobs.UpdateJob, request)
        return convert.job_value(answer.job)

    async def reschedule(self, job_id: int, run_at: datetime, *, request_id: str | None = None) -> Job:
        """Gives a job that runs once, and has not yet, another time. Raises JobStateForbids, JobNotFound."""
        request = build(job_pb2.RescheduleJobRequest, id=job_id, request_id=convert.request_id(request_id))
        set_time(request.run_at, run_at, "run_at")
        answer: job_pb2.RescheduleJobResponse = await self._mutate(lambda stubs: stubs.jobs.RescheduleJob, request)
        return convert.job_value(answer.job)

    async def trigger(
        self,
        job_id: int,
        *,
        payload: Any = None,
        ignore_overlap: bool = False,
        refuse_overlap: bool = False,
        request_id: str | None = None,
    ) -> Triggered:
        """Runs a job now, beside its schedule, with its own payload or this one (see JobSpec).

        Its overlap policy holds: what it forbids is recorded as skipped, or raises OverlapRefused (`refuse_overlap`);
        `ignore_overlap` starts it in any case. The same request_id starts one execution, however often it is sent.
        Raises JobStateForbids for a job that is cancelled or waits for others, JobNotFound.
        """
        request = build(
            job_pb2.TriggerJobRequest,
            id=job_id,
            ignore_overlap=ignore_overlap,
            refuse_overlap=refuse_overlap,
            request_id=convert.request_id(request_id),
        )
        if payload is not None:
            request.payload = convert.payload_bytes(payload)
        answer: job_pb2.TriggerJobResponse = await self._mutate(lambda stubs: stubs.jobs.TriggerJob, request)
        return convert.triggered_value(answer)

    async def get_execution(self, execution_id: int, *, linearizable: bool = False) -> Execution:
        """The execution with that id. Raises ExecutionNotFound."""
        request = build(execution_pb2.GetExecutionRequest, id=execution_id, read=self._read(linearizable))
        answer: execution_pb2.GetExecutionResponse = await self._call(
            lambda stubs: stubs.executions.GetExecution, request
        )
        return convert.execution_value(answer.execution)

    async def cancel_execution(self, execution_id: int, *, request_id: str | None = None) -> Execution:
        """Cancels one execution and returns it. One that runs is asked to stop, and is CANCELLED when it has ended.

        Repeating it asks again. Raises ExecutionFinished, ExecutionNotFound.
        """
        request = build(
            execution_pb2.CancelExecutionRequest, id=execution_id, request_id=convert.request_id(request_id)
        )
        answer: execution_pb2.CancelExecutionResponse = await self._mutate(
            lambda stubs: stubs.executions.CancelExecution, request
        )
        return convert.execution_value(answer.execution)

    def executions(self, job_id: int, *, page_size: int = 0, linearizable: bool = False) -> AsyncIterator[Execution]:
        """The executions of a job, newest first, page by page as they are consumed."""
        request = build(execution_pb2.ListExecutionsRequest, job_id=job_id, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.executions.ListExecutions,
            request,
            linearizable,
            lambda page: page.executions,
            convert.execution_value,
        )

    def skipped(
        self, job_id: int, *, page_size: int = 0, linearizable: bool = False
    ) -> AsyncIterator[SkippedOccurrence]:
        """The occurrences of a job that did not run, with the reason, oldest first."""
        request = build(execution_pb2.ListSkippedOccurrencesRequest, job_id=job_id, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.executions.ListSkippedOccurrences,
            request,
            linearizable,
            lambda page: page.occurrences,
            convert.skipped_value,
        )

    def occurrences(
        self,
        job_id: int,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        page_size: int = 0,
        linearizable: bool = False,
    ) -> AsyncIterator[Occurrence]:
        """What happened to each scheduled time of a job, newest first: from `start` on and before `end`."""
        request = build(execution_pb2.ListOccurrencesRequest, job_id=job_id, page_size=page_size)
        if start is not None:
            set_time(request.start, start, "start")
        if end is not None:
            set_time(request.end, end, "end")
        return self._pages(
            lambda stubs: stubs.executions.ListOccurrences,
            request,
            linearizable,
            lambda page: page.occurrences,
            convert.occurrence_value,
        )

    def dead_letters(
        self, *, namespace: str = "", page_size: int = 0, linearizable: bool = False
    ) -> AsyncIterator[DeadLetter]:
        """The executions of a namespace that ended in the dead letters and were not replayed, oldest first."""
        request = build(
            execution_pb2.ListDeadLettersRequest, namespace=namespace or self.namespace, page_size=page_size
        )
        return self._pages(
            lambda stubs: stubs.executions.ListDeadLetters,
            request,
            linearizable,
            lambda page: page.dead_letters,
            convert.dead_letter_value,
        )

    async def replay(self, execution_ids: Iterable[int], *, request_id: str | None = None) -> Sequence[int]:
        """Starts a new execution for each of these dead letters; returns their ids in the same order.

        They go in batches of up to 1,000. Repeating it gives the same ids. Raises NotDeadLetter, ExecutionNotFound.
        """
        key = convert.request_id(request_id)
        old = [*execution_ids]
        new: list[int] = []
        for first in range(0, len(old), BATCH_REPLAYS):
            request = build(execution_pb2.ReplayDeadLettersRequest, request_id=f"{key}/{first // BATCH_REPLAYS}")
            extend(request, "execution_ids", old[first : first + BATCH_REPLAYS])
            answer: execution_pb2.ReplayDeadLettersResponse = await self._mutate(
                lambda stubs: stubs.executions.ReplayDeadLetters, request
            )
            new.extend(answer.new_execution_ids)
        return new

    async def status(self, address: str | None = None, *, linearizable: bool = False) -> ClusterStatus:
        """What a node knows of the cluster: any node, or the one at `address`, which must be one of `addresses`."""
        # No min_index: a node that lags behind should say so rather than keep its operator waiting.
        request = build(cluster_pb2.GetStatusRequest, read=job_pb2.ReadOptions(linearizable=linearizable))
        answer: cluster_pb2.GetStatusResponse = await self._pool.call(
            lambda stubs: stubs.cluster.GetStatus, request, timeout_s=self._timeout_s, address=address
        )
        return convert.status_value(answer)

    async def add_node(self, node_id: int, address: str) -> Sequence[NodeStatus]:
        """Adds a node to the cluster; returns its nodes. The new one is a learner until it has caught up.

        Repeating it changes nothing. The errors have the reasons MEMBER_EXISTS (with another address),
        MEMBERSHIP_CHANGE_IN_PROGRESS, LEADER_NOT_READY.
        """
        request = build(cluster_pb2.AddNodeRequest, id=node_id, address=address)
        answer: cluster_pb2.AddNodeResponse = await self._pool.call(
            lambda stubs: stubs.cluster.AddNode, request, timeout_s=self._timeout_s
        )
        return convert.node_values(answer.nodes)

    async def remove_node(self, node_id: int) -> Sequence[NodeStatus]:
        """Removes a node from the cluster; returns those that are left. Repeating it changes nothing.

        Further reasons of errors: QUORUM_AT_RISK, CANNOT_LEAD (it leads, and nobody else is fit to).
        """
        answer: cluster_pb2.RemoveNodeResponse = await self._pool.call(
            lambda stubs: stubs.cluster.RemoveNode,
            build(cluster_pb2.RemoveNodeRequest, id=node_id),
            timeout_s=self._timeout_s,
        )
        return convert.node_values(answer.nodes)

    async def transfer_leadership(self, to: int | None = None) -> int:
        """Has node `to`, or any other than the present leader, lead; returns the leader.

        Reasons of errors: NODE_NOT_FOUND, CANNOT_LEAD.
        """
        answer: cluster_pb2.TransferLeadershipResponse = await self._pool.call(
            lambda stubs: stubs.cluster.TransferLeadership,
            build(cluster_pb2.TransferLeadershipRequest, to=to or 0),
            timeout_s=self._timeout_s,
        )
        return answer.leader

    def _read(self, linearizable: bool) -> job_pb2.ReadOptions:
        return job_pb2.ReadOptions(linearizable=linearizable, min_index=self._index)

    async def _call(self, method: Callable[[Stubs], Any], request: Any) -> Any:
        answer = await self._pool.call(method, request, timeout_s=self._timeout_s)
        self._index = max(self._index, answer.index)
        return answer

    async def _mutate(self, method: Callable[[Stubs], Any], request: Any) -> Any:
        try:
            return await self._call(method, request)
        except RaftschedError as error:
            error.request_id = request.request_id
            raise

    async def _pages(
        self,
        method: Callable[[Stubs], Any],
        request: Any,
        linearizable: bool,
        items: Callable[[Any], Iterable[M]],
        value: Callable[[M], T],
    ) -> AsyncIterator[T]:
        while True:
            request.read.CopyFrom(self._read(linearizable))
            page = await self._call(method, request)
            for item in items(page):
                yield value(item)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
