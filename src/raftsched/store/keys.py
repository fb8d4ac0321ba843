"""How keys of each table are packed: big-endian throughout, so that byte order is numeric order.

An id alone is 8 bytes; a column of ids is such keys joined, which is also how commands carry them.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

SHARDS = 32
ID_BYTES = 8
# Times are milliseconds since the epoch, from 0 and below this (the year 10889): their first two bytes are zero.
MAX_MS = 1 << 48
MAX_ID = (1 << 64) - 1
# What LMDB allows a key to be.
MAX_KEY_BYTES = 511

_ID = struct.Struct(">Q")
_SMALL_ID = struct.Struct(">I")
_SHARD = struct.Struct(">H")
_DUE = struct.Struct(">HQQQ")
_LANE = struct.Struct(">IBIIII")
_TICK = struct.Struct(">IQ")
_STARVED = struct.Struct(">IQ")
_PAIR = struct.Struct(">QQ")
_DEAD_LETTER = struct.Struct(">IQQ")
_DEADLINE = struct.Struct(">BQQQ")
_REFUSED = struct.Struct(">QIQ")

pack_id = _ID.pack
pack_small_id = _SMALL_ID.pack


def unpack_id(key: bytes) -> int:
    """The id of an 8-byte key."""
    return int(_ID.unpack(key)[0])


def unpack_small_id(key: bytes) -> int:
    """The id of a 4-byte key."""
    return int(_SMALL_ID.unpack(key)[0])


def pack_ids(ids: Sequence[int]) -> bytes:
    """A column of ids."""
    return struct.pack(f">{len(ids)}Q", *ids)


def unpack_ids(column: bytes) -> tuple[int, ...]:
    """The ids of a column whose length is a multiple of 8."""
    return struct.unpack(f">{len(column) // ID_BYTES}Q", column)


def split_ids(column: bytes) -> list[bytes]:
    """The keys of a column."""
    return split(column, ID_BYTES)


def split(column: bytes, width: int) -> list[bytes]:
    """The pieces of a column of `width` bytes each; far cheaper than slicing it piece by piece."""
    return list(struct.unpack(f"{width}s" * (len(column) // width), column))


def interleave(first: bytes, second: bytes) -> bytes:
    """From two columns of 8 bytes, one of 16."""
    pairs = memoryview(bytearray(2 * len(first))).cast("Q")
    pairs[0::2] = memoryview(first).cast("Q")
    pairs[1::2] = memoryview(second).cast("Q")
    return bytes(pairs)


def pack_id_range(first: int, count: int) -> list[bytes]:
    """The keys of `count` consecutive ids."""
    return split_ids(struct.pack(f">{count}Q", *range(first, first + count)))


# due: (shard u16, due_ms u64, job u64, execution u64) -> kind u8 (rows.DUE_*). execution is 0 unless kind is a retry.
# The shard leads, so that the earliest row of a shard is one seek and what is due in it one range.
DUE_SHARD = slice(0, 2)
DUE_MS = slice(2, 10)
DUE_JOB = slice(10, 18)
DUE_EXECUTION = slice(18, 26)
NO_EXECUTION = bytes(ID_BYTES)


def shard_of(job: int) -> int:
    """The shard of a job: neighbours of 64 share one, so that a shard's batch touches few pages."""
    return (job >> 6) % SHARDS


def due(job: int, due_ms: int, execution: int = 0) -> bytes:
    return _DUE.pack(shard_of(job), due_ms, job, execution)


def due_shard(shard: int) -> bytes:
    """Prefix of all due rows of one shard."""
    return _SHARD.pack(shard)


def due_from(shard: int, due_ms: int) -> bytes:
    """Sorts before every due row of the shard at or after `due_ms`."""
    return _DUE.pack(shard, due_ms, 0, 0)


def due_until(shard: int, due_ms: int) -> bytes:
    """Sorts after every due row of the shard at or before `due_ms` and before all later ones."""
    return _DUE.pack(shard, due_ms + 1, 0, 0)


def due_ms_of(key: bytes) -> int:
    return int(_ID.unpack(key[DUE_MS])[0])


