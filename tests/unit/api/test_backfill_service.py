"""BackfillService over a real channel."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.internal.v1 import command_pb2
from raftsched.v1 import backfill_pb2, backfill_pb2_grpc, execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)
HOURLY = job_pb2.Cron(expression="0 * * * *")


def at(time_ms: int) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(time_ms)
    return time


def stub(api: Api) -> Any:
    return backfill_pb2_grpc.BackfillServiceStub(api.channel)


async def create_job(api: Api, **fields: object) -> int:
    job = job_pb2.Job(**{"handler": "h", "cron": HOURLY, "priority": 5, **fields})
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job.id


def asked(job: int, start_ms: int = START_MS - DAY_MS, end_ms: int = START_MS, **fields: Any) -> backfill_pb2.Backfill:
    return backfill_pb2.Backfill(job_id=job, start=at(start_ms), end=at(end_ms), **fields)


async def create(api: Api, backfill: backfill_pb2.Backfill, **fields: Any) -> backfill_pb2.Backfill:
    return (await stub(api).CreateBackfill(backfill_pb2.CreateBackfillRequest(backfill=backfill, **fields))).backfill


async def get(api: Api, backfill: int) -> backfill_pb2.Backfill:
    request = backfill_pb2.GetBackfillRequest(id=backfill, read=LINEARIZABLE)
    return (await stub(api).GetBackfill(request)).backfill


async def preview(api: Api, job: int, start_ms: int, end_ms: int) -> tuple[int, int]:
    request = backfill_pb2.PreviewBackfillRequest(job_id=job, start=at(start_ms), end=at(end_ms), read=LINEARIZABLE)
    answer = await stub(api).PreviewBackfill(request)
    return answer.total, answer.passed_over


def run(api: Api, steps: int) -> list[int]:
    """Scheduled times of what ran, each execution succeeding at once."""
    ran: list[int] = []
    for _ in range(steps):
        api.core.apply(command_pb2.Command(tick=command_pb2.Tick(limit=100)))
        leased = api.core.lease(api.core.open_session())
        ran += leased.scheduled_for_ms
        if leased.executions:
            api.core.succeed(leased)
        api.core.now_ms += 1_000
    return ran


async def test_what_is_older_than_the_history_is_counted_as_passed_over(api: Api) -> None:
    job = await create_job(api)
    for _ in range(3):
        api.core.now_ms += HOUR_MS
        api.core.fire()
        api.core.succeed(api.core.lease(api.core.open_session()))
    api.core.apply(command_pb2.Command(reclaim=command_pb2.Reclaim(limit=100, executions=1)))
    end_ms = api.core.now_ms
    # Nobody can tell whether these ran before the one that is still there.
    assert await preview(api, job, START_MS - DAY_MS, end_ms) == (27, 27)
    made = await create(api, asked(job, end_ms=end_ms))
    assert run(api, 3) == []
    done = await get(api, made.id)
    assert (done.state, done.total, done.passed_over) == (backfill_pb2.BACKFILL_STATE_DONE, 27, 27)


async def test_a_range_is_counted_and_then_run(api: Api) -> None:
    job = await create_job(api)
    assert await preview(api, job, START_MS - DAY_MS, START_MS) == (24, 0)
    made = await create(api, asked(job, priority=2))
    assert (made.state, made.total, made.fired, made.priority) == (backfill_pb2.BACKFILL_STATE_RUNNING, 24, 0, 2)
    assert made.interval.seconds == 1
    ran = run(api, 30)
    assert ran == [START_MS - HOUR_MS * number for number in reversed(range(1, 25))]
    done = await get(api, made.id)
    assert (done.state, done.fired, done.passed_over) == (backfill_pb2.BACKFILL_STATE_DONE, 24, 0)
    assert await preview(api, job, START_MS - DAY_MS, START_MS) == (24, 24)
    listed = await api.executions.ListExecutions(
        execution_pb2.ListExecutionsRequest(job_id=job, page_size=1, read=LINEARIZABLE)
    )
    assert listed.executions[0].cause == execution_pb2.EXECUTION_CAUSE_BACKFILL


async def test_of_an_interval_too(api: Api) -> None:
    job = await create_job(api, cron=None, interval=job_pb2.Interval(every=Duration(seconds=900)))
    assert await preview(api, job, START_MS - HOUR_MS, START_MS) == (4, 0)
    await create(api, asked(job, START_MS - HOUR_MS, START_MS + 1))
    assert run(api, 9) == [START_MS - 900_000 * number for number in reversed(range(5))]


async def test_what_the_schedule_has_yet_to_run_is_not_in_it(api: Api) -> None:
    job = await create_job(api)
    await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job))
    api.core.now_ms += DAY_MS
    assert await preview(api, job, START_MS - DAY_MS, START_MS + DAY_MS) == (25, 0)


async def test_the_same_request_id_makes_one_backfill_and_there_is_one_at_a_time(api: Api) -> None:
    job = await create_job(api)
    made = await create(api, asked(job), request_id="once")
    assert await create(api, asked(job), request_id="once") == made
    async with refused() as told:
        await create(api, asked(job, priority=1), request_id="once")
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")
    async with refused() as told:
        await create(api, asked(job))
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_FORBIDS")
    request = backfill_pb2.CancelBackfillRequest(id=made.id)
    for _ in range(2):
        cancelled = (await stub(api).CancelBackfill(request)).backfill
        assert cancelled.state == backfill_pb2.BACKFILL_STATE_CANCELLED
    assert run(api, 5) == []
    other = await create(api, asked(job))
    first = await stub(api).ListBackfills(backfill_pb2.ListBackfillsRequest(job_id=job, page_size=1))
    rest = await stub(api).ListBackfills(
        backfill_pb2.ListBackfillsRequest(job_id=job, page_size=1, page_token=first.next_page_token)
    )
    assert [one.id for one in (*first.backfills, *rest.backfills)] == [other.id, made.id]
    assert not rest.next_page_token


async def test_a_range_of_too_many_times_is_refused_with_how_far_it_reaches(api: Api) -> None:
    job = await create_job(api, cron=job_pb2.Cron(expression="* * * * *"))
    start_ms = START_MS - 100 * DAY_MS
    async with refused() as told:
        await preview(api, job, start_ms, START_MS)
    assert (told.code, told.field, told.metadata["limit"]) == (grpc.StatusCode.INVALID_ARGUMENT, "end", "100000")
    assert "100,000" in told.message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"job_id": 0}, "backfill.job_id"),
        ({"start": None}, "backfill.start"),
        ({"end": at(START_MS - DAY_MS)}, "backfill.end"),
        ({"end": at(START_MS + DAY_MS)}, "backfill.end"),
        ({"interval": Duration(nanos=1_000_000)}, "backfill.interval"),
        ({"priority": 10}, "backfill.priority"),
        ({"total": 1}, "backfill.total"),
        ({"create_time": at(1)}, "backfill.create_time"),
        ({"start": at(START_MS - 60_000), "end": at(START_MS - 59_000)}, "backfill.start"),
    ],
)
async def test_bad_requests_name_their_field(api: Api, fields: dict[str, Any], field: str) -> None:
    job = await create_job(api)
    values = {"job_id": job, "start": at(START_MS - DAY_MS), "end": at(START_MS), **fields}
    async with refused() as told:
        await create(api, backfill_pb2.Backfill(**values))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_what_is_not_there_or_runs_once_is_refused(api: Api) -> None:
    once = await create_job(api, cron=None, run_at=at(START_MS))
    async with refused() as told:
        await preview(api, once, START_MS - DAY_MS, START_MS)
    assert told.code == grpc.StatusCode.FAILED_PRECONDITION
    async with refused() as told:
        await create(api, asked(99))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    async with refused() as told:
        await get(api, 99)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "BACKFILL_NOT_FOUND")
