"""`raftsched backfill`: runs a recurring job for scheduled times that are past."""

from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_facts, print_json, print_table
from raftsched.cli.schedule_options import moment
from raftsched.cli.values import DURATION, GIVEN, ZONE, WholeNumber
from raftsched.client import Backfill


@click.group("backfill", epilog=EXIT_CODES_HELP)
def backfill() -> None:
    """Run a recurring job for scheduled times that are past and have not run."""


@backfill.command("preview", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1))
@click.option("--start", required=True, metavar="TIME", help="The first of the range: ISO 8601.")
@click.option("--end", default="now", show_default=True, metavar="TIME", help="Scheduled times before it.")
@click.option("--tz", type=ZONE, metavar="ZONE", help="Of times without offset.")
@connects
def preview(connection: Connection, job_id: int, start: str, end: str, tz: ZoneInfo | None) -> None:
    """Count the scheduled times of a range, and those of them that have run. Changes nothing.

    \b
    Examples:
      raftsched backfill preview 42 --start 2026-01-01T00:00Z --end 2026-02-01T00:00Z
    """
    first, last = _range(start, end, tz)
    with connection.client() as client:
        found = client.preview_backfill(job_id, first, last, linearizable=True)
    if connection.as_json:
        print_json(found)
        return
    click.echo(
        f"{found.total} scheduled times; {found.passed_over} have run, {found.total - found.passed_over} would be run"
    )


@backfill.command("create", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1))
@click.option("--start", required=True, metavar="TIME", help="The first of the range: ISO 8601.")
@click.option("--end", default="now", show_default=True, metavar="TIME", help="Scheduled times before it.")
@click.option("--tz", type=ZONE, metavar="ZONE", help="Of times without offset.")
@click.option("--interval", type=DURATION, metavar="DURATION", help="Between two executions, at least.  [default: 1s]")
@click.option("--priority", type=WholeNumber(0, 9), default=0, show_default=True, help="Of its executions.")
@click.option("--request-id", type=GIVEN, metavar="KEY", help="Idempotency key: repeating it makes one backfill.")
@connects
def create(
    connection: Connection,
    job_id: int,
    start: str,
    end: str,
    tz: ZoneInfo | None,
    interval: int | None,
    priority: int,
    request_id: str | None,
) -> None:
    """Run what of a range has not run, oldest first, one after the other.

    \b
    Examples:
      raftsched backfill create 42 --start 2026-01-01T00:00Z --end 2026-02-01T00:00Z --interval 10s
    """
    first, last = _range(start, end, tz)
    with connection.client() as client:
        created = client.create_backfill(
            job_id,
            first,
            last,
            interval=None if interval is None else timedelta(milliseconds=interval),
            priority=priority,
            request_id=request_id,
        )
    if connection.as_json:
        print_json(created)
    else:
        click.echo(f"backfill {created.id} of job {job_id} runs: {created.total} scheduled times")


@backfill.command("get", epilog=EXIT_CODES_HELP)
@click.argument("backfill_id", type=WholeNumber(1))
@connects
def get(connection: Connection, backfill_id: int) -> None:
    """Show how far a backfill is.

    \b
    Examples:
      raftsched backfill get 3
    """
    with connection.client() as client:
        found = client.get_backfill(backfill_id, linearizable=True)
    if connection.as_json:
        print_json(found)
        return
    print_facts(
        [
            ("id", found.id),
            ("job", found.job_id),
            ("state", found.state),
            ("start", found.start),
            ("end", found.end),
            ("interval", found.interval),
            ("priority", found.priority),
            ("scheduled times", found.total),
            ("fired", found.fired),
            ("passed over", found.passed_over),
            ("created", found.create_time),
        ]
    )


@backfill.command("list", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1))
@click.option("--limit", type=WholeNumber(1), default=100, show_default=True, help="Show at most so many.")
@connects
def list_backfills(connection: Connection, job_id: int, limit: int) -> None:
    """List the backfills of a job, newest first.

    \b
    Examples:
      raftsched backfill list 42
    """
    with connection.client() as client:
        found = list(islice(client.backfills(job_id, linearizable=True), limit + 1))
    more = len(found) > limit
    if connection.as_json:
        print_json({"backfills": found[:limit], "more": more})
        return
    print_table(
        ("backfill", "state", "start", "end", "times", "fired", "passed over"),
        (_row(one) for one in found[:limit]),
        empty="it has none",
    )
    if more:
        click.echo(f"there are more than {limit}: see --limit")


@backfill.command("cancel", epilog=EXIT_CODES_HELP)
@click.argument("backfill_id", type=WholeNumber(1))
@connects
def cancel(connection: Connection, backfill_id: int) -> None:
    """Let nothing more of a backfill fire. What has fired goes on; harmless when repeated.

    \b
    Examples:
      raftsched backfill cancel 3
    """
    with connection.client() as client:
        found = client.cancel_backfill(backfill_id)
    if connection.as_json:
        print_json(found)
    else:
        click.echo(f"backfill {found.id} is {found.state}: {found.fired} of {found.total} have fired")


def _range(start: str, end: str, tz: ZoneInfo | None) -> tuple[datetime, datetime]:
    return moment(start, tz, "--start"), moment(end, tz, "--end")


def _row(one: Backfill) -> tuple[object, ...]:
    return one.id, one.state, one.start, one.end, one.total, one.fired, one.passed_over
