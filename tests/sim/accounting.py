"""What a job's occurrences are, and which of them must have run: the client's record and the state, as the checker
wants them."""

from collections import Counter
from dataclasses import dataclass, field

from raftsched.model.transitions import ExecutionState
from raftsched.store import rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.checker import Accepted, Skip
from tests.sim.archive import Archive
from tests.sim.handlers import FAILING, UNSURE
from tests.sim.history import Era
from tests.sim.ledger import JobRecord
from tests.sim.specs import MINUTE_MS, Spec
from tests.sim.timeline import Violation

# Nodes' clocks differ by a little from the replicated one.
CLOCKS_DIFFER_MS = 5_000
REASONS = {
    execution_pb2.SKIP_REASON_OVERLAP: "OVERLAP",
    execution_pb2.SKIP_REASON_CATCH_UP: "CATCH_UP",
    execution_pb2.SKIP_REASON_CANCELLED: "CANCELLED",
    execution_pb2.SKIP_REASON_PAUSED: "PAUSED",
    execution_pb2.SKIP_REASON_START_DEADLINE: "START_DEADLINE",
    execution_pb2.SKIP_REASON_UPSTREAM: "UPSTREAM",
    execution_pb2.SKIP_REASON_UPDATED: "UPDATED",
}
OVER = {ExecutionState.SUCCEEDED, ExecutionState.DEAD_LETTER, ExecutionState.CANCELLED}
# Of what has an execution for a tick of the schedule.
_OF_TICKS = (0, execution_pb2.EXECUTION_CAUSE_SCHEDULE, execution_pb2.EXECUTION_CAUSE_BACKFILL)
_SKIPPING = (job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_QUEUE)
# Not a reason of the cluster's: a paused job's occurrence that is still in its overlap queue.
QUEUED = "QUEUED"


