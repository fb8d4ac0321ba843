"""`raftsched dev`: a cluster of real nodes and a worker on this machine, to develop against."""

import signal
import threading
from pathlib import Path
from types import FrameType

import click

from raftsched.cli.failures import USAGE, Failure, reported
from raftsched.cli.local_cluster import LocalCluster, PortTaken, TooSlow
from raftsched.cli.processes import ProcessEnded
from raftsched.cli.values import WholeNumber

DEFAULT_BASE_PORT = 7101
_START_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.3


@click.command("dev")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("raftsched-dev"),
    show_default=True,
    help="Folder for data and logs; started again on it, the cluster goes on where it was.",
)
@click.option("--nodes", "count", type=click.Choice(("1", "3", "5")), default="3", show_default=True)
@click.option(
    "--base-port",
    type=WholeNumber(1, 65_530),
    default=DEFAULT_BASE_PORT,
    show_default=True,
    help="Of node 1; the others follow it.",
)
@click.option(
    "--worker", "application", metavar="MODULE:APP", help="Also run a worker with these handlers; see raftsched worker."
)
@click.option("--shell", is_flag=True, help="Also run a worker that runs shell commands; see raftsched worker --shell.")
def dev(folder: Path, count: str, base_port: int, application: str | None, shell: bool) -> None:
    """Run a whole cluster on this machine, in the foreground, until Ctrl-C.

    Each node and worker is a process of its own, with its log in a file. Ctrl-C drains the workers, then the nodes;
    a second one kills them. Nothing is restarted: when a process ends by itself, all are ended and the exit code is 1.

    \b
    Examples:
      raftsched dev
      raftsched dev --worker myapp:app --data /var/tmp/try
      tail -F raftsched-dev/logs/*.log         (in another terminal, like the next)
      raftsched cluster status
    """
    with reported(as_json=False):
        if base_port + int(count) > 65_536:
            raise Failure("--base-port leaves no room for all nodes", exit_code=USAGE)
        folder.mkdir(parents=True, exist_ok=True)
        stop = threading.Event()

        def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, ask_to_stop)
        ports = range(base_port, base_port + int(count))
        with LocalCluster(folder.resolve(), ports, "dev") as cluster:
            try:
                _start(cluster, application, shell, stop)
                while not stop.wait(_LOOK_EVERY_S):
                    cluster.check()
            except PortTaken as error:
                raise Failure(
                    str(error), advice="end it (another raftsched dev?), or choose another --base-port"
                ) from error
            except (ProcessEnded, TooSlow) as error:
                cluster.stop()
                raise Failure(str(error), advice="read the log; the other processes have been ended") from error
            click.echo("ending the workers, then the nodes")
            complaints = cluster.stop()
        if complaints:
            raise Failure("; ".join(complaints))
        click.echo("all processes have ended well")


def _start(cluster: LocalCluster, application: str | None, shell: bool, stop: threading.Event) -> None:
    cluster.start_nodes()
    for number, address in cluster.addresses.items():
        node = cluster.nodes[number]
        click.echo(f"node {number}   {address}   process {node.pid}   log {node.log_path}")
    cluster.wait_for(lambda: stop.is_set() or cluster.serving(), _START_WITHIN_S, "the start of the cluster")
    if stop.is_set():
        return
    if application:
        cluster.start_worker("worker", [application, "--name", "dev"])
    if shell:
        cluster.start_worker("shell worker", ["--shell", "--name", "dev-shell", "--queue", "shell"])
    for worker in cluster.workers:
        click.echo(f"{worker.name}   process {worker.pid}   log {worker.log_path}")
    nodes = " ".join(cluster.addresses.values())
    click.echo(
        f"the cluster is up; node {cluster.leader()} leads. For other terminals:\n\n"
        f"  export RAFTSCHED_NODES='{nodes}'\n"
    )
    if not cluster.workers:
        click.echo("no worker runs yet: raftsched worker module:app, or raftsched worker --shell\n")
    click.echo("Ctrl-C ends all")
