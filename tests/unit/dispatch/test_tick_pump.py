"""Which ticks a leader proposes, and when."""

from dataclasses import dataclass, field

from raftsched.dispatch.tick_pump import (
    AT_ONCE,
    JOBS_PER_MS,
    REPLACE_EACH_MS,
    REPLACE_MARGIN_MS,
    SEARCH_AGAIN_S,
    TickPump,
)
from raftsched.internal.v1 import command_pb2
from raftsched.model.instants import SEARCH_MAX
from raftsched.model.limits import CATCH_UP_MAX
from raftsched.model.schedule import EXTEND_TICKS
from raftsched.model.zones import Span, ZoneData, database_version, spans_of_year
from raftsched.state.results import Done
from raftsched.store import rows
from raftsched.v1 import calendar_pb2
from tests.unit.dispatch.support import ManualClock, Submitted, Views

MINUTE_MS = 60_000
NEVER = command_pb2.Schedule(
    expression="* * * * * *",
    time_zone="UTC",
    exclude=["0-29 * * * * *", "30-59 * 0-11 * * *", "30-59 * 12-23 1-30 * *"],
)


@dataclass
class Need:
    schedule_id: int
    schedule: command_pb2.Schedule = field(
        default_factory=lambda: command_pb2.Schedule(expression="* * * * *", time_zone="UTC")
    )
    last_tick_ms: int = 960_000
    rules: rows.TickTableRow = field(default_factory=rows.TickTableRow)


class Setup:
    def __init__(self, views: Views, zones: ZoneData | None = None) -> None:
        self.views, self.submitted, self.clock = views, Submitted(), ManualClock()
        self.more = 0
        given = {"zones": zones} if zones is not None else {}
        self.pump = TickPump(machine=views, submit=self.submitted, clock=self.clock, on_result=self._on_result, **given)

    def _on_result(self) -> None:
        self.more += 1


def test_a_schedule_that_runs_short_gets_its_coming_ticks() -> None:
    setup = Setup(Views(needs=[Need(5)]))
    setup.pump.step()
    extend = setup.submitted.commands[0].extend_ticks
    assert (extend.schedule, extend.after_ms, extend.final) == (5, 960_000, False)
    assert list(extend.ticks_ms)[:2] == [1_020_000, 1_080_000]
    assert len(extend.ticks_ms) == EXTEND_TICKS
    assert extend.rules == command_pb2.TickRules()


def test_many_short_schedules_are_extended_a_few_at_a_time() -> None:
    setup = Setup(Views(needs=[Need(number) for number in range(1, 21)]))
    setup.pump.step()
    assert len(setup.submitted.commands) == AT_ONCE
    setup.submitted.answer(Done())
    assert setup.more == 1
    setup.views.needs.pop(0)
    setup.pump.step()
    assert len(setup.submitted.commands) == AT_ONCE + 1


def test_a_table_that_is_far_behind_goes_on_with_the_latest_ticks() -> None:
    setup = Setup(Views(needs=[Need(5)]))
    minutes = 30_000
    setup.clock.wall = 960_000 + minutes * MINUTE_MS
    while not setup.submitted.commands:
        calls = setup.more
        setup.pump.step()
        assert setup.submitted.commands or setup.more == calls + 1, "it asks to go on at once"
    extend = setup.submitted.commands[0].extend_ticks
    assert (extend.after_ms, extend.omitted) == (960_000, minutes - CATCH_UP_MAX)
    assert extend.ticks_ms[0] == 960_000 + (minutes - CATCH_UP_MAX + 1) * MINUTE_MS


def test_that_no_tick_comes_any_more_is_told_to_all() -> None:
    schedule = command_pb2.Schedule(expression="* * * * *", time_zone="UTC", end_ms=1_020_001)
    setup = Setup(Views(needs=[Need(5, schedule=schedule), Need(6, schedule=schedule, last_tick_ms=1_020_000)]))
    setup.pump.step()
    first, second = (command.extend_ticks for command in setup.submitted.commands)
    assert (list(first.ticks_ms), first.final) == ([1_020_000], True)
    assert (list(second.ticks_ms), second.final) == ([], True)


