"""Schedules that simulated clients ask for, and when they are due: found the slow way, not as the cluster finds it."""

from dataclasses import dataclass, replace

from raftsched.internal.v1 import command_pb2
from raftsched.v1 import job_pb2

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Spec:
    """An interval, or cron every so many minutes."""

    every_ms: int = 0
    # An interval's first occurrence, to which all others are anchored.
    start_ms: int = 0
    cron_minutes: int = 0

    def has_times_of(self, other: "Spec") -> bool:
        """Of an interval's anchors any one is as good."""
        same = replace(other, start_ms=self.start_ms)
        return self == same and (not self.every_ms or (self.start_ms - other.start_ms) % self.every_ms == 0)

    def put_into(self, job: job_pb2.Job) -> str:
        """Gives the message this schedule; the name of the field."""
        if self.every_ms:
            job.interval.every.FromMilliseconds(self.every_ms)
            job.interval.start.FromMilliseconds(self.start_ms)
            return "interval"
        job.cron.expression = "* * * * *" if self.cron_minutes == 1 else f"*/{self.cron_minutes} * * * *"
        return "cron"

    def ticks(self, first_ms: int, end_ms: int, *, both_ways: bool = False) -> list[int]:
        """From `first_ms` on and before `end_ms`. `both_ways`: also those before an interval's first one."""
        step_ms = self.every_ms or self.cron_minutes * MINUTE_MS
        begin_ms = self.start_ms + -(-(first_ms - self.start_ms) // step_ms) * step_ms
        if not both_ways:
            begin_ms = max(begin_ms, self.start_ms)
        return list(range(begin_ms, end_ms, step_ms))


def decoded(schedule: bytes, due_ms: int) -> Spec:
    """What a command says."""
    message = command_pb2.Schedule.FromString(schedule)
    if message.every_ms:
        return Spec(every_ms=message.every_ms, start_ms=due_ms)
    step = message.expression.split()[0].removeprefix("*").removeprefix("/")
    return Spec(cron_minutes=int(step or 1))