# ready: (lane, first execution u64) -> count u32. A lane is (queue u32, 255 - priority u8, tenant u32, handler u32,
# concurrency key u32, concurrency limit u32): executions of one lane are within the same limits. Handlers, concurrency
# keys and the rest are interned; 0: no concurrency key.
QUEUE_BYTES = 4
# Queue and priority.
LEVEL_BYTES = 5
# Queue, priority and tenant.
SHARE_BYTES = 9
LANE_BYTES = 21
RUN_FIRST = slice(21, 29)


def lane(
    queue: int, priority: int, tenant: int, handler: int = 0, concurrency_key: int = 0, concurrency_limit: int = 0
) -> bytes:
    """Prefix of the ready runs that share all of these."""
    return _LANE.pack(queue, 255 - priority, tenant, handler, concurrency_key, concurrency_limit)


def lane_queue(key: bytes) -> int:
    return int(_SMALL_ID.unpack(key[:QUEUE_BYTES])[0])


def lane_tenant(key: bytes) -> int:
    return int(_SMALL_ID.unpack(key[LEVEL_BYTES:SHARE_BYTES])[0])


def lane_limited(key: bytes) -> tuple[int, int, int]:
    """(handler, concurrency key, concurrency limit)."""
    _, _, _, handler, concurrency_key, concurrency_limit = _LANE.unpack(key[:LANE_BYTES])
    return handler, concurrency_key, concurrency_limit


# limits: (raftsched.v1.LimitScope u8, name utf-8) -> rows.LimitRow
def limit(scope: int, name: str) -> bytes:
    return bytes((scope,)) + name.encode()


# leases: (session u64, token u64); the same 16 bytes stand in the execution row (rows.EXECUTION_LEASE).
def lease(session: int, token: int) -> bytes:
    return _PAIR.pack(session, token)


def unpack_pair(key: bytes) -> tuple[int, int]:
    """Both numbers of a leases or skipped key."""
    first, second = _PAIR.unpack(key)
    return first, second


# attempts: (execution u64, token u64) -> rows.AttemptRow; tokens ascend with the leases.
def attempt(execution: bytes, token: int) -> bytes:
    return execution + _ID.pack(token)


# dedup: digest of namespace and key -> rows.DedupRow, and (expiry_ms u64, that digest) -> empty.
# A time and a digest: also in idempotency, see state/timed_keys.py.
TIMED_KEY_BYTES = 40


def dedup(namespace: str, key: str) -> bytes:
    return digest_key((namespace.encode(), key.encode()))


def dedup_expiry(expiry_ms: int, key: bytes) -> bytes:
    """`key` b"" sorts before every key that expires then."""
    return _ID.pack(expiry_ms) + key


# skipped: (job u64, first scheduled_for_ms u64)
def skipped(job: int, scheduled_for_ms: int) -> bytes:
    return _PAIR.pack(job, scheduled_for_ms)


# deadlines: (kind u8, time u64, a u64, b u64)
# SESSION_EXPIRY: (expiry_ms, session, 0) -> empty.
# RUN_TIMEOUT: (leased_ms + run_timeout_ms, session, token) -> run_timeout_ms u64; for all of the block that have it.
# START_DEADLINE: (scheduled_for_ms + start_deadline_ms, execution, 0), or (that, job, its place in the overlap queue)
# -> empty.
SESSION_EXPIRY = 1
RUN_TIMEOUT = 2
# BACKFILL: (when its next step is due, backfill, 0) -> empty
# DELETION: (when the job was deleted, job, 0) -> the newest of its executions that are left u64
START_DEADLINE = 3
DELETION = 4
BACKFILL = 5


def deadline(kind: int, time_ms: int, a: int, b: int = 0) -> bytes:
    return _DEADLINE.pack(kind, time_ms, a, b)


def unpack_deadline(key: bytes) -> tuple[int, int, int, int]:
    """(kind, time_ms, a, b)."""
    kind, time_ms, a, b = _DEADLINE.unpack(key)
    return kind, time_ms, a, b


# ticks: (schedule u32, tick_ms u64) -> number u64, ascending: the difference of two counts the ticks between them,
# also those that the table does not hold any more, or never did.
def tick(schedule: int, tick_ms: int) -> bytes:
    return _TICK.pack(schedule, tick_ms)


def unpack_tick(key: bytes) -> tuple[int, int]:
    schedule, tick_ms = _TICK.unpack(key)
    return schedule, tick_ms


