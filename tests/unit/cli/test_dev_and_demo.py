"""`raftsched demo` and `raftsched dev` as people start them: whole clusters of processes on this machine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.main import main
from raftsched.cli.processes import free_ports
from tests.unit.cli.conftest import CommandLine, until

STOP_WITHIN_S = 60.0
DEMO_WITHIN_S = 150.0


@pytest.mark.cluster
def test_the_demo_kills_the_leader_and_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "raftsched.cli.main", "demo", "--data", str(tmp_path / "demo")]
    # What the user has set for other clusters must not reach this one.
    environment = {**os.environ, "RAFTSCHED_NODES": "127.0.0.1:1", "RAFTSCHED_LISTEN": "127.0.0.1:1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEMO_WITHIN_S, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    story = (
        "three nodes are up",
        "KILLED the leader",
        "leads after",
        "started again",
        "has caught up",
        "Nothing was lost.",
    )
    places = [done.stdout.find(part) for part in story]
    assert -1 not in places, done.stdout
    assert places == sorted(places)
    assert "FAILED" not in done.stdout


def test_the_demo_wants_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    result = CliRunner().invoke(main, ["demo", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "the demo starts from nothing" in result.stderr


class Dev:
    """`raftsched dev` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "dev.out"
        self.port = free_base_port()
        command = [sys.executable, "-u", "-m", "raftsched.cli.main", "dev", "--data", str(folder / "data"), "--shell"]
        command += ["--base-port", str(self.port)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        until(lambda: self.process.poll() is not None or "Ctrl-C ends all" in self.text, "the cluster is up")
        assert self.process.poll() is None, self.text

    @property
    def text(self) -> str:
        return self.output.read_text()

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in re.findall(r"process (\d+)", self.text)]

    def end(self) -> int:
        return self.process.wait(STOP_WITHIN_S)


def free_base_port() -> int:
    """The first of three ports in a row that are free."""
    for _ in range(100):
        (port,) = free_ports(1)
        if port < 65_000 and not {port + 1, port + 2} & used_ports():
            return port
    raise AssertionError("no three free ports in a row")


def used_ports() -> set[int]:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(line.split()[1].rpartition(":")[2], 16) for line in lines}


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    started = Dev(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.send_signal(signal.SIGINT)
        started.process.send_signal(signal.SIGINT)
        started.end()


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.cluster
def test_dev_runs_jobs_and_ends_everything_on_ctrl_c(dev: Dev) -> None:
    cli = CommandLine(f"127.0.0.1:{dev.port + 1}")
    status = cli.document("cluster", "status")
    assert [node["status"]["health"] for node in status["nodes"]] == ["SERVING"] * 3
    job = cli.document("job", "create", "shell.run", "--queue", "shell", "--payload", json.dumps({"command": "true"}))
    cli.wait_for_state(job["id"], "SUCCEEDED")
    assert len(dev.pids) == 4
    dev.process.send_signal(signal.SIGINT)
    assert dev.end() == 0, dev.text
    assert gone(dev.pids)


@pytest.mark.cluster
def test_dev_ends_with_1_when_a_node_dies_and_names_it(dev: Dev) -> None:
    os.kill(dev.pids[1], signal.SIGKILL)
    assert dev.end() == 1
    assert "node 2 ended by itself (killed by SIGKILL)" in dev.text
    assert gone(dev.pids)


def test_dev_names_a_port_that_is_taken_before_it_starts_anything(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "raftsched.cli.main", "dev", "--data", str(tmp_path), "--nodes", "1"]
        command += ["--base-port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STOP_WITHIN_S, check=False)
    assert done.returncode == 1
    assert f"node 1 cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--base-port" in done.stderr
    assert not (tmp_path / "logs").exists()
