"""LimitService over a real channel, and the client's calls to it."""

from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.client import InvalidField, Limit, LimitScope
from raftsched.client.jobs import Client
from raftsched.v1 import job_pb2, limit_pb2, limit_pb2_grpc
from tests.unit.api.support import START_MS, Api, refused

EVERY = timedelta(minutes=1)
QUEUE, TENANT, HANDLER = limit_pb2.LIMIT_SCOPE_QUEUE, limit_pb2.LIMIT_SCOPE_TENANT, limit_pb2.LIMIT_SCOPE_HANDLER


@pytest.fixture
def stub(api: Api) -> Any:
    return limit_pb2_grpc.LimitServiceStub(api.channel)


async def put(stub: Any, **fields: Any) -> limit_pb2.Limit:
    answer = await stub.PutLimit(limit_pb2.PutLimitRequest(limit=limit_pb2.Limit(**fields)))
    stored: limit_pb2.Limit = answer.limit
    return stored


async def listed(stub: Any, page_size: int = 0) -> list[limit_pb2.Limit]:
    found: list[limit_pb2.Limit] = []
    token = ""
    while True:
        page = await stub.ListLimits(limit_pb2.ListLimitsRequest(page_size=page_size, page_token=token))
        found += page.limits
        token = page.next_page_token
        if not token:
            return found


async def create(api: Api, count: int, **fields: Any) -> None:
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000), **fields)
    await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count, request_id=f"{fields}"))
    api.core.fire()


async def test_a_limit_says_what_it_is_and_what_is_leased_under_it(api: Api, stub: Any) -> None:
    stored = await put(stub, scope=TENANT, name="acme", concurrency=3, rate_per_s=0.5, weight=4)
    expected = limit_pb2.Limit(scope=TENANT, name="acme", concurrency=3, rate_per_s=0.5, burst=1, weight=4)
    assert stored == expected
    await put(stub, scope=HANDLER, name="h", rate_per_s=12.345)
    await create(api, 5, tenant="acme")
    leased = api.core.lease(api.core.open_session())
    assert len(leased.executions) == 1
    expected.leased = 1
    handler = limit_pb2.Limit(scope=HANDLER, name="h", rate_per_s=12.345, burst=12, leased=1)
    assert await listed(stub) == [expected, handler]
    api.core.succeed(leased)
    api.core.machine.commit()
    assert [limit.leased for limit in await listed(stub)] == [0, 0]


async def test_limits_come_by_scope_and_name_whatever_the_pages(stub: Any) -> None:
    names = [(QUEUE, "b"), (QUEUE, "a"), (HANDLER, "b"), (TENANT, "ü"), (TENANT, "b"), (HANDLER, "a")]
    for scope, name in names:
        await put(stub, scope=scope, name=name, concurrency=1)
    expected = [(QUEUE, "a"), (QUEUE, "b"), (TENANT, "b"), (TENANT, "ü"), (HANDLER, "a"), (HANDLER, "b")]
    for page_size in (0, 1, 2, 5):
        assert [(limit.scope, limit.name) for limit in await listed(stub, page_size)] == expected


async def test_a_page_goes_on_after_a_limit_that_is_gone(stub: Any) -> None:
    for name in ("a", "b", "c"):
        await put(stub, scope=QUEUE, name=name, concurrency=1)
    page = await stub.ListLimits(limit_pb2.ListLimitsRequest(page_size=2))
    await stub.DeleteLimit(limit_pb2.DeleteLimitRequest(scope=QUEUE, name="b"))
    rest = await stub.ListLimits(limit_pb2.ListLimitsRequest(page_size=2, page_token=page.next_page_token))
    assert [limit.name for limit in rest.limits] == ["c"]


