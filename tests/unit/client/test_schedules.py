"""Schedules and calendars as the client's values, through a real API."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.server import ApiServer
from raftsched.client import (
    Calendar,
    CalendarInUse,
    CalendarNotFound,
    CalendarRule,
    CalendarUse,
    Client,
    FoldPolicy,
    GapPolicy,
    InvalidField,
    JobSpec,
)
from tests.unit.api.support import LocalCore


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    core = LocalCore(tmp_path)
    server = ApiServer(core, listen="127.0.0.1:0", wall_ms=lambda: core.now_ms)
    port = await server.start()
    async with Client([f"127.0.0.1:{port}"]) as client:
        yield client
    await server.drain(0)
    core.machine.close()


async def test_a_whole_schedule_comes_back_as_it_was_given(client: Client) -> None:
    await client.put_calendar(Calendar("holidays", [date(2026, 12, 25)]))
    await client.put_calendar(Calendar("freeze", [date(2026, 12, 24)]))
    given: dict[str, Any] = {
        "cron": "0 2 * * *",
        "time_zone": "Europe/Berlin",
        "more_crons": ("0 14 * * *",),
        "exclude": ("* * * * 0",),
        "gap": GapPolicy.SKIP,
        "fold": FoldPolicy.LAST,
        "start": datetime(2040, 1, 1, tzinfo=UTC),
        "end": datetime(2041, 1, 1, tzinfo=UTC),
    }
    job = await client.create("h", **given, calendars=["freeze", CalendarUse("holidays", CalendarRule.NEXT_OPEN_DAY)])
    assert {name: getattr(job, name) for name in given} == given
    assert job.calendars == (CalendarUse("freeze"), CalendarUse("holidays", CalendarRule.NEXT_OPEN_DAY))
    assert job.next_run_time == datetime(2040, 1, 2, 1, tzinfo=UTC)


async def test_what_was_left_out_is_told(client: Client) -> None:
    job = await client.create("h", cron="@daily")
    assert (job.gap, job.fold, job.end, job.more_crons, job.exclude) == (
        GapPolicy.SHIFT,
        FoldPolicy.FIRST,
        None,
        (),
        (),
    )


async def test_an_interval_ends(client: Client) -> None:
    end = datetime(2040, 1, 1, tzinfo=UTC)
    job = await client.create("h", every=timedelta(hours=1), end=end)
    assert (job.every, job.end) == (timedelta(hours=1), end)


async def test_every_becomes_an_interval(client: Client) -> None:
    job = await client.create("h", cron="@every 90s")
    assert (job.cron, job.every) == (None, timedelta(seconds=90))


async def test_calendars_are_put_got_listed_and_deleted(client: Client) -> None:
    window = (datetime(2026, 12, 24, 12, tzinfo=UTC), datetime(2026, 12, 24, 18, tzinfo=UTC))
    calendar = Calendar("holidays", (date(2026, 12, 25),), (window,), namespace="default")
    assert await client.put_calendar(calendar) == calendar
    assert await client.get_calendar("holidays") == calendar
    await client.put_calendar(Calendar("another"))
    assert [one.name async for one in client.calendars(page_size=1)] == ["another", "holidays"]
    await client.create("h", cron="@daily", calendars=["holidays"])
    with pytest.raises(CalendarInUse):
        await client.delete_calendar("holidays")
    await client.delete_calendar("another")
    with pytest.raises(CalendarNotFound):
        await client.get_calendar("another")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"every": timedelta(hours=1), "more_crons": ["@daily"]}, "more_crons"),
        ({"every": timedelta(hours=1), "exclude": ["@daily"]}, "exclude"),
        ({"every": timedelta(hours=1), "gap": GapPolicy.SKIP}, "gap"),
        ({"every": timedelta(hours=1), "fold": FoldPolicy.LAST}, "fold"),
        ({"every": timedelta(hours=1), "calendars": ["x"]}, "calendars"),
        ({"run_at": datetime(2040, 1, 1, tzinfo=UTC), "end": datetime(2040, 1, 1, tzinfo=UTC)}, "end"),
        ({"cron": "@daily", "exclude": "@daily"}, "exclude"),
        ({"cron": "@daily", "calendars": "holidays"}, "calendars"),
        ({"cron": "@daily", "gap": "SIDEWAYS"}, "gap"),
        ({"cron": "@daily", "end": datetime(2040, 1, 1)}, "end"),
    ],
)
async def test_what_does_not_belong_together_is_refused_here(
    client: Client, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        await client.create_spec(JobSpec("h", **fields))
    assert caught.value.field == f"job.{field}"
