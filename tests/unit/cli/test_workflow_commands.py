"""Workflows from the command line, against a real node."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import SHELL_QUEUE, CommandLine

pytestmark = pytest.mark.cluster


def shell(command: str, **fields: Any) -> dict[str, Any]:
    return {"handler": "shell.run", "queue": SHELL_QUEUE, "payload": {"command": command}, **fields}


def write(folder: Path, *nodes: dict[str, Any]) -> str:
    path = folder / "workflow.json"
    path.write_text(json.dumps({"nodes": nodes}))
    return str(path)


def test_a_workflow_is_created_from_a_file_and_shown(cli: CommandLine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = write(
        tmp_path,
        {"name": "first", "job": shell(f"echo 1 >> {log}", run_at="now")},
        {"name": "second", "depends_on": ["first"], "job": shell(f"echo 2 >> {log}")},
        {"name": "last", "depends_on": ["second", "first"], "rule": "all_done", "job": shell(f"echo 3 >> {log}")},
    )
    created = cli.document("workflow", "create", file, "--request-id", "etl-1")
    assert list(created["job_ids"]) == ["first", "second", "last"]
    assert cli.document("workflow", "create", file, "--request-id", "etl-1") == {**created, "existed": True}
    cli.wait_for_state(created["job_ids"]["last"], "SUCCEEDED")
    assert log.read_text().split() == ["1", "2", "3"]
    shown = cli.document("workflow", "get", str(created["id"]))
    assert [(node["name"], node["job"]["state"]) for node in shown["nodes"]] == [
        ("first", "SUCCEEDED"),
        ("second", "SUCCEEDED"),
        ("last", "SUCCEEDED"),
    ]
    assert [node["depends_on"] for node in shown["nodes"]] == [[], ["first"], ["second", "first"]]
    text = cli.text("workflow", "get", str(created["id"]))
    assert "3 nodes: 3 SUCCEEDED" in text
    assert "second, first" in text
    last = cli.text("job", "get", str(created["job_ids"]["last"]))
    assert "after 2 jobs" in last
    assert "ALL_DONE" in last


def test_a_workflow_from_a_pipe_is_refused_with_the_path_of_its_cycle(cli: CommandLine) -> None:
    nodes = [
        {"name": "a", "depends_on": ["b"], "job": {"handler": "h"}},
        {"name": "b", "depends_on": ["a"], "job": {"handler": "h"}},
    ]
    code, error = cli.failure("workflow", "create", "-", given=json.dumps({"nodes": nodes}).encode())
    assert (code, error["reason"], error["field"]) == (2, "DEPENDENCY_CYCLE", "nodes[0].depends_on")
    assert "a -> b -> a is a cycle" in error["message"]


def test_a_file_that_cannot_be_used_is_told_why(cli: CommandLine, tmp_path: Path) -> None:
    result = cli.run("workflow", "create", write(tmp_path, {"name": "a", "job": {"handler": "h", "qeue": "x"}}))
    assert result.exit_code == 2
    assert "nodes[0].job.qeue: is not known" in result.output
    assert cli.run("workflow", "create", str(tmp_path / "none.json")).exit_code == 2
    code, error = cli.failure("workflow", "get", "999999")
    assert (code, error["reason"]) == (3, "WORKFLOW_NOT_FOUND")


def test_a_job_depends_on_others_and_results_are_printed(cli: CommandLine) -> None:
    first = cli.document("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", '{"command": "true"}')
    later = cli.document(
        *("job", "create", "shell.run", "--queue", SHELL_QUEUE, "--payload", '{"command": "true"}'),
        *("--depends-on", str(first["id"]), "--rule", "none_failed"),
    )
    assert (later["depends_on"], later["rule"]) == ([first["id"]], "NONE_FAILED")
    done = cli.wait_for_state(later["id"], "SUCCEEDED")
    execution = str(done["last_execution_id"])
    assert cli.document("execution", "result", execution) == {
        "execution_id": done["last_execution_id"],
        "result": "",
        "result_base64": "",
    }
    assert cli.text("execution", "result", execution) == ""
    waiting = cli.document("job", "create", "h", "--run-at", "in 1h")
    blocked = cli.document("job", "create", "h", "--depends-on", str(waiting["id"]))
    assert blocked["state"] == "BLOCKED"
    assert cli.run("job", "create", "h", "--run-at", "now", "--depends-on", "1").exit_code == 2
    assert str(blocked["id"]) in cli.text("job", "list", "--state", "blocked")
