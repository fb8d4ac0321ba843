"""The command `raftsched`: puts the commands together."""

import functools

import click

from raftsched.cli.cluster_commands import cluster
from raftsched.cli.connection import DEFAULT_TIMEOUT_MS, Connection, connection_options
from raftsched.cli.crontab_commands import crontab
from raftsched.cli.dead_letter_commands import dead_letter
from raftsched.cli.demo_command import demo
from raftsched.cli.dev_command import dev
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import job
from raftsched.cli.node_command import node
from raftsched.version import VERSION


@click.group("raftsched", epilog=EXIT_CODES_HELP, context_settings={"max_content_width": 110})
@click.version_option(VERSION, prog_name="raftsched")
@functools.partial(connection_options, envvar="RAFTSCHED_NODES")
@click.pass_context
def main(context: click.Context, nodes: tuple[str, ...], timeout_ms: int | None, as_json: bool) -> None:
    """A distributed job scheduler that needs no database, broker or ZooKeeper beside it.

    \b
    See it work:        raftsched demo
    Try it here:        raftsched dev, then in another terminal: raftsched cluster status
    Run your handlers:  raftsched worker module:app
    Register a job:     raftsched job create reports.nightly --cron "0 2 * * *" --tz Europe/Berlin
    Run it for real:    raftsched node --help
    """
    context.obj = Connection(nodes, DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms, as_json)


for command in (node, dev, demo, job, dead_letter, crontab, cluster):
    main.add_command(command)


if __name__ == "__main__":
    main()
