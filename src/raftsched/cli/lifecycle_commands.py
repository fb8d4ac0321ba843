"""`raftsched job pause`, `resume` and their like: commands that change a job which is registered already."""

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import find_job
from raftsched.cli.output import local_time, print_json
from raftsched.cli.values import GIVEN
from raftsched.client import Job, SyncClient


@click.command("pause", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=click.IntRange(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--note", default="", help="Why, for those who wonder.")
@connects
def pause(connection: Connection, job_id: int | None, name: str | None, namespace: str, note: str) -> None:
    """Let nothing of a job fire until it is resumed. What is under way goes on; harmless when repeated.

    \b
    Examples:
      raftsched job pause 42 --note "the mail server is down"
      raftsched job pause --name nightly
    """
    with connection.client() as client:
        paused = client.pause(_id(client, job_id, name, namespace), note)
    _tell(connection, paused, "is paused")


@click.command("resume", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=click.IntRange(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@connects
def resume(connection: Connection, job_id: int | None, name: str | None, namespace: str) -> None:
    """Let a paused job go on. Its catch-up policy says which of the missed occurrences run.

    \b
    Examples:
      raftsched job resume 42
      raftsched job resume --name nightly
    """
    with connection.client() as client:
        resumed = client.resume(_id(client, job_id, name, namespace))
    _tell(connection, resumed, "goes on")


def _id(client: SyncClient, job_id: int | None, name: str | None, namespace: str) -> int:
    return find_job(client, job_id, name, namespace).id if job_id is None or name is not None else job_id


def _tell(connection: Connection, job: Job, what: str) -> None:
    if connection.as_json:
        print_json(job)
        return
    click.echo(f"job {job.id} {what}", nl=False)
    click.echo(f", next run {local_time(job.next_run_time)}" if job.next_run_time else "")
