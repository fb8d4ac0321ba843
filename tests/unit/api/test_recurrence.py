"""Recurring schedules as callers write them: what is stored, what is refused, what differs."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.convert import create_jobs_command, job_difference
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.zones import database_version
from raftsched.store import rows
from raftsched.v1 import calendar_pb2, job_pb2
from tests.unit.api.job_requests import NOW_MS, seconds

DAY_S = 86_400
NOW_S = NOW_MS // 1000


def at(after_s: int) -> Timestamp:
    return Timestamp(seconds=NOW_S + after_s)


def cron_job(name: str = "nightly", **fields: Any) -> job_pb2.Job:
    return job_pb2.Job(handler="h", name=name, cron=job_pb2.Cron(**{"expression": "0 2 * * *", **fields}))


def calendar_row(_namespace: str, name: str) -> bytes | None:
    """One calendar with the first ten years from 2020 on, of version 7."""
    if name != "decade":
        return None
    calendar = calendar_pb2.Calendar(namespace="default", name=name)
    window = calendar.windows.add()
    window.start.FromJsonString("2020-01-01T00:00:00Z")
    window.end.FromJsonString("2030-01-01T00:00:00Z")
    return rows.CALENDAR.pack(7) + calendar.SerializeToString()


def create(*jobs: job_pb2.Job) -> command_pb2.CreateJobs:
    return create_jobs_command(jobs, "key", NOW_MS, batch=True, find_calendar=calendar_row).create_jobs


def stored(job: job_pb2.Job) -> command_pb2.Schedule:
    return command_pb2.Schedule.FromString(create(job).schedules[0].schedule)


def test_all_of_a_schedule_is_stored() -> None:
    schedule = stored(
        cron_job(
            time_zone="Europe/Berlin",
            more_expressions=["0  3 * * *"],
            exclude=["* * * * 0"],
            gap=job_pb2.GAP_POLICY_SKIP,
            fold=job_pb2.FOLD_POLICY_BOTH,
            start=at(DAY_S),
            end=at(20 * 366 * DAY_S),
            calendars=[job_pb2.CalendarUse(calendar="decade")],
        )
    )
    assert (schedule.expression, list(schedule.more_expressions)) == ("0 2 * * *", ["0 3 * * *"])
    assert list(schedule.exclude) == ["* * * * 0"]
    assert (schedule.gap, schedule.fold) == (job_pb2.GAP_POLICY_SKIP, job_pb2.FOLD_POLICY_BOTH)
    assert schedule.start_ms == NOW_MS + DAY_S * 1000
    (use,) = schedule.calendars
    assert (use.namespace, use.calendar, use.rule) == ("default", "decade", job_pb2.CALENDAR_RULE_EXCLUDE)


def test_a_policy_that_is_spelled_out_is_the_same_schedule_as_none() -> None:
    explicit = cron_job(gap=job_pb2.GAP_POLICY_SHIFT, fold=job_pb2.FOLD_POLICY_FIRST)
    assert len(create(cron_job(), explicit).schedules) == 1


def test_ticks_come_with_what_they_follow_from() -> None:
    new = create(cron_job(time_zone="Europe/Berlin", calendars=[job_pb2.CalendarUse(calendar="decade")])).schedules[0]
    assert new.rules == command_pb2.TickRules(time_zone_database=database_version(), calendars_version=7)
    assert new.ticks_ms[0] // 1000 >= 1_893_456_000
    assert not new.final
    # UTC is the same in every release.
    assert create(cron_job()).schedules[0].rules == command_pb2.TickRules()


def test_a_table_that_holds_all_ticks_is_final() -> None:
    new = create(cron_job(end=at(2 * DAY_S))).schedules[0]
    assert new.final
    assert len(new.ticks_ms) == 2


def test_h_is_a_number_that_follows_from_the_name_or_the_handler() -> None:
    first, again, other = (stored(cron_job(name, expression="H H * * *")).expression for name in ("a", "a", "b"))
    assert first == again != other
    minute, hour, *_ = first.split()
    assert (int(minute) < 60, int(hour) < 24) == (True, True)
    by_handler = job_pb2.Job(handler="a", cron=job_pb2.Cron(expression="H H * * *"))
    assert stored(by_handler).expression == first


def test_jobs_of_one_expression_with_h_have_schedules_of_their_own() -> None:
    command = create(*(cron_job(f"job-{number}", expression="H 2 * * *") for number in range(20)))
    assert len({new.schedule for new in command.schedules}) == len(command.schedules) > 5
    assert [job.schedule for job in command.jobs][:2] == [1, 2]


def test_every_is_an_interval_from_registration_on() -> None:
    command = create(cron_job(expression="@every 1h30m"))
    schedule = command_pb2.Schedule.FromString(command.schedules[0].schedule)
    assert schedule == command_pb2.Schedule(every_ms=5_400_000)
    assert command.jobs[0].due_ms == NOW_MS + 5_400_000
    assert list(command.schedules[0].ticks_ms) == []


def test_an_interval_may_end() -> None:
    job = job_pb2.Job(handler="h", interval=job_pb2.Interval(every=seconds(60), end=at(3600)))
    assert stored(job) == command_pb2.Schedule(every_ms=60_000, end_ms=NOW_MS + 3_600_000)


USE = job_pb2.CalendarUse
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"expression": "H(9-3) 2 * * *"}, "expression", "minute `H(9-3)`: the range ends before it begins"),
    ({"expression": "@every soon"}, "expression", "@every is followed by a span of time"),
    ({"expression": "@every 5m", "time_zone": "UTC"}, "time_zone", "@every stands alone"),
    ({"expression": "@every 5m", "end": at(9)}, "end", "@every stands alone"),
    ({"more_expressions": ["@every 5m"]}, "more_expressions[0]", "@every stands alone"),
    ({"more_expressions": ["0 3 * * *", "61 * * * *"]}, "more_expressions[1]", "61 is not 0–59"),
    ({"more_expressions": ["0 3 * * *"] * 32}, "more_expressions", "32 are too many; at most 31 are right"),
    ({"exclude": ["0 0 31 2 *"]}, "exclude[0]", "never fires"),
    ({"exclude": ["* * * * 0"] * 33}, "exclude", "33 are too many"),
    ({"exclude": ["* * * * *"]}, "exclude", "never fires: everything is left out"),
    (
        {"expression": "* * * * * *", "exclude": ["0-29 * * * * *", "30-59 * 0-11 * * *", "30-59 * 12-23 * 1-11 *"]},
        "exclude",
        "so much is left out that no tick was found",
    ),
    ({"gap": 7}, "gap", "7 is not a policy; SHIFT and SKIP are right"),
    ({"fold": 7}, "fold", "7 is not a policy; FIRST, LAST and BOTH are right"),
    ({"end": at(60)}, "end", "nothing would fire before it"),
    ({"start": at(DAY_S), "end": at(DAY_S)}, "end", "not later than the start"),
    ({"end": Timestamp(seconds=-5)}, "end", "not later than the start"),
    ({"start": at(101 * 366 * DAY_S)}, "start", "more than 100 years from now"),
    ({"calendars": [USE(calendar="none")]}, "calendars[0].calendar", "there is no calendar `none` in namespace"),
    ({"calendars": [USE(calendar="")]}, "calendars[0].calendar", "1–63 characters"),
    ({"calendars": [USE(calendar="decade")] * 2}, "calendars[1].calendar", "`decade` is named twice"),
    ({"calendars": [USE(calendar="decade", rule=9)]}, "calendars[0].rule", "9 is not a rule"),
    ({"calendars": [USE(calendar="a")] * 9}, "calendars", "9 are too many"),
    (
        {"expression": "* * * * *", "calendars": [USE(calendar="decade", rule=2)]},
        "calendars[0].rule",
        "NEXT_OPEN_DAY is for schedules of at most 96 ticks a day; this one has 1,440",
    ),
    ({"calendars": [USE(calendar="decade")], "end": at(DAY_S)}, "end", "nothing would fire before it"),
]


@pytest.mark.parametrize(("fields", "field", "message"), REFUSED)
def test_what_cannot_be_is_refused_by_name(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        create(cron_job(**fields))
    assert caught.value.field == f"jobs[0].cron.{field}"
    assert message in caught.value.message


def test_an_interval_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InvalidField) as caught:
        create(job_pb2.Job(handler="h", interval=job_pb2.Interval(every=seconds(3600), end=at(3600))))
    assert caught.value.field == "jobs[0].interval.end"


def test_each_field_makes_another_request() -> None:
    jobs = [
        cron_job(),
        cron_job(more_expressions=["0 3 * * *"]),
        cron_job(exclude=["0 3 * * *"]),
        cron_job(gap=job_pb2.GAP_POLICY_SKIP),
        cron_job(fold=job_pb2.FOLD_POLICY_LAST),
        cron_job(start=at(60)),
        cron_job(end=at(20 * 366 * DAY_S)),
        cron_job(calendars=[USE(calendar="decade")]),
        cron_job(calendars=[USE(calendar="decade", rule=2)]),
        cron_job(expression="@every 1h"),
        job_pb2.Job(handler="h", name="nightly", interval=job_pb2.Interval(every=seconds(3600), end=at(7200))),
    ]
    assert len({create(job).fingerprint for job in jobs}) == len(jobs)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []),
        ({"gap": job_pb2.GAP_POLICY_SHIFT}, []),
        ({"expression": "0  2 * * *"}, []),
        ({"more_expressions": ["0 3 * * *"]}, ["cron.more_expressions"]),
        ({"exclude": ["* * * * 0"]}, ["cron.exclude"]),
        ({"gap": job_pb2.GAP_POLICY_SKIP, "fold": job_pb2.FOLD_POLICY_LAST}, ["cron.gap", "cron.fold"]),
        ({"start": at(60), "end": at(DAY_S)}, ["cron.start", "cron.end"]),
        ({"calendars": [USE(calendar="decade")]}, ["cron.calendars"]),
        ({"expression": "H 2 * * *"}, ["cron.expression"]),
        ({"expression": "@every 1h"}, ["schedule"]),
    ],
)
def test_the_fields_that_differ_are_named(fields: dict[str, Any], names: list[str]) -> None:
    before = cron_job()
    before.namespace = "default"
    assert [
        name for name in job_difference(before, cron_job(**fields)) if "cron" in name or name == "schedule"
    ] == names


def test_an_h_does_not_differ_from_the_number_it_became() -> None:
    requested = cron_job(expression="H H * * *")
    before = cron_job(expression=stored(requested).expression)
    assert not [name for name in job_difference(before, requested) if "cron" in name]


def test_every_does_not_differ_from_the_interval_it_became() -> None:
    before = job_pb2.Job(handler="h", name="nightly", interval=job_pb2.Interval(every=Duration(seconds=3600)))
    for expression, names in (("@every 1h", []), ("@every 2h", ["interval.every"])):
        difference = job_difference(before, cron_job(expression=expression))
        assert [name for name in difference if "interval" in name or name == "schedule"] == names
