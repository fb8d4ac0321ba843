"""Processor time of an execution by stage, on the leader, a follower and a worker, while a hot bucket drains.

    python -m bench.profile --jobs 500000 [--nodes 3] [--workers 2] ...     (options as for bench.hot_bucket)

py-spy samples the real processes from outside, native frames included. How much time each thread used is the
kernel's count; the samples only divide it. py-spy must be allowed to look into processes of the same user: be root,
or set kernel.yama.ptrace_scope to 0.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.compare.packages import CannotInstall, python_packages
from bench.drain import measure_drain
from bench.hot_bucket import name_of, parse
from bench.machine import describe_machine
from bench.stages import Cpu, cost_us, flush_wait_us, parse_samples, table
from tests.cluster.harness import Cluster
from tests.cluster.processes import until

PY_SPY = "py-spy==0.4.3"
# A prime number, so as not to keep step with anything.
SAMPLES_PER_S = 97


def thread_cpu(pid: int) -> dict[int, Cpu]:
    """Processor time by thread, since it began."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    used = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may have ended meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            # The name in parentheses may hold anything; the numbers come after it.
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            used[int(task.name)] = Cpu(int(fields[11]) / ticks_per_s, int(fields[12]) / ticks_per_s)
    return used


def roles(cluster: Cluster) -> dict[str, int]:
    """The processes to look at: by role, their ids."""
    leader = cluster.leader()
    chosen = {"leader": cluster.nodes[leader].pid}
    followers = [process for number, process in cluster.nodes.items() if number != leader]
    chosen |= {"follower": followers[0].pid} if followers else {}
    return chosen | {"worker": next(iter(cluster.workers.values())).pid}


class Recorder:
    """Samples the processes of a cluster while it is entered."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.cpu: dict[str, dict[int, Cpu]] = {}

    def samples(self, role: str) -> str:
        return (self._folder / f"{role}.raw").read_text()

    @contextmanager
    def beside(self, cluster: Cluster) -> Iterator[None]:
        pids = roles(cluster)
        before = {role: thread_cpu(pid) for role, pid in pids.items()}
        recording = [self._start(role, pid) for role, pid in pids.items()]
        try:
            yield
            self.cpu = {role: _between(before[role], thread_cpu(pid)) for role, pid in pids.items()}
        finally:
            for process in recording:
                process.send_signal(signal.SIGINT)
            for process in recording:
                process.wait(60)

    def _start(self, role: str, pid: int) -> subprocess.Popen[bytes]:
        said = self._folder / f"{role}.log"
        command = [str(self._program), "record", f"--pid={pid}", "--native", "--threads", "--format=raw"]
        command += [f"--rate={SAMPLES_PER_S}", f"--output={self._folder / f'{role}.raw'}"]
        with said.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

        def samples() -> bool:
            assert process.poll() is None, f"py-spy cannot look into the {role}: {said.read_text()}"
            return "Sampling" in said.read_text(errors="replace")

        until(samples, f"py-spy samples the {role}")
        return process


def _between(before: Mapping[int, Cpu], after: Mapping[int, Cpu]) -> dict[int, Cpu]:
    none = Cpu(0.0, 0.0)
    used = {
        thread: Cpu(cpu.user_s - before.get(thread, none).user_s, cpu.system_s - before.get(thread, none).system_s)
        for thread, cpu in after.items()
    }
    return {thread: cpu for thread, cpu in used.items() if cpu != none}


def main() -> int:
    arguments = parse(description=__doc__)
    if arguments.kill_leader or arguments.runs != 1:
        raise SystemExit("a profile is of one run in which nothing is killed")
    try:
        program = python_packages("profile", [PY_SPY]) / "py-spy"
    except CannotInstall as error:
        raise SystemExit(f"py-spy could not be installed: {error}") from error
    with tempfile.TemporaryDirectory(prefix="raftsched-profile-", dir=arguments.data) as name:
        folder = Path(name)
        recorder = Recorder(program, folder)
        drain = measure_drain(arguments, folder, recorder.beside)
        costs, waits_us = {}, {}
        for role, threads in recorder.cpu.items():
            samples, executions = list(parse_samples(recorder.samples(role))), executions_of(role, arguments)
            costs[role] = cost_us(samples, threads, executions)
            waits_us[role] = round(flush_wait_us(samples, SAMPLES_PER_S, executions), 3)
    tables = "\n".join(
        f"### {role.capitalize()}\n\n{table(cost)}\nWaiting for flushes: {waits_us[role]:.2f} µs an execution.\n"
        for role, cost in costs.items()
    )
    document = {
        "benchmark": "profile",
        "command": f"python -m bench.profile {' '.join(sys.argv[1:])}".strip(),
        **describe_machine(arguments.data),
        "us_per_execution": {role: rounded(cost) for role, cost in costs.items()},
        "flush_wait_us_per_execution": waits_us,
        "drain": drain.result,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = arguments.out / name_of(arguments).replace("hot_bucket", "profile")
    files.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    files.with_suffix(".md").write_text(tables)
    print(tables)
    return 0


def executions_of(role: str, arguments: Any) -> int:
    """Every node applies all executions; a worker runs its part of them, about the same as every other."""
    return arguments.jobs // arguments.workers if role == "worker" else int(arguments.jobs)


def rounded(cost: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {stage: {kind: round(value, 3) for kind, value in kinds.items()} for stage, kinds in cost.items()}


if __name__ == "__main__":
    sys.exit(main())
