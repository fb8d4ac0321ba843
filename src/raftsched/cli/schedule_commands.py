"""`raftsched schedule next`: the coming ticks of an expression, and what clock changes do to them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import click

from raftsched.cli.failures import EXIT_CODES_HELP, USAGE, Failure, reported
from raftsched.cli.output import print_json, print_table
from raftsched.cli.values import GIVEN, ZONE, parse_moment_ms, wall_clock_ms
from raftsched.model.cron import parse_cron
from raftsched.model.errors import RaftschedError
from raftsched.model.recurrence import CronSchedule
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
@click.argument("expression")
@click.option("--tz", "time_zone", type=ZONE, default="UTC", show_default=True, metavar="ZONE", help="IANA time zone.")
@click.option("--after", type=GIVEN, default="now", metavar="LOCAL_TIME", help="ISO 8601, in --tz.  [default: now]")
@click.option("-n", "count", type=click.IntRange(1, _MOST_TICKS), default=5, show_default=True, help="How many ticks.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
def next_ticks(expression: str, time_zone: ZoneInfo, after: str, count: int, as_json: bool) -> None:
    """Print the coming ticks of a cron expression, with their UTC offsets.

    A fixed-time tick that falls into a gap (clocks go forward) fires right after it and is marked; a time that a fold
    (clocks go back) has twice is marked as its first or second occurrence.

    \b
    Examples:
      raftsched schedule next "30 2 * * *" --tz Europe/Berlin --after 2026-03-28T12:00 -n 3
      raftsched schedule next "*/30 * * * *" --tz Europe/Berlin --after 2026-10-25T01:31 --json
    """
    as_json = as_json or bool(getattr(click.get_current_context().find_root().obj, "as_json", False))
    with reported(as_json=as_json):
        try:
            after_ms = parse_moment_ms(after, time_zone, wall_clock_ms())
            ticks = [
                _described(tick_ms, expression, time_zone)
                for tick_ms in ticks_after(CronSchedule((expression,), time_zone.key), after_ms, count=count)
            ]
        except RaftschedError as error:
            raise Failure(error.message, exit_code=USAGE, reason=error.reason, field=error.field) from None
        except ValueError as error:
            raise Failure(str(error), exit_code=USAGE, field="--after") from None
    if as_json:
        print_json({"expression": expression, "time_zone": time_zone.key, "ticks": ticks})
    else:
        print_table(("tick", "clock change"), ((tick.tick, tick.clock_change) for tick in ticks), empty="no ticks")


def _described(tick_ms: int, expression: str, time_zone: ZoneInfo) -> Tick:
    instant = datetime.fromtimestamp(tick_ms / 1000, UTC)
    local = instant.astimezone(zone_of(time_zone.key))
    other = local.replace(fold=1 - local.fold)
    change = ""
    if local.utcoffset() != other.utcoffset():
        change = "fold, second" if local.fold else "fold, first"
    elif (instant - timedelta(seconds=1)).astimezone(time_zone).utcoffset() != local.utcoffset() and _was_moved(
        expression, local
    ):
        change = "gap"
    return Tick(local.isoformat(), change)


def _was_moved(expression: str, local: datetime) -> bool:
    """Whether the wall clock shows another time than the expression asks for."""
    wall_s = int((local.replace(tzinfo=UTC, fold=0) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
    return next(parse_cron(expression).local_times(wall_s, wall_s + 1), None) is None