# starved: (schedule u32, job u64) -> empty
def starved(schedule: int, job: int) -> bytes:
    return _STARVED.pack(schedule, job)


def unpack_starved(key: bytes) -> tuple[int, int]:
    schedule, job = _STARVED.unpack(key)
    return schedule, job


# calendars: namespace, a zero byte, name -> rows.CALENDAR and a serialized raftsched.v1.Calendar. In order of name.
def calendar(namespace: str, name: str) -> bytes:
    return namespace.encode() + b"\x00" + name.encode()


def calendars_of(namespace: str) -> bytes:
    """Prefix of a namespace's calendars."""
    return namespace.encode() + b"\x00"


# dead_letters: (namespace u32, dead_ms u64, execution u64) -> empty
def dead_letter(namespace: int, dead_ms: int, execution: int) -> bytes:
    return _DEAD_LETTER.pack(namespace, dead_ms, execution)


def unpack_dead_letter(key: bytes) -> tuple[int, int, int]:
    """(namespace, dead_ms, execution)."""
    namespace, dead_ms, execution = _DEAD_LETTER.unpack(key)
    return namespace, dead_ms, execution


# interned: (kind u8, utf-8) -> u32 id, and (kind + 128 u8, u32 id) -> utf-8.
NAMESPACE = 1
QUEUE = 2
TENANT = 3
HANDLER = 4
# A namespace, a zero byte and the key.
CONCURRENCY_KEY = 5
MAX_INTERNED_BYTES = MAX_KEY_BYTES - 1


def interned(kind: int, text: str) -> bytes:
    return bytes((kind,)) + text.encode()


def interned_text(kind: int, number: int) -> bytes:
    return bytes((kind + 128,)) + _SMALL_ID.pack(number)


# extras: (job u64, kind u8, and more for some kinds) -> what few jobs have, see rows.py
EXTRA_RUNS = 1
EXTRA_WAITING = 2
EXTRA_PAUSE = 3
EXTRA_PACED = 4
EXTRA_WORKFLOW = 6
EXTRA_FAILURES_IN_A_ROW = 5
EXTRA_RETENTION = 7
EXTRA_TICK_NUMBER = 8
EXTRA_BESIDE = 9
EXTRA_LAST_TRIGGER = 10
# The highest of these.
EXTRA_LAST = 10


def extra(job: bytes, kind: int) -> bytes:
    """`job` is a job's key."""
    return job + bytes((kind,))


def extra_waiting(job: bytes, place: int) -> bytes:
    """An occurrence in the job's overlap queue; the lowest place is the first."""
    return extra(job, EXTRA_WAITING) + pack_id(place)


def extra_beside(job: bytes, scheduled_for_ms: int, execution: bytes) -> bytes:
    """An execution that was started beside the schedule, hence is out of order among those of its job."""
    return extra(job, EXTRA_BESIDE) + pack_id(scheduled_for_ms) + execution


# unfinished: (job u64, execution u64) -> empty. For jobs whose overlap policy asks for it, and those of META_TRACKED.
def unfinished(job: bytes, execution: bytes) -> bytes:
    return job + execution


# Texts that may be longer than a key are found by their hash.
def digest_key(parts: Iterable[bytes]) -> bytes:
    """32 bytes for a sequence of byte strings; each is preceded by its length, so that none runs into the next."""
    hashed = hashlib.blake2b(digest_size=32)
    for part in parts:
        hashed.update(_SMALL_ID.pack(len(part)))
        hashed.update(part)
    return hashed.digest()


def job_name(namespace: str, name: str) -> bytes:
    """names: -> job u64, the newest that took the name."""
    return digest_key((namespace.encode(), name.encode()))


# idempotency: also (when it was put there u64, one of the keys below) -> empty.
def idempotency_time(time_ms: int, key: bytes) -> bytes:
    """`key` b"" sorts before every key that was put there then."""
    return _ID.pack(time_ms) + key


def idempotency(namespace: str, key: str) -> bytes:
    """idempotency: -> rows.IDEMPOTENCY."""
    return digest_key((namespace.encode(), key.encode()))


def trigger(job: bytes, key: str) -> bytes:
    """idempotency: -> rows.TRIGGERED. Three parts, hence none of the keys that `idempotency` makes."""
    return digest_key((b"trigger", job, key.encode()))