async def test_deleting_is_harmless_when_repeated_and_lets_everything_go(api: Api, stub: Any) -> None:
    await put(stub, scope=QUEUE, name="default", concurrency=1)
    await create(api, 5)
    session = api.core.open_session()
    assert len(api.core.lease(session).executions) == 1
    assert len(api.core.lease(session).executions) == 0
    for _ in range(2):
        await stub.DeleteLimit(limit_pb2.DeleteLimitRequest(scope=QUEUE, name="default", request_id="r"))
    assert len(api.core.lease(session).executions) == 4
    assert await listed(stub) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "limit.scope"),
        ({"scope": 9, "name": "a"}, "limit.scope"),
        ({"scope": QUEUE}, "limit.name"),
        ({"scope": QUEUE, "name": "No Queue"}, "limit.name"),
        ({"scope": HANDLER, "name": "no handler"}, "limit.name"),
        ({"scope": TENANT, "name": ""}, "limit.name"),
        ({"scope": TENANT, "name": "t" * 101}, "limit.name"),
        ({"scope": QUEUE, "name": "a"}, "limit"),
        ({"scope": QUEUE, "name": "a", "concurrency": 1_000_001}, "limit.concurrency"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": -1.0}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": float("nan")}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": float("inf")}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": 1_000_000.5}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": 0.0001}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": 1.0005}, "limit.rate_per_s"),
        ({"scope": QUEUE, "name": "a", "concurrency": 1, "burst": 2}, "limit.burst"),
        ({"scope": QUEUE, "name": "a", "rate_per_s": 1.0, "burst": 1_000_001}, "limit.burst"),
        ({"scope": QUEUE, "name": "a", "weight": 2}, "limit.weight"),
        ({"scope": TENANT, "name": "a", "weight": 101}, "limit.weight"),
        ({"scope": TENANT, "name": "a", "weight": 1, "leased": 1}, "limit.leased"),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused(stub: Any, fields: dict[str, Any], field: str) -> None:
    async with refused() as told:
        await put(stub, **fields)
    assert (told.code, told.reason, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field)
    assert await listed(stub) == []


async def test_what_is_out_of_range_is_told_the_range(stub: Any) -> None:
    async with refused() as told:
        await put(stub, scope=TENANT, name="a", weight=101)
    assert told.message.endswith("101 is not 1–100")


async def test_what_is_no_name_cannot_be_deleted_and_no_key_is_empty(stub: Any) -> None:
    for request, field in (
        (limit_pb2.DeleteLimitRequest(name="a"), "scope"),
        (limit_pb2.DeleteLimitRequest(scope=QUEUE), "name"),
        (limit_pb2.DeleteLimitRequest(scope=QUEUE, name="a", request_id=""), "request_id"),
    ):
        async with refused() as told:
            await stub.DeleteLimit(request)
        assert told.field == field


async def test_a_job_with_a_concurrency_key_tells_it_and_is_held_to_it(api: Api) -> None:
    await create(api, 5, concurrency_key="db", concurrency_limit=2)
    answer = await api.jobs.GetJob(job_pb2.GetJobRequest(id=1))
    assert (answer.job.concurrency_key, answer.job.concurrency_limit) == ("db", 2)
    assert len(api.core.lease(api.core.open_session()).executions) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"concurrency_limit": 2}, "concurrency_limit"),
        ({"concurrency_key": "db"}, "concurrency_limit"),
        ({"concurrency_key": "db", "concurrency_limit": 1_000_001}, "concurrency_limit"),
        ({"concurrency_key": "d" * 101, "concurrency_limit": 1}, "concurrency_key"),
        ({"concurrency_key": "d\n", "concurrency_limit": 1}, "concurrency_key"),
    ],
)
async def test_a_key_and_its_limit_go_together(api: Api, fields: dict[str, Any], field: str) -> None:
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=1), **fields)
    async with refused() as told:
        await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job, request_id="k"))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, f"job.{field}")


async def test_the_client_puts_lists_and_deletes_limits(api: Api) -> None:
    async with Client([api.address]) as client:
        stored = await client.put_limit(LimitScope.TENANT, "acme", concurrency=2, rate_per_s=1.5, burst=7, weight=2)
        assert stored == Limit(
            scope=LimitScope.TENANT, name="acme", concurrency=2, rate_per_s=1.5, burst=7, weight=2, leased=0
        )
        await client.put_limit(LimitScope.QUEUE, "mail", concurrency=1)
        assert [limit.name async for limit in client.limits(page_size=1)] == ["mail", "acme"]
        await client.delete_limit(LimitScope.TENANT, "acme")
        assert [limit.name async for limit in client.limits()] == ["mail"]
        job = await client.create("h", every=EVERY, concurrency_key="db", concurrency_limit=3)
        assert (job.concurrency_key, job.concurrency_limit) == ("db", 3)
        with pytest.raises(InvalidField) as caught:
            await client.put_limit(LimitScope.QUEUE, "mail", weight=2)
        assert caught.value.field == "limit.weight"
        with pytest.raises(InvalidField):
            await client.put_limit("NOTHING", "mail", concurrency=2)  # type: ignore[arg-type]
        with pytest.raises(InvalidField):
            await client.put_limit(LimitScope.QUEUE, "mail", concurrency=-2)
