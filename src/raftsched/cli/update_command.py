"""`raftsched job update`: changes what its options name, which are those of `job create`."""

import copy
import dataclasses
import re
from typing import Any

import click
from click.core import ParameterSource

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.job_commands import chosen_retention, chosen_retry, create, job_spec, read_payload
from raftsched.cli.output import local_time, print_json
from raftsched.cli.values import GIVEN, WholeNumber

# What `job create` takes and cannot be changed, or means something else here.
_NOT_SHARED = ("handler", "namespace", "request_id", "nodes", "timeout_ms", "as_json", "depends_on", "rule")
# All others are fields of JobSpec by their own names.
FIELD_OF_OPTION = {
    "payload_file": "payload",
    "tz": "time_zone",
    "keep_for": "retention",
    "keep_last": "retention",
    "max_attempts": "retry",
    "initial_backoff": "retry",
    "max_backoff": "retry",
    "backoff_multiplier": "retry",
    "backoff_jitter": "retry",
    "backoff": "retry",
    "max_elapsed": "retry",
    "no_retry_on": "retry",
}
# With a new schedule, which replaces the old one as a whole, what is not said is by default.
_WITH_DEFAULTS = ("tz", "gap", "fold")


@click.command("update", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1))
@click.option("--handler", type=GIVEN, help="The function that a worker runs.")
@click.option("--etag", default="", help="Of `job get`: fail if the job has changed since.")
@click.option("--no-labels", is_flag=True, help="Remove all labels.")
@connects
def update(
    connection: Connection, job_id: int, handler: str | None, etag: str, no_labels: bool, **options: Any
) -> None:
    """Change the settings that are given; all others stay. The options are those of `job create`.

    Labels, and a schedule with all that belongs to it, are replaced as a whole. A tick that is already due fires
    under the old settings, once; executions under way keep those that they were fired with.

    \b
    Examples:
      raftsched job update 42 --cron "0 3 * * *" --tz Europe/Berlin
      raftsched job update 42 --priority 7 --max-attempts 10 --etag 5f0c7d3a91b2e846
    """
    payload = read_payload(options["payload"], options["payload_file"])
    spec = job_spec("", payload, options)
    changes = {name: getattr(spec, name) for name in _given_fields(options)}
    if handler is not None:
        changes["handler"] = handler
    if no_labels:
        changes["labels"] = {}
    if not changes:
        alone = ": --tz goes with a --cron, --run-at or other time" if options["tz"] else ": name at least one setting"
        raise click.UsageError(f"nothing to change{alone}")
    with connection.client() as client:
        if "retry" in changes or "retention" in changes:
            stored = client.get(job_id, linearizable=True)
            if "retry" in changes:
                changes["retry"] = dataclasses.replace(stored.retry, **chosen_retry(options))
            if "retention" in changes:
                changes["retention"] = dataclasses.replace(stored.retention, **chosen_retention(options))
        changed = client.update(job_id, etag=etag, **changes)
    if connection.as_json:
        print_json(changed)
        return
    click.echo(f"job {changed.id} is changed", nl=False)
    click.echo(f", next run {local_time(changed.next_run_time)}" if changed.next_run_time else "")


def _without_default(option: click.Parameter) -> click.Parameter:
    """The option as one whose absence changes nothing."""
    if not isinstance(option, click.Option) or option.name in _WITH_DEFAULTS:
        return option
    changed = copy.copy(option)
    changed.show_default = False
    changed.help = re.sub(r" +\[[^\]]*\]\Z", "", option.help or "")
    return changed


# Whatever a job is created with can be changed by the same words.
update.params += [_without_default(option) for option in create.params if option.name not in _NOT_SHARED]


def _given_fields(options: dict[str, Any]) -> list[str]:
    """The fields of JobSpec that the command line says something about."""
    context = click.get_current_context()
    given = [name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    fields = [FIELD_OF_OPTION.get(name, name) for name in given]
    if "cron" in fields:
        # The option is there for all expressions.
        fields.append("more_crons")
    else:
        # The zone is that of the times.
        fields = [name for name in fields if name != "time_zone"]
    return list(dict.fromkeys(fields))
