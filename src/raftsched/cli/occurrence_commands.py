"""`raftsched job occurrences`: what happened to each scheduled time of a job."""

from collections.abc import Iterator
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import find_job
from raftsched.cli.output import print_json, print_table
from raftsched.cli.schedule_options import moment
from raftsched.cli.values import GIVEN, ZONE, WholeNumber
from raftsched.client import Occurrence

_MAX_SHOWN = 100_000


@click.command("occurrences", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--start", metavar="TIME", help="From then on: ISO 8601 or 'now'.  [default: the first]")
@click.option("--end", metavar="TIME", help="Before then.  [default: the last]")
@click.option("--tz", type=ZONE, metavar="ZONE", help="Of times without offset.")
@click.option("--limit", type=WholeNumber(1, _MAX_SHOWN), default=100, show_default=True, help="How many, the newest.")
@connects
def occurrences(
    connection: Connection,
    job_id: int | None,
    name: str | None,
    namespace: str,
    start: str | None,
    end: str | None,
    tz: ZoneInfo | None,
    limit: int,
) -> None:
    """Show what happened to each scheduled time of a job, newest first: it ran, it waits, or why it was skipped.

    \b
    Examples:
      raftsched job occurrences 42
      raftsched job occurrences --name nightly --start 2026-03-01 --end 2026-04-01 --tz Europe/Berlin --json
    """
    with connection.client() as client:
        found = find_job(client, job_id, name, namespace)
        listed = client.occurrences(
            found.id,
            start=moment(start, tz, "--start") if start else None,
            end=moment(end, tz, "--end") if end else None,
            linearizable=True,
        )
        shown = list(islice(listed, limit))
    if connection.as_json:
        print_json({"job_id": found.id, "occurrences": shown})
        return
    print_table(
        ("scheduled for", "to", "count", "outcome", "execution", "started", "cause"),
        _rows(shown),
        empty="nothing came due in that time" if start or end else "nothing has come due yet",
    )


def _rows(shown: list[Occurrence]) -> Iterator[tuple[Any, ...]]:
    for one in shown:
        last = one.last_scheduled_for if one.count > 1 else None
        if one.execution is not None:
            ran = one.execution
            yield one.scheduled_for, last, one.count, ran.state.lower(), ran.id, ran.start_time, ran.cause
        elif one.skipped is not None:
            reason = one.skipped.lower().replace("_", " ")
            yield one.scheduled_for, last, one.count, f"skipped: {reason}", None, None, None
        else:
            yield one.scheduled_for, last, one.count, "queued", None, None, None
