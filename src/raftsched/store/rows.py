"""What the rows hold: fixed heads with documented offsets, then tails of varying length. Big-endian throughout.

The offsets are chosen so that a stage of an execution's life replaces one contiguous piece of a row: a batch is
then a slice and a concatenation per item, with the replaced piece packed once for all.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from raftsched.model.errors import StoreCorrupt

FORMAT = 2

# jobs: job -> row
#   0 state u8 | 1 last_execution u64 | 9 scheduled_for_ms u64 | 17 payload_bytes u32 | 21 profile u32
#   25 schedule u32 (0: one-off) | 29 created_ms u64 | 37 cancelled_ms u64 | 45 name: u16 length, utf-8
#   then labels, each: u8 length, key, u16 length, value (utf-8), in order of key.
# scheduled_for_ms: of the occurrence that waits in due; of the newest one once a one-off has fired; the last one
# that was fired or skipped while JOB_STARVED.
JOB = struct.Struct(">BQQIIIQQH")
JOB_STATE = 0
JOB_LAST_EXECUTION = slice(1, 9)
JOB_SCHEDULED_FOR = slice(9, 17)
JOB_PAYLOAD_BYTES = slice(18, 21)
JOB_PROFILE = slice(21, 25)
JOB_SCHEDULE = slice(25, 29)
JOB_NAME_BYTES = slice(45, 47)

# A due row waits for its time.
JOB_WAITING = 1
# A one-off that has fired: what became of it is in its last execution.
JOB_FIRED = 2
# A recurring job whose schedule's tick table has run out; a row in starved waits for more ticks.
JOB_STARVED = 3
JOB_CANCELLED = 4
# A job that waits for those it depends on; one with a tick for each run stays so (see graph_rows.py).
JOB_BLOCKED = 7
# A job that runs once, and whose rule cannot be met any more unless an upstream's dead letter is replayed.
JOB_UPSTREAM_FAILED = 8
# Nothing waits in due; an extra says since when, and scheduled_for_ms is that of the occurrence that would wait.
# With a row in starved it is the last one that was fired or skipped, as while JOB_STARVED.
JOB_PAUSED = 5
# A recurring job that is through: its schedule has ended, or it has run max_runs times.
JOB_COMPLETED = 6

# due: kinds
DUE_FIRST = b"\x01"
DUE_TICK = b"\x02"
DUE_RETRY = b"\x03"

# executions: execution -> row
#   0 job u64 | 8 previous execution of the job u64 | 16 scheduled_for_ms u64
#   24 cause u8 (raftsched.v1.ExecutionCause, 0: its schedule; with OWN_PAYLOAD, CANCEL_REQUESTED)
#   25 payload_bytes u24 | 28 profile u32
#   32 fired_ms u64 | 40 failures u16 | 42 lost_leases u16
#   44 attempt u16 (the newest begun, 0: none) | 46 session u64 | 54 token u64 | 62 leased_ms u64 | 70 status u8
#   71 started_ms u64 | 79 ended_ms u64
# and only once it has failed or was replayed:
#   87 changed_ms u64 (in FAILED, SNOOZED: when the next attempt is due; in DEAD_LETTER: when it became one)
#   95 replayed_as u64 | 103 first_began_ms u64 (lease of the first attempt that failed or was lost) | 111 error utf-8
EXECUTION = struct.Struct(">QQQIIQHHHQQQBQQ")
EXECUTION_BYTES = EXECUTION.size
EXECUTION_JOB = slice(0, 8)
EXECUTION_SCHEDULED_FOR = slice(16, 24)
EXECUTION_CAUSE = 24
# Its payload stands in execution_payloads, and is not its job's.
OWN_PAYLOAD = 0x40
# A caller wants it cancelled and its worker was told: it ends CANCELLED unless it succeeds.
CANCEL_REQUESTED = 0x80
_CAUSE = 0x3F
EXECUTION_PAYLOAD_BYTES = slice(25, 28)
EXECUTION_PROFILE = slice(28, 32)
EXECUTION_LEASE = slice(46, 62)
EXECUTION_TOKEN = slice(54, 62)
EXECUTION_STATUS = 70
EXECUTION_EXTRA = struct.Struct(">QQQ")

# attempts: (execution, token) -> number u16, outcome u8 (raftsched.v1.AttemptOutcome), leased_ms u64, started_ms u64,
#   ended_ms u64, then worker and error's class, each: u16 length, utf-8; then error utf-8
ATTEMPT = struct.Struct(">HBQQQ")

# dedup: -> expiry_ms u64, keep_ms u64, execution u64, token u64, completed u8, then the result
DEDUP = struct.Struct(">QQQQB")

# leases: (session, token) -> leased_ms u64, n u16, m u16, n × run_timeout_ms u64 (each with a deadline row),
#   m × (profile u32, how many of the executions have it u32), execution ids u64
LEASE_HEAD = struct.Struct(">QHH")

# limits: concurrency u32 | rate u64 (executions in 1,000 s) | burst u32 | weight u32
#   | level u64 (what the bucket held at_ms, in millionths of an execution) | at_ms u64 | interned id of the name u32
LIMIT = struct.Struct(">IQIIQQI")

# meta: turns, see keys.meta_turn
#   of a queue: executions leased since one of a lower priority was u8, the last byte of the level served then u8
#   of a level: tenant served last u32, executions of its turn that it has had u32 (0: its turn is over)
#   of a tenant at a level: the rest of the lane served last, 12 bytes; while it has one lane only, nothing is written
QUEUE_TURN = struct.Struct(">BB")
LEVEL_TURN = struct.Struct(">4sI")

# sessions: session -> open u8, expiry_ms u64, ttl_ms u64, opened_ms u64, ended_ms u64,
#   then worker and queues, each: u16 length, utf-8
SESSION = struct.Struct(">BQQQQQ")

# workflows: workflow -> number of nodes u32, number of them whose jobs have not been removed u32
WORKFLOW = struct.Struct(">II")

# results: execution -> what its handler returned, where that is not empty

# skipped: (job, scheduled_for_ms) -> reason u8 (raftsched.v1.SkipReason), count u64, last scheduled_for_ms u64
SKIPPED = struct.Struct(">BQQ")

# meta: META_RECLAIM: phase u8 (state/retention.py), then the key of its table to go on at
# META_RETENTION: least age in ms u64 (0: none), whether a number of executions is asked for u8
RETENTION = struct.Struct(">QB")

# extras, by kind; all that are absent are 0, or none:
#   EXTRA_RUNS: occurrences of the schedule that were started, or wait to be, u64; for jobs with max_runs
#   EXTRA_WAITING: scheduled_for_ms u64, cause u8, profile u32 (0: the job's own), and with OWN_PAYLOAD its payload
#   EXTRA_PAUSE: paused_ms u64, resumed_ms u64 (0 while paused), note utf-8
#   EXTRA_RETENTION: the oldest execution that is kept u64 (0: all), the newest when that was found u64, where the
#     search for it goes on u64 (0: nowhere), how many were counted until there u32
#   EXTRA_FAILURES_IN_A_ROW: dead letters since the last success u32
#   EXTRA_LAST_TRIGGER: scheduled_for_ms u64 of the newest execution that was triggered
#   EXTRA_PACED: due_ms u64 of the job's due row, where catch-up moved it
#   EXTRA_WORKFLOW: workflow u64
#   EXTRA_TICK_NUMBER: the number u64 (see ticks) of the tick that a paused job waits for
#   EXTRA_BESIDE: empty
WAITING = struct.Struct(">QBI")
PAUSE = struct.Struct(">QQ")

# profiles: profile -> namespace u32, queue u32, tenant u32, handler u32, concurrency key u32 (interned; 0: no key),
#   serialized internal.v1.Profile
PROFILE = struct.Struct(">IIIII")

# schedules: schedule -> jobs that are not cancelled u64, serialized internal.v1.Schedule
SCHEDULE = struct.Struct(">Q")

# calendars: version u64 (the index of the entry that put it), then a serialized raftsched.v1.Calendar
CALENDAR = struct.Struct(">Q")

# meta: of a tick table: final u8, version of the newest calendar u64, then the tz database's release, utf-8
_TICK_TABLE = struct.Struct(">BQ")

# idempotency: -> fingerprint 16 bytes, first job u64, number of jobs u32 (their ids are consecutive)
#   and for a trigger -> fingerprint 16 bytes, execution u64 (0: none was started), scheduled_for_ms u64, skipped u8
TRIGGERED = struct.Struct(">16sQQB")
IDEMPOTENCY = struct.Struct(">16sQI")

# meta
_STATE = struct.Struct(">QQQ16sQ12Q")
SHARD_OWNERS = struct.Struct(">32I")
# membership: index of its entry u64, serialized internal.v1.Membership
_MEMBERSHIP = struct.Struct(">Q")

_TEXT = struct.Struct(">H")


def pack_membership(index: int, content: bytes) -> bytes:
    return _MEMBERSHIP.pack(index) + content


def unpack_membership(value: bytes) -> tuple[int, bytes]:
    """Raises StoreCorrupt when it is too short."""
    if len(value) <= _MEMBERSHIP.size:
        raise StoreCorrupt("the store's membership row is cut short")
    return _MEMBERSHIP.unpack_from(value)[0], value[_MEMBERSHIP.size :]


@dataclass(slots=True)
class StateRow:
    """The meta row that says how far the store is, written in the same transaction as what it speaks of."""

    applied_index: int = 0
    applied_term: int = 0
    now_ms: int = 0
    digest: bytes = bytes(16)
    # No session ends before this.
    session_floor_ms: int = 0
    # The newest id given of each kind; for jobs, executions and sessions also how many there ever were.
    jobs: int = 0
    executions: int = 0
    sessions: int = 0
    profiles: int = 0
    schedules: int = 0
    namespaces: int = 0
    queues: int = 0
    tenants: int = 0
    # How many there are now.
    dead_letters: int = 0
    leased: int = 0
    jobs_cancelled: int = 0
    # Commands that could not be understood.
    unintelligible: int = 0

    def pack(self) -> bytes:
        return _STATE.pack(
            self.applied_index,
            self.applied_term,
            self.now_ms,
            self.digest,
            self.session_floor_ms,
            self.jobs,
            self.executions,
            self.sessions,
            self.profiles,
            self.schedules,
            self.namespaces,
            self.queues,
            self.tenants,
            self.dead_letters,
            self.leased,
            self.jobs_cancelled,
            self.unintelligible,
        )

    @classmethod
    def unpack(cls, value: bytes) -> "StateRow":
        """Raises StoreCorrupt when the length is wrong."""
        if len(value) != _STATE.size:
            raise StoreCorrupt("the store's state row has a wrong length")
        return cls(*_STATE.unpack(value))


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job's row, decoded."""

    state: int
    last_execution: int
    scheduled_for_ms: int
    payload_bytes: int
    profile: int
    schedule: int
    created_ms: int
    cancelled_ms: int
    name: str
    labels: dict[str, str]

    @classmethod
    def unpack(cls, value: bytes) -> "JobRow":
        (
            state,
            last_execution,
            scheduled_for_ms,
            payload_bytes,
            profile,
            schedule,
            created_ms,
            cancelled_ms,
            name_bytes,
        ) = JOB.unpack_from(value)
        at = JOB.size + name_bytes
        name = value[JOB.size : at].decode()
        labels = {}
        while at < len(value):
            size = value[at]
            label = value[at + 1 : at + 1 + size].decode()
            at += 1 + size
            (size,) = _TEXT.unpack_from(value, at)
            labels[label] = value[at + 2 : at + 2 + size].decode()
            at += 2 + size
        return cls(
            state,
            last_execution,
            scheduled_for_ms,
            payload_bytes,
            profile,
            schedule,
            created_ms,
            cancelled_ms,
            name,
            labels,
        )