def content(serialized: bytes) -> bytes:
    """profile_ids, schedule_ids: serialized message -> u32 id."""
    return digest_key((serialized,))


# edges: (upstream job u64, downstream job u64) -> empty; (upstream job u64, 0) -> rows.EDGES_* while it has any.
def edge(upstream: bytes, downstream: bytes) -> bytes:
    return upstream + downstream


def edges_of(upstream: bytes) -> bytes:
    """The row that says that a job has downstream jobs; it comes before those of its edges."""
    return upstream + NO_JOB


# waits: of jobs that depend on others; what the rows hold is said in graph_rows.py
#   (downstream job u64) -> Wait
#   (downstream job u64, instance u64) -> Instance
#   (downstream job u64, instance u64, upstream job u64) -> Outcome
#   (downstream job u64, LAST_ID) -> Kept
#   (0 u64, number u64) -> Work: what is to be told to downstream jobs, in order
# The instance is the scheduled_for_ms that a tick hands down, 0 for what has no tick.
NO_JOB = bytes(ID_BYTES)
LAST_ID = _ID.pack(MAX_ID)
NO_INSTANCE = bytes(ID_BYTES)


def graph_work(number: int) -> bytes:
    return NO_JOB + _ID.pack(number)


# workflows: (workflow u64) -> rows.WORKFLOW; (workflow u64, position u32) -> the node's name, utf-8.
# A workflow's id is that of its first job; the ids of its jobs are consecutive.
def workflow_node(workflow: int, position: int) -> bytes:
    return _ID.pack(workflow) + _SMALL_ID.pack(position)


# meta
META_FORMAT = b"format"
META_STATE = b"state"
META_SHARD_OWNERS = b"shard_owners"
# With a job's id: cancelled, with more executions than one command could look at; what is not finished is not leased.
META_CANCELLING = b"cancelling"
META_REFUSED = b"refused"
# With a job's id: its unfinished executions stand in `unfinished` though its profile does not ask for it.
META_TRACKED = b"tracked"
# With the id of a schedule and a job's: the job is paused or catches up, and may need ticks that are long over.
META_KEEP_TICKS = b"keep_ticks"
META_STAMPING = b"stamping"
# Where the removal of what need not be kept goes on; absent between two passes.
META_RECLAIM = b"reclaim"
# The least age, and whether there is a number of executions, that a profile asks for.
META_RETENTION = b"retention"
# Where the search for jobs goes on that wait for a tick which their schedule has no more.
META_RESTAMPING = b"restamping"
# With a schedule's id: its ticks later than this (u64) have changed.
META_RESTAMP_AFTER = b"restamp_after"
META_MEMBERSHIP = b"membership"
# The newest id given to a backfill u64.
META_BACKFILLS = b"backfills"


def meta_tick_table(schedule: int) -> bytes:
    """-> rows.TickTableRow"""
    return b"tick_table" + _SMALL_ID.pack(schedule)


def meta_restamp_after(schedule: int) -> bytes:
    return META_RESTAMP_AFTER + _SMALL_ID.pack(schedule)


def meta_stamping(schedule: int) -> bytes:
    """The job (u64) from which on a schedule's starved jobs may find a tick; the row is there while some are left."""
    return META_STAMPING + _SMALL_ID.pack(schedule)


def meta_turn(prefix: bytes) -> bytes:
    """What was served last of the lanes that begin with this prefix, see rows.py."""
    return b"turn" + prefix


def meta_share(queue: int) -> bytes:
    """The priority and tenant of all jobs that a queue ever had, as in their lanes; empty if there are several."""
    return b"share" + _SMALL_ID.pack(queue)


def meta_interned(kind: int) -> bytes:
    """The newest id (u32) given to a HANDLER or CONCURRENCY_KEY."""
    return b"interned" + bytes((kind,))


def meta_refused(time_ms: int, origin: int, request: int) -> bytes:
    """A command that was refused then, by the node that asked and its number there; see state/refusals.py."""
    return META_REFUSED + _REFUSED.pack(time_ms, origin, request)


def refused_request(key: bytes) -> tuple[int, int]:
    """(origin, request) of such a key."""
    _, origin, request = _REFUSED.unpack(key[len(META_REFUSED) :])
    return origin, request


def after_prefix(prefix: bytes) -> bytes | None:
    """The least key greater than every key with this prefix; None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))
