"""`raftsched schedule next`: the coming ticks of a schedule, and what clock changes do to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from raftsched.cli.calendar_commands import read_calendar
from raftsched.cli.failures import EXIT_CODES_HELP, USAGE, Failure, reported
from raftsched.cli.output import print_json, print_table
from raftsched.cli.schedule_options import EXCLUDE, FOLD, GAP, parse_use
from raftsched.cli.values import GIVEN, ZONE, WholeNumber, parse_moment_ms, wall_clock_ms
from raftsched.client import CalendarRule
from raftsched.model.calendars import CalendarUse, calendar_of
from raftsched.model.cron import parse_cron
from raftsched.model.cron_input import every_ms, resolved
from raftsched.model.errors import RaftschedError
from raftsched.model.recurrence import CronSchedule, Fold, Gap
from raftsched.model.schedule import ticks_after
from raftsched.model.zones import zone as zone_of

_MOST_TICKS = 10_000


@dataclass(frozen=True)
class Tick:
    """One tick in its zone. `clock_change` is "", "gap" (moved out of a gap), "fold, first" or "fold, second"."""

    tick: str
    clock_change: str


@click.group("schedule", epilog=EXIT_CODES_HELP)
def schedule() -> None:
    """Look at schedules before registering them."""


@schedule.command("next", epilog=EXIT_CODES_HELP)
@click.argument("expressions", nargs=-1, required=True, metavar="EXPRESSION…")
@click.option("--tz", "time_zone", type=ZONE, default="UTC", show_default=True, metavar="ZONE", help="IANA time zone.")
@click.option("--after", type=GIVEN, default="now", metavar="LOCAL_TIME", help="ISO 8601, in --tz.  [default: now]")
@click.option("-n", "count", type=WholeNumber(1, _MOST_TICKS), default=5, show_default=True, help="How many ticks.")
@EXCLUDE
@GAP
@FOLD
@click.option("--start", metavar="TIME", help="No tick before it.")
@click.option("--end", metavar="TIME", help="No tick at or after it.")
@click.option(
    "--calendar",
    "calendars",
    multiple=True,
    metavar="FILE[:RULE]",
    help="A file as `calendar put` takes it, with exclude (the default) or next-open-day. Repeat for several.",
)
@click.option("--name", default="", help="Of the job: what an H stands for follows from it.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
def next_ticks(
    expressions: tuple[str, ...],
    time_zone: ZoneInfo,
    after: str,
    count: int,
    exclude: tuple[str, ...],
    gap: str | None,
    fold: str | None,
    start: str | None,
    end: str | None,
    calendars: tuple[str, ...],
    name: str,
    as_json: bool,
) -> None:
    """Print the coming ticks of one or more cron expressions, with their UTC offsets.

    A fixed-time tick that falls into a gap (clocks go forward) fires right after it and is marked; a time that a fold
    (clocks go back) has twice is marked as its first or second occurrence. Intervals (@every) count from --after.

    \b
    Examples:
      raftsched schedule next "30 2 * * *" --tz Europe/Berlin --after 2026-03-28T12:00 -n 3
      raftsched schedule next "*/30 * * * *" --tz Europe/Berlin --after 2026-10-25T01:31 --json
      raftsched schedule next "H 9 * * *" --name nightly --exclude "* * * * sat,sun"
    """
    as_json = as_json or bool(getattr(click.get_current_context().find_root().obj, "as_json", False))
    with reported(as_json=as_json):
        flag = "--after"
        try:
            after_ms = parse_moment_ms(after, time_zone, wall_clock_ms())
            flag = "--start"
            start_ms = parse_moment_ms(start, time_zone, wall_clock_ms()) if start is not None else None
            flag = "--end"
            end_ms = parse_moment_ms(end, time_zone, wall_clock_ms()) if end is not None else None
            wanted = CronSchedule(
                tuple(resolved(expression, name) for expression in expressions),
                time_zone.key,
                exclude=tuple(resolved(expression, name) for expression in exclude),
                gap=Gap[(gap or "shift").upper()],
                fold=Fold[(fold or "first").upper()],
                start_ms=start_ms,
                end_ms=end_ms,
                calendars=tuple(_use(text, time_zone) for text in calendars),
            )
            ticks_ms = _ticks(wanted, after_ms, count)
        except RaftschedError as error:
            raise Failure(error.message, exit_code=USAGE, reason=error.reason, field=error.field) from None
        except ValueError as error:
            raise Failure(str(error), exit_code=USAGE, field=flag) from None
        ticks = [_described(tick_ms, wanted, time_zone) for tick_ms in ticks_ms]
    if as_json:
        told = {"expression": wanted.expressions[0], "time_zone": time_zone.key, "ticks": ticks}
        if len(wanted.expressions) > 1:
            told["more_expressions"] = wanted.expressions[1:]
        print_json(told)
    else:
        print_table(("tick", "clock change"), ((tick.tick, tick.clock_change) for tick in ticks), empty="no ticks")


def _ticks(wanted: CronSchedule, after_ms: int, count: int) -> Sequence[int]:
    is_alone = len(wanted.expressions) == 1 and not (wanted.exclude or wanted.calendars or wanted.start_ms)
    if is_alone and (span_ms := every_ms(wanted.expressions[0])) is not None:
        until_ms = wanted.end_ms if wanted.end_ms is not None else after_ms + (count + 1) * span_ms
        return range(after_ms + span_ms, min(until_ms, after_ms + count * span_ms + 1), span_ms)
    return ticks_after(wanted, after_ms, count=count)


def _use(text: str, time_zone: ZoneInfo) -> CalendarUse:
    use = parse_use(text)
    dates, windows = read_calendar(Path(use.calendar), time_zone)
    calendar = calendar_of(
        [day.isoformat() for day in dates],
        [(round(start.timestamp() * 1000), round(end.timestamp() * 1000)) for start, end in windows],
    )
    return CalendarUse(calendar, use.rule == CalendarRule.NEXT_OPEN_DAY)


def _described(tick_ms: int, wanted: CronSchedule, time_zone: ZoneInfo) -> Tick:
    instant = datetime.fromtimestamp(tick_ms / 1000, UTC)
    local = instant.astimezone(zone_of(time_zone.key))
    other = local.replace(fold=1 - local.fold)
    change = ""
    if local.utcoffset() != other.utcoffset():
        change = "fold, second" if local.fold else "fold, first"
    elif (instant - timedelta(seconds=1)).astimezone(time_zone).utcoffset() != local.utcoffset() and _was_moved(
        wanted, local
    ):
        change = "gap"
    return Tick(local.isoformat(), change)


def _was_moved(wanted: CronSchedule, local: datetime) -> bool:
    """Whether the wall clock shows another time than the expressions ask for."""
    wall_s = int((local.replace(tzinfo=UTC, fold=0) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
    return all(
        next(parse_cron(expression).local_times(wall_s, wall_s + 1), None) is None for expression in wanted.expressions
    )
