"""`raftsched crontab import`: registers each line of a crontab file as a recurring shell job."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.crontab_file import Entry, Remark, parse_crontab
from raftsched.cli.crontab_jobs import (
    SOURCE_LABEL,
    ImportOptions,
    PlannedJob,
    default_source,
    is_system_crontab,
    next_runs,
    plan,
    request_id,
)
from raftsched.cli.failures import ERROR, EXIT_CODES_HELP, USAGE, Failure, reported
from raftsched.cli.output import local_time, print_json, print_table, shortened
from raftsched.cli.shell_command import is_known_user
from raftsched.cli.values import DURATION, ZONE, WholeNumber, local_zone_name, wall_clock_ms
from raftsched.client import Job, JobState, OverlapPolicy, SyncClient
from raftsched.client.errors import JobNotFound, JobRunning, UnknownName

# Larger than any crontab people write, small enough to read at once.
_MAX_FILE_BYTES = 1024 * 1024
_SHOWN_RUNS = 3


@dataclass(frozen=True)
class Line:
    """What became of a line, or of a job that the file no longer holds (`line` 0).

    `outcome`: registered, unchanged, replaced, differs, would register, refused, cancelled, left.
    """

    line: int
    outcome: str
    text: str
    name: str = ""
    job_id: int | None = None
    next_run_times: Sequence[datetime] = ()
    user: str | None = None
    reason: str = ""


@click.group("crontab", epilog=EXIT_CODES_HELP)
def crontab() -> None:
    """Bring crontab files to the cluster."""


@crontab.command("import", epilog=EXIT_CODES_HELP)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Only show what would be registered; no cluster is needed.")
@click.option(
    "--system/--user-format",
    "system",
    default=None,
    help="Whether lines have a user before the command.  [default: they do in /etc/crontab and /etc/cron.d]",
)
@click.option(
    "--user", metavar="NAME", help="With --user-format: run the commands as this user.  [the shell worker's own]"
)
@click.option(
    "--tz", type=ZONE, metavar="ZONE", help="Where no CRON_TZ is set.  [default: this machine's, as for cron]"
)
@click.option(
    "--source", metavar="TEXT", help="Names the file in the jobs' names and labels.  [default: its full path]"
)
@click.option(
    "--sync", is_flag=True, help="Also cancel jobs of this source that the file no longer holds or asks otherwise."
)
@click.option("--namespace", default="", help="[default: default]")
@click.option("--queue", default="", help="For the jobs; a shell worker must serve it.  [default: default]")
@click.option("--overlap", type=click.Choice(("skip", "allow")), default="skip", show_default=True)
@click.option("--max-attempts", type=WholeNumber(1), default=1, show_default=True, help="cron never tries again.")
@click.option("--run-timeout", type=DURATION, metavar="DURATION", help="Kill a command after so long.  [none]")
@click.option("--jitter", type=DURATION, metavar="DURATION", help="Delay each job by a fixed share of this.")
@connects
def import_crontab(
    connection: Connection,
    file: Path,
    dry_run: bool,
    system: bool | None,
    user: str | None,
    tz: ZoneInfo | None,
    source: str | None,
    sync: bool,
    namespace: str,
    queue: str,
    overlap: str,
    max_attempts: int,
    run_timeout: int | None,
    jitter: int | None,
) -> None:
    """Register each line of the crontab FILE (- for standard input) as a recurring job for a shell worker.

    Understood: five-field schedules, @hourly to @yearly, NAME=value lines (which hold for the lines after them),
    CRON_TZ, % for input, a user column. A line that cannot be taken is named with the reason; the others go in, and
    the exit code is then 1. Importing a file again registers only what is new. The commands run where
    `raftsched worker --shell` runs, as the user of the line: see there.

    Different from cron: a tick is skipped while the previous run of the same line has not ended (with --overlap allow
    both run, as with cron); after an outage the latest missed tick runs once; output goes to the worker's log instead
    of mail; a command may run twice if its worker dies.

    \b
    Examples:
      raftsched crontab import --dry-run /etc/cron.d/php
      raftsched crontab import /etc/crontab --queue shell
      crontab -l | raftsched crontab import - --user "$USER" --source "$USER@$(hostname)" --sync
    """
    with reported(as_json=connection.as_json):
        content = _read(file)
        name = source or default_source(file) if str(file) != "-" else source or ""
        if not name:
            raise Failure("standard input has no name: give --source", exit_code=USAGE)
        user_column = is_system_crontab(file) if system is None else system
        if user_column and user:
            raise Failure("--user is for files without a user column", exit_code=USAGE)
        parsed = parse_crontab(content, system=user_column)
        if system is None and not user_column:
            _refuse_to_guess(parsed.entries)
    options = ImportOptions(
        source=name,
        namespace=namespace,
        queue=queue,
        time_zone=tz.key if tz else local_zone_name(),
        user=user,
        overlap=OverlapPolicy(overlap.upper()),
        max_attempts=max_attempts,
        run_timeout=_delta(run_timeout),
        jitter=_delta(jitter),
    )
    planned, not_allowed = plan(parsed, options)
    lines = [Line(one.line, "refused", one.text, reason=one.reason) for one in (*parsed.refused, *not_allowed)]
    if dry_run:
        lines += [_line(one, "would register") for one in planned]
    else:
        with connection.client(namespace) as client:
            lines += [_register(client, one, sync=sync) for one in planned]
            lines += _of_lines_that_went(client, {one.name for one in planned}, options, sync=sync)
    lines.sort(key=lambda line: line.line or 1_000_000)
    if connection.as_json:
        print_json({"source": name, "time_zone": options.time_zone, "lines": lines, "notes": parsed.notes})
    else:
        _print_lines(lines, parsed.notes, options)
    if any(line.outcome in {"refused", "differs"} for line in lines):
        raise SystemExit(ERROR)


def _read(file: Path) -> bytes:
    try:
        with click.open_file(str(file), "rb") as opened:
            content: bytes = opened.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}", exit_code=USAGE) from error
    if len(content) > _MAX_FILE_BYTES:
        raise Failure(f"{file} is larger than 1 MiB; is it a crontab?", exit_code=USAGE)
    return content


def _refuse_to_guess(entries: Sequence[Entry]) -> None:
    first_words = {entry.command.split()[0] for entry in entries}
    if first_words and all(is_known_user(word) for word in first_words):
        users = ", ".join(sorted(first_words))
        raise Failure(
            f"each command begins with the name of a user ({users}): is that a user column?",
            exit_code=USAGE,
            advice="say --system if it is, --user-format if it is not",
        )


def _register(client: SyncClient, planned: PlannedJob, *, sync: bool) -> Line:
    try:
        existing: Job | None = client.get_by_name(planned.name, linearizable=True)
    except (JobNotFound, UnknownName):
        existing = None
    outcome = "registered"
    if existing is not None and existing.state == JobState.SCHEDULED:
        differences = _differences(existing, planned)
        if not differences:
            return _line(planned, "unchanged", existing)
        if not sync:
            reason = f"registered before with another {', '.join(differences)}; --sync replaces it"
            return _line(planned, "differs", existing, reason)
        try:
            client.cancel(existing.id)
        except JobRunning:
            return _line(
                planned, "differs", existing, "it is running, so it cannot be replaced now; import again later"
            )
        outcome = "replaced"
    created = client.create_spec(planned.spec, request_id=request_id(planned, existing.id if existing else 0))
    return _line(planned, outcome, created)


def _differences(existing: Job, planned: PlannedJob) -> list[str]:
    spec = planned.spec
    assert spec.retry is not None
    pairs = {
        "queue": (existing.queue or "default", spec.queue or "default"),
        "overlap": (existing.overlap, spec.overlap),
        "max-attempts": (existing.retry.max_attempts, spec.retry.max_attempts),
        "run-timeout": (existing.run_timeout or None, spec.run_timeout or None),
        "jitter": (existing.jitter or None, spec.jitter or None),
    }
    return [name for name, (old, new) in pairs.items() if old != new]


def _of_lines_that_went(client: SyncClient, names: set[str], options: ImportOptions, *, sync: bool) -> list[Line]:
    """Jobs of this source that no line stands for any more: cancelled with --sync, else only told."""
    lines = []
    found = client.list(state=JobState.SCHEDULED, labels={SOURCE_LABEL: options.source}, linearizable=True)
    for job in [job for job in found if job.name not in names]:
        outcome, reason = "left", "no line of the file stands for it any more; --sync cancels it"
        if sync:
            try:
                client.cancel(job.id)
                outcome, reason = "cancelled", ""
            except JobRunning as error:
                reason = error.message
        lines.append(Line(0, outcome, "", job.name, job.id, reason=reason))
    return lines


def _line(planned: PlannedJob, outcome: str, job: Job | None = None, reason: str = "") -> Line:
    runs = next_runs(planned, wall_clock_ms(), _SHOWN_RUNS)
    user: str | None = planned.spec.payload["user"]
    job_id = job.id if job else None
    return Line(planned.entry.line, outcome, planned.entry.text, planned.name, job_id, runs, user, reason)


def _print_lines(lines: Sequence[Line], notes: Sequence[Remark], options: ImportOptions) -> None:
    def row(line: Line) -> tuple[Any, ...]:
        runs = "\n".join(local_time(run) for run in line.next_run_times)
        return (line.line or None, line.outcome, line.job_id, line.user, runs, line.name, shortened(line.text, 60))

    taken = [line for line in lines if line.outcome != "refused"]
    columns = ("line", "outcome", "job", "user", "next runs", "name", "text")
    print_table(columns, map(row, taken), empty="no line was taken")
    click.echo(f"\ntime zone where no CRON_TZ is set: {options.time_zone}")
    for line in lines:
        if line.reason and line.outcome != "refused":
            click.echo(f"line {line.line}: {line.reason}" if line.line else f"job {line.job_id}: {line.reason}")
    for note in notes:
        click.echo(f"line {note.line}: note: {note.reason}")
    for line in lines:
        if line.outcome == "refused":
            click.echo(f"line {line.line} refused: {line.reason}\n    {line.text}", err=True)


def _delta(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
