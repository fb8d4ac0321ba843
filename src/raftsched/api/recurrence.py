"""Recurring schedules as callers describe them, checked and turned into what is stored, with their first ticks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api import validate
from raftsched.api.job_settings import DEFAULT_TIME_ZONE
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.cron import parse_cron
from raftsched.model.cron_input import every_ms, is_hashed, resolved
from raftsched.model.errors import InvalidField, RaftschedError
from raftsched.model.recurrence import CronSchedule
from raftsched.model.schedule import TickBatch, check_schedule, initial_ticks
from raftsched.state.calendars import FindCalendar, cron_schedule, found_by, tick_rules
from raftsched.store.environment import Store
from raftsched.v1 import job_pb2

# Fields of raftsched.v1.Cron beside the first expression.
_OTHERS = ("time_zone", "more_expressions", "exclude", "gap", "fold", "start", "end", "calendars")
# Fields of internal.v1.Schedule, and the names that callers know them under.
_CRON_FIELDS = {
    "expression": "cron.expression",
    "time_zone": "cron.time_zone",
    "more_expressions": "cron.more_expressions",
    "exclude": "cron.exclude",
    "gap": "cron.gap",
    "fold": "cron.fold",
    "start_ms": "cron.start",
    "end_ms": "cron.end",
    "calendars": "cron.calendars",
}

CronKey = tuple[bytes, str, str]


def no_calendar(_namespace: str, _name: str) -> bytes | None:
    """Where none are at hand."""
    return None


def cron_key(job: job_pb2.Job, namespace: str) -> CronKey:
    """Equal for jobs that have one schedule in common; cheap."""
    cron = job.cron
    texts = (cron.expression, *cron.more_expressions, *cron.exclude)
    seed = _seed(job) if any(map(is_hashed, texts)) else ""
    return cron.SerializeToString(deterministic=True), seed, namespace if cron.calendars else ""


def resolve_hashed(job: job_pb2.Job) -> None:
    """Replaces each H of the job's cron schedule by its number, while the job has its name. Raises InvalidField."""
    if job.WhichOneof("schedule") != "cron":
        return
    try:
        job.cron.expression = _resolved(job.cron.expression, _seed(job), "expression")
        job.cron.more_expressions[:] = _all_resolved(job.cron.more_expressions, _seed(job), "more_expressions")
        job.cron.exclude[:] = _all_resolved(job.cron.exclude, _seed(job), "exclude")
    except InvalidField as error:
        error.field = f"cron.{error.field}"
        raise


def schedule_of_cron(job: job_pb2.Job, namespace: str, now_ms: int) -> command_pb2.Schedule:
    """What is stored of a job's cron schedule; an interval for `@every`. Raises InvalidField, field "cron.…"."""
    try:
        return _every(job.cron) or _cron(job.cron, _seed(job), namespace, now_ms)
    except RaftschedError as error:
        error.field = f"cron.{error.field}"
        raise


def interval_end_ms(interval: job_pb2.Interval, first_ms: int, now_ms: int) -> int:
    """0: none. Raises InvalidField."""
    if not interval.HasField("end"):
        return 0
    end_ms = _bounded_ms(interval.end, "interval.end", now_ms)
    if end_ms <= first_ms:
        raise InvalidField("nothing would fire before it", field="interval.end")
    return end_ms


def new_schedule(schedule: command_pb2.Schedule, now_ms: int, find: FindCalendar) -> command_pb2.NewSchedule:
    """The schedule with its ticks after `now_ms`. Raises InvalidField, field "cron.…", for one that never fires."""
    new = command_pb2.NewSchedule(schedule=schedule.SerializeToString(deterministic=True))
    if schedule.every_ms:
        return new
    try:
        value, version = cron_schedule(schedule, find)
        batch = initial_ticks(value, now_ms)
        if not batch.ticks_ms:
            raise _never_fires(value, now_ms, batch)
    except RaftschedError as error:
        error.field = f"cron.{error.field}"
        raise
    new.ticks_ms.extend(batch.ticks_ms)
    new.final = batch.is_final
    new.rules.CopyFrom(tick_rules(value, version))
    return new


def cron_difference(stored: job_pb2.Job, requested: job_pb2.Job, namespace: str) -> list[str]:
    """The names of the fields in which two cron schedules differ; both have been accepted once."""
    # Times may have passed since.
    before, after = (schedule_of_cron(job, namespace, limits.HORIZON_MS) for job in (stored, requested))
    return [name for field, name in _CRON_FIELDS.items() if getattr(before, field) != getattr(after, field)]


def check_pace(job: job_pb2.Job) -> None:
    """Raises InvalidField for an interval that is not longer than the time between occurrences that are caught up with.

    Both have passed their own checks.
    """
    between = validate.milliseconds(job.interval.every) if job.HasField("interval") else every_ms(job.cron.expression)
    pace_ms = validate.milliseconds(job.catch_up_interval)
    if between is not None and pace_ms >= between:
        raise InvalidField(
            f"{validate.span_text(pace_ms)} is not shorter than the interval of {validate.span_text(between)}:"
            " what was missed would never be caught up with",
            field="catch_up_interval",
        )


def uses_calendars(jobs: Iterable[job_pb2.Job]) -> bool:
    """Then this node must have caught up before `calendars_for` says what there is."""
    return any(job.cron.calendars for job in jobs)


@contextmanager
def calendars_for(jobs: Iterable[job_pb2.Job], store: Store) -> Iterator[FindCalendar]:
    """The calendars that these jobs' schedules may name, all as of one moment. On any thread."""
    if not uses_calendars(jobs):
        yield no_calendar
        return
    with store.read() as view:
        yield found_by(view)


