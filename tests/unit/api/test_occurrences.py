"""Occurrences over a real channel: the settings that decide which run, and the record of what happened to each."""

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

MINUTE_MS = 60_000


def minute(number: int) -> Timestamp:
    return Timestamp(seconds=(START_MS + number * MINUTE_MS) // 1000)


async def create_minutely(api: Api, **fields: object) -> job_pb2.Job:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=60)), **fields)
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job


def pass_minutes(api: Api, count: int) -> None:
    api.core.now_ms += count * MINUTE_MS
    api.core.fire()
    api.core.machine.commit()


async def occurrences(api: Api, request: execution_pb2.ListOccurrencesRequest) -> list[tuple[int, str]]:
    """(minute, outcome) over all pages."""
    found = []
    while True:
        page = await api.executions.ListOccurrences(request)
        for item in page.occurrences:
            at = (item.scheduled_for.ToMilliseconds() - START_MS) // MINUTE_MS
            found.append((at, f"{item.WhichOneof('outcome')} x{item.count}"))
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_the_record_tells_what_ran_what_was_skipped_and_what_waits(api: Api) -> None:
    job = await create_minutely(api, overlap=job_pb2.OVERLAP_POLICY_QUEUE, overlap_limit=1)
    for count in (1, 1, 1, 3):
        pass_minutes(api, count)
    for page_size in (1, 0):
        request = execution_pb2.ListOccurrencesRequest(job_id=job.id, page_size=page_size)
        assert await occurrences(api, request) == [
            (6, "skipped x1"),
            (4, "skipped x2"),
            (3, "skipped x1"),
            (2, "queued x1"),
            (1, "execution x1"),
        ]
    request = execution_pb2.ListOccurrencesRequest(job_id=job.id, start=minute(2), end=minute(4), page_size=1)
    assert await occurrences(api, request) == [(3, "skipped x1"), (2, "queued x1")]


async def test_a_job_tells_all_that_it_was_told_of_its_occurrences(api: Api) -> None:
    asked = {
        "overlap": job_pb2.OVERLAP_POLICY_QUEUE,
        "overlap_limit": 5,
        "catch_up": job_pb2.CATCH_UP_POLICY_ALL,
        "catch_up_window": Duration(seconds=600),
        "catch_up_limit": 4,
        "catch_up_interval": Duration(seconds=10),
        "max_runs": 9,
        "start_deadline": Duration(seconds=50),
    }
    job = await create_minutely(api, **asked)
    api.core.machine.commit()
    stored = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job.id))).job
    assert {field: getattr(stored, field) for field in asked} == asked


async def test_a_job_that_has_had_its_runs_is_completed(api: Api) -> None:
    job = await create_minutely(api, max_runs=1)
    pass_minutes(api, 1)
    stored = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job.id))).job
    assert stored.state == job_pb2.JOB_STATE_COMPLETED
    assert not stored.HasField("next_run_time")


async def test_bad_requests_for_the_record_are_refused_by_name(api: Api) -> None:
    job = await create_minutely(api)
    for request, code, field in (
        (execution_pb2.ListOccurrencesRequest(), grpc.StatusCode.INVALID_ARGUMENT, "job_id"),
        (execution_pb2.ListOccurrencesRequest(job_id=99), grpc.StatusCode.NOT_FOUND, "job_id"),
        (
            execution_pb2.ListOccurrencesRequest(job_id=job.id, start=minute(2), end=minute(1)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "end",
        ),
        (
            execution_pb2.ListOccurrencesRequest(job_id=job.id, start=Timestamp(nanos=-1)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "start",
        ),
        (
            execution_pb2.ListOccurrencesRequest(job_id=job.id, page_token="x"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "page_token",
        ),
    ):
        async with refused() as told:
            await api.executions.ListOccurrences(request)
        assert (told.code, told.field) == (code, field)
