"""Child processes that tests start, stop, freeze and kill, and the one way tests wait."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# Slow machines may need more: multiplies every deadline of these tests.
PATIENCE = float(os.environ.get("RAFTSCHED_TEST_PATIENCE", "1"))

# When this machine's monotonic clock was zero, in ns since the epoch: for processes whose time of day is not right.
BOOT_VARIABLE = "RAFTSCHED_TEST_BOOT_NS"
_BOOT_NS = int(os.environ.get(BOOT_VARIABLE, "0"))

# Linux's default.
FIRST_EPHEMERAL_PORT = 32_768

ROOT = Path(__file__).resolve().parents[2]


class DeadlinePassed(AssertionError):
    """What a test waited for did not happen in time."""


def until(condition: Callable[[], T | None], what: str, deadline_s: float = 30.0, every_s: float = 0.05) -> T:
    """Asks until the answer is true, and returns it. Raises DeadlinePassed naming `what` and the last answer."""
    deadline = time.monotonic() + deadline_s * PATIENCE
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise DeadlinePassed(f"not within {deadline_s * PATIENCE:.0f} s: {what}; last answer: {answer!r}")
        time.sleep(every_s)


def let_last(fault: str, seconds: float) -> None:
    """Returns when the fault has lasted so long: how long it does is part of the fault."""
    end_s = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end_s, f"it has lasted: {fault}", seconds + 10)


def now_ms() -> int:
    """This machine's wall clock, also in a process whose own clock a test has set."""
    return (_BOOT_NS + time.monotonic_ns() if _BOOT_NS else time.time_ns()) // 1_000_000


def free_ports(count: int) -> list[int]:
    """Distinct ports of 127.0.0.1 that were free a moment ago, and stay so while the node that has one is dead.

    They lie below the range from which the kernel gives ports to outgoing connections: any of those could get the
    port of a dead node before it restarts.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, FIRST_EPHEMERAL_PORT)
        if port not in ports and _is_free(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Process:
    """A command in a process group of its own, so that nothing it starts outlives it. `log_path` gets its output."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.command = list(command)
        self.log_path = log_path
        self._environment = dict(environment)
        self._popen: subprocess.Popen[bytes] | None = None
        self._frozen = False

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def answers(self) -> bool:
        """Alive and not frozen."""
        return self.alive and not self._frozen

    def start(self) -> None:
        assert not self.alive, f"{self.name} runs already"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._frozen = False

    def require_alive(self) -> None:
        if not self.alive:
            status = None if self._popen is None else self._popen.returncode
            raise AssertionError(f"{self.name} ended by itself with status {status}:\n{self.tail()}")

    def kill(self) -> None:
        """kill -9 of the process and all it started; returns when it is gone."""
        if self._popen is not None:
            self._signal(signal.SIGKILL)
            self._popen.wait()
        self._frozen = False

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self._frozen = False

    def terminate(self, deadline_s: float = 20.0) -> int:
        """SIGTERM; returns the exit status. Raises DeadlinePassed."""
        assert self._popen is not None
        self._signal(signal.SIGTERM)
        try:
            return self._popen.wait(deadline_s * PATIENCE)
        except subprocess.TimeoutExpired:
            raise DeadlinePassed(f"{self.name} still runs {deadline_s:.0f} s after SIGTERM:\n{self.tail()}") from None

    def tail(self, lines: int = 40) -> str:
        if not self.log_path.exists():
            return "(no log)"
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - 20_000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
