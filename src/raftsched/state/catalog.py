"""What many jobs share, interned: profiles, schedules, and the names of namespaces, queues and tenants."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState
from raftsched.model.limits import OVERLAP_QUEUE_DEFAULT
from raftsched.store import keys, rows
from raftsched.store.writer import Writer
from raftsched.v1 import job_pb2

# Decoded profiles and schedules kept in memory; when there are more, all are forgotten and read anew.
CACHE_ENTRIES = 50_000
# Overlap policies that have to know every unfinished execution of a job.
_TRACKING = (job_pb2.OVERLAP_POLICY_QUEUE, job_pb2.OVERLAP_POLICY_REPLACE)


@dataclass(frozen=True, slots=True)
class Profile:
    """An interned profile with what the state machine asks of it at hand."""

    id: int
    message: command_pb2.Profile
    namespace: int
    queue: int
    tenant: int
    handler: int
    # 0: none.
    concurrency_key: int
    # Prefix of its executions' ready runs.
    lane: bytes
    jitter_ms: int
    run_timeout_ms: int
    # Whether its jobs wait for others.
    depends: bool
    skips_overlap: bool
    fires_latest_only: bool
    # A value of raftsched.v1.OverlapPolicy, and how many may wait, or be unfinished (0: any number).
    overlap: int
    overlap_limit: int
    # Whether its jobs' unfinished executions stand in `unfinished`.
    tracks_unfinished: bool
    # 0: none.
    start_deadline_ms: int
    # Whether one-offs, and ticks that are not late, fire in batches: no rule asks for a look at each.
    fires_in_batches: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interned schedule: cron when `every_ms` is 0."""

    id: int
    message: command_pb2.Schedule
    every_ms: int
    # Of an interval: no tick at or after it; 0: none.
    end_ms: int


def decode_profile(profile_id: int, value: bytes) -> Profile:
    """From a profiles row. Raises ImpossibleState when it cannot be read."""
    namespace, queue, tenant, handler, concurrency_key = rows.PROFILE.unpack_from(value)
    try:
        message = command_pb2.Profile.FromString(value[rows.PROFILE.size :])
    except DecodeError as error:
        raise ImpossibleState(f"profile {profile_id} cannot be read") from error
    tracks_unfinished = message.overlap in _TRACKING or (
        message.overlap == job_pb2.OVERLAP_POLICY_ALLOW and message.overlap_limit > 0
    )
    return Profile(
        id=profile_id,
        message=message,
        namespace=namespace,
        queue=queue,
        tenant=tenant,
        handler=handler,
        concurrency_key=concurrency_key,
        lane=keys.lane(
            queue,
            message.priority,
            tenant,
            handler,
            concurrency_key,
            message.concurrency_limit if concurrency_key else 0,
        ),
        jitter_ms=message.jitter_ms,
        run_timeout_ms=message.run_timeout_ms,
        depends=message.dependency_rule != 0,
        skips_overlap=message.overlap == job_pb2.OVERLAP_POLICY_SKIP,
        fires_latest_only=message.catch_up == job_pb2.CATCH_UP_POLICY_LATEST and not message.catch_up_window_ms,
        overlap=message.overlap,
        overlap_limit=message.overlap_limit
        or (OVERLAP_QUEUE_DEFAULT if message.overlap == job_pb2.OVERLAP_POLICY_QUEUE else 0),
        tracks_unfinished=tracks_unfinished,
        start_deadline_ms=message.start_deadline_ms,
        fires_in_batches=not tracks_unfinished and not message.start_deadline_ms and not message.max_runs,
    )


