"""JobService over a real channel: registering, reading, and repeating what was registered."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.model.limits import BATCH_MAX_JOBS
from raftsched.v1 import job_pb2
from tests.unit.api.support import START_MS, Api, Refused, refused


def one_off(handler: str = "reports.nightly", **fields: object) -> job_pb2.Job:
    return job_pb2.Job(handler=handler, run_at=Timestamp(seconds=START_MS // 1000 + 60), **fields)


def cron(expression: str = "0 2 * * *", time_zone: str = "Europe/Berlin", **fields: object) -> job_pb2.Job:
    return job_pb2.Job(handler="h", cron=job_pb2.Cron(expression=expression, time_zone=time_zone), **fields)


async def create(api: Api, job: job_pb2.Job, request_id: str | None = None) -> job_pb2.CreateJobResponse:
    return await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job, request_id=request_id))


async def create_refused(api: Api, job: job_pb2.Job, request_id: str | None = None) -> Refused:
    async with refused() as told:
        await create(api, job, request_id)
    return told


async def test_a_created_job_is_answered_with_all_that_was_decided(api: Api) -> None:
    response = await create(api, one_off(name="nightly", payload=b"\x00\x01", labels={"team": "billing"}))
    job = response.job
    assert (job.id, job.namespace, job.queue, job.state) == (1, "default", "default", job_pb2.JOB_STATE_SCHEDULED)
    assert (job.name, job.handler, job.payload) == ("nightly", "reports.nightly", b"\x00\x01")
    assert job.content_type == "application/octet-stream"
    assert dict(job.labels) == {"team": "billing"}
    assert job.next_run_time == job.run_at == Timestamp(seconds=START_MS // 1000 + 60)
    assert job.create_time.ToMilliseconds() == START_MS
    assert (job.retry.max_attempts, job.retry.multiplier) == (3, 2.0)
    assert not job.HasField("cancel_time")
    assert not response.existed
    assert response.index == api.core.machine.applied_index


async def test_what_was_created_is_read_by_id_and_by_name(api: Api) -> None:
    created = (await create(api, one_off(name="nightly", namespace="billing"))).job
    by_id = await api.jobs.GetJob(job_pb2.GetJobRequest(id=created.id))
    name = job_pb2.JobName(namespace="billing", name="nightly")
    by_name = await api.jobs.GetJob(job_pb2.GetJobRequest(name=name))
    assert by_id.job == by_name.job == created
    assert by_id.index == api.core.machine.committed_index


async def test_a_cron_job_tells_its_next_tick(api: Api) -> None:
    job = (await create(api, cron())).job
    assert (job.cron.expression, job.cron.time_zone) == ("0 2 * * *", "Europe/Berlin")
    assert (job.overlap, job.catch_up) == (job_pb2.OVERLAP_POLICY_SKIP, job_pb2.CATCH_UP_POLICY_LATEST)
    assert job.HasField("next_run_time")


async def test_an_interval_job_tells_its_interval(api: Api) -> None:
    interval = job_pb2.Interval(every=Duration(seconds=90))
    job = (await create(api, job_pb2.Job(handler="h", interval=interval))).job
    assert job.interval.every == Duration(seconds=90)
    assert job.HasField("next_run_time")


async def test_the_same_request_id_gives_the_same_job(api: Api) -> None:
    first = await create(api, one_off(), "key-1")
    second = await create(api, one_off(), "key-1")
    assert second.existed
    assert second.job == first.job
    assert (await create(api, one_off(), "key-2")).job.id != first.job.id


async def test_without_a_request_id_a_repetition_is_another_job(api: Api) -> None:
    assert (await create(api, one_off())).job.id != (await create(api, one_off())).job.id


async def test_a_thousand_creates_with_one_key_make_one_job(api: Api) -> None:
    responses = await asyncio.gather(*(create(api, one_off(), "key") for _ in range(1_000)))
    assert {response.job.id for response in responses} == {1}
    assert [response.existed for response in responses].count(False) == 1


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (one_off("other.handler"), "handler"),
        (one_off(payload=b"x"), "payload"),
        (one_off(labels={"a": "b"}), "labels"),
        (one_off(queue="mail", priority=3), "queue"),
    ],
)
async def test_the_same_key_with_another_job_names_the_difference(api: Api, other: job_pb2.Job, differs: str) -> None:
    await create(api, one_off(), "key")
    told = await create_refused(api, other, "key")
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")
    assert told.field == "request_id"
    assert differs in told.metadata["differs"]
    assert differs in told.message
    assert told.metadata["first_job_id"] == "1"


async def test_a_name_in_use_is_refused_with_its_field(api: Api) -> None:
    await create(api, one_off(name="nightly"))
    told = await create_refused(api, one_off(name="nightly"))
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
    assert told.field == "job.name"


@pytest.mark.parametrize(
    ("job", "field", "code"),
    [
        (job_pb2.Job(), "job.schedule", grpc.StatusCode.INVALID_ARGUMENT),
        (one_off(""), "job.handler", grpc.StatusCode.INVALID_ARGUMENT),
        (cron("0 0 31 2 *"), "job.cron.expression", grpc.StatusCode.INVALID_ARGUMENT),
        (cron(time_zone="Europe/Atlantis"), "job.cron.time_zone", grpc.StatusCode.INVALID_ARGUMENT),
        (one_off(payload=bytes(256 * 1024 + 1)), "job.payload", grpc.StatusCode.INVALID_ARGUMENT),
        (one_off(id=7), "job.id", grpc.StatusCode.INVALID_ARGUMENT),
        (
            job_pb2.Job(handler="h", dependencies=job_pb2.Dependencies()),
            "job.dependencies.job_ids",
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
    ],
)
async def test_bad_input_is_refused_with_its_field_and_nothing_is_written(
    api: Api, job: job_pb2.Job, field: str, code: grpc.StatusCode
) -> None:
    told = await create_refused(api, job)
    assert (told.field, told.code) == (field, code)
    assert api.core.submitted == 0


async def test_a_request_without_a_job_is_refused(api: Api) -> None:
    async with refused() as told:
        await api.jobs.CreateJob(job_pb2.CreateJobRequest())
    assert (told.reason, told.field) == ("INVALID_FIELD", "job")


@pytest.mark.parametrize("request_id", ["", "k" * 201])
async def test_a_bad_request_id_is_refused(api: Api, request_id: str) -> None:
    assert (await create_refused(api, one_off(), request_id)).field == "request_id"


async def test_a_field_of_another_version_is_refused_not_ignored(api: Api) -> None:
    data = job_pb2.CreateJobRequest(job=one_off()).SerializeToString()
    # Field 99 of Job, a string: Job is field 1 of the request.
    job = one_off().SerializeToString() + b"\x9a\x06\x01x"
    request = b"\x0a" + bytes([len(job)]) + job
    assert request != data
    call = api.channel.unary_unary("/raftsched.v1.JobService/CreateJob")
    async with refused() as told:
        await call(request)
    assert (told.reason, told.field, told.metadata["number"]) == ("INVALID_FIELD", "job", "99")
    assert api.core.submitted == 0


async def test_a_batch_answers_ids_in_the_order_of_the_request(api: Api) -> None:
    jobs = [one_off(name=f"job-{number}") for number in range(200)]
    response = await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id="b"))
    assert list(response.job_ids) == list(range(1, 201))
    job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=response.job_ids[150]))).job
    assert job.name == "job-150"
    again = await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id="b"))
    assert (again.existed, again.job_ids) == (True, response.job_ids)
    assert api.core.submitted == 2


async def test_a_batch_is_all_or_none(api: Api) -> None:
    jobs = [one_off(name=f"job-{number}") for number in range(100)]
    jobs[73].name = "job-5"
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs))
    assert (told.reason, told.field) == ("NAME_TAKEN", "jobs[73].name")
    jobs[73].name, jobs[99].handler = "fine", "no spaces please"
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs))
    assert (told.reason, told.field) == ("INVALID_FIELD", "jobs[99].handler")
    assert list((await api.jobs.ListJobs(job_pb2.ListJobsRequest())).jobs) == []


async def test_another_batch_with_the_same_key_names_the_first_job_that_differs(api: Api) -> None:
    jobs = [one_off(), one_off(), one_off()]
    await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id="b"))
    jobs[1].priority = 9
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id="b"))
    assert (told.reason, told.metadata["differs"]) == ("IDEMPOTENCY_CONFLICT", "priority")
    assert "jobs[1]" in told.message
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=jobs[:2], request_id="b"))
    assert (told.reason, told.metadata["differs"]) == ("IDEMPOTENCY_CONFLICT", "jobs")


@pytest.mark.parametrize("count", [0, BATCH_MAX_JOBS + 1])
async def test_a_batch_of_a_wrong_size_is_refused(api: Api, count: int) -> None:
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[one_off()] * count))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "jobs")


@pytest.mark.parametrize(
    ("count", "job"),
    [
        (64, one_off(payload=bytes(256 * 1024))),
        (10_000, one_off(labels={f"label-{number}": "v" * 200 for number in range(8)})),
        (300, one_off(payload=bytes(200 * 1024))),
    ],
)
async def test_a_batch_too_large_for_one_log_entry_is_refused(api: Api, count: int, job: job_pb2.Job) -> None:
    async with refused() as told:
        await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count))
    assert told.code is grpc.StatusCode.INVALID_ARGUMENT
    assert told.field.startswith("jobs")
    assert api.core.submitted == 0


async def test_ten_thousand_jobs_go_in_at_once(api: Api) -> None:
    response = await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[one_off()] * BATCH_MAX_JOBS))
    assert len(set(response.job_ids)) == BATCH_MAX_JOBS


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (job_pb2.GetJobRequest(), "id"),
        (job_pb2.GetJobRequest(id=0), "id"),
        (job_pb2.GetJobRequest(name=job_pb2.JobName()), "name.name"),
        (job_pb2.GetJobRequest(name=job_pb2.JobName(name="n" * 201)), "name.name"),
        (job_pb2.GetJobRequest(name=job_pb2.JobName(name="n", namespace="NO")), "name.namespace"),
    ],
)
async def test_a_lookup_that_cannot_find_anything_is_refused(
    api: Api, request_: job_pb2.GetJobRequest, field: str
) -> None:
    async with refused() as told:
        await api.jobs.GetJob(request_)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


@pytest.mark.parametrize(
    "request_",
    [
        job_pb2.GetJobRequest(id=1),
        job_pb2.GetJobRequest(id=2**64 - 1),
        job_pb2.GetJobRequest(name=job_pb2.JobName(name="nobody")),
    ],
)
async def test_an_unknown_job_is_not_found(api: Api, request_: job_pb2.GetJobRequest) -> None:
    async with refused() as told:
        await api.jobs.GetJob(request_)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