def pack_job_tail(name: str, labels: Iterable[tuple[str, str]]) -> bytes:
    """Name and labels: what follows the head, which holds the name's length."""
    parts = [name.encode()]
    for label, value in sorted(labels):
        encoded = label.encode()
        parts += (bytes((len(encoded),)), encoded, _packed_text(value))
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """An execution's row, decoded."""

    job: int
    previous: int
    scheduled_for_ms: int
    cause: int
    payload_bytes: int
    profile: int
    fired_ms: int
    failures: int
    lost_leases: int
    attempt: int
    session: int
    token: int
    leased_ms: int
    status: int
    started_ms: int
    ended_ms: int
    # 0 unless it has failed: when the next attempt is due, or when it became a dead letter.
    changed_ms: int = 0
    replayed_as: int = 0
    first_began_ms: int = 0
    error: str = ""
    flags: int = field(default=0, kw_only=True)

    @property
    def cancel_requested(self) -> bool:
        return bool(self.flags & CANCEL_REQUESTED)

    @classmethod
    def unpack(cls, value: bytes) -> "ExecutionRow":
        extra: tuple[int | str, ...] = ()
        if len(value) > EXECUTION_BYTES:
            extra = EXECUTION_EXTRA.unpack_from(value, EXECUTION_BYTES)
            extra += (value[EXECUTION_BYTES + EXECUTION_EXTRA.size :].decode(errors="replace"),)
        job, previous, scheduled_for_ms, payload, *rest = EXECUTION.unpack_from(value)
        flags, payload_bytes = payload >> 24, payload & 0xFFFFFF
        return cls(job, previous, scheduled_for_ms, flags & _CAUSE, payload_bytes, *rest, *extra, flags=flags & ~_CAUSE)


