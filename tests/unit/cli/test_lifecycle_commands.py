"""The commands that change a job, against a real node."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine, until

pytestmark = pytest.mark.cluster


def test_a_job_is_paused_resumed_changed_triggered_and_deleted(cli: CommandLine) -> None:
    job = cli.document("job", "create", "nobody.runs", "--every", "1h", "--name", "life", "--queue", "unserved")
    number = str(job["id"])
    assert "is paused" in cli.text("job", "pause", "--name", "life", "--note", "no mail today")
    paused = cli.document("job", "get", number)
    assert (paused["state"], paused["pause_note"], paused["next_run_time"]) == ("PAUSED", "no mail today", None)
    assert cli.document("job", "resume", number)["state"] == "SCHEDULED"

    changed = cli.document("job", "update", number, "--priority", "7", "--max-attempts", "3", "--etag", job["etag"])
    assert (changed["priority"], changed["retry"]["max_attempts"], changed["queue"]) == (7, 3, "unserved")
    code, error = cli.failure("job", "update", number, "--priority", "1", "--etag", job["etag"])
    assert (code, error["reason"]) == (4, "ETAG_MISMATCH")
    moved = cli.document("job", "update", number, "--cron", "0 3 * * *", "--tz", "Europe/Berlin")
    assert (moved["cron"], moved["time_zone"], moved["every_ms"]) == ("0 3 * * *", "Europe/Berlin", None)

    triggered = cli.document("job", "trigger", number, "--payload", "own", "--request-id", "now")
    assert cli.document("job", "trigger", number, "--payload", "own", "--request-id", "now") == triggered
    code, error = cli.failure("job", "trigger", number, "--refuse-overlap")
    assert (code, error["reason"]) == (4, "OVERLAP_REFUSED")
    execution = str(triggered["execution_id"])
    assert cli.document("execution", "get", execution)["cause"] == "TRIGGER"
    assert "is cancelled" in cli.text("execution", "cancel", execution)

    assert "is deleted" in cli.text("job", "delete", "--name", "life")
    code, error = cli.failure("job", "get", number)
    assert (code, error["reason"]) == (3, "JOB_NOT_FOUND")


def test_a_one_off_is_rescheduled(cli: CommandLine) -> None:
    job = cli.document("job", "create", "nobody.runs", "--run-at", "in 1h")
    moved = cli.document("job", "reschedule", str(job["id"]), "--run-at", "2099-01-01T09:00", "--tz", "UTC")
    assert datetime.fromisoformat(moved["run_at"]) == datetime(2099, 1, 1, 9, tzinfo=UTC)
    assert cli.run("job", "update", str(job["id"])).exit_code == 2


def test_the_past_of_a_job_is_filled(cli: CommandLine) -> None:
    job = str(cli.document("job", "create", "nobody.runs", "--cron", "0 * * * *", "--overlap", "allow")["id"])
    start = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    assert "3 scheduled times" in cli.text("backfill", "preview", job, "--start", start)
    made = cli.document("backfill", "create", job, "--start", start, "--interval", "100ms", "--priority", "2")
    number = str(made["id"])
    until(lambda: cli.document("backfill", "get", number)["state"] == "DONE", "the backfill is done")
    shown = cli.document("backfill", "get", number)
    assert (shown["total"], shown["fired"], shown["passed_over"]) == (3, 3, 0)
    assert [one["id"] for one in cli.document("backfill", "list", job)["backfills"]] == [made["id"]]
    assert "DONE" in cli.text("backfill", "cancel", number)
    code, error = cli.failure("backfill", "get", "99")
    assert (code, error["reason"]) == (3, "BACKFILL_NOT_FOUND")


def test_an_execution_that_runs_is_cancelled_with_what_it_started(cli: CommandLine, tmp_path: Path) -> None:
    payload = json.dumps({"command": f"echo $$ > {tmp_path}/pid; sleep 60"})
    job = cli.document("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", payload)
    number = until(lambda: cli.document("job", "get", str(job["id"]))["last_execution_id"], "it has fired")
    shown = ("execution", "get", str(number))
    until(lambda: cli.document(*shown)["state"] == "RUNNING", "it runs")
    asked = cli.document("execution", "cancel", str(number))
    assert (asked["state"], asked["cancel_requested"]) in (("RUNNING", True), ("CANCELLED", True))
    until(lambda: cli.document(*shown)["state"] == "CANCELLED", "it is cancelled")
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), "its process is gone")
    code, error = cli.failure("job", "cancel", str(job["id"]))
    assert (code, error["reason"]) == (4, "JOB_FINISHED")
