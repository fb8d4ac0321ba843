"""Turns crontab lines into recurring shell jobs, so that importing the same file again finds the same jobs."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from raftsched.cli.crontab_file import Crontab, Entry, Remark
from raftsched.cli.shell_handler import SHELL_HANDLER
from raftsched.client import JobSpec, OverlapPolicy, RetryPolicy
from raftsched.model.errors import RaftschedError
from raftsched.model.recurrence import CronSchedule
from raftsched.model.schedule import check_cron, ticks_after

# Jobs that came from a crontab carry the file under this label.
SOURCE_LABEL = "crontab.source"

_MAX_SOURCE_LENGTH = 160


@dataclass(frozen=True)
class ImportOptions:
    """What all jobs of an import have in common; `time_zone` and `user` hold where the file says none."""

    source: str
    namespace: str
    queue: str
    time_zone: str
    user: str | None
    overlap: OverlapPolicy
    max_attempts: int
    run_timeout: timedelta | None
    jitter: timedelta | None


@dataclass(frozen=True)
class PlannedJob:
    """A line and the job it becomes; `name` follows from what the line says, not from where it stands."""

    entry: Entry
    name: str
    time_zone: str
    spec: JobSpec


def is_system_crontab(path: Path) -> bool:
    """Whether cron would expect a user column in that file."""
    resolved = path.resolve()
    return resolved == Path("/etc/crontab") or resolved.parent == Path("/etc/cron.d")


def default_source(path: Path) -> str:
    """The file's full path; of a very long one the end."""
    return str(path.resolve())[-_MAX_SOURCE_LENGTH:]


def plan(crontab: Crontab, options: ImportOptions) -> tuple[list[PlannedJob], list[Remark]]:
    """Jobs to register, and the lines whose schedule or zone is not allowed."""
    planned: list[PlannedJob] = []
    refused: list[Remark] = []
    # cron runs a line that stands there twice twice.
    seen: Counter[str] = Counter()
    for entry in crontab.entries:
        time_zone = entry.time_zone or options.time_zone
        try:
            check_cron(entry.expression, time_zone)
        except RaftschedError as error:
            where = f"CRON_TZ {entry.time_zone}: " if error.field == "time_zone" else ""
            refused.append(Remark(entry.line, entry.text, where + error.message))
            continue
        user = entry.user if entry.user is not None else options.user
        digest = _digest(entry, time_zone, user)
        seen[digest] += 1
        suffix = f".{seen[digest]}" if seen[digest] > 1 else ""
        name = f"crontab:{options.source}:{digest}{suffix}"
        planned.append(PlannedJob(entry, name, time_zone, _spec(entry, name, time_zone, user, options)))
    return planned, refused


def request_id(job: PlannedJob, previous_job_id: int) -> str:
    """Idempotency key for registering it after the job that had its name before (0: none) was cancelled.

    Two imports at the same time, or one that is repeated after a lost answer, register one job.
    """
    content = json.dumps([job.name, repr(job.spec), previous_job_id])
    return f"crontab-{hashlib.sha256(content.encode()).hexdigest()[:40]}"


def next_runs(job: PlannedJob, now_ms: int, count: int) -> list[datetime]:
    """Its next times, by the same rules as the cluster's."""
    ticks_ms = ticks_after(CronSchedule((job.entry.expression,), job.time_zone), now_ms, count=count)
    return [datetime.fromtimestamp(tick_ms / 1000, UTC) for tick_ms in ticks_ms]


def _digest(entry: Entry, time_zone: str, user: str | None) -> str:
    content = [entry.expression, time_zone, user, entry.command, entry.stdin, sorted(entry.environment.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _spec(entry: Entry, name: str, time_zone: str, user: str | None, options: ImportOptions) -> JobSpec:
    return JobSpec(
        SHELL_HANDLER,
        cron=entry.expression,
        time_zone=time_zone,
        payload={"command": entry.command, "stdin": entry.stdin, "env": entry.environment, "user": user},
        namespace=options.namespace,
        name=name,
        queue=options.queue,
        labels={SOURCE_LABEL: options.source},
        retry=RetryPolicy(max_attempts=options.max_attempts),
        run_timeout=options.run_timeout,
        overlap=options.overlap,
        jitter=options.jitter,
    )
