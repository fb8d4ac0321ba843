"""ExecutionService over a real channel: histories, dead letters and their replay, skipped occurrences."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

MINUTE_MS = 60_000


async def create_interval(api: Api, **fields: object) -> int:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=60)), **fields)
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job.id


async def create_one_offs(api: Api, count: int, **fields: object) -> list[int]:
    job = job_pb2.Job(handler="mail.send", run_at=Timestamp(seconds=START_MS // 1000), **fields)
    return list((await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count))).job_ids)


def run_occurrences(api: Api, count: int) -> int:
    """The next `count` minutes, each occurrence run at once. Returns the session that ran them."""
    session = api.core.open_session("w-history")
    for _ in range(count):
        api.core.now_ms += MINUTE_MS
        api.core.fire()
        api.core.succeed(api.core.lease(session))
    api.core.machine.commit()
    return session


def die(api: Api) -> list[int]:
    """All that is due fails for good."""
    api.core.now_ms += 1_000
    api.core.fire()
    leased = api.core.lease(api.core.open_session("w-dead"))
    api.core.fail(leased)
    api.core.machine.commit()
    return list(leased.executions)


async def history(api: Api, job: int, page_size: int = 0) -> list[execution_pb2.Execution]:
    request = execution_pb2.ListExecutionsRequest(job_id=job, page_size=page_size)
    found: list[execution_pb2.Execution] = []
    while True:
        page = await api.executions.ListExecutions(request)
        found += page.executions
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_an_execution_tells_its_whole_life(api: Api) -> None:
    job = await create_interval(api)
    run_occurrences(api, 1)
    (execution,) = await history(api, job)
    assert (execution.job_id, execution.attempt, execution.worker) == (job, 1, "w-history")
    assert execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
    assert execution.scheduled_for.ToMilliseconds() == START_MS + MINUTE_MS
    for time in (execution.fire_time, execution.lease_time, execution.start_time, execution.end_time):
        assert time.ToMilliseconds() == api.core.now_ms
    assert execution.token
    assert not execution.HasField("retry_time")
    read = await api.executions.GetExecution(execution_pb2.GetExecutionRequest(id=execution.id))
    # Only here are its attempts told.
    assert [attempt.number for attempt in read.execution.attempts] == [1]
    read.execution.ClearField("attempts")
    assert read.execution == execution
    got = await api.jobs.GetJob(job_pb2.GetJobRequest(id=job))
    assert got.job.last_execution_id == execution.id
    assert got.job.next_run_time.ToMilliseconds() == START_MS + 2 * MINUTE_MS


async def test_a_history_is_newest_first_however_it_is_paged(api: Api) -> None:
    job = await create_interval(api)
    other = await create_interval(api)
    run_occurrences(api, 25)
    whole = await history(api, job)
    assert len(whole) == 25
    assert [item.scheduled_for.seconds for item in whole] == sorted(
        (item.scheduled_for.seconds for item in whole), reverse=True
    )
    assert await history(api, job, 7) == whole
    assert not {item.id for item in whole} & {item.id for item in await history(api, other)}


async def test_a_job_that_never_fired_has_no_history(api: Api) -> None:
    assert await history(api, await create_interval(api)) == []


async def test_a_failed_execution_tells_the_error_and_when_it_is_tried_again(api: Api) -> None:
    (job,) = await create_one_offs(
        api, 1, retry=job_pb2.RetryPolicy(max_attempts=5, initial_backoff=Duration(seconds=30))
    )
    api.core.fire()
    api.core.fail(api.core.lease(api.core.open_session()), permanent=False, error="no such host")
    api.core.machine.commit()
    (execution,) = await history(api, job)
    assert (execution.state, execution.error) == (execution_pb2.EXECUTION_STATE_FAILED, "no such host")
    assert execution.retry_time.ToMilliseconds() == START_MS + 30_000
    assert (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job))).job.state == job_pb2.JOB_STATE_ACTIVE


async def test_dead_letters_are_listed_with_what_an_operator_wants_to_know(api: Api) -> None:
    (job,) = await create_one_offs(api, 1, name="newsletter", namespace="crm")
    (execution,) = die(api)
    page = await api.executions.ListDeadLetters(execution_pb2.ListDeadLettersRequest(namespace="crm"))
    (letter,) = page.dead_letters
    assert (letter.namespace, letter.handler, letter.job_name) == ("crm", "mail.send", "newsletter")
    assert letter.execution.id == execution
    assert letter.execution.state == execution_pb2.EXECUTION_STATE_DEAD_LETTER
    assert letter.execution.error == "no such host"
    assert letter.dead_time.ToMilliseconds() == api.core.now_ms
    assert (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job))).job.state == job_pb2.JOB_STATE_DEAD_LETTER
    assert (await api.executions.ListDeadLetters(execution_pb2.ListDeadLettersRequest())).dead_letters == []


async def test_dead_letters_are_paged_oldest_first_while_they_are_replayed(api: Api) -> None:
    await create_one_offs(api, 30)
    executions = die(api)
    request = execution_pb2.ListDeadLettersRequest(page_size=7)
    seen: list[int] = []
    while True:
        page = await api.executions.ListDeadLetters(request)
        ids = [letter.execution.id for letter in page.dead_letters]
        seen += ids
        await api.executions.ReplayDeadLetters(execution_pb2.ReplayDeadLettersRequest(execution_ids=ids))
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == sorted(executions)
    assert (await api.executions.ListDeadLetters(execution_pb2.ListDeadLettersRequest())).dead_letters == []


async def test_a_replay_is_a_new_execution_and_repeating_it_gives_the_same(api: Api) -> None:
    (job,) = await create_one_offs(api, 1)
    (dead,) = die(api)
    request = execution_pb2.ReplayDeadLettersRequest(execution_ids=[dead], request_id="r")
    first = await api.executions.ReplayDeadLetters(request)
    second = await api.executions.ReplayDeadLetters(request)
    assert list(first.new_execution_ids) == list(second.new_execution_ids) != [dead]
    newest, oldest = await history(api, job)
    assert (newest.id, newest.state) == (first.new_execution_ids[0], execution_pb2.EXECUTION_STATE_PENDING)
    assert (oldest.id, oldest.replayed_as) == (dead, newest.id)
    assert newest.scheduled_for == oldest.scheduled_for
    assert (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job))).job.state == job_pb2.JOB_STATE_ACTIVE


async def test_what_is_no_dead_letter_cannot_be_replayed(api: Api) -> None:
    await create_one_offs(api, 1)
    api.core.fire()
    async with refused() as told:
        await api.executions.ReplayDeadLetters(execution_pb2.ReplayDeadLettersRequest(execution_ids=[1]))
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_DEAD_LETTER")


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_replay_of_none_or_too_many_is_refused(api: Api, count: int) -> None:
    async with refused() as told:
        await api.executions.ReplayDeadLetters(execution_pb2.ReplayDeadLettersRequest(execution_ids=[1] * count))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "execution_ids")


async def test_occurrences_that_were_skipped_are_listed_with_the_reason(api: Api) -> None:
    job = await create_interval(api)
    api.core.now_ms += 5 * MINUTE_MS
    api.core.fire()
    api.core.machine.commit()
    page = await api.executions.ListSkippedOccurrences(execution_pb2.ListSkippedOccurrencesRequest(job_id=job))
    (skipped,) = page.occurrences
    assert (skipped.reason, skipped.count) == (execution_pb2.SKIP_REASON_CATCH_UP, 4)
    assert skipped.scheduled_for.ToMilliseconds() == START_MS + MINUTE_MS
    assert skipped.last_scheduled_for.ToMilliseconds() == START_MS + 4 * MINUTE_MS
    assert page.next_page_token == ""


async def test_skipped_occurrences_are_paged_oldest_first(api: Api) -> None:
    job = await create_interval(api)
    session = api.core.open_session()
    for _ in range(8):
        # The first occurrence still waits for a worker when the second comes due.
        for _ in range(2):
            api.core.now_ms += MINUTE_MS
            api.core.fire()
        api.core.succeed(api.core.lease(session))
    api.core.machine.commit()
    request = execution_pb2.ListSkippedOccurrencesRequest(job_id=job, page_size=3)
    seen: list[int] = []
    while True:
        page = await api.executions.ListSkippedOccurrences(request)
        seen += [item.scheduled_for.ToMilliseconds() for item in page.occurrences]
        assert all(item.reason == execution_pb2.SKIP_REASON_OVERLAP for item in page.occurrences)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert seen == [START_MS + n * MINUTE_MS for n in range(2, 17, 2)]


async def test_unknown_executions_and_jobs_are_not_found(api: Api) -> None:
    async with refused() as told:
        await api.executions.GetExecution(execution_pb2.GetExecutionRequest(id=5))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "EXECUTION_NOT_FOUND")
    for call, request in (
        (api.executions.ListExecutions, execution_pb2.ListExecutionsRequest(job_id=5)),
        (api.executions.ListSkippedOccurrences, execution_pb2.ListSkippedOccurrencesRequest(job_id=5)),
    ):
        async with refused() as told:
            await call(request)
        assert (told.code, told.reason, told.field) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND", "job_id")


async def test_ids_tokens_and_namespaces_are_checked(api: Api) -> None:
    for call, request, field in (
        (api.executions.GetExecution, execution_pb2.GetExecutionRequest(), "id"),
        (api.executions.ListExecutions, execution_pb2.ListExecutionsRequest(), "job_id"),
        (api.executions.ListExecutions, execution_pb2.ListExecutionsRequest(job_id=1, page_token="x"), "page_token"),
        (api.executions.ListSkippedOccurrences, execution_pb2.ListSkippedOccurrencesRequest(), "job_id"),
        (api.executions.ListDeadLetters, execution_pb2.ListDeadLettersRequest(namespace="NO"), "namespace"),
        (api.executions.ListDeadLetters, execution_pb2.ListDeadLettersRequest(namespace="unseen"), "namespace"),
        (api.executions.ListDeadLetters, execution_pb2.ListDeadLettersRequest(page_token="x"), "page_token"),
        (
            api.executions.ReplayDeadLetters,
            execution_pb2.ReplayDeadLettersRequest(execution_ids=[1], request_id=""),
            "request_id",
        ),
    ):
        async with refused() as told:
            await call(request)
        assert told.field == field


async def test_a_token_of_one_job_is_refused_for_another(api: Api) -> None:
    first, second = await create_interval(api), await create_interval(api)
    run_occurrences(api, 3)
    page = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(job_id=first, page_size=1))
    async with refused() as told:
        await api.executions.ListExecutions(
            execution_pb2.ListExecutionsRequest(job_id=second, page_token=page.next_page_token)
        )
    assert told.field == "page_token"
