"""How a job's schedule is written on the command line, and shown."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click

from raftsched.cli.values import DURATION, ZONE, parse_moment_ms, wall_clock_ms
from raftsched.client import CalendarRule, CalendarUse, FoldPolicy, GapPolicy, Job

F = TypeVar("F", bound=Callable[..., Any])

GAPS = ("shift", "skip")
FOLDS = ("first", "last", "both")
_RULES = {"exclude": CalendarRule.EXCLUDE, "next-open-day": CalendarRule.NEXT_OPEN_DAY}

EXCLUDE = click.option(
    "--exclude", multiple=True, metavar="EXPRESSION", help="Leave out the times of this cron; repeat for several."
)
GAP = click.option("--gap", type=click.Choice(GAPS), help="A fixed time that the clocks skip.  [default: shift]")
FOLD = click.option("--fold", type=click.Choice(FOLDS), help="A fixed time that comes twice.  [default: first]")

_OPTIONS = (
    click.option(
        "--cron",
        multiple=True,
        metavar="EXPRESSION",
        help="On every tick: five fields, or six with seconds first; repeat for several.",
    ),
    click.option("--every", type=DURATION, metavar="DURATION", help="At a fixed interval, from --start."),
    click.option(
        "--start",
        metavar="TIME",
        help="Of --every: ticks are whole intervals away from it, the first is the next one that is not past [now];"
        " of --cron: no tick is earlier. Written like --run-at.",
    ),
    click.option("--end", metavar="TIME", help="No occurrence of --cron or --every at or after it."),
    EXCLUDE,
    GAP,
    FOLD,
    click.option(
        "--calendar",
        "calendars",
        multiple=True,
        metavar="NAME[:RULE]",
        help="Of ticks of --cron within it: exclude (the default), or next-open-day. Repeat for several.",
    ),
    click.option("--tz", type=ZONE, metavar="ZONE", help="Time zone of --cron, and of times without offset.  [UTC]"),
)


def schedule_options(command: F) -> F:
    """Adds the options that `schedule_fields` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def schedule_fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of JobSpec that tell when a recurring job runs. Raises UsageError and BadParameter."""
    tz: ZoneInfo | None = options["tz"]
    crons = options["cron"]
    for name, flag in (("exclude", "--exclude"), ("gap", "--gap"), ("fold", "--fold"), ("calendars", "--calendar")):
        if options[name] and not crons:
            raise click.UsageError(f"{flag} belongs to --cron")
    for name in ("start", "end"):
        if options[name] is not None and not crons and options["every"] is None:
            raise click.UsageError(f"--{name} belongs to --cron or --every")
    return {
        "cron": crons[0] if crons else None,
        "more_crons": crons[1:],
        "time_zone": tz.key if tz and crons else "",
        "every": timedelta(milliseconds=options["every"]) if options["every"] is not None else None,
        "start": moment(options["start"], tz, "--start") if options["start"] is not None else None,
        "end": moment(options["end"], tz, "--end") if options["end"] is not None else None,
        "exclude": options["exclude"],
        "gap": GapPolicy((options["gap"] or "unspecified").upper()),
        "fold": FoldPolicy((options["fold"] or "unspecified").upper()),
        "calendars": [parse_use(text) for text in options["calendars"]],
    }


def moment(text: str, tz: ZoneInfo | None, flag: str) -> datetime:
    """The time that an option stands for. Raises BadParameter."""
    try:
        moment_ms = parse_moment_ms(text, tz, wall_clock_ms())
        return datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint=f"'{flag}'") from None


def relative_times(options: dict[str, Any]) -> list[str]:
    """The options whose time counts from now. A --run-at that is now means the past, which is always the same."""
    names = ("run_at", "start", "end")
    texts = {name: (options[name] or "").strip() for name in names}
    return [name for name, text in texts.items() if text.startswith("in ") or (text == "now" and name != "run_at")]


def parse_use(text: str) -> CalendarUse:
    """NAME[:RULE]. Raises BadParameter."""
    name, colon, rule = text.rpartition(":")
    if not colon:
        return CalendarUse(text)
    if rule not in _RULES:
        raise click.BadParameter(f"{rule!r} is not exclude or next-open-day", param_hint="'--calendar'")
    return CalendarUse(name, _RULES[rule])


def schedule_text(job: Job) -> str:
    """A job's schedule in a few words."""
    if job.cron is not None:
        return f"{', '.join((job.cron, *job.more_crons))} ({job.time_zone or 'UTC'})"
    if job.every is not None:
        return f"every {job.every}"
    if job.depends_on:
        return f"after {len(job.depends_on)} job{'s' if len(job.depends_on) > 1 else ''}"
    return "once"


def schedule_facts(job: Job) -> list[tuple[str, Any]]:
    """What else there is to say of it."""
    uses = [f"{use.calendar}:{use.rule.lower().replace('_', '-')}" for use in job.calendars]
    return [
        ("start", job.start),
        ("end", job.end),
        ("excluded", ", ".join(job.exclude) or None),
        ("gap", job.gap.lower() if job.cron is not None else None),
        ("fold", job.fold.lower() if job.cron is not None else None),
        ("calendars", ", ".join(uses) or None),
    ]
