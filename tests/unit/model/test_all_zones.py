"""Every zone and every change of its clocks from 1970 to 2037, against cronsim and a walk over the minutes.

A fixed sample runs with the other tests, all of it as a soak test.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest
from cronsim import CronSim

from raftsched.model.recurrence import CronSchedule, Fold, Gap
from raftsched.model.schedule import ticks_after
from raftsched.model.zones import zone as load_zone
from raftsched.model.zones import zone_names

FIRST_DAY, DAYS = datetime(1970, 1, 2, 12, tzinfo=UTC), 68 * 365
MINUTE = timedelta(minutes=1)
# Of what surrounds a change: what is walked over before, what is compared.
LEAD, WINDOW = timedelta(days=3), timedelta(hours=36)
# (minutes, hours): every day, so that the walk needs no calendar.
TIMES = [
    ("30", "2"),
    ("0,30", "1-3"),
    ("0", "0"),
    ("59", "23"),
    ("5", "0-23"),
    ("0", "*"),
    ("*/30", "*"),
    ("15", "*/2"),
    ("*/20", "1,2,3"),
]
POLICIES = [(gap, fold) for gap in Gap for fold in Fold]


@dataclass(frozen=True)
class Change:
    """Noon, by UTC, of the day before the offset of a zone changes."""

    zone: str
    before: datetime


@cache
def changes(zone: str) -> list[Change]:
    tz = load_zone(zone)
    noons = [FIRST_DAY + timedelta(days=day) for day in range(DAYS)]
    offsets = [noon.astimezone(tz).utcoffset() for noon in noons]
    return [Change(zone, noon) for noon, (one, other) in zip(noons, pairwise(offsets), strict=False) if one != other]


def sample(zones: int, each: int) -> Iterator[Change]:
    rng = random.Random(1883)
    for zone in sorted(rng.sample(sorted(zone_names()), zones)):
        found = changes(zone)
        yield from sorted(rng.sample(found, min(each, len(found))), key=lambda change: change.before)


def numbers(text: str, high: int) -> set[int]:
    """Of one field: a star with or without a step, or a list of numbers and ranges."""
    if text.startswith("*"):
        return set(range(0, high, int(text.partition("/")[2] or 1)))
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def offset_of(moment: datetime, zone: str) -> timedelta:
    offset = moment.astimezone(load_zone(zone)).utcoffset()
    assert offset is not None
    return offset


def walk(change: Change) -> tuple[list[datetime], list[datetime]] | None:
    """Each minute around a change, and what the wall clock shows; None where it does not change on whole minutes."""
    tz = load_zone(change.zone)
    count = int((LEAD + WINDOW) / MINUTE) + 1
    minutes = [change.before - LEAD + MINUTE * number for number in range(count)]
    walls = [minute.astimezone(tz).replace(tzinfo=None) for minute in minutes]
    return (minutes, walls) if all(wall.second == 0 for wall in walls) else None


def walked(
    minutes: list[datetime], walls: list[datetime], times: tuple[str, str], gap: Gap, fold: Fold
) -> Iterator[datetime]:
    wanted_minutes, wanted_hours = numbers(times[0], 60), numbers(times[1], 24)
    is_fixed = not (times[0].startswith("*") or times[1].startswith("*"))
    last_seen = {wall: number for number, wall in enumerate(walls)}
    reached = walls[0]

    def is_wanted(wall: datetime) -> bool:
        return wall.minute in wanted_minutes and wall.hour in wanted_hours

    for number, (minute, wall) in enumerate(zip(minutes, walls, strict=True)):
        fires = is_wanted(wall)
        if is_fixed and number:
            if fold is Fold.FIRST:
                fires = fires and wall > reached
            elif fold is Fold.LAST:
                fires = fires and last_seen[wall] == number
            skipped = int((wall - max(reached, walls[number - 1])) / MINUTE) - 1
            if gap is Gap.SHIFT and skipped > 0:
                fires = fires or any(is_wanted(wall - MINUTE * back) for back in range(1, skipped + 1))
        reached = max(reached, wall)
        if fires:
            yield minute


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def compare_with_walk(change: Change, times: tuple[str, str], gap: Gap, fold: Fold) -> None:
    found = walk(change)
    if found is None:
        return
    after_ms, until_ms = ms(change.before), ms(change.before + WINDOW)
    expected = [ms(minute) for minute in walked(*found, times, gap, fold)]
    schedule = CronSchedule((f"{times[0]} {times[1]} * * *",), change.zone, gap=gap, fold=fold)
    ticks = ticks_after(schedule, after_ms, count=10_000, until_ms=until_ms)
    assert ticks == [tick for tick in expected if after_ms < tick <= until_ms], (change, times, gap, fold)
    assert all(earlier < later for earlier, later in pairwise(ticks))


def cronsim_knows(change: Change) -> bool:
    """It walks from hour to hour: it misses times where clocks change by less, or around midnight."""
    before, after = offset_of(change.before, change.zone), offset_of(change.before + timedelta(days=1), change.zone)
    if abs(after - before) != timedelta(hours=1) or after % timedelta(hours=1):
        return False
    minute = change.before
    while offset_of(minute, change.zone) == before:
        minute += MINUTE
    last, first = ((minute + offset).replace(tzinfo=None) for offset in (before, after))
    return last.date() == first.date() and min(last.hour, first.hour) > 0 and last.minute == 0


def compare_with_cronsim(change: Change, times: tuple[str, str]) -> None:
    if not cronsim_knows(change):
        return
    expression = f"{times[0]} {times[1]} * * *"
    expected: list[int] = []
    for moment in CronSim(expression, change.before.astimezone(load_zone(change.zone))):
        if moment > change.before + WINDOW:
            break
        # It names each of several fixed ticks in one gap.
        if not expected or ms(moment) > expected[-1]:
            expected.append(ms(moment))
    until_ms = ms(change.before + WINDOW)
    schedule = CronSchedule((expression,), change.zone)
    assert ticks_after(schedule, ms(change.before), count=10_000, until_ms=until_ms) == expected, (change, times)


def test_a_sample_of_changes_ticks_as_a_walk_over_the_minutes_says() -> None:
    compared = 0
    for number, change in enumerate(sample(zones=40, each=3)):
        for offset in range(3):
            gap, fold = POLICIES[(number + offset) % len(POLICIES)]
            compare_with_walk(change, TIMES[(number + 4 * offset) % len(TIMES)], gap, fold)
            compared += 1
    assert compared > 200


def test_a_sample_of_changes_ticks_as_cronsim_says() -> None:
    known = 0
    for number, change in enumerate(sample(zones=40, each=3)):
        known += cronsim_knows(change)
        for offset in range(3):
            compare_with_cronsim(change, TIMES[(number + 4 * offset) % len(TIMES)])
    assert known > 20


@pytest.mark.soak
@pytest.mark.parametrize("zone", sorted(zone_names()))
def test_all_changes_of_all_zones_tick_as_both_oracles_say(zone: str) -> None:
    for change in changes(zone):
        for times in TIMES:
            compare_with_cronsim(change, times)
            for gap, fold in POLICIES:
                compare_with_walk(change, times, gap, fold)
