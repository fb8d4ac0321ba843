"""Retry policies and attempts from the command line."""

from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine, until


def test_a_retry_policy_is_given_and_shown(cli: CommandLine) -> None:
    job = cli.document(
        *("job", "create", "x", "--run-at", "in 1h", "--backoff", "linear", "--max-elapsed", "1h30m"),
        *("--no-retry-on", "app.Declined", "--no-retry-on", "KeyError"),
    )
    assert (job["retry"]["backoff"], job["retry"]["max_elapsed_ms"]) == ("LINEAR", 5_400_000)
    assert job["retry"]["non_retryable_errors"] == ["KeyError", "app.Declined"]
    shown = cli.text("job", "get", str(job["id"]))
    assert "KeyError, app.Declined" in shown
    assert "LINEAR" in shown


def test_an_execution_is_shown_with_its_attempts(cli: CommandLine) -> None:
    job = cli.document(
        *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", '{"command": "exit 7"}'),
        *("--max-attempts", "2", "--initial-backoff", "50ms", "--backoff", "fixed"),
    )
    cli.wait_for_state(job["id"], "DEAD_LETTER")
    execution = cli.document("job", "get", str(job["id"]))["last_execution_id"]
    found = until(lambda: cli.document("execution", "get", str(execution)), "the execution")
    assert [(one["number"], one["outcome"], one["worker"]) for one in found["attempts"]] == [
        (1, "FAILED", "shell"),
        (2, "FAILED", "shell"),
    ]
    assert "exit status 7" in found["attempts"][0]["error"]
    table = cli.text("execution", "get", str(execution))
    assert "attempts" in table
    assert "exit status 7" in table
    code, error = cli.failure("execution", "get", "99999999")
    assert (code, error["reason"]) == (3, "EXECUTION_NOT_FOUND")
