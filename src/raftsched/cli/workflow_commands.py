"""`raftsched workflow`: registers jobs that depend on each other, and shows how far they are."""

from collections import Counter
from pathlib import Path

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import print_json, print_table
from raftsched.cli.values import GIVEN, WholeNumber
from raftsched.cli.workflow_file import parse_workflow
from raftsched.client import Job


@click.group("workflow", epilog=EXIT_CODES_HELP)
def workflow() -> None:
    """Register and inspect workflows: jobs that depend on each other."""


@workflow.command("create", epilog=EXIT_CODES_HELP)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option(
    "--request-id", type=GIVEN, metavar="KEY", help="Idempotency key: repeating the command with it registers one."
)
@connects
def create(connection: Connection, file: Path, request_id: str | None) -> None:
    """Register the workflow that FILE describes, in JSON ("-": standard input): all of its jobs or none.

    Its nodes have a name, names of others in depends_on, a rule, and a job with the fields of the SDK's JobSpec.
    Those without depends_on are the roots: they have a run_at, or all the same cron or every.

    \b
    Example of a file:
      {"nodes": [
        {"name": "extract", "job": {"handler": "etl.extract", "cron": "0 2 * * *", "time_zone": "Europe/Berlin"}},
        {"name": "load", "depends_on": ["extract"], "job": {"handler": "etl.load", "run_timeout": "30m"}},
        {"name": "mail", "depends_on": ["load"], "rule": "all_done", "job": {"handler": "mail.send"}}
      ]}
    """
    try:
        with click.open_file(str(file), "rb") as opened:
            nodes = parse_workflow(opened.read())
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="'FILE'") from None
    except ValueError as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="'FILE'") from None
    with connection.client() as client:
        created = client.create_workflow(nodes, request_id=request_id)
    if connection.as_json:
        print_json(created)
        return
    verb = "was registered before as" if created.existed else "registered as"
    click.echo(f"{verb} workflow {created.id}, {len(created.job_ids)} jobs")


@workflow.command("get", epilog=EXIT_CODES_HELP)
@click.argument("workflow_id", type=WholeNumber(1))
@connects
def get(connection: Connection, workflow_id: int) -> None:
    """Show the nodes of a workflow: what each waits for, and how it stands.

    \b
    Examples:
      raftsched workflow get 17
      raftsched workflow get 17 --json
    """
    with connection.client() as client:
        nodes = list(client.workflow(workflow_id, page_size=1_000, linearizable=True))
    if connection.as_json:
        print_json({"id": workflow_id, "nodes": nodes})
        return
    print_table(
        ("node", "state", "job", "handler", "depends on", "rule", "next run", "last execution"),
        (
            (node.name, *_job(node.job), node.depends_on, node.rule if node.depends_on else "", *_times(node.job))
            for node in nodes
        ),
        empty="",
    )
    counts = Counter(str(node.job.state.value) if node.job else "removed" for node in nodes)
    click.echo(f"{len(nodes)} nodes: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))


def _job(job: Job | None) -> tuple[object, object, object]:
    return (job.state, job.id, job.handler) if job is not None else ("removed", None, "")


def _times(job: Job | None) -> tuple[object, object]:
    return (job.next_run_time, job.last_execution_id) if job is not None else (None, None)
