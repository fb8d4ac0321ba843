"""Limits from the command line, against a real node with a real worker."""

import pytest

from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine, until

pytestmark = pytest.mark.cluster


def test_a_limit_is_put_listed_and_deleted(cli: CommandLine) -> None:
    stored = cli.document(
        *("limit", "put", "tenant", "acme", "--concurrency", "3", "--rate", "2.5", "--burst", "9", "--weight", "4")
    )
    expected = {"scope": "TENANT", "name": "acme", "concurrency": 3, "rate_per_s": 2.5, "burst": 9, "weight": 4}
    assert stored == {**expected, "leased": 0}
    cli.text("limit", "put", "queue", "slow", "--concurrency", "1")
    listed = cli.document("limit", "list")
    assert stored in listed["limits"]
    assert listed["more"] is False
    assert "acme" in cli.text("limit", "list")
    for _ in range(2):
        assert "has no limit" in cli.text("limit", "delete", "tenant", "acme")
    assert all(limit["name"] != "acme" for limit in cli.document("limit", "list")["limits"])
    cli.document("limit", "delete", "queue", "slow")


def test_a_limit_that_makes_no_sense_is_a_usage_error(cli: CommandLine) -> None:
    code, error = cli.failure("limit", "put", "queue", "slow")
    assert (code, error["reason"], error["field"]) == (2, "INVALID_FIELD", "limit")


def test_a_job_is_registered_with_a_concurrency_key(cli: CommandLine) -> None:
    job = cli.document(
        *("job", "create", "x", "--run-at", "in 1h", "--concurrency-key", "db", "--concurrency-limit", "2")
    )
    assert (job["concurrency_key"], job["concurrency_limit"]) == ("db", 2)
    assert "concurrency key" in cli.text("job", "get", str(job["id"]))


def test_what_a_rate_holds_back_runs_when_its_time_comes(cli: CommandLine) -> None:
    """The worker is idle all the while: the node itself has to ask again when the next may go."""
    cli.document("limit", "put", "tenant", "slowly", "--rate", "4", "--burst", "1")
    jobs = [
        cli.document(
            *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--tenant", "slowly"),
            *("--payload", '{"command": "true"}'),
        )["id"]
        for _ in range(3)
    ]
    for job in jobs:
        cli.wait_for_state(job, "SUCCEEDED")
    cli.document("limit", "delete", "tenant", "slowly")


def test_one_that_waits_for_room_runs_when_the_other_ends(cli: CommandLine) -> None:
    cli.document("limit", "put", "handler", "shell.run", "--concurrency", "1")
    jobs = [
        cli.document(
            *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", f'{{"command": "sleep {seconds}"}}')
        )["id"]
        for seconds in (0.5, 0)
    ]
    limits = until(
        lambda: [one for one in cli.document("limit", "list")["limits"] if one["leased"]], "one of them is leased"
    )
    assert [one["leased"] for one in limits] == [1]
    for job in jobs:
        cli.wait_for_state(job, "SUCCEEDED")
    cli.document("limit", "delete", "handler", "shell.run")
