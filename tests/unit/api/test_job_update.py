"""UpdateJob and RescheduleJob over a real channel."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, refused

MINUTE_MS = 60_000
LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)
EVERY_MINUTE = job_pb2.Interval(every=Duration(seconds=60))


def at(time_ms: int) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(time_ms)
    return time


async def create(api: Api, **fields: object) -> job_pb2.Job:
    job = job_pb2.Job(**{"handler": "h", "interval": EVERY_MINUTE, **fields})
    return (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job


async def update(api: Api, job: int, *names: str, etag: str = "", **fields: object) -> job_pb2.Job:
    request = job_pb2.UpdateJobRequest(
        job=job_pb2.Job(id=job, **fields), update_mask=FieldMask(paths=names or list(fields)), etag=etag
    )
    return (await api.jobs.UpdateJob(request)).job


async def get(api: Api, job: int) -> job_pb2.Job:
    return (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job, read=LINEARIZABLE))).job


async def times_of(api: Api, job: int) -> list[int]:
    """Scheduled times of its executions after START_MS, newest first."""
    request = execution_pb2.ListExecutionsRequest(job_id=job, read=LINEARIZABLE)
    listed = await api.executions.ListExecutions(request)
    return [one.scheduled_for.ToMilliseconds() - START_MS for one in listed.executions]


async def test_what_the_mask_names_changes_and_nothing_else(api: Api) -> None:
    job = await create(api, name="n", payload=b"p", labels={"a": "1"}, priority=3, tenant="t")
    changed = await update(
        api,
        job.id,
        payload=b"other",
        content_type="text/plain",
        queue="q",
        priority=7,
        tenant="u",
        labels={"b": "2"},
        name="m",
        handler="other",
        retry=job_pb2.RetryPolicy(max_attempts=9),
        run_timeout=Duration(seconds=5),
        jitter=Duration(seconds=10),
        overlap=job_pb2.OVERLAP_POLICY_ALLOW,
        catch_up=job_pb2.CATCH_UP_POLICY_ALL,
        pause_after_failures=4,
    )
    assert (changed.payload, changed.content_type, changed.queue, changed.priority) == (b"other", "text/plain", "q", 7)
    assert (changed.tenant, dict(changed.labels), changed.name, changed.handler) == ("u", {"b": "2"}, "m", "other")
    assert (changed.retry.max_attempts, changed.run_timeout.seconds, changed.jitter.seconds) == (9, 5, 10)
    assert (changed.overlap, changed.catch_up) == (job_pb2.OVERLAP_POLICY_ALLOW, job_pb2.CATCH_UP_POLICY_ALL)
    assert changed.pause_after_failures == 4
    assert changed.interval == job.interval
    assert changed.next_run_time == job.next_run_time
    assert changed == await get(api, job.id)
    assert changed.etag != job.etag
    # Named but unset: the default again. Not named: ignored.
    cleared = await update(api, job.id, "labels", "payload", "name", queue="ignored")
    assert (dict(cleared.labels), cleared.payload, cleared.name, cleared.queue) == ({}, b"", "", "q")


async def test_an_etag_guards_against_changes_that_the_caller_has_not_seen(api: Api) -> None:
    job = await create(api)
    changed = await update(api, job.id, etag=job.etag, priority=1)
    async with refused() as told:
        await update(api, job.id, etag=job.etag, priority=2)
    assert (told.code, told.reason, told.field) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH", "etag")
    assert (await update(api, job.id, etag=changed.etag, priority=2)).priority == 2
    assert (await update(api, job.id, priority=3)).priority == 3


async def test_repeating_an_update_is_harmless_though_its_etag_is_old(api: Api) -> None:
    job = await create(api)
    changed = await update(api, job.id, etag=job.etag, priority=1)
    submitted = api.core.submitted
    assert await update(api, job.id, etag=job.etag, priority=1) == changed
    assert api.core.submitted == submitted


async def test_firing_and_pausing_do_not_change_the_etag(api: Api) -> None:
    job = await create(api)
    api.core.now_ms += MINUTE_MS
    api.core.fire()
    assert (await get(api, job.id)).etag == job.etag
    await api.jobs.PauseJob(job_pb2.PauseJobRequest(id=job.id))
    assert (await get(api, job.id)).etag == job.etag


async def test_a_changed_schedule_takes_over_after_what_is_due_by_the_old_one(api: Api) -> None:
    job = await create(api)
    api.core.now_ms += MINUTE_MS + 500
    changed = await update(api, job.id, interval=job_pb2.Interval(every=Duration(seconds=10)))
    assert changed.next_run_time.ToMilliseconds() == START_MS + MINUTE_MS + 10_500
    assert await times_of(api, job.id) == [MINUTE_MS]
    cron = job_pb2.Cron(expression="*/5 * * * *")
    assert (await update(api, job.id, cron=cron)).next_run_time.ToMilliseconds() == START_MS + 5 * MINUTE_MS
    once = await update(api, job.id, run_at=at(START_MS + 2 * MINUTE_MS))
    assert once.WhichOneof("schedule") == "run_at"
    assert once.overlap == job_pb2.OVERLAP_POLICY_UNSPECIFIED
    api.core.now_ms = START_MS + 5 * MINUTE_MS
    api.core.fire()
    assert await times_of(api, job.id) == [2 * MINUTE_MS, MINUTE_MS]


async def test_the_same_schedule_said_again_changes_no_tick(api: Api) -> None:
    cron = job_pb2.Cron(expression="*/5 * * * *", time_zone="UTC")
    by_cron, by_interval = await create(api, cron=cron), await create(api)
    api.core.now_ms += 30_000
    again = job_pb2.Cron(expression=" */5  * * * * ")
    assert (await update(api, by_cron.id, cron=again, priority=1)).next_run_time == by_cron.next_run_time
    changed = await update(api, by_interval.id, interval=EVERY_MINUTE, priority=1)
    assert changed.next_run_time == by_interval.next_run_time


@pytest.mark.parametrize(
    ("names", "fields", "field"),
    [
        ([], {}, "update_mask"),
        (["etag"], {}, "update_mask"),
        (["namespace"], {}, "update_mask"),
        (["retry.max_attempts"], {}, "update_mask"),
        (["cron", "interval"], {"interval": EVERY_MINUTE}, "update_mask"),
        (["cron"], {"interval": EVERY_MINUTE}, "job.cron"),
        (["queue"], {"queue": "NO"}, "job.queue"),
        (["handler"], {}, "job.handler"),
        (["cron"], {"cron": job_pb2.Cron(expression="0 0 31 2 *")}, "job.cron.expression"),
        (["run_at", "overlap"], {"run_at": at(START_MS), "overlap": 1}, "job.overlap"),
    ],
)
async def test_bad_updates_name_their_field(api: Api, names: list[str], fields: dict[str, object], field: str) -> None:
    job = await create(api)
    request = job_pb2.UpdateJobRequest(job=job_pb2.Job(id=job.id, **fields), update_mask=FieldMask(paths=names))
    async with refused() as told:
        await api.jobs.UpdateJob(request)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    assert await get(api, job.id) == job


async def test_a_pace_of_catching_up_stays_shorter_than_the_interval(api: Api) -> None:
    paced: dict[str, Any] = {"catch_up": job_pb2.CATCH_UP_POLICY_ALL, "catch_up_interval": Duration(seconds=59)}
    by_interval = await create(api, **paced)
    for changes in (
        {"catch_up_interval": Duration(seconds=60)},
        {"interval": job_pb2.Interval(every=Duration(seconds=59))},
    ):
        async with refused() as told:
            await update(api, by_interval.id, **changes)
        assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "job.catch_up_interval")
    assert "59 s is not shorter than the interval of 59 s" in told.message
    async with refused() as told:
        await create(api, cron=job_pb2.Cron(expression="@every 59s"), **paced)
    assert told.field == "job.catch_up_interval"
    paced["catch_up_interval"] = Duration(seconds=7_200)
    by_cron = await create(api, cron=job_pb2.Cron(expression="0 9 * * *"), **paced)
    assert (await update(api, by_cron.id, priority=1)).priority == 1


async def test_a_name_must_be_free_and_becomes_free(api: Api) -> None:
    job = await create(api, name="a")
    other = await create(api, name="b")
    async with refused() as told:
        await update(api, job.id, name="b")
    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
    await update(api, job.id, name="c")
    await update(api, other.id, name="a")
    found = await api.jobs.GetJob(job_pb2.GetJobRequest(name=job_pb2.JobName(name="a")))
    assert found.job.id == other.id


async def test_a_one_off_is_given_another_time(api: Api) -> None:
    job = await create(api, run_at=at(START_MS + MINUTE_MS))
    request = job_pb2.RescheduleJobRequest(id=job.id, run_at=at(START_MS + 2 * MINUTE_MS))
    moved = (await api.jobs.RescheduleJob(request)).job
    assert moved.run_at.ToMilliseconds() == moved.next_run_time.ToMilliseconds() == START_MS + 2 * MINUTE_MS
    assert moved.etag != job.etag
    api.core.now_ms += MINUTE_MS
    api.core.fire()
    assert await times_of(api, job.id) == []
    request.run_at.CopyFrom(at(START_MS))
    await api.jobs.RescheduleJob(request)
    api.core.fire()
    assert await times_of(api, job.id) == [MINUTE_MS]
    async with refused() as told:
        await api.jobs.RescheduleJob(request)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_FORBIDS")
    async with refused() as told:
        await api.jobs.RescheduleJob(job_pb2.RescheduleJobRequest(id=job.id))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "run_at")
