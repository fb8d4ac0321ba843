"""The command `raftsched`: puts the commands together."""

import functools
from pathlib import Path

import click

from raftsched.cli.backfill_commands import backfill
from raftsched.cli.backup_commands import backup, restore
from raftsched.cli.calendar_commands import calendar
from raftsched.cli.cluster_commands import cluster
from raftsched.cli.connection import Connection, connection_options
from raftsched.cli.crontab_commands import crontab
from raftsched.cli.dead_letter_commands import dead_letter
from raftsched.cli.demo_command import demo
from raftsched.cli.dev_command import dev
from raftsched.cli.execution_commands import execution
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import job
from raftsched.cli.lifecycle_commands import delete, pause, reschedule, resume, trigger
from raftsched.cli.limit_commands import limit
from raftsched.cli.membership_commands import add, remove, transfer
from raftsched.cli.node_command import node
from raftsched.cli.occurrence_commands import occurrences
from raftsched.cli.repair_command import repair
from raftsched.cli.schedule_commands import schedule
from raftsched.cli.update_command import update
from raftsched.cli.verify_command import verify
from raftsched.cli.worker_command import worker
from raftsched.cli.workflow_commands import workflow
from raftsched.node.config import TlsFiles
from raftsched.version import VERSION

_PATH = click.Path(path_type=Path)


@click.group("raftsched", epilog=EXIT_CODES_HELP, context_settings={"max_content_width": 110})
@click.version_option(VERSION, prog_name="raftsched")
@functools.partial(connection_options, envvar="RAFTSCHED_NODES")
@click.option("--tls-certificate", type=_PATH, envvar="RAFTSCHED_TLS_CERTIFICATE", help="PEM file, for nodes with TLS.")
@click.option("--tls-key", type=_PATH, envvar="RAFTSCHED_TLS_KEY", help="PEM file: its private key.")
@click.option("--tls-authority", type=_PATH, envvar="RAFTSCHED_TLS_AUTHORITY", help="PEM file: who signed the nodes.")
@click.pass_context
def main(
    context: click.Context,
    nodes: tuple[str, ...],
    timeout_ms: int | None,
    as_json: bool,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_authority: Path | None,
) -> None:
    """A distributed job scheduler that needs no database, broker or ZooKeeper beside it.

    \b
    See it work:        raftsched demo
    Try it here:        raftsched dev, then in another terminal: raftsched cluster status
    Run your handlers:  raftsched worker module:app
    Register a job:     raftsched job create reports.nightly --cron "0 2 * * *" --tz Europe/Berlin
    Run it for real:    raftsched node --help
    """
    tls = None
    if tls_certificate and tls_key and tls_authority:
        tls = TlsFiles(tls_certificate, tls_key, tls_authority)
    elif tls_certificate or tls_key or tls_authority:
        raise click.UsageError("TLS needs all of --tls-certificate, --tls-key and --tls-authority")
    context.obj = Connection(nodes, timeout_ms, as_json, tls)


for command in (
    node,
    dev,
    demo,
    worker,
    job,
    workflow,
    execution,
    backfill,
    schedule,
    calendar,
    dead_letter,
    limit,
    crontab,
    cluster,
    repair,
    restore,
):
    main.add_command(command)
for command in (delete, pause, resume, reschedule, trigger, update, occurrences):
    job.add_command(command)
for command in (add, remove, transfer, verify, backup):
    cluster.add_command(command)


if __name__ == "__main__":
    main()
