"""`raftsched job`: registers jobs, shows them and what became of them, cancels them."""

import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP, failure_of
from raftsched.cli.output import local_time, print_facts, print_json, print_table, shortened
from raftsched.cli.schedule_options import (
    moment,
    relative_times,
    schedule_facts,
    schedule_fields,
    schedule_options,
    schedule_text,
)
from raftsched.cli.values import DURATION, GIVEN, PAIR, WholeNumber
from raftsched.client import (
    Backoff,
    CatchUpPolicy,
    DependencyRule,
    Execution,
    Job,
    JobSpec,
    JobState,
    OverlapPolicy,
    Retention,
    RetryPolicy,
    SkippedOccurrence,
    SyncClient,
    Unavailable,
)

# What the API takes; one byte more is read from a file or a pipe, so that the cluster refuses it by its own rule.
_MAX_PAYLOAD_BYTES = 256 * 1024

# A time in the past means now, by the cluster's clock; and it is the same at each repetition of a command.
_NOW = datetime(1970, 1, 1, tzinfo=UTC)

# Policies that the cluster carries out.
_OVERLAPS = ("skip", "allow", "queue", "replace")
_CATCH_UPS = ("latest", "all", "none")
_RULES = ("all_success", "all_done", "any_success", "none_failed")
_BACKOFFS = ("exponential", "fixed", "linear")


@click.group("job", epilog=EXIT_CODES_HELP)
def job() -> None:
    """Register, list, inspect and cancel jobs."""


