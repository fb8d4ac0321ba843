"""What only the leader proposes: its own arrival, expiries, coming ticks and who dispatches which shard.

Another leader may propose the same; the state machine takes each once. Runs on the core thread.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from raftsched.dispatch.ports import Clock, Submit
from raftsched.dispatch.reclaim_pump import ReclaimPump, ReclaimViews
from raftsched.dispatch.shards import assign_shards, worth_moving
from raftsched.dispatch.tick_pump import TickPump, TickViews
from raftsched.internal.v1 import command_pb2
from raftsched.model.retention import RetentionSettings
from raftsched.model.zones import TZDATA, ZoneData
from raftsched.state.results import Result

logger = logging.getLogger(__name__)

TICK_LIMIT = 1_000
TICK_RETRY_S = 0.02
# How often shards are shared out anew, and schedules looked at, when nothing else happens.
REVIEW_EVERY_S = 0.5
DEFAULT_RETENTION = RetentionSettings()


class LeaderViews(TickViews, ReclaimViews, Protocol):
    """What all its pumps read."""


class LeaderDuties:
    """Idle while this node follows; `lead` when it wins an election."""

    def __init__(
        self,
        *,
        node_id: int,
        machine: LeaderViews,
        submit: Submit,
        clock: Clock,
        session_grace_ms: int,
        zones: ZoneData = TZDATA,
        retention: RetentionSettings = DEFAULT_RETENTION,
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
        self._ticks = TickPump(machine=machine, submit=submit, clock=clock, on_result=self.review_now, zones=zones)
        self._reclaim = ReclaimPump(machine=machine, submit=submit, clock=clock, settings=retention)
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
            self._ticks.step()
            self._share_shards(live_nodes)
        waits = [self._next_review_s - now_s, self._expire(now_s), self._reclaim.step(now_s)]
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
