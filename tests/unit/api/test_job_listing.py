"""ListJobs over a real channel: filters, tokens, short pages, and lists that hold while jobs come and go."""

import asyncio

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api import job_listing
from raftsched.model.limits import BATCH_MAX_JOBS
from raftsched.v1 import job_pb2
from tests.unit.api.support import START_MS, Api, refused

LATER = Timestamp(seconds=START_MS // 1000 + 60)


async def create(api: Api, *jobs: job_pb2.Job) -> list[int]:
    return list((await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs))).job_ids)


def job(handler: str = "h", **fields: object) -> job_pb2.Job:
    return job_pb2.Job(handler=handler, run_at=LATER, **fields)


async def listed(api: Api, page_size: int = 1_000, **wanted: object) -> list[int]:
    """All pages of a list."""
    request = job_pb2.ListJobsRequest(filter=job_pb2.JobFilter(**wanted), page_size=page_size)
    found: list[int] = []
    while True:
        page = await api.jobs.ListJobs(request)
        found += [item.id for item in page.jobs]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_jobs_are_found_by_what_they_have(api: Api) -> None:
    first, second, third = await create(
        api,
        job("mail.send", namespace="a", labels={"team": "red", "tier": "1"}),
        job("mail.send", namespace="b", queue="mail", labels={"team": "red"}),
        job("reports", namespace="b", labels={"team": "blue"}),
    )
    await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=third))
    assert await listed(api) == [first, second, third]
    assert await listed(api, page_size=1) == [first, second, third]
    assert await listed(api, handler="mail.send") == [first, second]
    assert await listed(api, namespace="b") == [second, third]
    assert await listed(api, queue="mail") == [second]
    assert await listed(api, labels={"team": "red"}) == [first, second]
    assert await listed(api, labels={"team": "red", "tier": "1"}) == [first]
    assert await listed(api, labels={"team": "green"}) == []
    assert await listed(api, state=job_pb2.JOB_STATE_CANCELLED) == [third]
    assert await listed(api, state=job_pb2.JOB_STATE_SCHEDULED, namespace="b") == [second]
    assert await listed(api, state=job_pb2.JOB_STATE_SUCCEEDED) == []


async def test_states_follow_the_execution_of_a_one_off(api: Api) -> None:
    await create(api, job(), job())
    api.core.now_ms = START_MS + 61_000
    api.core.fire()
    session = api.core.open_session()
    leased = api.core.lease(session, limit=1)
    api.core.succeed(leased)
    api.core.machine.commit()
    succeeded = list(leased.jobs)
    assert await listed(api, state=job_pb2.JOB_STATE_SUCCEEDED) == succeeded
    assert await listed(api, state=job_pb2.JOB_STATE_ACTIVE) == [n for n in (1, 2) if n not in succeeded]
    assert await listed(api, state=job_pb2.JOB_STATE_SCHEDULED) == []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"handler": "never.seen"}, "filter.handler"),
        ({"queue": "never-seen"}, "filter.queue"),
        ({"namespace": "never-seen"}, "filter.namespace"),
    ],
)
async def test_a_name_nobody_ever_used_is_told_from_an_empty_list(api: Api, wanted: dict[str, str], field: str) -> None:
    await create(api, job())
    async with refused() as told:
        await listed(api, **wanted)
    assert (told.code, told.reason, told.field) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_NAME", field)
    await create(api, job("never.seen", queue="never-seen", namespace="never-seen"))
    assert len(await listed(api, **wanted)) == 1


async def test_a_handler_without_jobs_in_this_filter_is_no_error(api: Api) -> None:
    await create(api, job("known", labels={"a": "b"}))
    assert await listed(api, handler="known", labels={"a": "c"}) == []


async def test_a_new_cluster_lists_nothing(api: Api) -> None:
    assert await listed(api, namespace="default", queue="default") == []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"state": 77}, "filter.state"),
        ({"handler": "no spaces"}, "filter.handler"),
        ({"namespace": "NO"}, "filter.namespace"),
        ({"queue": "q" * 64}, "filter.queue"),
        ({"labels": {"No": "x"}}, "filter.labels"),
    ],
)
async def test_a_filter_that_nothing_can_match_is_refused(api: Api, wanted: dict[str, object], field: str) -> None:
    async with refused() as told:
        await listed(api, **wanted)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_a_condition_of_another_version_is_refused_not_ignored(api: Api) -> None:
    call = api.channel.unary_unary("/raftsched.v1.JobService/ListJobs")
    # Field 9 of the filter, a string; the filter is field 1 of the request.
    async with refused() as told:
        await call(b"\x0a\x03\x4a\x01x")
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "filter")
    assert told.metadata["number"] == "9"


async def test_a_token_must_come_from_the_same_list(api: Api) -> None:
    await create(api, *(job(labels={"n": str(n)}) for n in range(5)))
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(page_size=2))
    for request in (
        job_pb2.ListJobsRequest(page_token="broken"),
        job_pb2.ListJobsRequest(page_token=page.next_page_token, filter=job_pb2.JobFilter(handler="h")),
    ):
        async with refused() as told:
            await api.jobs.ListJobs(request)
        assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "page_token")
    async with refused() as told:
        await api.jobs.ListJobs(job_pb2.ListJobsRequest(page_size=1_001))
    assert told.field == "page_size"


async def test_a_long_search_answers_short_pages_that_lead_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_listing, "PAGE_MAX_EXAMINED", 40)
    monkeypatch.setattr(job_listing, "SLICE_ROWS", 10)
    jobs = [job("common") for _ in range(100)] + [job("rare")]
    (*_, rare) = await create(api, *jobs)
    wanted = job_pb2.JobFilter(handler="rare")
    first = await api.jobs.ListJobs(job_pb2.ListJobsRequest(filter=wanted))
    assert (list(first.jobs), bool(first.next_page_token)) == ([], True)
    assert await listed(api, handler="rare") == [rare]
    assert len(await listed(api, handler="common", page_size=7)) == 100


async def test_large_payloads_make_pages_short_enough_for_any_client(api: Api) -> None:
    for _ in range(4):
        await create(api, *(job(payload=bytes(250_000)) for _ in range(5)))
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(page_size=1_000))
    assert page.ByteSize() < 4 * 1024 * 1024
    assert page.next_page_token
    assert len(await listed(api)) == 20


async def test_of_ten_thousand_jobs_those_that_stay_are_listed_once_while_others_come_and_go(api: Api) -> None:
    staying = set(await create(api, *[job("stays")] * (BATCH_MAX_JOBS // 2)))
    leaving = await create(api, *[job("goes")] * (BATCH_MAX_JOBS // 2))
    request = job_pb2.ListJobsRequest(
        page_size=1_000, filter=job_pb2.JobFilter(state=job_pb2.JOB_STATE_SCHEDULED, queue="default")
    )
    seen: list[int] = []
    while True:
        page = await api.jobs.ListJobs(request)
        seen += [item.id for item in page.jobs]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
        gone = [leaving.pop() for _ in range(20)]
        await asyncio.gather(*(api.jobs.CancelJob(job_pb2.CancelJobRequest(id=number)) for number in gone))
        if len(seen) < 9_000:
            await create(api, *[job("comes")] * 50)
    assert len(seen) == len(set(seen))
    assert staying <= set(seen)
    assert set(leaving) <= set(seen)