@job.command("create", epilog=EXIT_CODES_HELP)
@click.argument("handler")
@click.option("--run-at", metavar="TIME", help="Once, at: ISO 8601, 'in 5m' or 'now'. A past time means now.")
@schedule_options
@click.option(
    "--depends-on",
    type=WholeNumber(1),
    multiple=True,
    metavar="JOB",
    help="When the job with this id has ended; repeat for several.",
)
@click.option("--rule", type=click.Choice(_RULES), help="What their ends must be.  [default: all_success]")
@click.option("--payload", metavar="TEXT", help="Handed to the handler as it is.")
@click.option("--payload-file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--content-type", default="", metavar="TYPE", help="Of the payload.")
@click.option("--namespace", default="", help="[default: default]")
@click.option("--name", type=GIVEN, help="Unique in its namespace among jobs that are not cancelled or finished.")
@click.option("--queue", default="", help="Workers choose the queues they serve.  [default: default]")
@click.option(
    "--priority",
    type=WholeNumber(0, 9),
    default=0,
    show_default=True,
    help="A higher one is leased first, but for every tenth execution.",
)
@click.option("--tenant", default="", help="Tenants of equal priority are served in turn.")
@click.option("--label", "labels", type=PAIR, multiple=True, metavar="KEY=VALUE", help="Repeat for several.")
@click.option(
    "--jitter", type=DURATION, metavar="DURATION", help="Delay by a fixed share of this, derived from its id."
)
@click.option("--max-attempts", type=WholeNumber(1), help="Attempts in all before the dead letters.  [default: 3]")
@click.option("--initial-backoff", type=DURATION, metavar="DURATION", help="Before the second attempt.  [default: 1s]")
@click.option("--max-backoff", type=DURATION, metavar="DURATION", help="The longest delay.  [default: 1h]")
@click.option("--backoff-multiplier", type=float, help="Growth from attempt to attempt.  [default: 2]")
@click.option("--backoff-jitter", type=float, help="Share of the delay that is varied, 0 to 1.  [default: 0]")
@click.option(
    "--backoff",
    type=click.Choice(_BACKOFFS),
    help="How the delay grows.  [default: exponential]",
)
@click.option(
    "--max-elapsed", type=DURATION, metavar="DURATION", help="No attempt begins so long after the first.  [none]"
)
@click.option(
    "--no-retry-on", multiple=True, metavar="CLASS", help="Class of errors that are not retried; repeat for several."
)
@click.option("--run-timeout", type=DURATION, metavar="DURATION", help="An attempt that takes longer fails.  [none]")
@click.option("--overlap", type=click.Choice(_OVERLAPS), help="When the previous run is not finished.  [default: skip]")
@click.option(
    "--overlap-limit",
    type=WholeNumber(0),
    default=0,
    help="How many may wait (queue; 0: 100), or be unfinished (allow; 0: any number).",
)
@click.option("--catch-up", type=click.Choice(_CATCH_UPS), help="Which of several missed ticks run.  [default: latest]")
@click.option("--catch-up-window", type=DURATION, metavar="DURATION", help="Ticks missed by more do not run.  [none]")
@click.option(
    "--catch-up-limit", type=WholeNumber(0), default=0, help="So many of them run, the latest (all; 0: 10,000)."
)
@click.option(
    "--catch-up-interval",
    type=DURATION,
    metavar="DURATION",
    help="Time between missed ticks (all); shorter than --every.  [none]",
)
@click.option(
    "--max-runs", type=WholeNumber(0), default=0, help="After so many runs a recurring job is completed (0: never)."
)
@click.option("--keep-for", type=DURATION, metavar="DURATION", help="Finished executions.  [the cluster's default]")
@click.option("--keep-last", type=WholeNumber(0), metavar="N", help="So many executions (0: the cluster's default).")
@click.option(
    "--start-deadline", type=DURATION, metavar="DURATION", help="What did not start so long after its time is skipped."
)
@click.option(
    "--pause-after-failures",
    type=WholeNumber(0),
    default=0,
    metavar="N",
    help="Pause it after N dead letters in a row (0: never).",
)
@click.option(
    "--concurrency-key", type=GIVEN, metavar="KEY", help="At most --concurrency-limit executions with it at once."
)
@click.option("--concurrency-limit", type=WholeNumber(1), metavar="N", help="Goes with --concurrency-key.")
@click.option(
    "--request-id", type=GIVEN, metavar="KEY", help="Idempotency key: repeating the command with it registers one job."
)
@connects
def create(
    connection: Connection,
    handler: str,
    payload: str | None,
    payload_file: Path | None,
    request_id: str | None,
    **options: Any,
) -> None:
    """Register a job that runs HANDLER, once (--run-at), on a --cron, at an interval (--every), or after others
    (--depends-on).

    Without any of these it runs once, now. The payload comes from --payload, --payload-file, or standard input
    (--payload-file -).

    \b
    Examples:
      raftsched job create reports.nightly --cron "0 2 * * *" --tz Europe/Berlin --name nightly
      raftsched job create reports.daily --cron "0 9 * * *" --exclude "* * * * sat,sun" --calendar holidays
      raftsched job create mail.send --run-at "in 5m" --payload '{"to": "ada"}'
      raftsched job create shell.run --every 1h --payload '{"command": "df -h"}' --queue shell
      git rev-parse HEAD | raftsched job create builds.start --payload-file - --request-id build-42
    """
    relative = relative_times(options)
    if relative and request_id:
        flag = f"--{relative[0].replace('_', '-')}"
        raise click.UsageError(
            f"{flag} {options[relative[0]]!r} is another time at each repetition: with --request-id, write the time out"
        )
    spec = job_spec(handler, read_payload(payload, payload_file), options)
    with connection.client() as client:
        try:
            created = client.create_spec(spec, request_id=request_id)
        except Unavailable as error:
            failure = failure_of(error, connection.addresses)
            if error.request_id:
                times = [f" --{name.replace('_', '-')} {getattr(spec, name).isoformat()}" for name in relative]
                failure.advice = (
                    f"repeat it with --request-id {error.request_id}{''.join(times)}: it will not be done twice"
                )
            raise failure from error
    if connection.as_json:
        print_json(created)
        return
    verb = "was registered before as" if created.existed else "registered as"
    click.echo(f"{verb} job {created.id}", nl=False)
    click.echo(f", next run {local_time(created.next_run_time)}" if created.next_run_time else "")


@job.command("list", epilog=EXIT_CODES_HELP)
@click.option("--namespace", default="", help="[default: default]")
@click.option("--state", type=click.Choice([state.lower() for state in JobState if state != JobState.UNSPECIFIED]))
@click.option("--handler", default="")
@click.option("--queue", default="")
@click.option("--label", "labels", type=PAIR, multiple=True, metavar="KEY=VALUE", help="All that are given must match.")
@click.option("--limit", type=WholeNumber(1), default=100, show_default=True, help="Show at most so many.")
@connects
def list_jobs(
    connection: Connection,
    namespace: str,
    state: str | None,
    handler: str,
    queue: str,
    labels: tuple[tuple[str, str], ...],
    limit: int,
) -> None:
    """List the jobs of a namespace, in order of registration.

    \b
    Examples:
      raftsched job list --state dead_letter
      raftsched job list --label team=billing --limit 1000 --json
    """
    with connection.client() as client:
        found = client.list(
            namespace=namespace,
            state=JobState(state.upper()) if state else None,
            handler=handler,
            queue=queue,
            labels=dict(labels),
            page_size=min(limit + 1, 1_000),
            linearizable=True,
        )
        jobs = list(islice(found, limit + 1))
    more = len(jobs) > limit
    if connection.as_json:
        print_json({"jobs": jobs[:limit], "more": more})
        return
    print_table(
        ("id", "state", "handler", "schedule", "next run", "name", "labels"),
        (
            (one.id, one.state, one.handler, schedule_text(one), one.next_run_time, one.name, one.labels)
            for one in jobs[:limit]
        ),
        empty="no job matches",
    )
    if more:
        click.echo(f"there are more than {limit}: see --limit")


