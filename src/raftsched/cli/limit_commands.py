"""`raftsched limit`: how fast, and how many at once, executions of a queue, tenant or handler are leased."""

from itertools import islice
from typing import Any

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_json, print_table
from raftsched.cli.values import GIVEN, WholeNumber
from raftsched.client import Limit, LimitScope

_SCOPE = click.Choice([scope.lower() for scope in LimitScope if scope != LimitScope.UNSPECIFIED])
_COLUMNS = ("scope", "name", "concurrency", "rate per s", "burst", "weight", "leased now")


@click.group("limit", epilog=EXIT_CODES_HELP)
def limit() -> None:
    """Limit how fast, and how many at once, executions of a queue, tenant or handler are leased."""


@limit.command("put", epilog=EXIT_CODES_HELP)
@click.argument("scope", type=_SCOPE)
@click.argument("name", type=GIVEN)
@click.option("--concurrency", type=WholeNumber(1), metavar="N", help="So many leased or running at once.  [any]")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="So many leased a second, on average.  [any]"
)
@click.option("--burst", type=WholeNumber(1), metavar="N", help="At once after a quiet time.  [the rate]")
@click.option("--weight", type=WholeNumber(1, 100), metavar="N", help="A tenant's share, 1 to 100.  [1]")
@connects
def put(
    connection: Connection,
    scope: str,
    name: str,
    concurrency: int | None,
    rate: float | None,
    burst: int | None,
    weight: int | None,
) -> None:
    """Create or replace the limit of a SCOPE (queue, tenant or handler) and NAME. Repeating it changes nothing.

    \b
    Examples:
      raftsched limit put handler mail.send --rate 50 --burst 100
      raftsched limit put tenant acme --concurrency 20 --weight 3
    """
    with connection.client() as client:
        stored = client.put_limit(
            LimitScope(scope.upper()),
            name,
            concurrency=concurrency or 0,
            rate_per_s=rate or 0.0,
            burst=burst or 0,
            weight=weight or 0,
        )
    if connection.as_json:
        print_json(stored)
    else:
        print_table(_COLUMNS, [_row(stored)], empty="")


@limit.command("list", epilog=EXIT_CODES_HELP)
@click.option("--limit", "count", type=WholeNumber(1), default=100, show_default=True, help="Show at most so many.")
@connects
def list_limits(connection: Connection, count: int) -> None:
    """List all limits, with how many executions are leased under each now.

    \b
    Examples:
      raftsched limit list
      raftsched limit list --limit 1000 --json
    """
    with connection.client() as client:
        found = list(islice(client.limits(linearizable=True), count + 1))
    more = len(found) > count
    if connection.as_json:
        print_json({"limits": found[:count], "more": more})
        return
    print_table(_COLUMNS, map(_row, found[:count]), empty="there are no limits")
    if more:
        click.echo(f"there are more than {count}: see --limit")


@limit.command("delete", epilog=EXIT_CODES_HELP)
@click.argument("scope", type=_SCOPE)
@click.argument("name", type=GIVEN)
@connects
def delete(connection: Connection, scope: str, name: str) -> None:
    """Delete a limit: what it held back may go. Harmless when there is none.

    \b
    Examples:
      raftsched limit delete handler mail.send
    """
    with connection.client() as client:
        client.delete_limit(LimitScope(scope.upper()), name)
    if connection.as_json:
        print_json({"scope": scope.upper(), "name": name, "deleted": True})
    else:
        click.echo(f"{scope} {name} has no limit")


def _row(found: Limit) -> tuple[Any, ...]:
    return (
        found.scope.lower(),
        found.name,
        found.concurrency or None,
        found.rate_per_s or None,
        found.burst or None,
        found.weight or None,
        found.leased,
    )
