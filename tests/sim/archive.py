"""What retention has removed: judged as it goes, and kept here, so that in the end it is accounted for all the same."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raftsched.model.retention import RetentionSettings
from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2
from tests.sim.timeline import Violation

_CLOSED = (rows.JOB_FIRED, rows.JOB_CANCELLED)
_OVER = (ExecutionState.SUCCEEDED, ExecutionState.DEAD_LETTER, ExecutionState.CANCELLED)


@dataclass(slots=True)
class Archive:
    """Rows as they were when they were removed. Raises Violation for what had to be kept."""

    settings: RetentionSettings = field(default_factory=RetentionSettings)
    jobs: dict[int, rows.JobRow] = field(default_factory=dict)
    payloads: dict[int, str] = field(default_factory=dict)
    executions: dict[int, rows.ExecutionRow] = field(default_factory=dict)
    removed_ms: dict[int, int] = field(default_factory=dict)
    # (job, first, row).
    skips: list[tuple[int, int, rows.SkippedRow]] = field(default_factory=list)
    # By job: the executions that are there.
    _kept: dict[int, set[int]] = field(default_factory=dict)

    def began(self, job: int, execution: int) -> None:
        self._kept.setdefault(job, set()).add(execution)

    def reclaimed(self, context: Context, table: object, numbers: Sequence[bytes]) -> None:
        """Retention is about to remove these rows."""
        tables, writer = context.tables, context.writer
        found = dict(writer.get_many(table, numbers))  # type: ignore[arg-type]
        if table is tables.executions:
            for number, value in found.items():
                self._execution(context, keys.unpack_id(number), rows.ExecutionRow.unpack(value))
        elif table is tables.jobs:
            for number, value in found.items():
                payload = writer.get(tables.payloads, number) or b""
                self._job(keys.unpack_id(number), rows.JobRow.unpack(value), payload.decode())
        elif table is tables.skipped:
            for key, value in found.items():
                self._skipped(context, *keys.unpack_pair(key), rows.SkippedRow.unpack(value))

    def deleted(self, executions: Mapping[bytes, bytes]) -> None:
        """Their job was deleted."""
        for number, value in executions.items():
            self._kept[keys.unpack_id(value[rows.EXECUTION_JOB])].discard(keys.unpack_id(number))

    def is_superseded(self, execution: int, row: rows.ExecutionRow, others: Mapping[int, rows.ExecutionRow]) -> bool:
        """Whether its tick was run anew by a backfill that could not find it any more."""
        removed_ms = self.removed_ms.get(execution)
        return removed_ms is not None and any(
            other.scheduled_for_ms == row.scheduled_for_ms
            and other.cause == execution_pb2.EXECUTION_CAUSE_BACKFILL
            and other.fired_ms >= removed_ms
            and number > execution
            for number, other in others.items()
        )

    # --- what may go ------------------------------------------------------------------------------------------------

    def _execution(self, context: Context, number: int, row: rows.ExecutionRow) -> None:
        now_ms, kept = context.now_ms, self._kept[row.job]
        if row.status not in _OVER:
            raise Violation(f"execution {number} is {row.status}, and was removed")
        if row.status == ExecutionState.DEAD_LETTER and not row.replayed_as:
            raise Violation(f"execution {number} is a dead letter that waits for its replay, and was removed")
        age_ms, most = self._kept_of(context, row.job)
        # When it ended its worker says; not before it was leased.
        is_old = bool(age_ms) and max(row.fired_ms, row.leased_ms) + age_ms <= now_ms
        newer = sum(1 for other in kept if other > number)
        if not is_old and not 0 < most <= newer:
            ago_ms = now_ms - max(row.fired_ms, row.leased_ms)
            raise Violation(f"execution {number} began {ago_ms} ms ago, {newer} are newer, and it was removed")
        kept.discard(number)
        self.executions[number], self.removed_ms[number] = row, now_ms

    def _job(self, number: int, row: rows.JobRow, payload: str) -> None:
        if row.state not in _CLOSED or self._kept.get(number):
            raise Violation(f"job {number} is {row.state} with {self._kept.get(number)}, and was removed")
        self.jobs[number], self.payloads[number] = row, payload

    def _skipped(self, context: Context, job: int, first_ms: int, row: rows.SkippedRow) -> None:
        if context.writer.get(context.tables.jobs, keys.pack_id(job)) is not None:
            age_ms, _ = self._kept_of(context, job)
            if not age_ms or row.last_scheduled_for_ms + age_ms > context.now_ms:
                raise Violation(f"what job {job} skipped until {row.last_scheduled_for_ms} was removed")
        self.skips.append((job, first_ms, row))

    def _kept_of(self, context: Context, job: int) -> tuple[int, int]:
        """For how long, and how many."""
        value = context.writer.get(context.tables.jobs, keys.pack_id(job))
        if value is None:
            return self.settings.age_ms, self.settings.executions
        message = context.catalog.profile(value[rows.JOB_PROFILE]).message
        return (
            message.retention_age_ms or self.settings.age_ms,
            message.retention_executions or self.settings.executions,
        )

    def summary(self) -> dict[str, int]:
        """For people."""
        return dict(Counter(executions=len(self.executions), jobs=len(self.jobs), skips=len(self.skips)))
