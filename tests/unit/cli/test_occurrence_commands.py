"""Overlap, catch-up and the occurrence record from the command line."""

from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine, until


def test_what_decides_which_occurrences_run_is_given_and_shown(cli: CommandLine) -> None:
    job = cli.document(
        *("job", "create", "x", "--every", "1h", "--overlap", "queue", "--overlap-limit", "7"),
        *("--catch-up", "all", "--catch-up-window", "2h", "--catch-up-limit", "3", "--catch-up-interval", "5s"),
        *("--max-runs", "9", "--start-deadline", "10m"),
    )
    assert (job["overlap"], job["overlap_limit"], job["catch_up"]) == ("QUEUE", 7, "ALL")
    assert (job["catch_up_window_ms"], job["catch_up_limit"], job["catch_up_interval_ms"]) == (7_200_000, 3, 5_000)
    assert (job["max_runs"], job["start_deadline_ms"]) == (9, 600_000)
    shown = cli.text("job", "get", str(job["id"]))
    for fact in (
        "overlap limit",
        "catch-up window",
        "catch-up limit",
        "catch-up interval",
        "max runs",
        "start deadline",
    ):
        assert fact in shown
    code, error = cli.failure("job", "create", "x", "--every", "1h", "--catch-up-limit", "3")
    assert (code, error["field"]) == (2, "job.catch_up_limit")


def test_the_occurrence_record_of_a_job_is_shown(cli: CommandLine) -> None:
    job = cli.document(
        *("job", "create", "shell.run", "--every", "1s", "--queue", SHELL_QUEUE, "--payload", '{"command": "true"}'),
        *("--max-runs", "2"),
    )
    cli.wait_for_state(job["id"], "COMPLETED")
    found = until(lambda: cli.document("job", "occurrences", str(job["id"])), "the record")
    ran = [one for one in found["occurrences"] if one["execution"] is not None]
    assert len(ran) == 2
    assert [one["scheduled_for"] for one in ran] == sorted((one["scheduled_for"] for one in ran), reverse=True)
    assert "skipped" in (table := cli.text("job", "occurrences", str(job["id"]))) or "SCHEDULE" in table
    end = ran[0]["scheduled_for"]
    earlier = cli.document("job", "occurrences", str(job["id"]), "--end", end)
    assert [one["scheduled_for"] for one in earlier["occurrences"] if one["execution"]] == [ran[1]["scheduled_for"]]