@job.command("get", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@connects
def get(connection: Connection, job_id: int | None, name: str | None, namespace: str) -> None:
    """Show one job, by its id or by --name.

    \b
    Examples:
      raftsched job get 42
      raftsched job get --name nightly --json
    """
    with connection.client() as client:
        found = find_job(client, job_id, name, namespace)
    if connection.as_json:
        print_json(found)
    else:
        print_facts(_facts(found))


@job.command("cancel", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@connects
def cancel(connection: Connection, job_id: int | None, name: str | None, namespace: str) -> None:
    """Cancel a job: it will not run again. Refused while an execution of it is running; harmless when repeated.

    \b
    Examples:
      raftsched job cancel 42
      raftsched job cancel --name nightly
    """
    with connection.client() as client:
        cancelled = client.cancel(find_job(client, job_id, name, namespace).id if job_id is None else job_id)
    if connection.as_json:
        print_json(cancelled)
    else:
        click.echo(f"job {cancelled.id} is cancelled")


@job.command("history", epilog=EXIT_CODES_HELP)
@click.argument("job_id", type=WholeNumber(1), required=False)
@click.option("--name", type=GIVEN, help="Instead of an id.")
@click.option("--namespace", default="", help="Of the name.  [default: default]")
@click.option("--limit", type=WholeNumber(1), default=20, show_default=True, help="Show at most so many of each.")
@connects
def history(connection: Connection, job_id: int | None, name: str | None, namespace: str, limit: int) -> None:
    """Show what became of a job's occurrences: its executions, newest first, and those that were skipped, with why.

    \b
    Examples:
      raftsched job history 42
      raftsched job history --name nightly --limit 200 --json
    """
    with connection.client() as client:
        found = find_job(client, job_id, name, namespace)
        executions = list(islice(client.executions(found.id, linearizable=True), limit))
        skipped = list(islice(client.skipped(found.id, linearizable=True), limit))
    if connection.as_json:
        print_json({"job_id": found.id, "executions": executions, "skipped": skipped})
        return
    print_executions(executions)
    if skipped:
        _print_skipped(skipped)


def print_executions(executions: list[Execution]) -> None:
    """The table of a job's history."""
    print_table(
        ("execution", "scheduled for", "state", "attempt", "started", "took", "worker", "error"),
        (
            (
                one.id,
                one.scheduled_for,
                one.state,
                one.attempt,
                one.start_time,
                one.end_time - one.start_time if one.start_time and one.end_time else None,
                one.worker,
                shortened(one.error),
            )
            for one in executions
        ),
        empty="it has not run yet",
    )


def _print_skipped(skipped: list[SkippedOccurrence]) -> None:
    print_table(
        ("skipped from", "to", "count", "reason"),
        ((one.scheduled_for, one.last_scheduled_for, one.count, one.reason) for one in skipped),
        empty="",
        title="\nskipped occurrences",
    )


def find_job(client: SyncClient, job_id: int | None, name: str | None, namespace: str) -> Job:
    """The job that a command names by its id or by --name. Raises UsageError unless it is one of both."""
    if (job_id is None) == (name is None):
        raise click.UsageError("give either the job's id or --name")
    if name is not None:
        return client.get_by_name(name, namespace=namespace, linearizable=True)
    assert job_id is not None
    return client.get(job_id, linearizable=True)


def _facts(job: Job) -> list[tuple[str, Any]]:
    return [
        ("id", job.id),
        ("name", job.name),
        ("namespace", job.namespace),
        ("state", job.state),
        ("handler", job.handler),
        ("schedule", schedule_text(job)),
        ("run at", job.run_at),
        *schedule_facts(job),
        ("depends on", job.depends_on),
        ("rule", job.rule if job.depends_on else None),
        ("workflow", job.workflow_id),
        ("next run", job.next_run_time),
        ("queue", job.queue),
        ("priority", job.priority),
        ("tenant", job.tenant),
        ("labels", job.labels),
        ("jitter", job.jitter or None),
        ("run timeout", job.run_timeout),
        ("max attempts", job.retry.max_attempts),
        ("initial backoff", job.retry.initial_backoff),
        ("max backoff", job.retry.max_backoff),
        ("backoff multiplier", job.retry.multiplier),
        ("backoff jitter", job.retry.jitter or None),
        ("backoff", job.retry.backoff),
        ("max elapsed", job.retry.max_elapsed),
        ("not retried", ", ".join(job.retry.non_retryable_errors) or None),
        ("overlap", job.overlap if job.cron or job.every else None),
        ("overlap limit", job.overlap_limit or None),
        ("catch-up", job.catch_up if job.cron or job.every else None),
        ("catch-up window", job.catch_up_window),
        ("catch-up limit", job.catch_up_limit or None),
        ("catch-up interval", job.catch_up_interval),
        ("max runs", job.max_runs or None),
        ("start deadline", job.start_deadline),
        ("kept for", job.retention.max_age),
        ("kept executions", job.retention.max_executions or None),
        ("pause after failures", job.pause_after_failures or None),
        ("concurrency key", job.concurrency_key),
        ("concurrency limit", job.concurrency_limit or None),
        ("paused", job.pause_time),
        ("pause note", job.pause_note),
        ("registered", job.create_time),
        ("cancelled", job.cancel_time),
        ("last execution", job.last_execution_id),
        ("etag", job.etag),
        ("content type", job.content_type),
        ("payload", job.payload),
    ]


def job_spec(handler: str, payload: bytes, options: dict[str, Any]) -> JobSpec:
    """What the options of `job create` describe. Raises UsageError and BadParameter."""
    tz: ZoneInfo | None = options["tz"]
    given = [name for name in ("run_at", "cron", "every", "depends_on") if options.get(name) not in (None, ())]
    if len(given) > 1:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{flags} exclude each other: a job has one schedule")
    run_at = None
    if not given or options["run_at"] is not None:
        run_at = _NOW if (options["run_at"] or "now") == "now" else moment(options["run_at"], tz, "--run-at")
    return JobSpec(
        handler,
        run_at=run_at,
        **schedule_fields(options),
        depends_on=options.get("depends_on", ()),
        rule=DependencyRule((options.get("rule") or "unspecified").upper()),
        payload=payload,
        content_type=options["content_type"],
        namespace=options.get("namespace", ""),
        name=options["name"] or "",
        queue=options["queue"],
        priority=options["priority"],
        tenant=options["tenant"],
        labels=dict(options["labels"]),
        retry=_retry(options),
        run_timeout=_delta(options["run_timeout"]),
        overlap=OverlapPolicy((options["overlap"] or "unspecified").upper()),
        catch_up=CatchUpPolicy((options["catch_up"] or "unspecified").upper()),
        jitter=_delta(options["jitter"]),
        pause_after_failures=options["pause_after_failures"],
        concurrency_key=options["concurrency_key"] or "",
        concurrency_limit=options["concurrency_limit"] or 0,
        overlap_limit=options["overlap_limit"],
        catch_up_window=_delta(options["catch_up_window"]),
        catch_up_limit=options["catch_up_limit"],
        catch_up_interval=_delta(options["catch_up_interval"]),
        max_runs=options["max_runs"],
        start_deadline=_delta(options["start_deadline"]),
        retention=_retention(options),
    )


def _retention(options: dict[str, Any]) -> Retention | None:
    chosen = chosen_retention(options)
    return Retention(**chosen) if chosen else None


def chosen_retention(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of Retention that the options of `job create` say something about."""
    given = {"max_age": _delta(options["keep_for"]), "max_executions": options["keep_last"]}
    return {name: value for name, value in given.items() if value is not None}


def _retry(options: dict[str, Any]) -> RetryPolicy | None:
    chosen = chosen_retry(options)
    return RetryPolicy(**chosen) if chosen else None


def chosen_retry(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of RetryPolicy that the options of `job create` say something about."""
    given = {
        "max_attempts": options["max_attempts"],
        "initial_backoff": _delta(options["initial_backoff"]),
        "max_backoff": _delta(options["max_backoff"]),
        "multiplier": options["backoff_multiplier"],
        "jitter": options["backoff_jitter"],
        "backoff": Backoff(options["backoff"].upper()) if options["backoff"] else None,
        "max_elapsed": _delta(options["max_elapsed"]),
        "non_retryable_errors": options["no_retry_on"] or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _delta(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def read_payload(text: str | None, file: Path | None) -> bytes:
    """What --payload or --payload-file stands for. Raises UsageError for both, BadParameter for a bad file."""
    if text is not None and file is not None:
        raise click.UsageError("--payload and --payload-file exclude each other")
    if file is None:
        # Arguments that are not UTF-8 come with surrogates, and leave as the bytes they were.
        return (text or "").encode(errors="surrogateescape")
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(_MAX_PAYLOAD_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(_MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="'--payload-file'") from error
