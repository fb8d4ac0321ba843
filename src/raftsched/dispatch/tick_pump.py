"""Keeps the tick tables filled and up to date: only the leader evaluates schedules, for all nodes."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from raftsched.dispatch.passed_ticks import Jump, PassedTicks
from raftsched.dispatch.ports import Clock, MachineViews, Submit
from raftsched.internal.v1 import command_pb2
from raftsched.model.schedule import TickBatch, more_ticks
from raftsched.model.zones import TZDATA, ZoneData
from raftsched.state.calendars import cron_schedule, tick_rules
from raftsched.state.results import Result
from raftsched.store import rows

logger = logging.getLogger(__name__)

# Schedules worked on at a time: evaluating one costs some 10 ms of the core thread at worst.
AT_ONCE = 8
# Ticks that are replaced are at least so far away, so that all jobs that wait for one are found before.
REPLACE_MARGIN_MS = 60_000
# In a millisecond so many jobs are looked at, at the least; replacing one schedule's ticks takes so long at most.
JOBS_PER_MS = 20
REPLACE_EACH_MS = 50
# How long until a long search for a tick, which was in vain, is taken up again.
SEARCH_AGAIN_S = 60.0


class ScheduleNeed(Protocol):
    """A schedule whose tick table runs short, or is out of date."""

    @property
    def schedule_id(self) -> int: ...
    @property
    def schedule(self) -> command_pb2.Schedule: ...
    @property
    def last_tick_ms(self) -> int: ...
    @property
    def rules(self) -> rows.TickTableRow: ...


class TickViews(MachineViews, Protocol):
    @property
    def counters(self) -> rows.StateRow: ...

    def schedules_to_extend(self, now_ms: int) -> Sequence[ScheduleNeed]: ...

    def schedules_to_replace(self, database: str, limit: int) -> Sequence[ScheduleNeed]: ...

    def outdated_schedules(self, database: str) -> int: ...

    def find_calendar(self, namespace: str, name: str) -> bytes | None: ...


class TickPump:
    """`on_result` is called when there may be more to do at once. `zones`: by whose rules clocks change."""

    def __init__(
        self,
        *,
        machine: TickViews,
        submit: Submit,
        clock: Clock,
        on_result: Callable[[], None],
        zones: ZoneData = TZDATA,
    ) -> None:
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._on_result = on_result
        self._zones = zones
        self._under_way: set[int] = set()
        # Of searches that were in vain: how far they came, and when the next may begin.
        self._searched: dict[int, tuple[int, float]] = {}
        self._passed = PassedTicks()

    def step(self) -> None:
        """Proposes ticks for the schedules that need some; the rest waits until these are through."""
        now_ms = max(self._clock.wall_ms(), self._machine.now_ms)
        self._passed.begin_step()
        for need in self._machine.schedules_to_extend(now_ms):
            self._work_on(need, now_ms)
        # More than can be worked on, since some may have to wait.
        for need in self._machine.schedules_to_replace(self._zones.version, AT_ONCE + len(self._searched)):
            self._work_on(need, now_ms)

    def _work_on(self, need: ScheduleNeed, now_ms: int) -> None:
        if len(self._under_way) >= AT_ONCE or need.schedule_id in self._under_way:
            return
        searched_ms, not_before_s = self._searched.get(need.schedule_id, (0, 0.0))
        if self._clock.monotonic() < not_before_s:
            return
        schedule, version = cron_schedule(need.schedule, self._machine.find_calendar)
        rules = tick_rules(schedule, version, self._zones)
        before = rows.TickTableRow(need.rules.is_final, rules.calendars_version, rules.time_zone_database)
        after_ms = need.last_tick_ms
        is_outdated = before != need.rules
        if is_outdated:
            after_ms = min(after_ms, now_ms + self._margin_ms())
        jump: Jump | None = Jump(after_ms, 0)
        if not is_outdated:
            jump = self._passed.jump(need.schedule_id, schedule, after_ms, now_ms, self._zones)
        if jump is None:
            self._on_result()
            return
        batch = more_ticks(schedule, max(jump.after_ms, searched_ms), now_ms, zones=self._zones)
        if not batch.ticks_ms and not batch.is_final:
            again_s = self._clock.monotonic() + SEARCH_AGAIN_S
            self._searched[need.schedule_id] = (0 if is_outdated else batch.searched_ms, again_s)
            logger.warning("found no tick for a schedule yet", extra={"schedule": need.schedule_id})
            return
        self._searched.pop(need.schedule_id, None)
        if is_outdated:
            command = command_pb2.Command(replace_ticks=_replace(need, after_ms, batch, rules))
        else:
            command = command_pb2.Command(extend_ticks=_extend(need, batch, rules, jump.omitted))
        self._propose(need.schedule_id, batch, command)

    def _margin_ms(self) -> int:
        """The search for jobs begins anew with each schedule, and has to be through when the first tick changes."""
        schedules = self._machine.outdated_schedules(self._zones.version)
        return REPLACE_MARGIN_MS + self._machine.counters.jobs // JOBS_PER_MS + schedules * REPLACE_EACH_MS

    def _propose(self, schedule_id: int, batch: TickBatch, command: command_pb2.Command) -> None:
        self._under_way.add(schedule_id)

        def on_result(_result: Result) -> None:
            self._under_way.discard(schedule_id)
            self._on_result()

        self._submit(command, 1 + len(batch.ticks_ms), on_result)


def _extend(
    need: ScheduleNeed, batch: TickBatch, rules: command_pb2.TickRules, omitted: int
) -> command_pb2.ExtendTicks:
    return command_pb2.ExtendTicks(
        schedule=need.schedule_id,
        after_ms=need.last_tick_ms,
        ticks_ms=batch.ticks_ms,
        final=batch.is_final,
        rules=rules,
        omitted=omitted,
    )


def _replace(
    need: ScheduleNeed, after_ms: int, batch: TickBatch, rules: command_pb2.TickRules
) -> command_pb2.ReplaceTicks:
    return command_pb2.ReplaceTicks(
        schedule=need.schedule_id,
        replaced=command_pb2.TickRules(
            time_zone_database=need.rules.time_zone_database, calendars_version=need.rules.calendars_version
        ),
        after_ms=after_ms,
        ticks_ms=batch.ticks_ms,
        final=batch.is_final,
        rules=rules,
    )
