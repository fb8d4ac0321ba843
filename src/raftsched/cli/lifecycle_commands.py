"""`raftsched job pause`, `resume` and their like: commands that change a job which is registered already."""

from pathlib import Path
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import find_job, read_payload
from raftsched.cli.output import local_time, print_json
from raftsched.cli.schedule_options import moment
from raftsched.cli.values import GIVEN, ZONE, WholeNumber
from raftsched.client import Job, SyncClient


@click.command("pause", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--note", default="", help="Why, for those who wonder.")
@connects
def pause(connection: Connection, job_id: int | None, name: str | None, namespace: str, note: str) -> None:
    """Let nothing of a job fire until it is resumed. What is under way goes on; harmless when repeated.
    Another --note replaces the one before.

    \b
    Examples:
      raftsched job pause 42 --note "the mail server is down"
      raftsched job pause --name nightly
    """
    with connection.client() as client:
        paused = client.pause(_id(client, job_id, name, namespace), note)
    _tell(connection, paused, "is paused")


@click.command("resume", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@connects
def resume(connection: Connection, job_id: int | None, name: str | None, namespace: str) -> None:
    """Let a paused job go on. Its catch-up policy says which of the missed occurrences run.

    Harmless for a job that is not paused; refused for one that will not run again.

    \b
    Examples:
      raftsched job resume 42
      raftsched job resume --name nightly
    """
    with connection.client() as client:
        resumed = client.resume(_id(client, job_id, name, namespace))
    _tell(connection, resumed, "goes on")


@click.command("delete", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@connects
def delete(connection: Connection, job_id: int | None, name: str | None, namespace: str) -> None:
    """Remove a job with its history, dead letters included. Refused while an execution of it is leased or running.

    \b
    Examples:
      raftsched job delete 42
      raftsched job delete --name nightly
    """
    with connection.client() as client:
        number = _id(client, job_id, name, namespace)
        client.delete(number)
    if connection.as_json:
        print_json({"id": number, "deleted": True})
    else:
        click.echo(f"job {number} is deleted")


@click.command("reschedule", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--run-at", required=True, metavar="TIME", help="ISO 8601, 'in 5m' or 'now'.")
@click.option("--tz", type=ZONE, metavar="ZONE", help="Of a time without offset.")
@connects
def reschedule(
    connection: Connection, job_id: int | None, name: str | None, namespace: str, run_at: str, tz: ZoneInfo | None
) -> None:
    """Give a job that runs once, and has not yet, another time.

    \b
    Examples:
      raftsched job reschedule 42 --run-at "in 1h"
      raftsched job reschedule --name launch --run-at 2027-01-01T09:00 --tz Europe/Berlin
    """
    time = moment(run_at, tz, "--run-at")
    with connection.client() as client:
        rescheduled = client.reschedule(_id(client, job_id, name, namespace), time)
    _tell(connection, rescheduled, "is rescheduled")


@click.command("trigger", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--payload", metavar="TEXT", help="For this run, instead of the job's.")
@click.option("--payload-file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--ignore-overlap", is_flag=True, help="Run it whatever else of the job is under way.")
@click.option("--refuse-overlap", is_flag=True, help="Fail, rather than record a skip, if the policy forbids.")
@click.option("--request-id", type=GIVEN, metavar="KEY", help="Idempotency key: repeating it runs the job once.")
@connects
def trigger(
    connection: Connection,
    job_id: int | None,
    name: str | None,
    namespace: str,
    payload: str | None,
    payload_file: Path | None,
    ignore_overlap: bool,
    refuse_overlap: bool,
    request_id: str | None,
) -> None:
    """Run a job now, beside its schedule, also while it is paused. Its overlap policy holds unless told otherwise.

    \b
    Examples:
      raftsched job trigger 42
      raftsched job trigger --name nightly --payload '{"day": "2026-01-31"}' --refuse-overlap
    """
    given = read_payload(payload, payload_file) if payload is not None or payload_file is not None else None
    with connection.client() as client:
        number = _id(client, job_id, name, namespace)
        started = client.trigger(
            number,
            payload=given,
            ignore_overlap=ignore_overlap,
            refuse_overlap=refuse_overlap,
            request_id=request_id,
        )
    if connection.as_json:
        print_json(started)
    elif started.execution_id is not None:
        click.echo(f"job {number} runs as execution {started.execution_id}")
    elif started.skipped:
        click.echo(f"job {number} does not run: its overlap policy forbids it now (recorded as skipped)")
    else:
        click.echo(f"job {number} runs once what is before it in its overlap queue has ended")


def _id(client: SyncClient, job_id: int | None, name: str | None, namespace: str) -> int:
    return find_job(client, job_id, name, namespace).id if job_id is None or name is not None else job_id


def _tell(connection: Connection, job: Job, what: str) -> None:
    if connection.as_json:
        print_json(job)
        return
    click.echo(f"job {job.id} {what}", nl=False)
    click.echo(f", next run {local_time(job.next_run_time)}" if job.next_run_time else "")
