"""One drain of one peer: N jobs that do nothing, due at one instant, until all completions are recorded durably."""

import math
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.measure import read_process, spread_ms
from tests.cluster.processes import now_ms, until

SCRIPTS = Path(__file__).parent / "scripts"

SETTLE_BEFORE_DUE_S = 1.0
# While handlers are still being called only the size of their notes is looked at; then the server is asked, so that
# asking costs nothing that would be missing to the peer.
LOOK_EVERY_S = 0.02
ASK_EVERY_S = 0.005


@dataclass
class Running:
    """The processes of one run and where they write."""

    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def starts_folder(self) -> Path:
        return self.folder / "starts"

    def environment(self, url: str, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "BENCH_URL": url, "BENCH_STARTS": str(self.starts_folder), **more}

    def stop_workers(self) -> None:
        """Ends them and all they started."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        while self.workers:
            worker = self.workers.pop()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


class Peer(ABC):
    """What the measuring needs to know of a peer. A peer is installed once, and started anew for every run."""

    name: ClassVar[str]
    packages: ClassVar[Sequence[str]]
    store: ClassVar[str]
    # Creation is never slower than this, which decides how far ahead the jobs are due.
    slowest_create_per_s: ClassVar[int]
    # One that needs minutes for what others do in seconds is measured with fewer jobs.
    is_slow: ClassVar[bool] = False
    worker_settings: ClassVar[Mapping[str, Any]]
    server_settings: ClassVar[Mapping[str, str]]

    @abstractmethod
    def install(self) -> None:
        """Raises CannotInstall."""

    @abstractmethod
    def start_server(self, folder: Path) -> None: ...

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def server_pid(self) -> int: ...

    @abstractmethod
    def prepare(self, environment: Mapping[str, str]) -> None:
        """Once the server runs: tables and the like."""

    @abstractmethod
    def create_command(self) -> list[str]:
        """To be followed by the number of jobs and the due time in ms."""

    @abstractmethod
    def worker_commands(self, workers: int) -> list[list[str]]: ...

    @abstractmethod
    def environment(self) -> Mapping[str, str]: ...

    @abstractmethod
    def is_drained(self) -> bool:
        """Whether the server has recorded every job as completed."""

    @abstractmethod
    def stop_server(self) -> None: ...


def run_checked(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises RuntimeError with the end of what the command said."""
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")[-2_000:]
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {said}")


def noted_starts(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.starts")) // 8


def read_noted_starts(folder: Path) -> "array[float]":
    starts = array("d")
    for path in sorted(folder.glob("*.starts")):
        starts.frombytes(path.read_bytes())
    return starts


@dataclass(frozen=True, slots=True)
class Load:
    """What one run consists of. `lead_s` is from the first create to the due time, by the number of jobs if None."""

    jobs: int
    workers: int
    lead_s: float | None
    patience_s: float


def measure(peer: Peer, load: Load, folder: Path) -> dict[str, Any]:
    """One run, in an empty folder. Whatever it started has ended when it returns."""
    running = Running(folder)
    running.starts_folder.mkdir()
    peer.start_server(folder / "server")
    try:
        environment = running.environment(peer.url, peer.environment())
        peer.prepare(environment)
        _start_workers(peer, running, load.workers, environment)
        return _drain(peer, running, load, environment)
    finally:
        running.stop_workers()
        peer.stop_server()


def _start_workers(peer: Peer, running: Running, workers: int, environment: Mapping[str, str]) -> None:
    with (running.folder / "workers.log").open("ab") as log:
        for command in peer.worker_commands(workers):
            worker = subprocess.Popen(
                command,
                cwd=SCRIPTS,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            running.workers.append(worker)


def _drain(peer: Peer, running: Running, load: Load, environment: Mapping[str, str]) -> dict[str, Any]:
    jobs, patience_s = load.jobs, load.patience_s
    lead_s = load.lead_s or 10 + jobs / peer.slowest_create_per_s
    due_ms = (now_ms() // 1_000 + math.ceil(lead_s)) * 1_000
    began = time.monotonic()
    run_checked([*peer.create_command(), str(jobs), str(due_ms)], environment)
    create_s = time.monotonic() - began
    settled_ms = due_ms - SETTLE_BEFORE_DUE_S * 1_000
    if now_ms() > settled_ms:
        raise RuntimeError(f"creating took {create_s:.1f} s, too long before the due time: give --lead-s")
    until(lambda: now_ms() >= settled_ms, "it is almost due", lead_s + 10)
    pids = [peer.server_pid, *(worker.pid for worker in running.workers)]
    before = sum(read_process(pid).cpu_s for pid in pids)

    def all_started() -> bool:
        for worker in running.workers:
            if worker.poll() is not None:
                said = (running.folder / "workers.log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"a worker of {peer.name} has ended: {said}")
        return noted_starts(running.starts_folder) >= jobs

    until(all_started, f"{peer.name} has started all jobs", patience_s, LOOK_EVERY_S)
    until(peer.is_drained, f"{peer.name} has recorded all completions", patience_s, ASK_EVERY_S)
    drain_s = time.time() - due_ms / 1_000
    cpu_s = sum(read_process(pid).cpu_s for pid in pids) - before
    running.stop_workers()
    starts = read_noted_starts(running.starts_folder)
    delays_ms = [start - due_ms for start in starts]
    return {
        "jobs": jobs,
        "create_per_s": round(jobs / create_s),
        "drain_s": round(drain_s, 3),
        "drain_per_s": round(jobs / drain_s),
        "start_delay_ms": spread_ms(delays_ms),
        "early_starts": sum(delay < 0 for delay in delays_ms),
        "extra_runs": len(starts) - jobs,
        "cpu_us_per_execution": round(cpu_s / jobs * 1e6, 2),
    }
