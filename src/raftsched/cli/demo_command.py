"""`raftsched demo`: three nodes and two workers from nothing; the leader is killed; every job is accounted for."""

import shutil
import signal
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

import click

from raftsched.cli import demo_record
from raftsched.cli.demo_checks import (
    Check,
    agreement_check,
    judge,
    repetition_check,
)
from raftsched.cli.demo_jobs import (
    CRON_PERIODS_S,
    DOOMED_HANDLER,
    DOOMED_JOBS,
    FLAKY_HANDLER,
    FLAKY_JOBS,
    NAMESPACE,
    ONCE_HANDLER,
    ONCE_JOBS,
    TICK_HANDLER,
    Registered,
    once_jobs,
    register,
)
from raftsched.cli.failures import USAGE, Failure, reported
from raftsched.cli.local_cluster import LocalCluster, PortTaken, TooSlow
from raftsched.cli.output import print_table
from raftsched.cli.processes import ProcessEnded, free_ports
from raftsched.client import JobState, SyncClient
from raftsched.client.errors import JobRunning

NODES = 3
WORKERS = 2
# When things happen, in seconds after the jobs begin.
JOBS_SPAN_S = 20.0
KILL_AFTER_S = 5.0
RESTART_AFTER_S = 11.0

_START_WITHIN_S = 20.0
_ELECTION_WITHIN_S = 15.0
_SETTLE_WITHIN_S = 20.0
_PROGRESS_EVERY_S = 2.0
_LEAD_S = 2.0
_CLIENT_TIMEOUT_S = 15.0


