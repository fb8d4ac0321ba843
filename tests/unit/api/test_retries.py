"""Retry policies and attempts over a real channel."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.internal.v1 import command_pb2
from raftsched.model.limits import MAX_ELAPSED_MAX_MS
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused


def one_off(**retry: Any) -> job_pb2.Job:
    return job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000), retry=job_pb2.RetryPolicy(**retry))


async def create(api: Api, **retry: Any) -> job_pb2.Job:
    answer: job_pb2.CreateJobResponse = await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=one_off(**retry)))
    return answer.job


async def get(api: Api, execution: int) -> execution_pb2.Execution:
    api.core.machine.commit()
    request = execution_pb2.GetExecutionRequest(id=execution)
    answer: execution_pb2.GetExecutionResponse = await api.executions.GetExecution(request)
    return answer.execution


def fail(api: Api, **says: Any) -> None:
    """Everything that is due is leased and ends so."""
    api.core.fire()
    leased = api.core.lease(api.core.open_session())
    failures = [
        command_pb2.FailedExecution(
            token=leased.token, execution=execution, started_ms=START_MS, ended_ms=START_MS + 5, **says
        )
        for execution in leased.executions
    ]
    api.core.apply(command_pb2.Command(fail=command_pb2.Fail(failures=failures)))


async def test_a_policy_is_kept_and_shown_in_full(api: Api) -> None:
    job = await create(
        api,
        backoff=job_pb2.BACKOFF_LINEAR,
        max_elapsed=Duration(seconds=90),
        non_retryable_errors=["app.Declined", "KeyError", "app.Declined"],
    )
    assert (job.retry.backoff, job.retry.max_elapsed) == (job_pb2.BACKOFF_LINEAR, Duration(seconds=90))
    assert list(job.retry.non_retryable_errors) == ["KeyError", "app.Declined"]
    plain = await create(api)
    assert plain.retry.backoff == job_pb2.BACKOFF_EXPONENTIAL
    assert not plain.retry.HasField("max_elapsed")


async def test_the_default_backoff_may_be_named_or_not(api: Api) -> None:
    for backoff in (job_pb2.BACKOFF_EXPONENTIAL, job_pb2.BACKOFF_UNSPECIFIED):
        request = job_pb2.CreateJobRequest(job=one_off(backoff=backoff), request_id="same")
        answer = await api.jobs.CreateJob(request)
    assert answer.existed


@pytest.mark.parametrize(
    ("retry", "field"),
    [
        ({"backoff": 9}, "job.retry.backoff"),
        ({"max_elapsed": Duration(seconds=0)}, "job.retry.max_elapsed"),
        ({"max_elapsed": Duration(seconds=MAX_ELAPSED_MAX_MS // 1000 + 1)}, "job.retry.max_elapsed"),
        ({"non_retryable_errors": ["not a class"]}, "job.retry.non_retryable_errors[0]"),
        ({"non_retryable_errors": [""]}, "job.retry.non_retryable_errors[0]"),
        ({"non_retryable_errors": ["ok", "x" * 201]}, "job.retry.non_retryable_errors[1]"),
        ({"non_retryable_errors": [f"x{number}" for number in range(33)]}, "job.retry.non_retryable_errors"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused(api: Api, retry: dict[str, Any], field: str) -> None:
    async with refused() as told:
        await create(api, **retry)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_an_execution_tells_of_its_attempts(api: Api) -> None:
    await create(api, initial_backoff=Duration(seconds=1))
    fail(api, error="no route", error_classes=["app.Unreachable", "OSError"])
    failed = await get(api, 1)
    assert failed.state == execution_pb2.EXECUTION_STATE_FAILED
    api.core.now_ms += 1_000
    fail(api, snooze=True, retry_after_ms=60_000, error="not before noon")
    snoozed = await get(api, 1)
    assert (snoozed.state, snoozed.attempt) == (execution_pb2.EXECUTION_STATE_SNOOZED, 2)
    assert snoozed.retry_time == Timestamp(seconds=START_MS // 1000 + 61)
    api.core.now_ms += 60_000
    api.core.fire()
    api.core.succeed(api.core.lease(api.core.open_session("w-2")))
    done = await get(api, 1)
    outcomes = [(one.number, one.outcome, one.worker, one.error_class, one.error) for one in done.attempts]
    assert outcomes == [
        (1, execution_pb2.ATTEMPT_OUTCOME_FAILED, "w-1", "app.Unreachable", "no route"),
        (2, execution_pb2.ATTEMPT_OUTCOME_SNOOZED, "w-1", "", "not before noon"),
        (2, execution_pb2.ATTEMPT_OUTCOME_SUCCEEDED, "w-2", "", ""),
    ]
    assert done.attempts[0].lease_time == Timestamp(seconds=START_MS // 1000)
    assert done.attempts[0].end_time == Timestamp(seconds=START_MS // 1000, nanos=5_000_000)
    # Lists stay short.
    listed = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(job_id=1))
    assert not listed.executions[0].attempts
