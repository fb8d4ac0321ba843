"""A real node with a real shell worker, and the command line against it."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftsched.cli.local_cluster import LocalCluster
from raftsched.cli.main import main
from raftsched.cli.processes import free_ports

DEADLINE_S = 60.0
SHELL_QUEUE = "shell"


@dataclass(frozen=True)
class CommandLine:
    """Runs `raftsched` in this process against one cluster."""

    nodes: str

    def run(self, *arguments: str, given: bytes | None = None) -> Result:
        return CliRunner().invoke(main, arguments, env={"RAFTSCHED_NODES": self.nodes}, input=given)

    def text(self, *arguments: str, given: bytes | None = None) -> str:
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def document(self, *arguments: str, given: bytes | None = None) -> Any:
        """The JSON answer of a command that must succeed."""
        return json.loads(self.text("--json", *arguments, given=given))

    def failure(self, *arguments: str, given: bytes | None = None) -> tuple[int, dict[str, str]]:
        """Exit code and JSON error of a command that must fail; standard output must be empty."""
        result = self.run("--json", *arguments, given=given)
        assert result.exit_code != 0, result.output
        assert result.stdout == ""
        document = json.loads(result.stderr)
        assert document["exit_code"] == result.exit_code
        return result.exit_code, document["error"]

    def wait_for_state(self, job_id: int, state: str) -> Any:
        """The job, once it is in that state."""
        return until(
            lambda: (job := self.document("job", "get", str(job_id)))["state"] == state and job, f"job {job_id} {state}"
        )


def until(question: Callable[[], Any], what: str) -> Any:
    """Asks until the answer is true."""
    end_s = time.monotonic() + DEADLINE_S
    while not (answer := question()):
        assert time.monotonic() < end_s, f"not in time: {what}"
        time.sleep(0.05)
    return answer


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, free_ports(1), "cli-tests") as cluster:
        cluster.start_nodes()
        cluster.wait_for(cluster.serving, DEADLINE_S, "the start of the node")
        cluster.start_worker("shell worker", ["--shell", "--queue", SHELL_QUEUE, "--name", "shell"])
        yield CommandLine(cluster.addresses[1])