def _seed(job: job_pb2.Job) -> str:
    return job.name or job.handler


def _every(cron: job_pb2.Cron) -> command_pb2.Schedule | None:
    span_ms = every_ms(cron.expression)
    if span_ms is None:
        return None
    for field in _OTHERS:
        if getattr(cron, field) != getattr(job_pb2.Cron(), field):
            raise InvalidField("@every stands alone; only an `interval` (--every) has more to it", field=field)
    return command_pb2.Schedule(every_ms=span_ms)


def _cron(cron: job_pb2.Cron, seed: str, namespace: str, now_ms: int) -> command_pb2.Schedule:
    _check_count(cron.more_expressions, limits.EXPRESSIONS_MAX - 1, "more_expressions")
    _check_count(cron.exclude, limits.EXCLUSIONS_MAX, "exclude")
    _check_count(cron.calendars, limits.CALENDARS_MAX, "calendars")
    if cron.gap not in job_pb2.GapPolicy.values():
        raise InvalidField(f"{cron.gap} is not a policy; SHIFT and SKIP are right", field="gap")
    if cron.fold not in job_pb2.FoldPolicy.values():
        raise InvalidField(f"{cron.fold} is not a policy; FIRST, LAST and BOTH are right", field="fold")
    schedule = command_pb2.Schedule(
        expression=_resolved(cron.expression, seed, "expression"),
        time_zone=cron.time_zone or DEFAULT_TIME_ZONE,
        more_expressions=_all_resolved(cron.more_expressions, seed, "more_expressions"),
        exclude=_all_resolved(cron.exclude, seed, "exclude"),
        # What was left out and what it stands for are one schedule.
        gap=0 if cron.gap == job_pb2.GAP_POLICY_SHIFT else cron.gap,
        fold=0 if cron.fold == job_pb2.FOLD_POLICY_FIRST else cron.fold,
    )
    if cron.HasField("start"):
        schedule.start_ms = _bounded_ms(cron.start, "start", now_ms)
    if cron.HasField("end"):
        schedule.end_ms = _bounded_ms(cron.end, "end", now_ms)
        if schedule.end_ms <= max(schedule.start_ms, 0):
            raise InvalidField("not later than the start", field="end")
    check_schedule(
        CronSchedule(
            (schedule.expression, *schedule.more_expressions), schedule.time_zone, exclude=tuple(schedule.exclude)
        )
    )
    _add_calendars(schedule, cron.calendars, namespace)
    return schedule


def _add_calendars(schedule: command_pb2.Schedule, calendars: Sequence[job_pb2.CalendarUse], namespace: str) -> None:
    for number, use in enumerate(calendars):
        field = f"calendars[{number}]"
        validate.check_namespace(use.calendar, f"{field}.calendar")
        if any(use.calendar == other.calendar for other in schedule.calendars):
            raise InvalidField(f"`{use.calendar}` is named twice", field=f"{field}.calendar")
        if use.rule not in job_pb2.CalendarRule.values():
            raise InvalidField(f"{use.rule} is not a rule; EXCLUDE and NEXT_OPEN_DAY are right", field=f"{field}.rule")
        rule = use.rule or job_pb2.CALENDAR_RULE_EXCLUDE
        if rule == job_pb2.CALENDAR_RULE_NEXT_OPEN_DAY and _ticks_per_day(schedule) > limits.MOVED_TICKS_PER_DAY_MAX:
            raise InvalidField(
                f"NEXT_OPEN_DAY is for schedules of at most {limits.MOVED_TICKS_PER_DAY_MAX} ticks a day; this one has"
                f" {_ticks_per_day(schedule):,}: EXCLUDE leaves out what is within the calendar",
                field=f"{field}.rule",
            )
        schedule.calendars.add(namespace=namespace, calendar=use.calendar, rule=rule)


def _ticks_per_day(schedule: command_pb2.Schedule) -> int:
    crons = map(parse_cron, (schedule.expression, *schedule.more_expressions))
    return sum(len(cron.hours) * len(cron.seconds_of_hour) for cron in crons)


def _resolved(expression: str, seed: str, field: str) -> str:
    try:
        return resolved(expression, seed)
    except InvalidField as error:
        error.field = field
        raise


def _all_resolved(expressions: Sequence[str], seed: str, field: str) -> list[str]:
    return [_resolved(expression, seed, f"{field}[{number}]") for number, expression in enumerate(expressions)]


def _check_count(items: Sequence[object], most: int, field: str) -> None:
    if len(items) > most:
        raise InvalidField(f"{len(items)} are too many; at most {most} are right", field=field, limit=str(most))


def _bounded_ms(moment: Timestamp, field: str, now_ms: int) -> int:
    time_ms = validate.timestamp_ms(moment, field)
    if time_ms > now_ms + limits.HORIZON_MS:
        raise InvalidField(f"more than {validate.span_text(limits.HORIZON_MS)} from now", field=field)
    return time_ms


def _never_fires(schedule: CronSchedule, now_ms: int, batch: TickBatch) -> InvalidField:
    """What leaves nothing of a schedule."""
    if not batch.is_final:
        return InvalidField("so much is left out that no tick was found", field="exclude")
    if schedule.end_ms is not None and initial_ticks(replace(schedule, end_ms=None), now_ms).ticks_ms:
        return InvalidField("nothing would fire before it", field="end")
    if schedule.exclude and initial_ticks(replace(schedule, exclude=()), now_ms).ticks_ms:
        return InvalidField("never fires: everything is left out", field="exclude")
    field = "calendars" if schedule.calendars else "expression"
    return InvalidField("never fires: everything is left out", field=field)
