"""The client's calls that register jobs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from raftsched.client import convert
from raftsched.client.errors import RaftschedError
from raftsched.client.fields import within
from raftsched.client.part import ClientPart
from raftsched.client.schedules import CalendarUse, FoldPolicy, GapPolicy
from raftsched.client.values import (
    CatchUpPolicy,
    DependencyRule,
    Job,
    JobSpec,
    OverlapPolicy,
    Retention,
    RetryPolicy,
)
from raftsched.v1 import job_pb2

# What one BatchCreateJobs takes; see job.proto.
BATCH_JOBS = 10_000
# Kept below gRPC's default message limit of 4 MiB, so that any node takes it.
BATCH_BYTES = 3 * 1024 * 1024


class CreateCalls(ClientPart):
    """A part of Client."""

    async def create(
        self,
        handler: str,
        *,
        run_at: datetime | None = None,
        cron: str | None = None,
        time_zone: str = "",
        every: timedelta | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        more_crons: Sequence[str] = (),
        exclude: Sequence[str] = (),
        gap: GapPolicy = GapPolicy.UNSPECIFIED,
        fold: FoldPolicy = FoldPolicy.UNSPECIFIED,
        calendars: Sequence[CalendarUse | str] = (),
        depends_on: Sequence[int] = (),
        rule: DependencyRule = DependencyRule.UNSPECIFIED,
        payload: Any = None,
        content_type: str = "",
        namespace: str = "",
        name: str = "",
        queue: str = "",
        priority: int = 0,
        tenant: str = "",
        labels: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        run_timeout: timedelta | None = None,
        overlap: OverlapPolicy = OverlapPolicy.UNSPECIFIED,
        catch_up: CatchUpPolicy = CatchUpPolicy.UNSPECIFIED,
        jitter: timedelta | None = None,
        pause_after_failures: int = 0,
        concurrency_key: str = "",
        concurrency_limit: int = 0,
        overlap_limit: int = 0,
        catch_up_window: timedelta | None = None,
        catch_up_limit: int = 0,
        catch_up_interval: timedelta | None = None,
        max_runs: int = 0,
        start_deadline: timedelta | None = None,
        retention: Retention | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Registers one job; see JobSpec for the arguments. It is on a quorum's disks when this returns.

        `request_id` is an idempotency key: the same key with the same job gives the same job again
        (`existed` is then true), with another job IdempotencyConflict.
        """
        spec = JobSpec(
            handler,
            run_at=run_at,
            cron=cron,
            time_zone=time_zone,
            every=every,
            start=start,
            end=end,
            more_crons=more_crons,
            exclude=exclude,
            gap=gap,
            fold=fold,
            calendars=calendars,
            depends_on=depends_on,
            rule=rule,
            payload=payload,
            content_type=content_type,
            namespace=namespace,
            name=name,
            queue=queue,
            priority=priority,
            tenant=tenant,
            labels=labels or {},
            retry=retry,
            run_timeout=run_timeout,
            overlap=overlap,
            catch_up=catch_up,
            jitter=jitter,
            pause_after_failures=pause_after_failures,
            concurrency_key=concurrency_key,
            concurrency_limit=concurrency_limit,
            overlap_limit=overlap_limit,
            catch_up_window=catch_up_window,
            catch_up_limit=catch_up_limit,
            catch_up_interval=catch_up_interval,
            max_runs=max_runs,
            start_deadline=start_deadline,
            retention=retention,
        )
        return await self.create_spec(spec, request_id=request_id)

    async def create_spec(self, spec: JobSpec, *, request_id: str | None = None) -> Job:
        """Registers one job; as create."""
        with within("job"):
            job = convert.job_message(spec, self.namespace)
        request = job_pb2.CreateJobRequest(job=job, request_id=convert.request_id(request_id))
        answer: job_pb2.CreateJobResponse = await self._mutate(lambda stubs: stubs.jobs.CreateJob, request)
        return convert.job_value(answer.job, existed=answer.existed)

    async def create_many(self, specs: Iterable[JobSpec], *, request_id: str | None = None) -> Sequence[int]:
        """Registers many jobs and returns their ids in the same order.

        They go in batches of up to 10,000, each all or none. When one is refused, the error's `field` counts from the
        first spec, and `created_ids` holds what the batches before it registered; repeating the whole call with the
        same specs and request_id then registers only what is missing.
        """
        key = convert.request_id(request_id)
        ids: list[int] = []
        for number, batch in enumerate(_batches(specs, self.namespace)):
            request = job_pb2.BatchCreateJobsRequest(jobs=batch, request_id=f"{key}/{number}")
            try:
                answer: job_pb2.BatchCreateJobsResponse = await self._mutate(
                    lambda stubs: stubs.jobs.BatchCreateJobs, request
                )
            except RaftschedError as error:
                error.created_ids = tuple(ids)
                error.request_id = key
                error.field = _counted_from(len(ids), error.field)
                raise
            ids.extend(answer.job_ids)
        return ids


def _batches(specs: Iterable[JobSpec], namespace: str) -> Iterator[list[job_pb2.Job]]:
    batch: list[job_pb2.Job] = []
    size = 0
    for number, spec in enumerate(specs):
        with within(f"jobs[{number}]"):
            job = convert.job_message(spec, namespace)
        # Eight bytes for the field's tag and length.
        job_bytes = job.ByteSize() + 8
        if batch and (len(batch) == BATCH_JOBS or size + job_bytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(job)
        size += job_bytes
    if batch:
        yield batch


def _counted_from(first: int, field: str) -> str:
    """`jobs[17].name` of a batch, as a field of the whole list that this batch's jobs begin at `first` of."""
    match = re.match(r"jobs\[(\d+)\]", field)
    return f"jobs[{first + int(match[1])}]{field[match.end() :]}" if match else field
