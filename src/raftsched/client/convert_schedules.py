"""Schedules and calendars to protobuf messages and back."""

from datetime import date, datetime

from google.protobuf.message import Message

from raftsched.client import values
from raftsched.client.errors import InvalidField
from raftsched.client.fields import assign, extend, member_name, set_duration, set_time, time_value
from raftsched.client.schedules import Calendar, CalendarRule, CalendarUse, FoldPolicy, GapPolicy
from raftsched.v1 import calendar_pb2, job_pb2


def set_schedule(job: job_pb2.Job, spec: values.JobSpec, *, is_needed: bool) -> None:
    given = (spec.run_at is not None) + (spec.cron is not None) + (spec.every is not None) + bool(spec.depends_on)
    if given != 1 and (given or is_needed):
        raise InvalidField("exactly one of run_at, cron, every and depends_on must be given", field="schedule")
    if spec.rule is not values.DependencyRule.UNSPECIFIED and not spec.depends_on:
        raise InvalidField("only a job with depends_on has a rule", field="rule")
    if spec.time_zone and spec.cron is None:
        raise InvalidField("only a cron schedule has a time zone", field="time_zone")
    for field in ("more_crons", "exclude", "gap", "fold", "calendars"):
        if getattr(spec, field) not in ((), [], "UNSPECIFIED") and spec.cron is None:
            raise InvalidField("only a cron schedule has that", field=field)
    for field in ("start", "end"):
        if getattr(spec, field) is not None and spec.every is None and spec.cron is None:
            raise InvalidField("only a cron or interval schedule has that", field=field)
    if spec.run_at is not None:
        set_time(job.run_at, spec.run_at, "run_at")
    elif spec.cron is not None:
        _set_cron(job.cron, spec)
    elif spec.depends_on:
        extend(job.dependencies, "job_ids", spec.depends_on, "depends_on")
        set_rule(job.dependencies, spec.rule)
    elif spec.every is not None:
        set_duration(job.interval.every, spec.every, "every")
        if spec.start is not None:
            set_time(job.interval.start, spec.start, "start")
        if spec.end is not None:
            set_time(job.interval.end, spec.end, "end")


def _set_cron(cron: job_pb2.Cron, spec: values.JobSpec) -> None:
    cron.SetInParent()
    assign(cron, "expression", spec.cron, "cron")
    assign(cron, "time_zone", spec.time_zone)
    for field, name in (("more_expressions", "more_crons"), ("exclude", "exclude")):
        extend(cron, field, getattr(spec, name), name)
    if spec.gap is not GapPolicy.UNSPECIFIED:
        assign(cron, "gap", f"GAP_POLICY_{member_name(GapPolicy, spec.gap, 'gap')}")
    if spec.fold is not FoldPolicy.UNSPECIFIED:
        assign(cron, "fold", f"FOLD_POLICY_{member_name(FoldPolicy, spec.fold, 'fold')}")
    if spec.start is not None:
        set_time(cron.start, spec.start, "start")
    if spec.end is not None:
        set_time(cron.end, spec.end, "end")
    if isinstance(spec.calendars, str):
        raise InvalidField("a sequence of calendars is right", field="calendars")
    for given in spec.calendars:
        use = CalendarUse(given) if isinstance(given, str) else given
        added = cron.calendars.add()
        assign(added, "calendar", use.calendar)
        assign(added, "rule", f"CALENDAR_RULE_{member_name(CalendarRule, use.rule, 'calendars')}")


def recurrence(job: job_pb2.Job) -> job_pb2.Cron | job_pb2.Interval:
    """What of the job has a start and an end."""
    return job.interval if job.WhichOneof("schedule") == "interval" else job.cron


def calendar_message(calendar: Calendar, namespace: str) -> calendar_pb2.Calendar:
    """`namespace` serves where the calendar names none. Raises InvalidField."""
    message = calendar_pb2.Calendar(namespace=calendar.namespace or namespace)
    assign(message, "name", calendar.name)
    for number, day in enumerate(calendar.dates):
        if not isinstance(day, date) or isinstance(day, datetime):
            raise InvalidField("must be a datetime.date", field=f"dates[{number}]")
        message.dates.append(day.isoformat())
    for number, (start, end) in enumerate(calendar.windows):
        window = message.windows.add()
        set_time(window.start, start, f"windows[{number}]")
        set_time(window.end, end, f"windows[{number}]")
    return message


def calendar_value(calendar: calendar_pb2.Calendar) -> Calendar:
    return Calendar(
        calendar.name,
        tuple(map(date.fromisoformat, calendar.dates)),
        tuple((time_value(window.start), time_value(window.end)) for window in calendar.windows),
        namespace=calendar.namespace,
    )


def set_rule(message: Message, rule: values.DependencyRule) -> None:
    if rule is not values.DependencyRule.UNSPECIFIED:
        assign(message, "rule", f"DEPENDENCY_RULE_{member_name(values.DependencyRule, rule, 'rule')}")
