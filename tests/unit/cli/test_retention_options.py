"""What is kept of a job from the command line, and what is kept in all."""

from tests.unit.cli.conftest import CommandLine, until


def test_a_job_says_what_is_kept_of_it(cli: CommandLine) -> None:
    job = cli.document("job", "create", "x", "--run-at", "in 1h", "--keep-for", "2d", "--keep-last", "500")
    assert job["retention"] == {"max_age_ms": 172_800_000, "max_executions": 500}
    shown = cli.text("job", "get", str(job["id"]))
    assert "kept for" in shown
    assert "500" in shown
    plain = cli.document("job", "create", "x", "--run-at", "in 1h")
    assert plain["retention"] == {"max_age_ms": None, "max_executions": 0}
    code, error = cli.failure("job", "create", "x", "--run-at", "in 1h", "--keep-last", "1000000")
    assert (code, error["field"]) == (2, "job.retention.max_executions")


def test_what_is_kept_of_a_job_can_be_changed_and_taken_back(cli: CommandLine) -> None:
    job = cli.document("job", "create", "x", "--run-at", "in 1h", "--keep-for", "2d")
    number = str(job["id"])
    changed = cli.document("job", "update", number, "--keep-last", "500")
    assert changed["retention"] == {"max_age_ms": 172_800_000, "max_executions": 500}
    assert cli.document("job", "update", number, "--keep-for", "1h")["retention"]["max_age_ms"] == 3_600_000
    assert cli.document("job", "update", number, "--keep-last", "0")["retention"]["max_executions"] == 0


def test_the_status_says_what_is_kept(cli: CommandLine) -> None:
    cli.text("job", "create", "x", "--every", "1h", "--request-id", "kept-once")
    until(lambda: cli.document("cluster", "status")["cluster"]["kept"]["sessions"], "the worker's session")
    cluster = cli.document("cluster", "status")["cluster"]
    assert cluster["kept"]["request_ids"] >= 1
    assert cluster["alarms"] == []
    assert "request ids" in cli.text("cluster", "status")
