"""`raftsched dead-letter`: shows executions that ran out of attempts and starts them again."""

from itertools import islice

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_json, print_table, shortened
from raftsched.cli.values import WholeNumber


@click.group("dead-letter", epilog=EXIT_CODES_HELP)
def dead_letter() -> None:
    """Inspect and replay executions that ran out of attempts."""


@dead_letter.command("list", epilog=EXIT_CODES_HELP)
@click.option("--namespace", default="", help="[default: default]")
@click.option("--limit", type=WholeNumber(1), default=100, show_default=True, help="Show at most so many.")
@connects
def list_dead_letters(connection: Connection, namespace: str, limit: int) -> None:
    """List dead letters, oldest first.

    \b
    Examples:
      raftsched dead-letter list
      raftsched dead-letter list --limit 1000 --json
    """
    with connection.client() as client:
        found = list(islice(client.dead_letters(namespace=namespace, linearizable=True), limit + 1))
    more = len(found) > limit
    if connection.as_json:
        print_json({"dead_letters": found[:limit], "more": more})
        return
    print_table(
        ("execution", "job", "name", "handler", "attempts", "dead since", "error"),
        (
            (
                one.execution.id,
                one.execution.job_id,
                one.job_name,
                one.handler,
                one.execution.attempt,
                one.dead_time,
                shortened(one.execution.error),
            )
            for one in found[:limit]
        ),
        empty="there are no dead letters",
    )
    if more:
        click.echo(f"there are more than {limit}: see --limit")


@dead_letter.command("replay", epilog=EXIT_CODES_HELP)
@click.argument("execution_ids", type=WholeNumber(1), nargs=-1)
@click.option("--all", "replay_all", is_flag=True, help="All dead letters of the namespace.")
@click.option("--namespace", default="", help="Of --all.  [default: default]")
@connects
def replay(connection: Connection, execution_ids: tuple[int, ...], replay_all: bool, namespace: str) -> None:
    """Start a new execution for each dead letter, at once, with all its attempts. Repeating it starts nothing twice.

    \b
    Examples:
      raftsched dead-letter replay 1201 1207
      raftsched dead-letter replay --all
    """
    if bool(execution_ids) == replay_all:
        raise click.UsageError("give the executions' ids, or --all")
    with connection.client() as client:
        old = list(execution_ids)
        if replay_all:
            old = [one.execution.id for one in client.dead_letters(namespace=namespace, linearizable=True)]
        new = list(client.replay(old)) if old else []
    replayed = [{"execution_id": before, "replayed_as": after} for before, after in zip(old, new, strict=True)]
    if connection.as_json:
        print_json({"replayed": replayed})
    else:
        print_table(
            ("dead letter", "replayed as"),
            zip(old, new, strict=True),
            empty="there are no dead letters",
        )