def cause_of(execution: bytes) -> int:
    """Of an execution's row: a value of raftsched.v1.ExecutionCause, 0 for its schedule."""
    return execution[EXECUTION_CAUSE] & _CAUSE


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """How one attempt of an execution ended, decoded."""

    number: int
    outcome: int
    leased_ms: int
    # By the worker's clock; 0 where it did not say.
    started_ms: int
    ended_ms: int
    worker: str
    error_class: str
    error: str

    @classmethod
    def unpack(cls, value: bytes) -> "AttemptRow":
        texts = []
        at = ATTEMPT.size
        for _ in range(2):
            (size,) = _TEXT.unpack_from(value, at)
            texts.append(value[at + 2 : at + 2 + size].decode())
            at += 2 + size
        number, outcome, leased_ms, started_ms, ended_ms = ATTEMPT.unpack_from(value)
        worker, error_class = texts
        return cls(number, outcome, leased_ms, started_ms, ended_ms, worker, error_class, value[at:].decode())

    def pack(self) -> bytes:
        head = ATTEMPT.pack(self.number, self.outcome, self.leased_ms, self.started_ms, self.ended_ms)
        return head + _packed_text(self.worker) + _packed_text(self.error_class) + self.error.encode()


@dataclass(frozen=True, slots=True)
class DedupRow:
    """Who has claimed a key, decoded; `result` once it is completed."""

    expiry_ms: int
    keep_ms: int
    execution: int
    token: int
    completed: bool
    result: bytes = b""

    @classmethod
    def unpack(cls, value: bytes) -> "DedupRow":
        expiry_ms, keep_ms, execution, token, completed = DEDUP.unpack_from(value)
        return cls(expiry_ms, keep_ms, execution, token, bool(completed), value[DEDUP.size :])

    def pack(self) -> bytes:
        head = DEDUP.pack(self.expiry_ms, self.keep_ms, self.execution, self.token, self.completed)
        return head + self.result


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease block's row, decoded; `executions` is a column of ids."""

    leased_ms: int
    run_timeouts_ms: tuple[int, ...]
    executions: bytes
    # (profile, how many of the executions have it); every profile once.
    profiles: tuple[tuple[int, int], ...] = ()

    @classmethod
    def unpack(cls, value: bytes) -> "LeaseRow":
        leased_ms, timeouts, profiles = LEASE_HEAD.unpack_from(value)
        numbers = struct.unpack_from(f">{timeouts}Q{2 * profiles}I", value, LEASE_HEAD.size)
        start = LEASE_HEAD.size + 8 * timeouts + 8 * profiles
        tallies = numbers[timeouts:]
        return cls(leased_ms, numbers[:timeouts], value[start:], tuple(zip(tallies[::2], tallies[1::2], strict=True)))

    def pack(self) -> bytes:
        timeouts, tallies = self.run_timeouts_ms, [number for tally in self.profiles for number in tally]
        head = LEASE_HEAD.pack(self.leased_ms, len(timeouts), len(self.profiles))
        return head + struct.pack(f">{len(timeouts)}Q{len(tallies)}I", *timeouts, *tallies) + self.executions


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit, decoded. 0 for concurrency, rate and burst: none."""

    concurrency: int
    rate: int
    burst: int
    weight: int
    level: int
    at_ms: int
    # Of the queue, tenant or handler.
    id: int

    @classmethod
    def unpack(cls, value: bytes) -> "LimitRow":
        return cls(*LIMIT.unpack(value))

    def pack(self) -> bytes:
        return LIMIT.pack(self.concurrency, self.rate, self.burst, self.weight, self.level, self.at_ms, self.id)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A worker's session, decoded. The row outlives the session: executions name their worker through it."""

    open: bool
    expiry_ms: int
    ttl_ms: int
    opened_ms: int
    # 0 while open.
    ended_ms: int
    worker: str
    queues: tuple[str, ...]
    # The highest sequence of a heartbeat so far.
    heartbeat: int = 0

    @classmethod
    def unpack(cls, value: bytes) -> "SessionRow":
        is_open, expiry_ms, ttl_ms, opened_ms, ended_ms, heartbeat = SESSION.unpack_from(value)
        texts = []
        at = SESSION.size
        while at < len(value):
            (size,) = _TEXT.unpack_from(value, at)
            texts.append(value[at + 2 : at + 2 + size].decode())
            at += 2 + size
        return cls(bool(is_open), expiry_ms, ttl_ms, opened_ms, ended_ms, texts[0], tuple(texts[1:]), heartbeat)

    def pack(self) -> bytes:
        head = SESSION.pack(self.open, self.expiry_ms, self.ttl_ms, self.opened_ms, self.ended_ms, self.heartbeat)
        return head + _packed_text(self.worker) + b"".join(map(_packed_text, self.queues))


@dataclass(frozen=True, slots=True)
class TickTableRow:
    """What a schedule's tick table was evaluated with, decoded."""

    # No tick comes after the table's last.
    is_final: bool = False
    # Of the schedule's newest calendar; 0 when it has none.
    calendars_version: int = 0
    # Empty where no zone matters.
    time_zone_database: str = ""

    @classmethod
    def unpack(cls, value: bytes) -> "TickTableRow":
        is_final, calendars_version = _TICK_TABLE.unpack_from(value)
        return cls(bool(is_final), calendars_version, value[_TICK_TABLE.size :].decode())

    def pack(self) -> bytes:
        return _TICK_TABLE.pack(self.is_final, self.calendars_version) + self.time_zone_database.encode()


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A range of occurrences that did not run, decoded."""

    reason: int
    count: int
    last_scheduled_for_ms: int

    @classmethod
    def unpack(cls, value: bytes) -> "SkippedRow":
        return cls(*SKIPPED.unpack(value))

    def pack(self) -> bytes:
        return SKIPPED.pack(self.reason, self.count, self.last_scheduled_for_ms)


def _packed_text(text: str) -> bytes:
    encoded = text.encode()
    return _TEXT.pack(len(encoded)) + encoded
