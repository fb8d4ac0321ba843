"""`raftsched calendar`: days and windows of time that schedules leave out, or move away from."""

from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_facts, print_json, print_table
from raftsched.cli.values import GIVEN, ZONE, WholeNumber, parse_moment_ms
from raftsched.client import Calendar

# Every line that a calendar may have, with some room for comments.
_MAX_FILE_BYTES = 1024 * 1024


@click.group("calendar", epilog=EXIT_CODES_HELP)
def calendar() -> None:
    """Name days and windows of time that schedules leave out, or move away from."""


@calendar.command("put", epilog=EXIT_CODES_HELP)
@click.argument("name", type=GIVEN)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True))
@click.option("--tz", type=ZONE, metavar="ZONE", help="Time zone of windows without offset.")
@click.option("--namespace", default="", help="[default: default]")
@connects
def put(connection: Connection, name: str, file: Path, tz: ZoneInfo | None, namespace: str) -> None:
    """Create or replace the calendar NAME by what FILE holds (-: standard input). Repeating it changes nothing.

    A line of the file is a day, or the start and the end of a window with a slash between; # begins a comment. Days are
    those of the time zone of the schedule that uses the calendar. Ticks from a minute from now on are computed anew.

    \b
    Examples:
      printf '2026-12-25\\n2026-12-26  # Boxing Day\\n' | raftsched calendar put bank-holidays -
      echo 2026-12-31T18:00/2027-01-01T06:00 | raftsched calendar put freeze - --tz Europe/Berlin
    """
    dates, windows = read_calendar(file, tz)
    with connection.client() as client:
        stored = client.put_calendar(Calendar(name, dates, windows, namespace=namespace))
    if connection.as_json:
        print_json(stored)
    else:
        click.echo(f"calendar {stored.name} has {len(stored.dates)} days and {len(stored.windows)} windows")


@calendar.command("get", epilog=EXIT_CODES_HELP)
@click.argument("name", type=GIVEN)
@click.option("--namespace", default="", help="[default: default]")
@connects
def get(connection: Connection, name: str, namespace: str) -> None:
    """Show a calendar.

    \b
    Examples:
      raftsched calendar get bank-holidays
      raftsched calendar get bank-holidays --json
    """
    with connection.client() as client:
        found = client.get_calendar(name, namespace=namespace, linearizable=True)
    if connection.as_json:
        print_json(found)
        return
    print_facts(
        [
            ("name", found.name),
            ("namespace", found.namespace),
            ("days", ", ".join(day.isoformat() for day in found.dates) or None),
            ("windows", ", ".join(f"{start.isoformat()}/{end.isoformat()}" for start, end in found.windows) or None),
        ]
    )


@calendar.command("list", epilog=EXIT_CODES_HELP)
@click.option("--namespace", default="", help="[default: default]")
@click.option("--limit", type=WholeNumber(1), default=100, show_default=True, help="Show at most so many.")
@connects
def list_calendars(connection: Connection, namespace: str, limit: int) -> None:
    """List the calendars of a namespace, in order of name.

    \b
    Examples:
      raftsched calendar list
      raftsched calendar list --namespace billing --json
    """
    with connection.client() as client:
        found = list(islice(client.calendars(namespace=namespace, linearizable=True), limit + 1))
    more = len(found) > limit
    if connection.as_json:
        print_json({"calendars": found[:limit], "more": more})
        return
    print_table(
        ("name", "days", "windows"),
        ((one.name, len(one.dates), len(one.windows)) for one in found[:limit]),
        empty="there are no calendars",
    )
    if more:
        click.echo(f"there are more than {limit}: see --limit")


@calendar.command("delete", epilog=EXIT_CODES_HELP)
@click.argument("name", type=GIVEN)
@click.option("--namespace", default="", help="[default: default]")
@connects
def delete(connection: Connection, name: str, namespace: str) -> None:
    """Delete a calendar. Refused while the schedule of a job uses it.

    \b
    Examples:
      raftsched calendar delete bank-holidays
    """
    with connection.client() as client:
        client.delete_calendar(name, namespace=namespace)
    if connection.as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"calendar {name} is deleted")


def read_calendar(file: Path, tz: ZoneInfo | None) -> tuple[list[date], list[tuple[datetime, datetime]]]:
    """The days and windows in a file. Raises BadParameter, naming the line."""
    try:
        with click.open_file(str(file), encoding="utf-8", errors="replace") as opened:
            text = opened.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="'FILE'") from None
    if len(text) > _MAX_FILE_BYTES:
        raise click.BadParameter("the file is too large for a calendar", param_hint="'FILE'")
    dates: list[date] = []
    windows: list[tuple[datetime, datetime]] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        start, slash, end = entry.partition("/")
        try:
            if slash:
                windows.append((_instant(start, tz), _instant(end, tz)))
            else:
                dates.append(date.fromisoformat(entry))
        except ValueError as error:
            raise click.BadParameter(f"line {number}: {error}", param_hint="'FILE'") from None
    return dates, windows


def _instant(text: str, tz: ZoneInfo | None) -> datetime:
    if text.strip() == "now" or text.strip().startswith("in "):
        raise ValueError(f"{text.strip()!r} is another time whenever the file is read")
    return datetime.fromtimestamp(parse_moment_ms(text, tz, 0) / 1000, UTC)
