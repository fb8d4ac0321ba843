"""Calendars over gRPC, and jobs whose schedules use them."""

from typing import Any

import grpc
import pytest

from raftsched.api.calendar_service import ROUNDS
from raftsched.v1 import calendar_pb2, calendar_pb2_grpc, job_pb2
from tests.unit.api.support import Api, refused

LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


def stub(api: Api) -> Any:
    return calendar_pb2_grpc.CalendarServiceStub(api.channel)


def holidays(*dates: str, name: str = "holidays", **fields: Any) -> calendar_pb2.Calendar:
    return calendar_pb2.Calendar(name=name, dates=dates, **fields)


async def put(api: Api, calendar: calendar_pb2.Calendar) -> calendar_pb2.PutCalendarResponse:
    answer: calendar_pb2.PutCalendarResponse = await stub(api).PutCalendar(
        calendar_pb2.PutCalendarRequest(calendar=calendar)
    )
    return answer


async def create(api: Api, *calendars: job_pb2.CalendarUse) -> job_pb2.Job:
    job = job_pb2.Job(handler="h", name="j", cron=job_pb2.Cron(expression="0 9 * * *", calendars=calendars))
    answer = await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))
    created: job_pb2.Job = answer.job
    return created


async def test_a_calendar_is_put_in_order_and_read_back(api: Api) -> None:
    calendar = holidays("2026-12-26", "2026-12-25", "2026-12-26")
    for hour in (3, 1):
        window = calendar.windows.add()
        window.start.FromSeconds(hour * 3_600)
        window.end.FromSeconds(hour * 3_600 + 60)
    answer = await put(api, calendar)
    assert answer.calendar.namespace == "default"
    assert list(answer.calendar.dates) == ["2026-12-25", "2026-12-26"]
    assert [window.start.seconds for window in answer.calendar.windows] == [3_600, 10_800]
    read = job_pb2.ReadOptions(min_index=answer.index)
    found = await stub(api).GetCalendar(calendar_pb2.GetCalendarRequest(name="holidays", read=read))
    assert found.calendar == answer.calendar


async def test_a_window_until_the_end_of_time_is_put(api: Api) -> None:
    calendar = holidays()
    window = calendar.windows.add()
    window.start.FromSeconds(0)
    window.end.seconds, window.end.nanos = 253_402_300_799, 999_999_999
    answer = await put(api, calendar)
    assert answer.calendar.windows[0].end.ToJsonString() == "9999-12-31T23:59:59.999Z"


async def test_calendars_are_listed_page_by_page(api: Api) -> None:
    for name in ("c", "a", "b"):
        await put(api, holidays("2026-12-25", name=name))
    await put(api, holidays("2026-12-25", name="x", namespace="other"))
    names, token = [], ""
    while True:
        page = await stub(api).ListCalendars(
            calendar_pb2.ListCalendarsRequest(page_size=1, page_token=token, read=LINEARIZABLE)
        )
        names += [calendar.name for calendar in page.calendars]
        token = page.next_page_token
        if not token:
            break
    assert names == ["a", "b", "c"]
    async with refused() as told:
        await stub(api).ListCalendars(calendar_pb2.ListCalendarsRequest(page_token="x.y"))
    assert told.field == "page_token"


async def test_a_job_uses_a_calendar_of_its_namespace(api: Api) -> None:
    async with refused() as told:
        await create(api, job_pb2.CalendarUse(calendar="holidays"))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "job.cron.calendars[0].calendar")
    first = await api.jobs.CreateJob(
        job_pb2.CreateJobRequest(job=job_pb2.Job(handler="h", cron=job_pb2.Cron(expression="0 9 * * *")))
    )
    day = first.job.next_run_time.ToDatetime().date().isoformat()
    await put(api, holidays(day))
    job = await create(api, job_pb2.CalendarUse(calendar="holidays"))
    assert job.next_run_time.seconds == first.job.next_run_time.seconds + 86_400
    assert list(job.cron.calendars) == [job_pb2.CalendarUse(calendar="holidays", rule=job_pb2.CALENDAR_RULE_EXCLUDE)]


