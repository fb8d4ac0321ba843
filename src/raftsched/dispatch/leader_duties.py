"""What only the leader proposes: its own arrival, expiries, coming ticks and who dispatches which shard.

Another leader may propose the same; the state machine takes each once. Runs on the core thread.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from raftsched.dispatch.ports import Clock, MachineViews, Submit
from raftsched.dispatch.shards import assign_shards, worth_moving
from raftsched.internal.v1 import command_pb2
from raftsched.model.recurrence import CronSchedule
from raftsched.model.schedule import more_ticks
from raftsched.state.results import Result

logger = logging.getLogger(__name__)

TICK_LIMIT = 1_000
TICK_RETRY_S = 0.02
# How often shards are shared out anew, and schedules looked at, when nothing else happens.
REVIEW_EVERY_S = 0.5
# Schedules extended per command round: evaluating one costs some 10 ms of the core thread at worst.
EXTEND_AT_ONCE = 8


class ScheduleNeed(Protocol):
    """A schedule whose tick table runs short."""

    @property
    def schedule_id(self) -> int: ...
    @property
    def expression(self) -> str: ...
    @property
    def time_zone(self) -> str: ...
    @property
    def last_tick_ms(self) -> int: ...


class LeaderViews(MachineViews, Protocol):
    def schedules_to_extend(self, now_ms: int) -> Sequence[ScheduleNeed]: ...


class LeaderDuties:
    """Idle while this node follows; `lead` when it wins an election."""

    def __init__(
        self, *, node_id: int, machine: LeaderViews, submit: Submit, clock: Clock, session_grace_ms: int
    ) -> None:
        self._node_id = node_id
        self._machine = machine
        self._submit = submit
        self._clock = clock
        self._session_grace_ms = session_grace_ms
        self._term = 0
        self._started = False
        self._tick_in_flight = False
        self._tick_not_before_s = 0.0
        self._extending: set[int] = set()
        # Schedules that have no tick any more, such as one for a single past year.
        self._exhausted: set[int] = set()
        self._assigning = False
        self._next_review_s = 0.0

    def lead(self, term: int) -> None:
        """This node leads from now on, in `term`."""
        self._term = term
        self._started = False
        self._next_review_s = 0.0
        self._announce()

    def _announce(self) -> None:
        term = self._term
        started = command_pb2.LeaderStarted(node=self._node_id, term=term, session_grace_ms=self._session_grace_ms)

        def on_result(_result: Result) -> None:
            # Also without an outcome: a leader that cannot get this through gets no Tick through either.
            if term == self._term:
                self._started = True

        self._submit(command_pb2.Command(leader_started=started), 1, on_result, timeout_s=3600.0)

    def step(self, live_nodes: Mapping[int, int]) -> float | None:
        """Proposes what is due. `live_nodes`: workers' credit at each node in contact. Returns as FirePump.step."""
        if not self._started:
            # Nothing may expire before LeaderStarted has set the grace.
            return None
        now_s = self._clock.monotonic()
        if now_s >= self._next_review_s:
            self._next_review_s = now_s + REVIEW_EVERY_S
            self._extend_schedules()
            self._share_shards(live_nodes)
        waits = [self._next_review_s - now_s, self._expire(now_s)]
        return min(wait for wait in waits if wait is not None)

    def review_now(self) -> None:
        """Nodes or workers came or went, or a schedule is new: look at once."""
        self._next_review_s = 0.0

    def _expire(self, now_s: float) -> float | None:
        if self._tick_in_flight:
            return None
        deadline_ms = self._machine.next_deadline_ms()
        if deadline_ms is None:
            return None
        now_ms = max(self._clock.wall_ms(), self._machine.now_ms)
        wait_s = max((deadline_ms - now_ms) / 1000, self._tick_not_before_s - now_s)
        if wait_s > 0:
            return wait_s
        self._tick_in_flight = True
        self._tick_not_before_s = now_s + TICK_RETRY_S
        self._submit(command_pb2.Command(tick=command_pb2.Tick(limit=TICK_LIMIT)), TICK_LIMIT, self._on_ticked)
        return None

    def _on_ticked(self, _result: Result) -> None:
        self._tick_in_flight = False

    def _extend_schedules(self) -> None:
        now_ms = max(self._clock.wall_ms(), self._machine.now_ms)
        for need in self._machine.schedules_to_extend(now_ms):
            if len(self._extending) >= EXTEND_AT_ONCE:
                # The rest waits for the next round, which comes as soon as these are through.
                return
            if need.schedule_id not in self._extending and need.schedule_id not in self._exhausted:
                self._extend(need, now_ms)

    def _extend(self, need: ScheduleNeed, now_ms: int) -> None:
        schedule_id = need.schedule_id
        ticks_ms = more_ticks(CronSchedule((need.expression,), need.time_zone), need.last_tick_ms, now_ms).ticks_ms
        if not ticks_ms:
            self._exhausted.add(schedule_id)
            return
        self._extending.add(schedule_id)
        extend = command_pb2.ExtendTicks(schedule=schedule_id, after_ms=need.last_tick_ms, ticks_ms=ticks_ms)

        def on_result(_result: Result) -> None:
            self._extending.discard(schedule_id)
            self.review_now()

        self._submit(command_pb2.Command(extend_ticks=extend), 1 + len(ticks_ms), on_result)

    def _share_shards(self, live_nodes: Mapping[int, int]) -> None:
        owners = self._machine.shard_owners
        wanted = assign_shards(owners, live_nodes)
        if self._assigning or wanted == owners or not worth_moving(owners, wanted, live_nodes):
            return
        self._assigning = True
        logger.info("sharing out shards", extra={"owners": wanted, "credits": dict(live_nodes)})
        assign = command_pb2.AssignShards(owners=wanted)
        self._submit(command_pb2.Command(assign_shards=assign), 1, self._on_assigned)

    def _on_assigned(self, _result: Result) -> None:
        self._assigning = False
