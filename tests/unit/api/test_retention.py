"""What jobs say of their retention, over a real channel; what is kept, and the alarm, in the cluster's status."""

from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Reclaimed
from raftsched.v1 import cluster_pb2, execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

DAY_MS = 86_400_000


def one_off(**retention: Any) -> job_pb2.Job:
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000))
    job.retention.CopyFrom(job_pb2.Retention(**retention))
    return job


async def create(api: Api, job: job_pb2.Job, request_id: str | None = None) -> job_pb2.CreateJobResponse:
    answer: job_pb2.CreateJobResponse = await api.jobs.CreateJob(
        job_pb2.CreateJobRequest(job=job, request_id=request_id)
    )
    return answer


def reclaim(api: Api) -> int:
    command = command_pb2.Reclaim(limit=1_000, age_ms=30 * DAY_MS, request_id_age_ms=7 * DAY_MS)
    removed = api.core.apply_as(Reclaimed, command_pb2.Command(reclaim=command)).removed
    api.core.machine.commit()
    return removed


async def test_a_retention_is_kept_shown_compared_and_changed(api: Api) -> None:
    job = (await create(api, one_off(max_age=Duration(seconds=90), max_executions=5), "k")).job
    assert job.retention == job_pb2.Retention(max_age=Duration(seconds=90), max_executions=5)
    assert (await create(api, one_off(max_age=Duration(seconds=90), max_executions=5), "k")).existed
    async with refused() as told:
        await create(api, one_off(max_age=Duration(seconds=91), max_executions=5), "k")
    assert "retention.max_age" in told.message
    plain = (await create(api, job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000)))).job
    assert not plain.HasField("retention")
    update = job_pb2.UpdateJobRequest(
        job=job_pb2.Job(id=plain.id, retention=job_pb2.Retention(max_executions=2)),
        update_mask=FieldMask(paths=["retention"]),
    )
    assert (await api.jobs.UpdateJob(update)).job.retention.max_executions == 2


@pytest.mark.parametrize(
    ("retention", "field"),
    [
        ({"max_age": Duration()}, "job.retention.max_age"),
        ({"max_age": Duration(seconds=11 * 366 * 86_400)}, "job.retention.max_age"),
        ({"max_executions": 100_001}, "job.retention.max_executions"),
    ],
)
async def test_a_retention_that_cannot_be_is_refused(api: Api, retention: dict[str, Any], field: str) -> None:
    async with refused() as told:
        await create(api, one_off(**retention))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_what_was_removed_is_not_found_and_lists_end_before_it(api: Api) -> None:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=86_400)))
    series = (await create(api, job)).job.id
    single = (await create(api, one_off(max_age=Duration(seconds=60)))).job.id
    for _ in range(40):
        api.core.now_ms += DAY_MS
        api.core.fire()
        api.core.succeed(api.core.lease(api.core.open_session()))
    assert reclaim(api) > 10
    listed = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(job_id=series))
    assert (len(listed.executions), listed.next_page_token) == (30, "")
    async with refused() as told:
        await api.jobs.GetJob(job_pb2.GetJobRequest(id=single))
    assert told.reason == "JOB_NOT_FOUND"
    async with refused() as told:
        await api.executions.GetExecution(execution_pb2.GetExecutionRequest(id=1))
    assert told.reason == "EXECUTION_NOT_FOUND"


async def test_the_status_counts_what_is_kept_and_raises_an_alarm_for_too_many_dead_letters(api: Api) -> None:
    for number in range(3):
        await create(api, one_off(), f"k-{number}")
    api.core.fire()
    api.core.fail(api.core.lease(api.core.open_session()))
    api.core.machine.commit()
    status = await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert status.kept == cluster_pb2.Kept(attempts=3, request_ids=3, sessions=1)
    assert not status.alarms
    view = api.core.status()
    for quota, alarms in ((3, 0), (2, 1)):
        api.core.status = lambda quota=quota: replace(view, dead_letter_quota=quota)  # type: ignore[method-assign, misc]
        status = await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())
        assert [alarm.kind for alarm in status.alarms] == [cluster_pb2.ALARM_KIND_DEAD_LETTERS] * alarms
    assert "3 dead letters, more than 2" in status.alarms[0].message