async def test_a_calendar_in_use_is_not_deleted(api: Api) -> None:
    await put(api, holidays("2026-12-25"))
    job = await create(api, job_pb2.CalendarUse(calendar="holidays"))
    delete = calendar_pb2.DeleteCalendarRequest(name="holidays")
    async with refused() as told:
        await stub(api).DeleteCalendar(delete)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CALENDAR_IN_USE")
    await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=job.id))
    await stub(api).DeleteCalendar(delete)
    async with refused() as told:
        await stub(api).DeleteCalendar(delete)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "CALENDAR_NOT_FOUND")
    async with refused() as told:
        await stub(api).GetCalendar(calendar_pb2.GetCalendarRequest(name="holidays"))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "CALENDAR_NOT_FOUND")


async def test_who_changes_a_calendar_at_the_same_time_as_others_looks_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = api.core.submit
    rivals = 0

    async def after_others(command: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal rivals
        rivals += 1
        if rivals < ROUNDS:
            other = holidays(f"2026-01-{rivals:02}", namespace="default")
            rival = type(command)()
            rival.put_calendar.calendar = other.SerializeToString()
            rival.put_calendar.replaced = command.put_calendar.replaced
            await submit(rival)
        return await submit(command, *args, **kwargs)

    monkeypatch.setattr(api.core, "submit", after_others)
    await put(api, holidays("2026-12-25"))
    assert rivals == ROUNDS
    found = await stub(api).GetCalendar(calendar_pb2.GetCalendarRequest(name="holidays", read=LINEARIZABLE))
    assert list(found.calendar.dates) == ["2026-12-25"]


def window(start_s: int, end_s: int) -> calendar_pb2.CalendarWindow:
    made = calendar_pb2.CalendarWindow()
    made.start.FromSeconds(start_s)
    made.end.FromSeconds(end_s)
    return made


@pytest.mark.parametrize(
    ("calendar", "field", "said"),
    [
        (holidays(name=""), "calendar.name", "1–63 characters"),
        (holidays(name="Holidays"), "calendar.name", "1–63 characters"),
        (holidays(namespace="N"), "calendar.namespace", "1–63 characters"),
        (holidays("2026-12-25", "2026-02-30"), "calendar.dates[1]", "`2026-02-30` is not a day such as 2026-12-25"),
        (holidays("20261225"), "calendar.dates[0]", "is not a day"),
        (holidays(*["2026-12-25"] * 5_001), "calendar.dates", "5,001 are too many; at most 5,000 are right"),
        (holidays(windows=[window(5, 5)]), "calendar.windows[0].end", "an end after the start is right"),
        (holidays(windows=[calendar_pb2.CalendarWindow()]), "calendar.windows[0].end", "an end after the start"),
        (holidays(windows=[window(0, 1)] * 1_001), "calendar.windows", "1,001 are too many"),
    ],
)
async def test_what_is_no_calendar_is_refused_by_name(
    api: Api, calendar: calendar_pb2.Calendar, field: str, said: str
) -> None:
    async with refused() as told:
        await put(api, calendar)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    assert said in told.message


async def test_an_h_of_an_update_follows_from_the_jobs_name(api: Api) -> None:
    job = job_pb2.Job(handler="h", name="nightly", cron=job_pb2.Cron(expression="H H * * *"))
    created = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job
    assert "H" not in created.cron.expression
    minute, *_ = created.cron.expression.split()
    change = job_pb2.UpdateJobRequest(job=job_pb2.Job(id=created.id, cron=job_pb2.Cron(expression="H 5 * * *")))
    change.update_mask.paths.append("cron")
    updated = (await api.jobs.UpdateJob(change)).job
    assert updated.cron.expression == f"{minute} 5 * * *"


async def test_a_job_whose_interval_ends_soon_can_be_changed_otherwise(api: Api) -> None:
    interval = job_pb2.Interval()
    interval.every.FromSeconds(60)
    interval.end.FromMilliseconds(api.core.now_ms + 600_000)
    job = job_pb2.Job(handler="h", interval=interval)
    created = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))).job
    change = job_pb2.UpdateJobRequest(job=job_pb2.Job(id=created.id, priority=7))
    change.update_mask.paths.append("priority")
    updated = (await api.jobs.UpdateJob(change)).job
    assert (updated.priority, updated.interval) == (7, created.interval)
    assert updated.next_run_time == created.next_run_time