@dataclass(slots=True)
class Account:
    """All that is known of one job, from `until_ms` on of nothing that need be done."""

    record: JobRecord
    # None: it was never confirmed, and is not there.
    row: rows.JobRow | None
    # By number.
    executions: dict[int, rows.ExecutionRow]
    skips: list[tuple[int, rows.SkippedRow]]
    # Scheduled times of what waits in the overlap queue.
    waiting: list[int]
    until_ms: int
    now_ms: int
    cancels_asked: set[int]
    archive: Archive
    # Of its later schedules.
    eras: list[Era]
    required: list[int] = field(default_factory=list)
    optional: list[int] = field(default_factory=list)
    backfilled: set[int] = field(default_factory=set)
    # Of both, those that are no ticks.
    beside: list[int] = field(default_factory=list)
    # Of its executions, those whose ticks were run anew after they were removed.
    superseded: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.superseded = {
            number
            for number in self.executions.keys() & self.archive.executions.keys()
            if self.archive.is_superseded(number, self.executions[number], self.executions)
        }
        if not self.record.upstreams:
            self._find_ticks()
        self._find_triggered()

    def finish(self) -> None:
        """Once all its times are known. Raises Violation."""
        for status, is_excused in (
            # What was cancelled may have run, and need not have completed.
            (ExecutionState.CANCELLED, True),
            # What was given up after its leases were lost, or its time was over, has no completed run either.
            (ExecutionState.DEAD_LETTER, self.record.handler in UNSURE or self.lost_any),
        ):
            if is_excused:
                self._excuse({one.scheduled_for_ms for one in self.executions.values() if one.status == status})
        self._check_cancelled()
        self._check_max_runs()

    @property
    def lost_any(self) -> bool:
        return any(one.lost_leases for one in self.executions.values())

    @property
    def lost_leases(self) -> int:
        """A run beyond the first of an attempt has a lost lease before it; what is run anew begins to count anew."""
        replays = sum(1 for one in self.executions.values() if one.replayed_as)
        anew = replays + len(self.superseded)
        return sum(one.lost_leases for one in self.executions.values()) + 8 * anew

    def accepted(self) -> Accepted:
        record, row = self.record, self.row
        is_cancelled = row is not None and row.state == rows.JOB_CANCELLED
        return Accepted(
            key=record.key,
            targets_ms=self.required,
            optional_targets_ms=self.optional,
            backfilled_ms=frozenset(self.backfilled),
            beside_schedule_ms=frozenset(self.beside),
            confirmed=record.confirmed_ms is not None,
            cancel_requested_ms=record.cancel_asked_ms if is_cancelled else None,
            # A worker that has lost its lease may not know that yet.
            cancel_confirmed_ms=None if self.lost_any or not is_cancelled else record.cancel_confirmed_ms,
            expected_skips=frozenset(self._expected_reasons()),
            fails=record.handler in (*FAILING, *UNSURE),
        )

    def all_skips(self, ran: set[tuple[str, int]]) -> list[Skip]:
        """What the cluster recorded, and what it cancelled before it ran. `ran`: (key, scheduled_for_ms) of runs."""
        key = self.record.key
        found = [
            Skip(key, first, row.last_scheduled_for_ms, row.count, REASONS.get(row.reason, str(row.reason)))
            for first, row in self.skips
        ]
        found += [
            Skip(key, one.scheduled_for_ms, one.scheduled_for_ms, 1, "CANCELLED")
            for one in self.executions.values()
            if one.status == ExecutionState.CANCELLED and (key, one.scheduled_for_ms) not in ran
        ]
        if self._is_paused:
            found += [Skip(key, time_ms, time_ms, 1, QUEUED) for time_ms in self.waiting]
        return found

    def _expected_reasons(self) -> set[str]:
        record, reasons = self.record, set()
        for settings in record.all_settings:
            if settings.overlap in _SKIPPING or settings.overlap_limit:
                reasons.add("OVERLAP")
            catches_up = settings.catch_up == job_pb2.CATCH_UP_POLICY_ALL
            if not catches_up or settings.catch_up_limit or settings.HasField("catch_up_window"):
                reasons.add("CATCH_UP")
            if record.is_pause_asked or settings.pause_after_failures:
                reasons.add("PAUSED")
            if settings.HasField("start_deadline"):
                reasons.add("START_DEADLINE")
        if record.cancel_asked_ms is not None or self._may_cancel:
            reasons.add("CANCELLED")
        if record.upstreams:
            reasons.add("UPSTREAM")
        if self.eras:
            reasons.add("UPDATED")
        if self._is_paused:
            reasons.add(QUEUED)
        return reasons

    @property
    def _is_paused(self) -> bool:
        return self.row is not None and self.row.state == rows.JOB_PAUSED

    @property
    def _may_cancel(self) -> bool:
        """Whether single executions of it may be cancelled."""
        return self._cancels_by_itself or bool(self.cancels_asked & self.executions.keys())

    @property
    def _cancels_by_itself(self) -> bool:
        """What is replaced, or did not start in time."""
        return any(
            settings.overlap == job_pb2.OVERLAP_POLICY_REPLACE or settings.HasField("start_deadline")
            for settings in self.record.all_settings
        )

    def _excuse(self, times_ms: set[int]) -> None:
        self.optional += [target for target in self.required if target in times_ms]
        self.required = [target for target in self.required if target not in times_ms]

    def _check_max_runs(self) -> None:
        most = self.record.settings.max_runs
        of_schedule = sum(1 for one in self.executions.values() if not one.cause)
        if most and of_schedule > most:
            raise Violation(f"{self.record.key} ran {of_schedule} times, {most} were asked for")

    def _check_cancelled(self) -> None:
        if self.record.cancel_asked_ms is not None or self._cancels_by_itself:
            return
        for number, one in self.executions.items():
            if one.status == ExecutionState.CANCELLED and number not in self.cancels_asked:
                raise Violation(f"execution {number} of {self.record.key} is cancelled, which nobody asked for")

    # --- times --------------------------------------------------------------------------------------------------------

    def _find_ticks(self) -> None:
        """The times of the schedule at which the job must run, and those at which it may."""
        record, row = self.record, self.row
        if not record.is_recurring:
            # One that was due when it was asked for is due at the time of the node that took it.
            due_ms = row.scheduled_for_ms if row is not None else record.due_ms
            if due_ms < (record.earliest_ms or record.due_ms):
                raise Violation(f"{record.key} was asked for at {record.due_ms} and is scheduled for {due_ms}")
            self._sort([due_ms], 0)
            return
        # Ticks that raced with the create are optional: it names the first later than its own time.
        sure_from_ms = record.confirmed_ms if record.confirmed_ms is not None else self.now_ms
        if row is not None:
            sure_from_ms = min(sure_from_ms, row.created_ms)
        assert record.spec is not None
        begin_ms, spec = record.asked_ms, record.spec
        if not spec.every_ms:
            begin_ms -= begin_ms % MINUTE_MS
        for era in self.eras:
            # What was due by then it owes to its schedule of then.
            self._sort(spec.ticks(begin_ms, era.begin_ms + 1), sure_from_ms + CLOCKS_DIFFER_MS)
            begin_ms, spec = era.begin_ms + 1, era.spec
            sure_from_ms = max(sure_from_ms, era.begin_ms if not spec.every_ms else 0)
        self._sort(spec.ticks(begin_ms, self.now_ms + MINUTE_MS), sure_from_ms + CLOCKS_DIFFER_MS)
        self._find_backfilled([record.spec, *(era.spec for era in self.eras)])

    def _find_backfilled(self, specs: list[Spec]) -> None:
        """Each tick has run once at most, however often it was asked for."""
        for start_ms, end_ms in self.record.backfills:
            for spec in specs:
                # Also before the interval's first one: it is anchored there, and goes on in both directions.
                self.backfilled.update(spec.ticks(start_ms, end_ms, both_ways=True))
        others = self.backfilled - {*self.required, *self.optional}
        self.optional += sorted(others)
        if self.eras:
            # They are no ticks of the schedule that it had then.
            self.beside += others
        by_tick = Counter(
            one.scheduled_for_ms
            for number, one in self.executions.items()
            if one.cause in _OF_TICKS and number not in self.superseded
        )
        twice = [time_ms for time_ms, count in by_tick.items() if count > 1]
        if twice:
            raise Violation(f"{self.record.key} has several executions for {twice[:3]}")

    def _sort(self, times_ms: list[int], after_ms: int) -> None:
        """Those later than `after_ms` must have been dealt with, unless their time had not come, or it is paused."""
        before_ms = self.until_ms
        if self.row is not None and self._is_paused:
            before_ms = min(before_ms, self.row.scheduled_for_ms)
        if self.record.cancel_asked_ms is not None:
            # What its jitter still delayed had not come.
            before_ms = min(before_ms, self.record.cancel_asked_ms - self.record.settings.jitter.ToMilliseconds())
        if self.row is not None and self.row.state == rows.JOB_COMPLETED:
            # After its last one there is nothing to account for.
            before_ms = min(before_ms, self.row.scheduled_for_ms + 1)
        for time_ms in times_ms:
            (self.required if after_ms < time_ms < before_ms else self.optional).append(time_ms)

    def _find_triggered(self) -> None:
        """What was asked for beside the schedule: each request has started one execution at most."""
        confirmed = [one for one in self.record.triggers.values() if one.is_confirmed]
        unknown = len(self.record.triggers) - len(confirmed)
        known_ms = {one.scheduled_for_ms for one in confirmed}
        self.beside += known_ms
        self.required += [time_ms for time_ms in known_ms if time_ms < self.until_ms]
        self.optional += known_ms
        started = [
            (number, one)
            for number, one in self.executions.items()
            if one.cause == execution_pb2.EXECUTION_CAUSE_TRIGGER
        ]
        for number, one in started:
            if one.scheduled_for_ms not in known_ms:
                unknown -= 1
                self.beside.append(one.scheduled_for_ms)
                self.optional.append(one.scheduled_for_ms)
                if unknown < 0:
                    raise Violation(f"execution {number} of {self.record.key} was triggered, which nobody asked for")
        twice = len(started) - len({one.scheduled_for_ms for _, one in started})
        if twice:
            raise Violation(f"{twice} executions of {self.record.key} were triggered for the time of another")
        for trigger in confirmed:
            found = self.executions.get(trigger.execution)
            if trigger.execution and (found is None or found.scheduled_for_ms != trigger.scheduled_for_ms):
                raise Violation(f"execution {trigger.execution} of {self.record.key} was triggered and is not there")
        if unknown > 0:
            # One of these may have been recorded as skipped, or waits.
            ticks = {*self.required, *self.optional}
            maybe = [first for first, row in self.skips if row.count == 1] + self.waiting
            others = [time_ms for time_ms in maybe if time_ms not in ticks]
            self.beside += others
            self.optional += others
