"""`raftsched worker`: runs the handlers of an application, or shell commands."""

import importlib
import os
import sys
from datetime import timedelta

import click

from raftsched.cli.connection import Connection, chosen_connection, node_option
from raftsched.cli.failures import USAGE, Failure, reported
from raftsched.cli.node_settings import LOG_FORMATS, LOG_LEVELS
from raftsched.cli.shell_command import own_account
from raftsched.cli.shell_handler import SHELL_HANDLER, run_shell
from raftsched.cli.values import DURATION, WholeNumber
from raftsched.client import Worker
from raftsched.node.logs import configure_logging

# Commands are processes: a machine runs fewer of them at once than coroutines.
_SHELL_CONCURRENCY = 10


@click.command("worker")
@click.argument("application", required=False, metavar="[MODULE:APP]")
@click.option("--shell", is_flag=True, help="Run shell commands that jobs carry; see below before you do.")
@node_option
@click.option(
    "--queue", "queues", multiple=True, help="A queue to serve; repeat for several.  [default: the application's]"
)
@click.option("--concurrency", type=WholeNumber(1), help="How many handlers run at once.  [default: the application's]")
@click.option("--name", default="", help="Shown to operators.  [default: host and process id]")
@click.option(
    "--grace",
    "grace_ms",
    type=DURATION,
    metavar="DURATION",
    help="How long handlers may go on when it is told to stop.  [default: the application's]",
)
@click.option("--log-format", type=click.Choice(LOG_FORMATS), default="text", show_default=True)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
def worker(
    application: str | None,
    shell: bool,
    nodes: tuple[str, ...],
    queues: tuple[str, ...],
    concurrency: int | None,
    name: str,
    grace_ms: int | None,
    log_format: str,
    log_level: str,
) -> None:
    """Run a worker, in the foreground, until SIGTERM or Ctrl-C.

    MODULE:APP names a raftsched.client.Worker, APP, in a module that can be imported from the current folder.
    Options come before what it says itself. Told to stop, it takes nothing new and lets handlers end; told again, it
    does not wait for them.

    With --shell it runs the handler shell.run: the command in a job's JSON payload, {"command": "df -h", "stdin": "",
    "env": {}, "user": null}, with $SHELL -c (or /bin/sh), in the user's home and with cron's small environment.
    WHOEVER CAN REGISTER JOBS CAN THEN RUN ANY COMMAND HERE as the user this worker runs as. A job for another user is
    refused, unless this worker runs as root: then it runs as that user. A non-zero exit status is a failure; the end of
    the output goes into its error and the log. On cancel, timeout or a lost lease the command is killed with all
    it started.

    \b
    Examples:
      raftsched worker mail:app
      raftsched worker mail:app --node 10.0.0.1:7100 --node 10.0.0.2:7100 --queue mail --concurrency 500
      raftsched worker --shell --queue shell

    \b
    Exit codes: 0 stopped as told, 1 the cluster refused it or it failed, 2 wrong usage.
    """
    with reported(as_json=False):
        if bool(application) == shell:
            raise Failure("give either MODULE:APP or --shell", exit_code=USAGE)
        connection = chosen_connection(nodes)
        app = _shell_worker(connection) if shell else _load(application or "")
        if connection.nodes:
            app.addresses = connection.nodes
        if connection.tls:
            app.credentials = connection.credentials()
        app.queues = queues or app.queues
        app.concurrency = concurrency or app.concurrency
        app.name = name or app.name
        app.grace = app.grace if grace_ms is None else timedelta(milliseconds=grace_ms)
        configure_logging("json" if log_format == "json" else "text", log_level.upper(), worker=app.name)
        if log_format != "json":
            click.echo(
                f"worker {app.name} serves {', '.join(app.queues)} with {', '.join(app.handler_names)}", err=True
            )
        if shell:
            _warn(app)
        app.run()


def _load(application: str) -> Worker:
    module_name, colon, attribute = application.partition(":")
    if not colon or not module_name or not attribute:
        raise Failure(f"{application!r} is not MODULE:APP, such as mail:app", exit_code=USAGE)
    # As `python -m` does it: what is in the current folder can be imported.
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise Failure(
            f"there is no module {error.name} here or among the installed ones",
            exit_code=USAGE,
            advice="run this in the folder that holds it",
        ) from error
    app = getattr(module, attribute, None)
    if not isinstance(app, Worker):
        what = "has nothing of that name" if app is None else f"is a {type(app).__name__}"
        raise Failure(f"{application} is not a raftsched.client.Worker: it {what}", exit_code=USAGE)
    if not app.handler_names:
        raise Failure(f"{application} has no handlers", exit_code=USAGE)
    return app


def _shell_worker(connection: Connection) -> Worker:
    # Commands are started by fork and exec at once; gRPC need not get ready for more, nor say that it cannot.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    app = Worker(connection.addresses, concurrency=_SHELL_CONCURRENCY)
    app.handler(SHELL_HANDLER)(run_shell)
    return app


def _warn(app: Worker) -> None:
    account = own_account()
    click.echo(
        f"it runs ANY shell command that a job of queue {', '.join(app.queues)} carries, as user {account.name}"
        + (
            " or, since that is root, as any user the job names"
            if account.uid == 0
            else "; jobs for others are refused"
        ),
        err=True,
    )
