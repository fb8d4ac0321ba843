"""What the rows of `edges` and `waits` hold: who waits for whom, and how far each instance of a graph is.

A job whose upstreams all run once has one instance, NO_INSTANCE. One with a recurring upstream has an instance for
each scheduled time that an upstream ran for; outcomes of upstreams that run once are those of NO_INSTANCE, and count
in every instance.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

# edges: what the row of an upstream itself holds.
EDGES_ONCE = b"\x00"
EDGES_RECURRING = b"\x01"

# Wait: rule u8 (raftsched.v1.DependencyRule), recurring u8, upstreams that run once u16, ids of all upstreams u64.
_WAIT = struct.Struct(">BBH")
# Instance: state u8, succeeded u16, failed u16, skipped u16, revived u8, the execution that it started u64.
_INSTANCE = struct.Struct(">BHHHBQ")
# Outcome: how it ended u8, execution u64 (0: it had none).
_OUTCOME = struct.Struct(">BQ")
# Kept: number of instances u32; the highest scheduled time that was dropped u64, and when that was u64.
_KEPT = struct.Struct(">IQQ")
# Work: kind u8, job u64, instance u64, execution u64, outcome u8, opens_ms u64, the last downstream that was told u64.
_WORK = struct.Struct(">BQQQBQQ")


class Ended(IntEnum):
    """How an upstream ended. NONE takes back that its rule cannot be met."""

    NONE = 0
    SUCCEEDED = 1
    FAILED = 2
    SKIPPED = 3


class InstanceState(IntEnum):
    """What became of one instance of a job that waits."""

    OPEN = 0
    FIRED = 1
    # The rule cannot be met by those that have not ended.
    UNMET = 2


class WorkKind(IntEnum):
    """What a row of the work list asks for."""

    # Tell the downstream jobs of `job` how it ended.
    TELL = 1
    # See whether an instance of `job` can start.
    JUDGE = 2
    # The execution that an instance of `job` started has ended well: forget the instance once all has been counted.
    CLOSE = 3
    # The job is gone: remove what is kept of it.
    FORGET = 4
    # All jobs of the workflow `job` are gone: remove the names of its nodes.
    FORGET_WORKFLOW = 5


@dataclass(frozen=True, slots=True)
class Wait:
    """The header of a job that depends on others; `upstreams` is a column of ids, in the order of the request."""

    rule: int
    recurring: bool
    # How many of the upstreams run once.
    once: int
    upstreams: bytes

    @property
    def total(self) -> int:
        return len(self.upstreams) // 8

    @classmethod
    def unpack(cls, value: bytes) -> "Wait":
        rule, recurring, once = _WAIT.unpack_from(value)
        return cls(rule, bool(recurring), once, value[_WAIT.size :])

    def pack(self) -> bytes:
        return _WAIT.pack(self.rule, self.recurring, self.once) + self.upstreams


@dataclass(slots=True)
class Instance:
    """How many upstreams have ended in each way, and what followed. All zero where there is no row."""

    state: int = InstanceState.OPEN
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    # It was UNMET before it started: what it started counts only where the instance is still known.
    revived: bool = False
    execution: int = 0

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.skipped

    def count(self, outcome: int, change: int) -> None:
        """Adds `change` to the number of upstreams that ended so."""
        if outcome == Ended.SUCCEEDED:
            self.succeeded += change
        elif outcome == Ended.FAILED:
            self.failed += change
        elif outcome == Ended.SKIPPED:
            self.skipped += change

    @classmethod
    def unpack(cls, value: bytes) -> "Instance":
        state, succeeded, failed, skipped, revived, execution = _INSTANCE.unpack(value)
        return cls(state, succeeded, failed, skipped, bool(revived), execution)

    def pack(self) -> bytes:
        return _INSTANCE.pack(self.state, self.succeeded, self.failed, self.skipped, self.revived, self.execution)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an upstream ended in one instance, by which execution."""

    ended: int
    execution: int

    @classmethod
    def unpack(cls, value: bytes) -> "Outcome":
        return cls(*_OUTCOME.unpack(value))

    def pack(self) -> bytes:
        return _OUTCOME.pack(self.ended, self.execution)


@dataclass(slots=True)
class Kept:
    """How many instances of a recurring job are kept, and up to where some have been dropped."""

    count: int = 0
    dropped_until_ms: int = 0
    dropped_ms: int = 0

    @classmethod
    def unpack(cls, value: bytes) -> "Kept":
        return cls(*_KEPT.unpack(value))

    def pack(self) -> bytes:
        return _KEPT.pack(self.count, self.dropped_until_ms, self.dropped_ms)


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the work list."""

    kind: int
    job: int
    instance: int = 0
    execution: int = 0
    ended: int = Ended.NONE
    # TELL: when the execution was fired, if it may begin an instance that is not known, else 0. A replay may not, nor
    # what comes of an instance that had been given up: the instance may have come to its end and been forgotten, and
    # must not run twice.
    opens_ms: int = 0
    # TELL: the downstream job told last, 0 before the first.
    told: int = 0

    @classmethod
    def unpack(cls, value: bytes) -> "Work":
        return cls(*_WORK.unpack(value))

    def pack(self) -> bytes:
        return _WORK.pack(self.kind, self.job, self.instance, self.execution, self.ended, self.opens_ms, self.told)
