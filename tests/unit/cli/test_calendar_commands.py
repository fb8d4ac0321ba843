"""Calendars and whole schedules on the command line, against a real node."""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import CommandLine, until

pytestmark = pytest.mark.cluster


def test_a_calendar_is_put_shown_listed_and_deleted(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "days"
    file.write_text("# closed\n2040-12-26\n2040-12-25  # Christmas\n\n2040-12-24T18:00/2040-12-24T22:00\n")
    put = cli.document("calendar", "put", "holidays", str(file), "--tz", "Europe/Berlin")
    assert put["dates"] == ["2040-12-25", "2040-12-26"]
    assert [[moment[:19] for moment in window] for window in put["windows"]] == [
        ["2040-12-24T17:00:00", "2040-12-24T21:00:00"]
    ]
    assert cli.document("calendar", "get", "holidays") == put
    assert "2040-12-25, 2040-12-26" in cli.text("calendar", "get", "holidays")
    cli.text("calendar", "put", "another", "-", given=b"2040-01-01\n")
    listed = cli.document("calendar", "list")
    assert [one["name"] for one in listed["calendars"]] == ["another", "holidays"]
    assert "another" in cli.text("calendar", "list")
    job = cli.document("job", "create", "x", "--cron", "0 9 * * *", "--calendar", "holidays:next-open-day")
    code, error = cli.failure("calendar", "delete", "holidays")
    assert (code, error["reason"]) == (4, "CALENDAR_IN_USE")
    cli.text("job", "cancel", str(job["id"]))
    assert "is deleted" in cli.text("calendar", "delete", "holidays")
    code, error = cli.failure("calendar", "get", "holidays")
    assert (code, error["reason"]) == (3, "CALENDAR_NOT_FOUND")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"2040-02-30\n", "line 1"),
        (b"\n25.12.2040\n", "line 2"),
        (b"2040-12-24T18:00/2040-12-24T22:00\n", "has no UTC offset"),
        (b"2040-12-24T18:00Z/in 5m\n", "another time whenever the file is read"),
    ],
)
def test_a_file_that_is_no_calendar_is_refused(cli: CommandLine, content: bytes, said: str) -> None:
    result = cli.run("calendar", "put", "broken", "-", given=content)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_whole_schedule_is_created_and_shown(cli: CommandLine) -> None:
    cli.text("calendar", "put", "freeze", "-", given=b"2040-12-24\n")
    created = cli.document(
        *("job", "create", "x", "--cron", "0 2 * * *", "--cron", "0 14 * * *", "--tz", "Europe/Berlin"),
        *("--exclude", "* * * * 0", "--gap", "skip", "--fold", "both", "--calendar", "freeze"),
        *("--start", "2040-01-01T00:00", "--end", "2041-01-01T00:00"),
    )
    shown = cli.document("job", "get", str(created["id"]))
    assert (shown["cron"], shown["more_crons"], shown["exclude"]) == ("0 2 * * *", ["0 14 * * *"], ["* * * * 0"])
    assert (shown["gap"], shown["fold"]) == ("SKIP", "BOTH")
    assert shown["calendars"] == [{"calendar": "freeze", "rule": "EXCLUDE"}]
    assert shown["start"].startswith("2039-12-31T23:00")
    assert shown["end"].startswith("2040-12-31T23:00")
    people = cli.text("job", "get", str(created["id"]))
    assert "0 2 * * *, 0 14 * * * (Europe/Berlin)" in people
    assert "freeze:exclude" in people


def test_an_update_replaces_all_expressions(cli: CommandLine) -> None:
    job = cli.document("job", "create", "x", "--cron", "0 2 * * *", "--cron", "0 14 * * *", "--exclude", "* * * * 0")
    cli.text("job", "update", str(job["id"]), "--cron", "0 3 * * *", "--cron", "0 4 * * *")
    shown = cli.document("job", "get", str(job["id"]))
    assert (shown["cron"], shown["more_crons"], shown["exclude"]) == ("0 3 * * *", ["0 4 * * *"], [])


def test_every_is_an_interval_and_h_a_number(cli: CommandLine) -> None:
    every = cli.document("job", "create", "x", "--cron", "@every 90s")
    assert (every["cron"], every["every_ms"]) == (None, 90_000)
    hashed = cli.document("job", "create", "x", "--cron", "H 2 * * *", "--name", "hashed")
    assert hashed["cron"].split()[0].isdigit()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--every", "1h", "--exclude", "* * * * 0"), "--exclude belongs to --cron"),
        (("--every", "1h", "--gap", "skip"), "--gap belongs to --cron"),
        (("--every", "1h", "--calendar", "x"), "--calendar belongs to --cron"),
        (("--run-at", "now", "--end", "now"), "--end belongs to --cron or --every"),
        (("--cron", "@daily", "--calendar", "x:sideways"), "'sideways' is not exclude or next-open-day"),
        (("--cron", "@daily", "--calendar", "none-such"), "there is no calendar `none-such`"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(cli: CommandLine, options: tuple[str, ...], said: str) -> None:
    result = cli.run("job", "create", "x", *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_calendar_that_changes_moves_the_coming_ticks_of_jobs_that_wait(cli: CommandLine) -> None:
    cli.text("calendar", "put", "moving", "-", given=b"2040-01-01\n")
    job = cli.document(
        "job",
        "create",
        "x",
        "--cron",
        "0 9 25 12 *",
        "--start",
        "2040-12-01T00:00Z",
        *("--calendar", "moving:next-open-day"),
    )
    assert job["next_run_time"].startswith("2040-12-25T09:00")
    cli.text("calendar", "put", "moving", "-", given=b"2040-12-25\n2040-12-26\n")
    until(
        lambda: cli.document("job", "get", str(job["id"]))["next_run_time"].startswith("2040-12-27T09:00"),
        "the tick moves",
    )
    cli.text("calendar", "put", "moving", "-", given=b"2040-01-01\n")
    until(
        lambda: cli.document("job", "get", str(job["id"]))["next_run_time"].startswith("2040-12-25T09:00"),
        "the tick moves back",
    )


def test_a_job_whose_schedule_has_ended_is_completed(cli: CommandLine) -> None:
    job = cli.document("job", "create", "shell.run", "--every", "1s", "--end", "in 3s", "--queue", "nobody")
    done = cli.wait_for_state(job["id"], "COMPLETED")
    assert done["next_run_time"] is None
