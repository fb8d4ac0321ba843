"""An update of a job: what its mask names put into the job as it is, checked like a job that is registered."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from raftsched.api.convert import create_jobs_command
from raftsched.api.recurrence import no_calendar, resolve_hashed
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.calendars import FindCalendar
from raftsched.v1 import job_pb2

_SCHEDULES = ("run_at", "cron", "interval")
_FIXED = ("namespace", "dependencies", "schedule")
_OUTPUT_ONLY = (
    "id",
    "state",
    "create_time",
    "next_run_time",
    "last_execution_id",
    "cancel_time",
    "etag",
    "pause_note",
    "pause_time",
    "workflow_id",
)
# Settings of a series of occurrences: they mean nothing for a job that runs once, and go when it becomes one.
_OF_SERIES = (
    "overlap",
    "overlap_limit",
    "catch_up",
    "catch_up_window",
    "catch_up_limit",
    "catch_up_interval",
    "max_runs",
    "pause_after_failures",
)
_UNUSED_KEY = "update"


def update_command(
    stored: job_pb2.Job, request: job_pb2.UpdateJobRequest, now_ms: int, find_calendar: FindCalendar = no_calendar
) -> command_pb2.UpdateJob | None:
    """The command that makes of `stored` what the request wants; None when it is that already.

    Raises InvalidField, fields beginning with "job." or "update_mask".
    """
    names = _checked_names(request)
    wanted = _settings_of(stored)
    for name in names:
        _copy(request.job, wanted, name)
    try:
        resolve_hashed(wanted)
    except InvalidField as error:
        error.field = f"job.{error.field}"
        raise
    changes_schedule = any(name in _SCHEDULES for name in names) and not _is_same_interval(stored, wanted)
    if changes_schedule and wanted.WhichOneof("schedule") == "run_at":
        for name in _OF_SERIES:
            if name not in names:
                wanted.ClearField(name)
    if wanted == _settings_of(stored):
        return None
    if not changes_schedule:
        _set_any_schedule(wanted, now_ms)
    changes_name, changes_payload = wanted.name != stored.name, wanted.payload != stored.payload
    if not changes_name:
        wanted.ClearField("name")
    if not changes_payload:
        wanted.ClearField("payload")
    command = create_jobs_command([wanted], _UNUSED_KEY, now_ms, batch=False, find_calendar=find_calendar)
    settings = command.create_jobs
    for unused in ("key", "key_namespace", "fingerprint"):
        settings.ClearField(unused)
    if not changes_schedule:
        settings.ClearField("schedules")
        settings.jobs[0].schedule = 0
    return command_pb2.UpdateJob(
        job=stored.id,
        etag=stored.etag,
        settings=settings,
        changes_name=changes_name,
        changes_payload=changes_payload,
        changes_schedule=changes_schedule,
    )


def _checked_names(request: job_pb2.UpdateJobRequest) -> list[str]:
    """The fields that the mask names, each once."""
    names = list(dict.fromkeys(request.update_mask.paths))
    if not names:
        raise InvalidField("names nothing; name the fields of job that are to change", field="update_mask")
    for name in names:
        if name in _OUTPUT_ONLY:
            raise InvalidField(f"{name} is set by the server only", field="update_mask")
        if name in _FIXED:
            raise InvalidField(f"{name} cannot be changed; register another job", field="update_mask")
        if name not in job_pb2.Job.DESCRIPTOR.fields_by_name:
            whole = name.split(".")[0]
            hint = f"; name the whole field, {whole}" if whole in job_pb2.Job.DESCRIPTOR.fields_by_name else ""
            raise InvalidField(f"{name[:64]} is no field of a job{hint}", field="update_mask")
    schedules = [name for name in names if name in _SCHEDULES]
    if len(schedules) > 1:
        raise InvalidField(f"{' and '.join(schedules)} exclude each other", field="update_mask")
    if schedules and request.job.WhichOneof("schedule") != schedules[0]:
        raise InvalidField("unset, though the mask names it", field=f"job.{schedules[0]}")
    return names


def _is_same_interval(stored: job_pb2.Job, wanted: job_pb2.Job) -> bool:
    """Without a start it goes on from where it is. That a cron schedule is the same, the state machine notices."""
    if stored.WhichOneof("schedule") != "interval" or wanted.WhichOneof("schedule") != "interval":
        return False
    if wanted.interval.HasField("start"):
        return False
    before, after = job_pb2.Interval(), job_pb2.Interval()
    before.CopyFrom(stored.interval)
    after.CopyFrom(wanted.interval)
    before.ClearField("start")
    return before == after


def _settings_of(stored: job_pb2.Job) -> job_pb2.Job:
    settings = job_pb2.Job()
    settings.CopyFrom(stored)
    for name in _OUTPUT_ONLY:
        settings.ClearField(name)
    return settings


def _copy(source: job_pb2.Job, target: job_pb2.Job, name: str) -> None:
    """One whole field, also if it is unset."""
    field = job_pb2.Job.DESCRIPTOR.fields_by_name[name]
    target.ClearField(name)
    value = getattr(source, name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(value)
    elif isinstance(value, Message):
        if source.HasField(name):
            getattr(target, name).CopyFrom(value)
    else:
        setattr(target, name, value)


def _set_any_schedule(job: job_pb2.Job, now_ms: int) -> None:
    """In place of one that stays as it is: what it was once checked for need not hold any more."""
    kind = job.WhichOneof("schedule")
    if kind == "run_at":
        job.run_at.FromMilliseconds(now_ms)
    elif kind in ("cron", "interval"):
        # Of an interval the length, to which the pace of catching up must keep.
        every = job.interval.every if kind == "interval" else Duration(seconds=limits.INTERVAL_MAX_MS // 1000)
        job.interval.CopyFrom(job_pb2.Interval(every=every))
