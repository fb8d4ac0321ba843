"""`raftsched execution`: shows one execution with its attempts."""

from dataclasses import dataclass
from typing import Any

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_facts, print_json, print_table, shortened
from raftsched.cli.values import WholeNumber
from raftsched.client import Attempt, AttemptOutcome, Execution, ExecutionState


@dataclass(frozen=True, slots=True)
class _Result:
    execution_id: int
    result: bytes


@click.group("execution", epilog=EXIT_CODES_HELP)
def execution() -> None:
    """Inspect and cancel single executions; see `job history` for those of a job."""


@execution.command("get", epilog=EXIT_CODES_HELP)
@click.argument("execution_id", type=WholeNumber(1))
@connects
def get(connection: Connection, execution_id: int) -> None:
    """Show one execution and its newest attempts: which worker ran each, when, and how it ended.

    \b
    Examples:
      raftsched execution get 1201
      raftsched execution get 1201 --json
    """
    with connection.client() as client:
        found = client.get_execution(execution_id, linearizable=True)
    if connection.as_json:
        print_json(found)
        return
    print_facts(_facts(found))
    if found.attempts:
        print_table(
            ("attempt", "outcome", "worker", "leased", "started", "ended", "error class", "error"),
            map(_attempt_row, found.attempts),
            empty="",
            title="\nattempts",
        )


@execution.command("result", epilog=EXIT_CODES_HELP)
@click.argument("execution_id", type=WholeNumber(1))
@connects
def result(connection: Connection, execution_id: int) -> None:
    """Print what the handler of an execution returned, as it is. Refused while the execution has not succeeded.

    \b
    Examples:
      raftsched execution result 1201
      raftsched execution result 1201 --json
    """
    with connection.client() as client:
        returned = client.get_result(execution_id, linearizable=True)
    if connection.as_json:
        print_json(_Result(execution_id, returned))
    else:
        click.echo(returned, nl=False)


@execution.command("cancel", epilog=EXIT_CODES_HELP)
@click.argument("execution_id", type=WholeNumber(1))
@connects
def cancel(connection: Connection, execution_id: int) -> None:
    """Cancel one execution. One that runs is asked to stop: its handler is told, and if it does not return in spite of
    that, the execution is cancelled when it ends, at its run timeout at the latest.

    \b
    Examples:
      raftsched execution cancel 1201
    """
    with connection.client() as client:
        found = client.cancel_execution(execution_id)
    if connection.as_json:
        print_json(found)
    elif found.state is ExecutionState.CANCELLED:
        click.echo(f"execution {found.id} is cancelled")
    else:
        click.echo(f"execution {found.id} runs; its worker was told to stop it")


def _facts(found: Execution) -> list[tuple[str, Any]]:
    return [
        ("id", found.id),
        ("job", found.job_id),
        ("state", found.state),
        ("cancel requested", "yes" if found.cancel_requested else None),
        ("cause", found.cause),
        ("scheduled for", found.scheduled_for),
        ("fired", found.fire_time),
        ("runs again", found.retry_time),
        ("started", found.start_time),
        ("ended", found.end_time),
        ("attempt", found.attempt),
        ("lost leases", found.lost_leases or None),
        ("worker", found.worker),
        ("token", found.token or None),
        ("replayed as", found.replayed_as),
        ("error", found.error),
    ]


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.number,
        "under way" if attempt.outcome is AttemptOutcome.UNSPECIFIED else attempt.outcome,
        attempt.worker,
        attempt.lease_time,
        attempt.start_time,
        attempt.end_time,
        attempt.error_class,
        shortened(attempt.error),
    )
