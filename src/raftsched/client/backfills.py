"""What the client says of backfills: plain values, with aware datetimes in UTC and timedeltas."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from raftsched.client.fields import enum_value, optional_time, span_value, time_value
from raftsched.v1 import backfill_pb2


class BackfillState(StrEnum):
    """Where a backfill stands."""

    UNSPECIFIED = "UNSPECIFIED"
    RUNNING = "RUNNING"
    DONE = "DONE"  # everything has fired
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Runs of a recurring job for scheduled times from start on, and before end."""

    id: int
    job_id: int
    start: datetime
    end: datetime
    # Executions fire at least this far apart.
    interval: timedelta
    priority: int
    state: BackfillState
    # Scheduled times in the range; of these fired by this backfill, and passed over since they had run before.
    total: int
    fired: int
    passed_over: int
    create_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPreview:
    """What a range holds: scheduled times, and those of them that have run."""

    total: int
    passed_over: int


def backfill_value(backfill: backfill_pb2.Backfill) -> Backfill:
    """From the wire."""
    return Backfill(
        id=backfill.id,
        job_id=backfill.job_id,
        start=time_value(backfill.start),
        end=time_value(backfill.end),
        interval=span_value(backfill.interval),
        priority=backfill.priority,
        state=enum_value(BackfillState, backfill_pb2.BackfillState.Name, backfill.state, "BACKFILL_STATE_"),
        total=backfill.total,
        fired=backfill.fired,
        passed_over=backfill.passed_over,
        create_time=optional_time(backfill, "create_time"),
    )
