"""Child processes of `dev` and `demo`: real nodes and workers, each with a log file, started and ended one by one."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class ProcessEnded(Exception):
    """A process that should be running has ended; the message names it, its status and its log."""


class Child:
    """One child process. Its output goes to `log_path`, appended over restarts.

    It gets a session of its own: Ctrl-C in the terminal reaches the parent only, which then ends the children in order.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], log_path: Path, environment: Mapping[str, str] | None = None
    ):
        self.name = name
        self.log_path = log_path
        self._command = [sys.executable, "-m", "raftsched.cli.main", *arguments]
        # What the user set for other clusters is not for this one.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
        # What handlers print should be in the log when someone looks.
        self._environment = {**inherited, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._killed = False

    def check(self) -> None:
        """Raises ProcessEnded if it has ended, unless `kill` did that."""
        status = self._running().poll()
        if status is not None and not self._killed:
            how = f"{self.name} ended by itself ({describe_status(status)})"
            raise ProcessEnded(f"{how}; the end of {self.log_path}:\n{self._log_tail()}")

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        self._killed = True
        self._running().kill()
        self._running().wait()

    def terminate(self) -> None:
        """SIGTERM; returns at once."""
        if self.alive:
            self._running().send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> int | None:
        """Its exit status; None when it still runs at `deadline` (time.monotonic)."""
        try:
            return self._running().wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def _log_tail(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - 2_000))
            return log.read().decode(errors="replace").strip()


def end_children(children: Sequence[Child], grace_s: float) -> list[str]:
    """SIGTERM to all, in order, SIGKILL to those left after `grace_s`; names what did not end well."""
    complaints = []
    deadline = time.monotonic() + grace_s
    for child in children:
        child.terminate()
    for child in children:
        status = child.wait(deadline)
        if status is None:
            child.kill()
            complaints.append(f"{child.name} did not drain within {grace_s:.0f} s and was killed; see {child.log_path}")
        elif status != 0:
            complaints.append(f"{child.name} ended with {describe_status(status)}; see {child.log_path}")
    return complaints


def describe_status(status: int) -> str:
    """A Popen return code in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_free(address: str) -> bool:
    """Whether a process could listen on that HOST:PORT now."""
    host, _, port = address.rpartition(":")
    with socket.socket() as one:
        # As gRPC does it: connections of a process that has ended do not count.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, int(port)))
        except OSError:
            return False
    return True


def node_arguments(number: int, addresses: Mapping[int, str], data_dir: Path, cluster_id: str) -> list[str]:
    """The command line of one node of a cluster on this machine."""
    arguments = ["node", "--id", str(number), "--data", str(data_dir), "--listen", addresses[number]]
    arguments += ["--cluster-id", cluster_id]
    for peer, address in addresses.items():
        arguments += ["--peer", f"{peer}={address}"]
    return arguments
