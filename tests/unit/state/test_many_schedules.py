"""Many recurring jobs across a change of the clocks: what occurs is what the schedules enumerate, no more, no less."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

import pytest

from raftsched.dispatch.ports import OnResult
from raftsched.dispatch.tick_pump import REPLACE_EACH_MS, REPLACE_MARGIN_MS, TickPump
from raftsched.internal.v1 import command_pb2
from raftsched.model.instants import TickSearch
from raftsched.model.recurrence import CronSchedule, Fold, Gap
from raftsched.model.schedule import initial_ticks, ticks_after
from raftsched.model.zones import TZDATA, Span, ZoneData, spans_of_year
from raftsched.state.calendars import tick_rules
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import Node, profile

MINUTE_MS = 60_000
ZONE = "Europe/Berlin"
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
SPRING = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)


def schedules() -> list[CronSchedule]:
    """50 distinct ones, most of which tick in the hours around a change."""
    fixed = [CronSchedule((f"{minute} {hour} * * *",), ZONE) for minute in (0, 15, 30, 59) for hour in (1, 2, 3, "2-4")]
    policies = [
        CronSchedule((f"{minute} 2 * * *",), ZONE, gap=gap, fold=fold)
        for minute in (5, 30)
        for gap in Gap
        for fold in Fold
        if (gap, fold) != (Gap.SHIFT, Fold.FIRST)
    ]
    elapsed = [CronSchedule((f"{minute} * * * *",), ZONE) for minute in range(7, 19)]
    every = [CronSchedule((f"*/{step} 2 * * *",), ZONE) for step in (20, 30, 40)]
    several = [
        CronSchedule((f"{minute} 2 * * *", f"{minute} */2 * * *"), ZONE, exclude=("* 0 * * *",))
        for minute in range(41, 50)
    ]
    found = [*fixed, *policies, *elapsed, *every, *several]
    assert len(set(found)) == len(found) == 50
    return found


def stored(schedule: CronSchedule) -> command_pb2.Schedule:
    return command_pb2.Schedule(
        expression=schedule.expressions[0],
        more_expressions=schedule.expressions[1:],
        time_zone=schedule.time_zone,
        exclude=schedule.exclude,
        gap=schedule.gap,
        fold=schedule.fold,
    )


def create(node: Node, wanted: list[CronSchedule], count: int) -> None:
    """Jobs that take the schedules in turn; every fifth is delayed by jitter."""
    command = command_pb2.CreateJobs()
    for jitter_ms in (0, 10 * MINUTE_MS):
        settings = profile(overlap=ALLOW, catch_up=job_pb2.CATCH_UP_POLICY_ALL, jitter_ms=jitter_ms)
        command.profiles.append(settings.SerializeToString(deterministic=True))
    for schedule in wanted:
        batch = initial_ticks(schedule, node.now_ms)
        command.schedules.add(
            schedule=stored(schedule).SerializeToString(deterministic=True),
            # So few that tables are extended on the way.
            ticks_ms=batch.ticks_ms[:3],
            rules=tick_rules(schedule, 0),
        )
    for number in range(count):
        command.jobs.add(profile=int(number % 5 == 0), schedule=number % len(wanted) + 1)
    node.do(command)


class Leader:
    """Evaluates ticks as a leader does; its commands are applied at once."""

    def __init__(self, node: Node, zones: ZoneData = TZDATA) -> None:
        self._node = node
        self._zones = zones
        self._pump = TickPump(machine=node.machine, submit=self, clock=self, on_result=lambda: None, zones=zones)

    def wall_ms(self) -> int:
        return self._node.now_ms

    def monotonic(self) -> float:
        return self._node.now_ms / 1000

    def __call__(self, command: command_pb2.Command, _ops: int, on_result: OnResult, *, timeout_s: float = 5.0) -> None:
        assert timeout_s > 0
        on_result(self._node.do(getattr(command, command.WhichOneof("op") or "")))

    def work(self) -> None:
        machine = self._node.machine
        while machine.schedules_to_extend(self._node.now_ms) or machine.schedules_to_replace(self._zones.version, 1):
            self._pump.step()


def run(node: Node, until: datetime, zones: ZoneData = TZDATA) -> None:
    leader = Leader(node, zones)
    while node.now_ms < until.timestamp() * 1000:
        leader.work()
        while (deadline_ms := node.machine.next_deadline_ms()) is not None and deadline_ms <= node.now_ms:
            node.tick(limit=10_000)
        while getattr(node.fire(limit=10_000), "more", False):
            pass
        # Only what is applied is of interest here, not how it is repeated.
        node.entries.clear()
        node.advance(MINUTE_MS)


def occurrences(node: Node) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for _, value in node.table("executions"):
        found.setdefault(keys.unpack_id(value[rows.EXECUTION_JOB]), []).append(keys.unpack_id(value[16:24]))
    return found


def occurs_as_enumerated(node: Node, start: datetime, hours: int, jobs: int) -> None:
    wanted = schedules()
    node.now_ms = start_ms = int(start.timestamp() * 1000)
    for first in range(0, jobs, 10_000):
        create(node, wanted, min(10_000, jobs - first))
    until = start + timedelta(hours=hours)
    run(node, until)
    assert node.table("skipped") == []
    until_ms = node.now_ms - MINUTE_MS
    ticks = [ticks_after(schedule, start_ms, count=10_000, until_ms=until_ms) for schedule in wanted]
    found = occurrences(node)
    for job in range(1, jobs + 1):
        schedule = (job - 1) % 10_000 % len(wanted)
        expected = ticks[schedule]
        if (job - 1) % 10_000 % 5 == 0:
            # A job with jitter may still wait for its delay to end.
            row = node.job(job)
            expected = [tick_ms for tick_ms in expected if tick_ms < row.scheduled_for_ms]
            assert ticks[schedule][len(expected) :] == [] or ticks[schedule][-1] > until_ms - 10 * MINUTE_MS
        assert found.get(job, []) == expected, (job, wanted[schedule])


class NoSummerTime:
    """A release of the tz database by which no zone changes its clocks."""

    version = "2099z"

    def spans_of_year(self, name: str, year: int) -> tuple[Span, ...]:
        spans = spans_of_year(name, year)
        winter_s = min(span.offset_s for span in spans)
        return (Span(spans[0].start_s, spans[-1].end_s, winter_s, winter_s),)


def enumerated(schedule: CronSchedule, after_ms: int, until_ms: int, zones: ZoneData) -> list[int]:
    ticks_ms = (tick_s * 1000 for tick_s in TickSearch(schedule, after_ms // 1000, zones))
    return list(takewhile(lambda tick_ms: tick_ms <= until_ms, ticks_ms))


def test_a_change_of_the_rules_neither_loses_nor_doubles_a_tick(big_node: Node) -> None:
    node, wanted, jobs = big_node, schedules(), 500
    start = SPRING - timedelta(hours=3)
    node.now_ms = start_ms = int(start.timestamp() * 1000)
    create(node, wanted, jobs)
    changed = start + timedelta(hours=2)
    run(node, changed)
    # From here on a node leads that has another release; the clocks will not be set forward after all.
    boundary_ms = node.now_ms + REPLACE_MARGIN_MS + len(wanted) * REPLACE_EACH_MS
    run(node, SPRING + timedelta(hours=30), NoSummerTime())
    until_ms = node.now_ms - MINUTE_MS - 10 * MINUTE_MS
    found = occurrences(node)
    for job in range(1, jobs + 1):
        schedule = wanted[(job - 1) % len(wanted)]
        # Margins get smaller from one schedule to the next: none has a tick between the first and the last.
        before = enumerated(schedule, start_ms, boundary_ms, TZDATA)
        expected = before + enumerated(schedule, boundary_ms, until_ms, NoSummerTime())
        assert [tick_ms for tick_ms in found.get(job, []) if tick_ms <= until_ms] == expected, (job, schedule)
    assert node.machine.schedules_to_replace(NoSummerTime.version, 1) == []


@pytest.fixture
def big_node(tmp_path: Path) -> Iterable[Node]:
    node = Node(tmp_path)
    yield node
    node.machine.close()


def test_100_000_jobs_occur_as_50_schedules_say_when_clocks_are_set_back(big_node: Node) -> None:
    occurs_as_enumerated(big_node, AUTUMN, hours=3, jobs=100_000)


def test_jobs_occur_as_their_schedules_say_when_clocks_are_set_forward(big_node: Node) -> None:
    occurs_as_enumerated(big_node, SPRING, hours=4, jobs=5_000)


@pytest.mark.soak
@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_100_000_jobs_occur_as_50_schedules_say_over_two_days(big_node: Node, start: datetime) -> None:
    occurs_as_enumerated(big_node, start - timedelta(hours=24), hours=48, jobs=100_000)
