"""Schedules that simulated clients ask for, and when they are due: found the slow way, not as the cluster finds it."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from raftsched.internal.v1 import command_pb2
from raftsched.v1 import calendar_pb2, job_pb2

SECOND_MS = 1_000
MINUTE_MS = 60_000
_ALL = frozenset(range(60))


@dataclass(frozen=True, slots=True)
class Fields:
    """When an expression matches, by the wall clock. `is_fixed`: it means times of day, not time that goes by."""

    seconds: frozenset[int] = frozenset((0,))
    minutes: frozenset[int] = _ALL
    hours: frozenset[int] = _ALL
    is_fixed: bool = False

    def match(self, wall: datetime) -> bool:
        return wall.second in self.seconds and wall.minute in self.minutes and wall.hour in self.hours


_NIGHT = frozenset(range(1, 5))
EXPRESSIONS = {
    "* * * * *": Fields(),
    "*/2 * * * *": Fields(minutes=frozenset(range(0, 60, 2))),
    "*/20 * * * * *": Fields(seconds=frozenset((0, 20, 40))),
    "0-59 1-4 * * *": Fields(hours=_NIGHT, is_fixed=True),
    "0,30 0-59 1-4 * * *": Fields(seconds=frozenset((0, 30)), hours=_NIGHT, is_fixed=True),
    "30 2 * * *": Fields(minutes=frozenset((30,)), hours=frozenset((2,)), is_fixed=True),
}
# A five-field exclusion takes all of a minute.
EXCLUSIONS = {
    "1-59/3 * * * *": Fields(seconds=_ALL, minutes=frozenset(range(1, 60, 3))),
    "20 * * * * *": Fields(seconds=frozenset((20,))),
    "59 * * * *": Fields(seconds=_ALL, minutes=frozenset((59,))),
}
ZONES = ("", "Europe/Berlin", "America/New_York")
# Shortly before clocks are set back in Berlin, and forward in New York.
CHANGES_MS = tuple(
    int(at.timestamp() * 1000)
    for at in (datetime(2027, 10, 31, 0, 59, 20, tzinfo=UTC), datetime(2027, 3, 14, 6, 59, 20, tzinfo=UTC))
)


@dataclass(frozen=True, slots=True)
class Spec:
    """An interval, or cron. `end_ms` is of both, 0: none; to an interval's `start_ms` all its ticks are anchored."""

    every_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    expressions: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    time_zone: str = ""
    gap: int = job_pb2.GAP_POLICY_SHIFT
    fold: int = job_pb2.FOLD_POLICY_FIRST
    # Names of calendars, which tell what they leave out.
    calendars: tuple[str, ...] = ()

    @classmethod
    def drawn(cls, rng: random.Random, now_ms: int) -> "Spec":
        """Any one."""
        now_ms = now_ms // SECOND_MS * SECOND_MS
        end_ms = now_ms + rng.randint(40, 90) * SECOND_MS if rng.random() < 0.15 else 0
        if rng.random() < 0.5:
            start_ms = now_ms + rng.randint(1, 20) * SECOND_MS
            return cls(every_ms=rng.choice((5_000, 7_000, 15_000, 40_000)), start_ms=start_ms, end_ms=end_ms)
        if rng.random() < 0.4:
            return cls(expressions=(rng.choice(("* * * * *", "*/2 * * * *")),))
        return cls(
            start_ms=now_ms + rng.randint(1, 30) * SECOND_MS if rng.random() < 0.2 else 0,
            # Without any tick it would be refused.
            end_ms=end_ms + 2 * MINUTE_MS if end_ms else 0,
            expressions=("*/20 * * * * *",) if end_ms else tuple(rng.sample(tuple(EXPRESSIONS), rng.choice((1, 1, 2)))),
            exclude=(rng.choice(tuple(EXCLUSIONS)),) if rng.random() < 0.4 else (),
            time_zone=rng.choice(ZONES),
            gap=rng.choice((job_pb2.GAP_POLICY_SHIFT, job_pb2.GAP_POLICY_SKIP)),
            calendars=_drawn_calendars(rng, now_ms),
            fold=rng.choice((job_pb2.FOLD_POLICY_FIRST, job_pb2.FOLD_POLICY_LAST, job_pb2.FOLD_POLICY_BOTH)),
        )

    def has_times_of(self, other: "Spec") -> bool:
        """Of an interval's anchors any one is as good."""
        if not self.every_ms:
            return self == other
        same = replace(other, start_ms=self.start_ms)
        return self == same and (self.start_ms - other.start_ms) % self.every_ms == 0

    def put_into(self, job: job_pb2.Job) -> str:
        """Gives the message this schedule; the name of the field."""
        message = job.interval if self.every_ms else job.cron
        if self.start_ms:
            message.start.FromMilliseconds(self.start_ms)
        if self.end_ms:
            message.end.FromMilliseconds(self.end_ms)
        if self.every_ms:
            job.interval.every.FromMilliseconds(self.every_ms)
            return "interval"
        job.cron.expression, job.cron.time_zone = self.expressions[0], self.time_zone
        job.cron.more_expressions.extend(self.expressions[1:])
        job.cron.exclude.extend(self.exclude)
        for name in self.calendars:
            job.cron.calendars.add(calendar=name)
        job.cron.gap, job.cron.fold = self.gap, self.fold  # type: ignore[assignment]
        return "cron"

    def ticks(self, first_ms: int, end_ms: int, *, both_ways: bool = False) -> list[int]:
        """From `first_ms` on and before `end_ms`. `both_ways`: also those before an interval's first one."""
        end_ms = min(end_ms, self.end_ms or end_ms)
        if self.every_ms:
            begin_ms = self.start_ms + -(-(first_ms - self.start_ms) // self.every_ms) * self.every_ms
            return list(range(begin_ms if both_ways else max(begin_ms, self.start_ms), end_ms, self.every_ms))
        begin_ms = -(-max(first_ms, self.start_ms) // SECOND_MS) * SECOND_MS
        # No expression has other seconds.
        begin_ms = -(-begin_ms // (10 * SECOND_MS)) * 10 * SECOND_MS
        return [at_ms for at_ms in range(begin_ms, end_ms, 10 * SECOND_MS) if self._has(at_ms)]

    def _has(self, at_ms: int) -> bool:
        zone = ZoneInfo(self.time_zone or "UTC")
        wall = datetime.fromtimestamp(at_ms // 1000, zone)
        if any(EXCLUSIONS[text].match(wall) for text in self.exclude):
            return False
        if any(start_ms <= at_ms < end_ms for start_ms, end_ms in map(window_of, self.calendars)):
            return False
        return any(self._matches(EXPRESSIONS[text], wall) for text in self.expressions)

    def _matches(self, fields: Fields, wall: datetime) -> bool:
        if not fields.is_fixed:
            return fields.match(wall)
        if fields.match(wall):
            is_twice = wall.replace(fold=0).utcoffset() != wall.replace(fold=1).utcoffset()
            wanted = {job_pb2.FOLD_POLICY_FIRST: (0,), job_pb2.FOLD_POLICY_LAST: (1,)}.get(self.fold, (0, 1))
            if not is_twice or wall.fold in wanted:
                return True
        if self.gap == job_pb2.GAP_POLICY_SKIP:
            return False
        # The first instant after a gap stands for all that fell into it.
        before = (wall.astimezone(UTC) - timedelta(seconds=10)).astimezone(wall.tzinfo)
        skipped = before.replace(tzinfo=None) + timedelta(seconds=10)
        until = wall.replace(tzinfo=None)
        while skipped < until:
            if fields.match(skipped):
                return True
            skipped += timedelta(seconds=10)
        return False


def decoded(schedule: bytes, due_ms: int) -> Spec:
    """What a command says."""
    message = command_pb2.Schedule.FromString(schedule)
    if message.every_ms:
        return Spec(every_ms=message.every_ms, start_ms=due_ms, end_ms=message.end_ms)
    return Spec(
        start_ms=message.start_ms,
        end_ms=message.end_ms,
        expressions=(message.expression, *message.more_expressions),
        exclude=tuple(message.exclude),
        time_zone="" if message.time_zone == "UTC" else message.time_zone,
        gap=message.gap or job_pb2.GAP_POLICY_SHIFT,
        fold=message.fold or job_pb2.FOLD_POLICY_FIRST,
        calendars=tuple(use.calendar for use in message.calendars),
    )


def _drawn_calendars(rng: random.Random, now_ms: int) -> tuple[str, ...]:
    """Of few, so that several use the same one."""
    if rng.random() < 0.6:
        return ()
    start_s = now_ms // 40_000 * 40 + 20
    return (f"from-{start_s}-to-{start_s + rng.choice((15, 45))}",)


def window_of(calendar: str) -> tuple[int, int]:
    """From when, and before when, a calendar of this name has its only window."""
    start_s, end_s = calendar.split("-")[1::2]
    return int(start_s) * SECOND_MS, int(end_s) * SECOND_MS


def calendar_of(name: str) -> calendar_pb2.Calendar:
    """The calendar of that name."""
    calendar = calendar_pb2.Calendar(name=name)
    window = calendar.windows.add()
    start_ms, end_ms = window_of(name)
    window.start.FromMilliseconds(start_ms)
    window.end.FromMilliseconds(end_ms)
    return calendar