class Catalog:
    """Interns on the core thread; `cached_profile` may be called from any."""

    def __init__(self, writer: Writer, state: rows.StateRow) -> None:
        self._writer = writer
        self._tables = writer.tables
        self._state = state
        # What profiles ask for: the least age, 0 for none; whether any asks for a number of executions.
        value = writer.get(writer.tables.meta, keys.META_RETENTION)
        self.least_age_ms, self.counts_executions = rows.RETENTION.unpack(value) if value is not None else (0, 0)
        # By the 4-byte keys that rows hold.
        self._profiles: dict[bytes, Profile] = {}
        self._schedules: dict[bytes, Schedule] = {}
        self._queue_names: dict[int, str] = {}
        # The rows keys.meta_share that were read or written, by queue.
        self._shares: dict[int, bytes | None] = {}

    def trim(self) -> None:
        """Bounds memory. Call when everything interned has been committed, so that other threads can find it."""
        if len(self._profiles) > CACHE_ENTRIES:
            self._profiles = {}
        if len(self._schedules) > CACHE_ENTRIES:
            self._schedules = {}

    def cached_profile(self, profile_id: int) -> Profile | None:
        return self._profiles.get(keys.pack_small_id(profile_id))

    def profile(self, key: bytes) -> Profile:
        """By the 4 bytes of its id. Raises ImpossibleState when there is none."""
        profile = self._profiles.get(key)
        if profile is None:
            value = self._writer.get(self._tables.profiles, key)
            if value is None:
                raise ImpossibleState("a row refers to an unknown profile")
            profile = self._profiles[key] = decode_profile(keys.unpack_small_id(key), value)
        return profile

    def schedule(self, key: bytes) -> Schedule:
        """By the 4 bytes of its id. Raises ImpossibleState when there is none."""
        schedule = self.find_schedule(key)
        if schedule is None:
            raise ImpossibleState("a row refers to an unknown schedule")
        return schedule

    def find_schedule(self, key: bytes) -> Schedule | None:
        schedule = self._schedules.get(key)
        if schedule is None:
            value = self._writer.get(self._tables.schedules, key)
            if value is None:
                return None
            message = command_pb2.Schedule.FromString(value[rows.SCHEDULE.size :])
            schedule = Schedule(keys.unpack_small_id(key), message, message.every_ms, message.end_ms)
            self._schedules[key] = schedule
        return schedule

    def queue_name(self, queue: int) -> str:
        name = self._queue_names.get(queue)
        if name is None:
            value = self._writer.get(self._tables.interned, keys.interned_text(keys.QUEUE, queue))
            if value is None:
                raise ImpossibleState(f"queue {queue} has no name")
            name = self._queue_names[queue] = value.decode()
        return name

    def find_queue(self, name: str) -> int | None:
        """The number of a queue that some job has used."""
        key = keys.interned(keys.QUEUE, name)
        if len(key) > keys.MAX_KEY_BYTES:
            return None
        value = self._writer.get(self._tables.interned, key)
        return keys.unpack_small_id(value) if value is not None else None

    def intern_profile(self, serialized: bytes, message: command_pb2.Profile) -> Profile:
        """`message` is `serialized` decoded, and valid."""
        content = keys.content(serialized)
        known = self._writer.get(self._tables.profile_ids, content)
        if known is not None:
            return self.profile(known)
        namespace = self.intern(keys.NAMESPACE, message.namespace)
        queue = self.intern(keys.QUEUE, message.queue)
        tenant = self.intern(keys.TENANT, message.tenant)
        handler = self.intern(keys.HANDLER, message.handler)
        concurrency_key = 0
        if message.concurrency_key:
            text = f"{message.namespace}\0{message.concurrency_key}"
            concurrency_key = self.intern(keys.CONCURRENCY_KEY, text)
        self._state.profiles += 1
        key = keys.pack_small_id(self._state.profiles)
        self._writer.put(self._tables.profile_ids, content, key)
        if message.retention_age_ms or message.retention_executions:
            self._note_retention(message)
        names = (namespace, queue, tenant, handler, concurrency_key)
        self._writer.put(self._tables.profiles, key, rows.PROFILE.pack(*names) + serialized)
        profile = self.profile(key)
        share, known = profile.lane[keys.QUEUE_BYTES : keys.SHARE_BYTES], self._share(queue)
        if known is None or (known and known != share):
            self._shares[queue] = b"" if known else share
            self._writer.put(self._tables.meta, keys.meta_share(queue), self._shares[queue] or b"")
        return profile

    def _note_retention(self, message: command_pb2.Profile) -> None:
        if message.retention_age_ms:
            self.least_age_ms = min(self.least_age_ms or message.retention_age_ms, message.retention_age_ms)
        self.counts_executions |= message.retention_executions > 0
        row = rows.RETENTION.pack(self.least_age_ms, self.counts_executions)
        self._writer.put(self._tables.meta, keys.META_RETENTION, row)

    def intern_schedule(self, serialized: bytes) -> tuple[Schedule, bool]:
        """The schedule, and whether it is new. `serialized` is valid."""
        content = keys.content(serialized)
        known = self._writer.get(self._tables.schedule_ids, content)
        if known is not None:
            return self.schedule(known), False
        self._state.schedules += 1
        key = keys.pack_small_id(self._state.schedules)
        self._writer.put(self._tables.schedule_ids, content, key)
        self._writer.put(self._tables.schedules, key, rows.SCHEDULE.pack(0) + serialized)
        return self.schedule(key), True

    def is_shared(self, queue: int) -> bool:
        """Whether a queue ever had jobs of more than one priority or tenant."""
        return self._share(queue) == b""

    def _share(self, queue: int) -> bytes | None:
        if queue not in self._shares:
            self._shares[queue] = self._writer.get(self._tables.meta, keys.meta_share(queue))
        return self._shares[queue]

    def intern(self, kind: int, text: str) -> int:
        """The number of a namespace, queue, tenant, handler or concurrency key, from 1; a new one if need be."""
        key = keys.interned(kind, text)
        known = self._writer.get(self._tables.interned, key)
        if known is not None:
            return keys.unpack_small_id(known)
        number = self._next(kind)
        self._writer.put(self._tables.interned, key, keys.pack_small_id(number))
        self._writer.put(self._tables.interned, keys.interned_text(kind, number), text.encode())
        return number

    def _next(self, kind: int) -> int:
        counter = {keys.NAMESPACE: "namespaces", keys.QUEUE: "queues", keys.TENANT: "tenants"}.get(kind)
        if counter is not None:
            number: int = getattr(self._state, counter) + 1
            setattr(self._state, counter, number)
            return number
        key = keys.meta_interned(kind)
        value = self._writer.get(self._tables.meta, key)
        number = (keys.unpack_small_id(value) if value is not None else 0) + 1
        self._writer.put(self._tables.meta, key, keys.pack_small_id(number))
        return number