def test_a_search_in_vain_goes_on_later_where_it_stopped() -> None:
    setup = Setup(Views(needs=[Need(5, schedule=NEVER, last_tick_ms=0)]))
    for searches in (1, 2, 3):
        setup.pump.step()
        setup.pump.step()
        ((searched_ms, _),) = setup.pump._searched.values()
        assert searched_ms == searches * SEARCH_MAX * 1000
        setup.clock.now_s += SEARCH_AGAIN_S
    assert setup.submitted.commands == []


class OtherRules:
    """A release of the tz database in which no zone has daylight-saving time."""

    version = "2099z"

    def spans_of_year(self, name: str, year: int) -> tuple[Span, ...]:
        spans = spans_of_year(name, year)
        winter_s = min(span.offset_s for span in spans)
        return (Span(spans[0].start_s, spans[-1].end_s, winter_s, winter_s),)


BERLIN = command_pb2.Schedule(expression="0 12 * * *", time_zone="Europe/Berlin")


def test_a_table_of_another_release_gets_other_ticks_from_a_while_away() -> None:
    old = rows.TickTableRow(time_zone_database=database_version())
    # 1 July 1996: noon is at 10:00 UTC by summer time.
    start_ms = 836_179_200_000
    need = Need(5, schedule=BERLIN, last_tick_ms=start_ms + 90 * 86_400_000, rules=old)
    setup = Setup(Views(outdated=[need]), OtherRules())
    setup.clock.wall = start_ms
    setup.pump.step()
    replace = setup.submitted.commands[0].replace_ticks
    assert replace.replaced.time_zone_database == database_version()
    assert replace.rules.time_zone_database == "2099z"
    assert replace.after_ms == start_ms + REPLACE_MARGIN_MS + REPLACE_EACH_MS
    assert replace.ticks_ms[0] == start_ms + 11 * 3_600_000


def test_the_more_jobs_and_schedules_there_are_the_later_the_first_tick_changes() -> None:
    old = rows.TickTableRow(time_zone_database="2000a")
    needs = [Need(number, schedule=BERLIN, last_tick_ms=1 << 45, rules=old) for number in range(1, 101)]
    setup = Setup(Views(outdated=list(needs), counters=rows.StateRow(jobs=2_000_000)))
    setup.pump.step()
    after_ms = setup.submitted.commands[0].replace_ticks.after_ms
    assert after_ms - setup.clock.wall == REPLACE_MARGIN_MS + 2_000_000 // JOBS_PER_MS + 100 * REPLACE_EACH_MS
    assert len(setup.submitted.commands) == AT_ONCE


def test_a_short_table_of_another_release_is_replaced_from_its_end() -> None:
    old = rows.TickTableRow(time_zone_database="2000a")
    need = Need(5, schedule=BERLIN, last_tick_ms=1_000, rules=old)
    setup = Setup(Views(needs=[need], outdated=[need]))
    setup.pump.step()
    assert setup.submitted.kinds() == ["replace_ticks"]
    assert setup.submitted.commands[0].replace_ticks.after_ms == 1_000


def test_a_table_older_than_a_calendar_of_its_schedule_gets_other_ticks() -> None:
    calendar = calendar_pb2.Calendar(namespace="default", name="closed", dates=["1970-01-02"])
    schedule = command_pb2.Schedule(expression="0 12 * * *", time_zone="UTC")
    schedule.calendars.add(namespace="default", calendar="closed", rule=1)
    row = rows.CALENDAR.pack(7) + calendar.SerializeToString()
    need = Need(5, schedule=schedule, last_tick_ms=400 * 86_400_000, rules=rows.TickTableRow(calendars_version=3))
    setup = Setup(Views(outdated=[need], calendars={("default", "closed"): row}))
    setup.pump.step()
    replace = setup.submitted.commands[0].replace_ticks
    assert (replace.replaced.calendars_version, replace.rules.calendars_version) == (3, 7)
    assert list(replace.ticks_ms)[:2] == [12 * 3_600_000, 60 * 3_600_000]