@click.command("demo")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty or new folder for data and logs, kept afterwards.  [default: a temporary one, kept only on failure]",
)
def demo(folder: Path | None) -> None:
    """Show in half a minute that no job is lost when the leader is killed.

    Starts three real nodes and two real workers on this machine, registers several hundred jobs (once, on crons
    with seconds, some that fail at first, some that always fail), kills the leader with SIGKILL while they run,
    starts it again, then asks the cluster what became of every job and compares that with what the workers wrote
    down themselves.

    \b
    Exit codes: 0 everything held, 1 something did not (the table and the logs say what), 2 wrong usage.

    \b
    Examples:
      raftsched demo
      raftsched demo --data ./demo-data
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with reported(as_json=False):
        data = _prepare(folder)
        try:
            checks = _Show(data).run()
        except (PortTaken, ProcessEnded, TooSlow) as error:
            raise Failure(str(error)) from error
        print_table(
            ("", "what must hold", "expected", "found"),
            (("ok" if one.holds else "FAILED", one.what, one.expected, one.found) for one in checks),
            empty="",
            title="\nverdict",
        )
        if not all(one.holds for one in checks):
            raise Failure("not everything held", advice=f"read the logs in {data / 'logs'}")
        click.echo("\nNothing was lost.")
        if folder is None:
            shutil.rmtree(data)


class _Show:
    """The demo's acts, in order."""

    def __init__(self, folder: Path) -> None:
        self._record = folder / "runs.jsonl"
        self._folder = folder
        self._cluster = LocalCluster(folder, free_ports(NODES), "demo")
        self._began_s = time.monotonic()
        self._told_s = 0.0

    def run(self) -> list[Check]:
        """Returns the verdict; every process has ended then."""
        with (
            self._cluster as cluster,
            SyncClient(list(cluster.addresses.values()), NAMESPACE, timeout_s=_CLIENT_TIMEOUT_S) as client,
        ):
            self._start()
            first_run = datetime.now(UTC) + timedelta(seconds=_LEAD_S)
            span = timedelta(seconds=JOBS_SPAN_S)
            registered = register(client, first_run, span)
            jobs_begin_s = time.monotonic() + _LEAD_S
            self._tell(
                f"registered {ONCE_JOBS} once-jobs over the next {JOBS_SPAN_S:.0f} s, {len(CRON_PERIODS_S)} crons with "
                f"seconds, {FLAKY_JOBS} jobs that fail at first, {DOOMED_JOBS} that always fail"
            )
            self._watch_until(jobs_begin_s + KILL_AFTER_S)
            killed = self._kill_leader()
            repeated = client.create_many(once_jobs(first_run, span), request_id="demo-once")
            self._tell(
                "sent the same batch of once-jobs again with the same request_id: nothing may run twice for that"
            )
            self._watch_until(jobs_begin_s + RESTART_AFTER_S)
            self._bring_back(killed)
            self._watch_until(jobs_begin_s + JOBS_SPAN_S)
            self._cancel_crons(client, registered)
            self._settle(client)
            checks = self._judge(client, registered)
            checks.insert(0, repetition_check(registered, repeated))
            self._tell("ending workers and nodes with SIGTERM")
            complaints = cluster.stop()
        checks.append(
            Check(
                "all processes drained and ended well",
                "exit status 0",
                "; ".join(complaints) or "so they did",
                not complaints,
            )
        )
        return checks

    def _start(self) -> None:
        cluster = self._cluster
        self._tell(f"data and logs are in {self._folder}")
        cluster.start_nodes()
        for number, address in cluster.addresses.items():
            self._tell(f"node {number} started: {address}, process {cluster.nodes[number].pid}")
        leader = cluster.wait_for(lambda: cluster.serving() and cluster.leader(), _START_WITHIN_S, "the first election")
        self._tell(f"three nodes are up, node {leader} leads")
        for number in range(1, WORKERS + 1):
            arguments = ["raftsched.cli.demo_handlers:app", "--name", f"demo-worker-{number}"]
            worker = cluster.start_worker(
                f"worker {number}", arguments, {demo_record.RECORD_VARIABLE: str(self._record)}
            )
            self._tell(f"worker {number} started: process {worker.pid}")

    def _kill_leader(self) -> int:
        cluster = self._cluster
        killed = cluster.wait_for(cluster.leader, _ELECTION_WITHIN_S, "finding the leader")
        pid = cluster.nodes[killed].pid
        cluster.nodes[killed].kill()
        killed_s = time.monotonic()
        self._tell(f"KILLED the leader: node {killed}, process {pid}, kill -9")

        def successor() -> int | None:
            leader = cluster.leader()
            return leader if leader != killed else None

        leader = cluster.wait_for(successor, _ELECTION_WITHIN_S, "the election of a new leader")
        self._tell(f"node {leader} leads after {time.monotonic() - killed_s:.1f} s; two of three nodes go on")
        return killed

    def _bring_back(self, number: int) -> None:
        cluster = self._cluster
        leader = cluster.wait_for(cluster.leader, _ELECTION_WITHIN_S, "finding the leader")
        before = cluster.wait_for(lambda: cluster.status(leader), _ELECTION_WITHIN_S, "asking the leader")
        cluster.nodes[number].start()
        started_s = time.monotonic()
        self._tell(f"node {number} started again: process {cluster.nodes[number].pid}")

        def caught_up() -> bool:
            own = cluster.status(number)
            return own is not None and own.applied_index >= before.commit_index and cluster.serving()

        cluster.wait_for(caught_up, _ELECTION_WITHIN_S, f"node {number}'s way back")
        self._tell(f"node {number} has caught up after {time.monotonic() - started_s:.1f} s: three nodes are up")

    def _cancel_crons(self, client: SyncClient, registered: Registered) -> None:
        for job_id in registered.ticking:

            def cancelled(job_id: int = job_id) -> bool:
                try:
                    client.cancel(job_id)
                except JobRunning:
                    return False
                return True

            self._cluster.wait_for(cancelled, _SETTLE_WITHIN_S, "cancelling a cron between two runs of it")
        self._tell("cancelled the crons")

    def _settle(self, client: SyncClient) -> None:
        """Waits until nothing is scheduled or under way any more."""

        def settled() -> bool:
            waiting = (client.list(state=state, page_size=1) for state in (JobState.SCHEDULED, JobState.ACTIVE))
            return not any(next(jobs, None) for jobs in waiting)

        try:
            self._cluster.wait_for(settled, _SETTLE_WITHIN_S, "the end of all jobs")
        except TooSlow as error:
            # The verdict tells which jobs these are.
            self._tell(str(error))
        else:
            self._tell("nothing waits or runs any more")

    def _judge(self, client: SyncClient, registered: Registered) -> list[Check]:
        cluster = self._cluster
        runs = demo_record.read(self._record)

        def one_state() -> bool:
            statuses = cluster.statuses()
            return len(statuses) == NODES and len({status.applied_index for status in statuses.values()}) == 1

        cluster.wait_for(one_state, _SETTLE_WITHIN_S, "equal log indexes on all nodes")
        return [*judge(client, registered, runs), agreement_check(cluster.statuses(), NODES)]

    def _watch_until(self, moment_s: float) -> None:
        """Tells how far the jobs are, from the workers' record, until `moment_s`."""

        def over() -> bool:
            if time.monotonic() - self._told_s >= _PROGRESS_EVERY_S:
                self._tell_progress()
            return time.monotonic() >= moment_s

        self._cluster.wait_for(over, moment_s - time.monotonic() + 1, "waiting")

    def _tell_progress(self) -> None:
        runs = demo_record.read(self._record)
        once = len({run.job_id for run in runs if run.handler == ONCE_HANDLER})
        ticks = sum(run.handler == TICK_HANDLER for run in runs)
        attempts = sum(run.handler in {FLAKY_HANDLER, DOOMED_HANDLER} for run in runs)
        self._tell(f"ran so far: {once} of {ONCE_JOBS} once-jobs, {ticks} cron ticks, {attempts} tries of failing jobs")

    def _tell(self, text: str) -> None:
        self._told_s = time.monotonic()
        click.echo(f"{self._told_s - self._began_s:6.1f} s  {text}")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Like Ctrl-C: the children go with this process.
    raise KeyboardInterrupt


def _prepare(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="raftsched-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Failure(f"{folder} is not empty: the demo starts from nothing", exit_code=USAGE)
    return folder.resolve()
