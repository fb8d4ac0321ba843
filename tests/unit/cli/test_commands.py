"""The commands against a real node: what they register and show, for people and programs, and how they fail."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.main import main
from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine, until

pytestmark = pytest.mark.cluster


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_job_is_created_with_all_its_fields_and_shown_again(cli: CommandLine) -> None:
    created = cli.document(
        *("job", "create", "reports.nightly", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--name", "all-fields"),
        *(
            "--namespace",
            "billing",
            "--queue",
            "slow",
            "--priority",
            "7",
            "--tenant",
            "t",
            "--label",
            "a=b",
            "--label",
            "c=d=e",
        ),
        *("--payload", '{"x": 1}', "--content-type", "application/json", "--jitter", "10s", "--max-attempts", "5"),
        *(
            "--initial-backoff",
            "250ms",
            "--max-backoff",
            "1h30m",
            "--backoff-multiplier",
            "1.5",
            "--backoff-jitter",
            "0.5",
        ),
        *("--run-timeout", "2m", "--overlap", "allow", "--catch-up", "all"),
    )
    shown = cli.document("job", "get", "--name", "all-fields", "--namespace", "billing")
    assert {**created, "existed": False} == shown
    expected = {
        "handler": "reports.nightly",
        "namespace": "billing",
        "name": "all-fields",
        "queue": "slow",
        "priority": 7,
        "tenant": "t",
        "labels": {"a": "b", "c": "d=e"},
        "payload": '{"x": 1}',
        "content_type": "application/json",
        "cron": "0 2 * * *",
        "time_zone": "Europe/Berlin",
        "run_at": None,
        "every_ms": None,
        "jitter_ms": 10_000,
        "retry": {
            "max_attempts": 5,
            "initial_backoff_ms": 250,
            "max_backoff_ms": 5_400_000,
            "multiplier": 1.5,
            "jitter": 0.5,
            "backoff": "EXPONENTIAL",
            "max_elapsed_ms": None,
            "non_retryable_errors": [],
        },
        "run_timeout_ms": 120_000,
        "overlap": "ALLOW",
        "catch_up": "ALL",
        "state": "SCHEDULED",
    }
    assert {key: shown[key] for key in expected} == expected
    assert moment(shown["next_run_time"]) > datetime.now(UTC)


def test_without_a_schedule_a_job_runs_once_now(cli: CommandLine) -> None:
    job = cli.document("job", "create", "nobody.runs.this", "--queue", "idle")
    assert abs(moment(job["run_at"]) - datetime.now(UTC)) < timedelta(seconds=30)


def test_an_interval_starts_when_told(cli: CommandLine) -> None:
    job = cli.document("job", "create", "x", "--every", "1h", "--start", "2099-01-01T00:00", "--tz", "Asia/Tokyo")
    assert (job["every_ms"], job["next_run_time"]) == (3_600_000, "2098-12-31T15:00:00.000Z")


def test_the_payload_comes_from_a_file_or_standard_input(cli: CommandLine, tmp_path: Path) -> None:
    payload = bytes(range(256))
    file = tmp_path / "payload"
    file.write_bytes(payload)
    from_file = cli.document("job", "create", "x", "--run-at", "in 1h", "--payload-file", str(file))
    from_input = cli.document("job", "create", "x", "--run-at", "in 1h", "--payload-file", "-", given=payload)
    assert from_file["payload_base64"] == from_input["payload_base64"]
    assert from_file["payload"] is None


@pytest.mark.parametrize("schedule", [(), ("--run-at", "now"), ("--run-at", "2099-01-01T00:00:00Z"), ("--every", "1h")])
def test_the_same_request_id_registers_one_job(cli: CommandLine, schedule: tuple[str, ...]) -> None:
    arguments = ("job", "create", "x", *schedule, "--request-id", "once-only" + "".join(schedule))
    first, second = cli.document(*arguments), cli.document(*arguments)
    assert (first["existed"], second["existed"], first["id"]) == (False, True, second["id"])
    code, error = cli.failure(*arguments, "--priority", "3")
    assert (code, error["reason"]) == (4, "IDEMPOTENCY_CONFLICT")


def test_a_list_is_filtered_and_says_when_there_is_more(cli: CommandLine) -> None:
    for number in range(3):
        cli.text("job", "create", "listed", "--run-at", "in 1h", "--label", f"number={number}")
    assert len(cli.document("job", "list", "--handler", "listed")["jobs"]) == 3
    assert len(cli.document("job", "list", "--label", "number=1")["jobs"]) == 1
    limited = cli.document("job", "list", "--handler", "listed", "--limit", "2")
    assert (len(limited["jobs"]), limited["more"]) == (2, True)
    table = cli.text("job", "list", "--handler", "listed", "--limit", "2")
    assert "listed" in table
    assert "there are more than 2" in table
    assert "no job matches" in cli.text("job", "list", "--handler", "listed", "--label", "number=9")


def test_cancel_is_repeatable_and_frees_the_name(cli: CommandLine) -> None:
    first = cli.document("job", "create", "x", "--run-at", "in 1h", "--name", "cancel-me")
    code, error = cli.failure("job", "create", "x", "--run-at", "in 2h", "--name", "cancel-me")
    assert (code, error["reason"], error["field"]) == (4, "NAME_TAKEN", "job.name")
    assert cli.document("job", "cancel", "--name", "cancel-me")["state"] == "CANCELLED"
    assert cli.document("job", "cancel", str(first["id"]))["state"] == "CANCELLED"
    assert cli.document("job", "create", "x", "--run-at", "in 2h", "--name", "cancel-me")["id"] != first["id"]


def test_a_running_job_is_not_cancelled(cli: CommandLine, tmp_path: Path) -> None:
    flag = tmp_path / "go-on"
    payload = json.dumps({"command": f"until [ -e {flag} ]; do sleep 0.1; done"})
    job = cli.document("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", payload)

    def running() -> bool:
        executions = cli.document("job", "history", str(job["id"]))["executions"]
        return bool(executions) and executions[0]["state"] == "RUNNING"

    until(running, "the command runs")
    code, error = cli.failure("job", "cancel", str(job["id"]))
    assert (code, error["reason"]) == (4, "JOB_RUNNING")
    flag.touch()
    cli.wait_for_state(job["id"], "SUCCEEDED")
    code, error = cli.failure("job", "cancel", str(job["id"]))
    assert (code, error["reason"]) == (4, "JOB_FINISHED")


def test_a_run_timeout_kills_the_command(cli: CommandLine, tmp_path: Path) -> None:
    payload = json.dumps({"command": f"sleep 60 & echo $! > {tmp_path}/pid; wait"})
    job = cli.document(
        *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", payload),
        *("--run-timeout", "1s", "--max-attempts", "1"),
    )
    cli.wait_for_state(job["id"], "DEAD_LETTER")
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), "the command has ended")


def test_a_failure_reaches_history_and_dead_letters_and_is_replayed(cli: CommandLine, tmp_path: Path) -> None:
    flag = tmp_path / "works-now"
    payload = json.dumps({"command": f"echo looking; [ -e {flag} ] || {{ echo no flag >&2; exit 9; }}"})
    job = cli.document(
        *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--namespace", "letters", "--payload", payload),
        *("--max-attempts", "2", "--initial-backoff", "100ms"),
    )
    cli.wait_for_state(job["id"], "DEAD_LETTER")
    (execution,) = cli.document("job", "history", str(job["id"]))["executions"]
    assert (execution["state"], execution["attempt"], execution["worker"]) == ("DEAD_LETTER", 2, "shell")
    assert execution["error"] == "exit status 9, output:\nlooking\nno flag"
    (letter,) = cli.document("dead-letter", "list", "--namespace", "letters")["dead_letters"]
    assert letter["execution"]["id"] == execution["id"]
    assert "no flag" in cli.text("dead-letter", "list", "--namespace", "letters")

    flag.touch()
    replayed = cli.document("dead-letter", "replay", str(execution["id"]))
    assert replayed == cli.document("dead-letter", "replay", str(execution["id"]))
    cli.wait_for_state(job["id"], "SUCCEEDED")
    assert cli.document("dead-letter", "list", "--namespace", "letters")["dead_letters"] == []
    assert cli.document("dead-letter", "replay", "--all", "--namespace", "letters") == {"replayed": []}
    newest = cli.document("job", "history", str(job["id"]))["executions"][0]
    assert newest["id"] == replayed["replayed"][0]["replayed_as"]
    code, error = cli.failure("dead-letter", "replay", str(newest["id"]))
    assert (code, error["reason"]) == (4, "NOT_DEAD_LETTER")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("", "not JSON"),
        ("[]", "JSON object"),
        ("{}", "command must be a string"),
        ('{"command": "true", "shell": "zsh"}', "unknown field 'shell'"),
        ('{"command": "true", "env": {"A": 1}}', "env must map"),
        ('{"command": "true", "user": "no-such-user"}', "no-such-user"),
    ],
)
def test_a_payload_the_shell_worker_cannot_run_is_dead_at_once(cli: CommandLine, payload: str, reason: str) -> None:
    job = cli.document("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", payload)
    cli.wait_for_state(job["id"], "DEAD_LETTER")
    (execution,) = cli.document("job", "history", str(job["id"]))["executions"]
    assert execution["attempt"] == 1
    assert reason in execution["error"]


def test_cluster_status_shows_nodes_queues_and_workers(cli: CommandLine) -> None:
    status = cli.document("cluster", "status")
    assert (status["cluster"]["leader"], status["cluster"]["has_quorum"]) == (1, True)
    (node,) = status["nodes"]
    assert (node["id"], node["address"], node["error"], node["status"]["health"]) == (1, cli.nodes, "", "SERVING")
    assert {"name": SHELL_QUEUE, "ready": 0, "workers": 1} in status["cluster"]["queues"]
    table = cli.text("cluster", "status")
    assert "leader" in table
    assert "SERVING" in table


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("job", "create", "two words"), "job.handler"),
        (("job", "create", "x", "--cron", "0 0 31 2 *"), "job.cron.expression"),
        (("job", "create", "x", "--cron", "* * *"), "job.cron.expression"),
        (("job", "create", "x", "--queue", "Not Allowed"), "job.queue"),
        (("job", "create", "x", "--every", "1ms"), "job.interval.every"),
        (("job", "create", "x", "--backoff-multiplier", "NaN"), "job.retry.multiplier"),
        (("job", "create", "x", "--backoff-jitter", "-1"), "job.retry.jitter"),
        (("job", "create", "x", "--max-attempts", "20000"), "job.retry.max_attempts"),
    ],
)
def test_what_the_cluster_refuses_ends_with_2_and_names_the_field(
    cli: CommandLine, arguments: tuple[str, ...], field: str
) -> None:
    code, error = cli.failure(*arguments)
    assert (code, error["reason"], error["field"]) == (2, "INVALID_FIELD", field)


def test_a_payload_that_is_too_large_is_refused(cli: CommandLine) -> None:
    code, error = cli.failure("job", "create", "x", "--payload-file", "-", given=b"x" * (256 * 1024 + 1))
    assert (code, error["field"]) == (2, "job.payload")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("job", "get", "999999"), "JOB_NOT_FOUND"),
        (("job", "history", "999999"), "JOB_NOT_FOUND"),
        (("job", "cancel", "999999"), "JOB_NOT_FOUND"),
        (("dead-letter", "replay", "999999"), "EXECUTION_NOT_FOUND"),
        (("job", "list", "--handler", "never.registered"), "UNKNOWN_NAME"),
        (("job", "list", "--queue", "never-used"), "UNKNOWN_NAME"),
    ],
)
def test_what_is_not_there_ends_with_3(cli: CommandLine, arguments: tuple[str, ...], reason: str) -> None:
    code, error = cli.failure(*arguments)
    assert (code, error["reason"]) == (3, reason)
    assert error["advice"]


def test_an_unknown_name_ends_with_3(cli: CommandLine) -> None:
    code, _ = cli.failure("job", "get", "--name", "never-used")
    assert code == 3


def test_an_error_for_people_says_what_to_do(cli: CommandLine) -> None:
    result = cli.run("job", "get", "999999")
    assert result.exit_code == 3
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert "  reason: JOB_NOT_FOUND" in lines
    assert "  what to do: see the ids with: raftsched job list" in lines


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("job", "create"), "Missing argument 'HANDLER'"),
        (("job", "create", "x", "--cron", "* * * * *", "--every", "1m"), "exclude each other"),
        (("job", "create", "x", "--start", "now"), "--start belongs to --cron or --every"),
        (("job", "create", "x", "--run-at", "2030-01-01T00:00"), "no UTC offset"),
        (("job", "create", "x", "--run-at", "soon"), "is not a time"),
        (("job", "create", "x", "--jitter", "10"), "did you mean 10s"),
        (("job", "create", "x", "--tz", "Mars/Olympus"), "is not a time zone"),
        (("job", "create", "x", "--label", "novalue"), "is not KEY=VALUE"),
        (("job", "create", "x", "--priority", "11"), "is not in the range"),
        (("job", "create", "x", "--payload", "a", "--payload-file", "b"), "exclude each other"),
        (("job", "create", "x", "--payload-file", "/no/such/file"), "No such file"),
        (("job", "create", "x", "--request-id", ""), "must not be empty"),
        (("job", "create", "x", "--run-at", "in 1m", "--request-id", "k"), "write the time out"),
        (("job", "create", "x", "--name", ""), "must not be empty"),
        (("job", "get", "--name", ""), "must not be empty"),
        (("job", "get"), "either the job's id or --name"),
        (("job", "get", "1", "--name", "x"), "either the job's id or --name"),
        (("job", "get", "x"), "is not a valid number"),
        (("dead-letter", "replay"), "give the executions' ids, or --all"),
        (("--node", "nowhere", "job", "list"), "is not HOST:PORT"),
        (("--tls-key", "k", "job", "list"), "TLS needs all of"),
        (("worker",), "either MODULE:APP or --shell"),
        (("worker", "x:y", "--shell"), "either MODULE:APP or --shell"),
        (("worker", "x"), "is not MODULE:APP"),
        (("worker", "no.such.module:app"), "there is no module no"),
        (("worker", "json:dumps"), "is not a raftsched.client.Worker: it is a function"),
        (("worker", "json:app"), "it has nothing of that name"),
    ],
)
def test_wrong_usage_ends_with_2_before_any_cluster_is_asked(arguments: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(main, arguments, env={"RAFTSCHED_NODES": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    assert reason in result.output


def test_a_create_without_an_answer_tells_how_to_repeat_it() -> None:
    code, error = CommandLine("127.0.0.1:1").failure("--timeout", "300ms", "job", "create", "x", "--run-at", "in 1m")
    assert code == 5
    assert re.search(r"repeat it with --request-id \S+ --run-at \d{4}-\S+: it will not be done twice", error["advice"])


def test_without_a_cluster_the_exit_code_is_5() -> None:
    code, error = CommandLine("127.0.0.1:1").failure("--timeout", "300ms", "job", "list")
    assert (code, error["reason"]) == (5, "UNAVAILABLE")
    assert "127.0.0.1:1" in error["message"]
    assert "raftsched dev" in error["advice"]


def test_options_before_and_after_the_command_reach_the_cluster(cli: CommandLine) -> None:
    elsewhere = CommandLine("127.0.0.1:1")
    assert "jobs" in elsewhere.document("--node", cli.nodes, "job", "list")
    assert "jobs" in json.loads(elsewhere.text("job", "list", "--node", cli.nodes, "--json"))


@pytest.mark.parametrize(
    "words",
    [
        ("node",),
        ("dev",),
        ("demo",),
        ("worker",),
        *(("job", name) for name in ("create", "list", "get", "cancel", "history")),
        ("execution", "get"),
        ("dead-letter", "list"),
        ("dead-letter", "replay"),
        ("cluster", "status"),
        ("crontab", "import"),
    ],
)
def test_every_command_explains_itself_with_examples_and_exit_codes(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0
    assert f"raftsched {' '.join(words)}" in result.output
    assert "exit code" in result.output.lower()
