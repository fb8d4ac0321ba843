"""The options of `job create` and `job update`, as far as they are judged without a cluster."""

import dataclasses

import click
import pytest
from click.testing import CliRunner

from raftsched.cli.job_commands import create
from raftsched.cli.main import main
from raftsched.cli.update_command import FIELD_OF_OPTION, update
from raftsched.client import JobSpec

OF_UPDATE_ALONE = ("job_id", "etag", "no_labels")
OF_CONNECTION = ("nodes", "timeout_ms", "as_json", "tls_authority", "tls_certificate", "tls_key")


def refusal(*arguments: str) -> str:
    """What a command says that is refused before any node is asked."""
    result = CliRunner().invoke(main, arguments, env={"RAFTSCHED_NODES": "127.0.0.1:1"})
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_every_option_of_update_changes_a_field() -> None:
    fields = {field.name for field in dataclasses.fields(JobSpec)}
    shared = {param.name for param in create.params} & {param.name for param in update.params} - {*OF_CONNECTION}
    assert {"keep_for", "keep_last", "max_attempts", "cron", "priority"} <= shared
    for name in shared:
        assert name is not None
        assert FIELD_OF_OPTION.get(name, name) in fields, name
    assert set(FIELD_OF_OPTION) <= shared, "no option of that name"


def test_help_of_update_tells_no_default_of_what_stays_as_it_is() -> None:
    told = {option.name for option in update.params if isinstance(option, click.Option) and "[" in (option.help or "")}
    assert told - {*OF_CONNECTION} == {"gap", "fold", "tz", "start"}, "of a schedule, which is replaced as a whole"
    priority = next(option for option in update.params if option.name == "priority")
    assert isinstance(priority, click.Option)
    assert not priority.show_default
    created = next(option for option in create.params if option.name == "max_attempts")
    assert isinstance(created, click.Option)
    assert "[default: 3]" in (created.help or "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "create", "x", "--max-attempts", "0"),
        ("job", "create", "x", "--max-attempts", "-1"),
        ("job", "create", "x", "--every", "1h", "--max-runs", "-1"),
        ("limit", "put", "queue", "q", "--rate", "5", "--burst", "0"),
        ("limit", "put", "queue", "q", "--concurrency", "0"),
        ("limit", "put", "queue", "q", "--rate", "0"),
        ("limit", "put", "tenant", "t", "--weight", "101"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(arguments: tuple[str, ...]) -> None:
    assert "is not in the range" in refusal(*arguments)


@pytest.mark.parametrize(
    "arguments", [("job", "create", "x", "--depends-on", "foo"), ("execution", "get", "foo"), ("job", "get", "foo")]
)
def test_what_is_no_number_is_called_that(arguments: tuple[str, ...]) -> None:
    assert "'foo' is not a valid number" in refusal(*arguments)


@pytest.mark.parametrize(
    "times",
    [
        ("--run-at", "in 5m"),
        ("--every", "1h", "--start", "in 5m"),
        ("--every", "1h", "--start", "now"),
        ("--cron", "0 9 * * *", "--end", "in 5d"),
    ],
)
def test_a_time_that_counts_from_now_does_not_go_with_a_request_id(times: tuple[str, ...]) -> None:
    said = refusal("job", "create", "x", *times, "--request-id", "K")
    assert f"{times[-2]} '{times[-1]}' is another time at each repetition" in said
