"""Which of the ticks that have come due for a job run, and which are passed over: pauses, outages and overload.

An occurrence is missed when it fires more than a second after it was due. A job catches up with at most its latest
10,000 ticks, whatever its policy: the work is bounded however long it stood still.
"""

from dataclasses import dataclass

from raftsched.model.limits import CATCH_UP_MAX, CATCH_UP_NONE_WINDOW_MS, MISSED_AFTER_MS, SECOND_MS
from raftsched.state.catalog import Profile
from raftsched.state.context import Context
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job whose tick is due goes on."""

    # Ticks that are passed over, from the one that it waits for on: how many, and the last of them.
    passed: int
    passed_last_ms: int
    # The number of the first of them, if it had to be looked up beside the table.
    number: int | None
    # The one that runs; None: none of those that are due.
    fire_ms: int | None
    # The latest that is due.
    latest_ms: int
    # The table ends too early to tell which runs: it is decided once there are more ticks.
    is_cut_off: bool


def plan(context: Context, profile: Profile, timetable: Timetable, job_key: bytes, tick_ms: int, until_ms: int) -> Plan:
    """`tick_ms` is the tick that the job waits for, `until_ms` the latest time of one that is due."""
    number = _number_beside_table(context, timetable, job_key, tick_ms)
    latest_ms, before_ms, missed = timetable.latest(tick_ms, until_ms, number=number)
    is_cut_off = timetable.is_cut_off(latest_ms, until_ms)
    kept = _kept(profile)
    fire_ms: int | None = tick_ms if missed < kept else timetable.back(latest_ms, kept - 1)
    oldest_ms = _oldest_ms(profile, until_ms)
    if latest_ms < oldest_ms or (_never_after_pause(profile) and _was_paused(context, job_key, latest_ms)):
        fire_ms = None
    elif fire_ms is not None and fire_ms < oldest_ms:
        fire_ms = timetable.first_from(tick_ms, oldest_ms)
    passed, passed_last_ms = 0, tick_ms
    if fire_ms is None and is_cut_off and timetable.holds(latest_ms):
        # The last one known is passed over with those that follow it: by its number they are counted, wherever the
        # table goes on.
        passed, passed_last_ms = missed, before_ms
    elif fire_ms is None:
        passed, passed_last_ms = missed + 1, latest_ms
    elif fire_ms > tick_ms:
        passed_last_ms, _, before = timetable.latest(tick_ms, fire_ms - 1, number=number)
        omitted = timetable.omitted(passed_last_ms, fire_ms)
        passed = before + 1 + omitted
        if omitted:
            # Ticks that a table leaves out are whole seconds, as all of cron.
            passed_last_ms = fire_ms - SECOND_MS
    return Plan(passed, passed_last_ms, number, fire_ms, latest_ms, is_cut_off)


def is_missed(due_ms: int, now_ms: int) -> bool:
    """Whether an occurrence that was due then fires late."""
    return now_ms - due_ms > MISSED_AFTER_MS


def keep_ticks(context: Context, job_key: bytes, job: bytes) -> None:
    """From now on the schedule's table keeps the ticks that the job may have to catch up with, though they are over."""
    if _kept(context.catalog.profile(job[rows.JOB_PROFILE])) == 1:
        return
    key = keys.META_KEEP_TICKS + job[rows.JOB_SCHEDULE] + job_key
    if context.writer.get(context.tables.meta, key) is None:
        context.writer.put(context.tables.meta, key, b"")


def needs_old_ticks(context: Context, schedule: int) -> bool:
    """Whether any job of the schedule is between keep_ticks and caught_up."""
    prefix = keys.META_KEEP_TICKS + keys.pack_small_id(schedule)
    cursor = context.writer.cursor(context.tables.meta)
    return cursor.set_range(prefix) and cursor.key().startswith(prefix)


def caught_up(context: Context, job_key: bytes, job: bytes) -> None:
    """The job waits for a tick to come, or for none any more: nothing of the past is needed for it."""
    context.writer.delete(context.tables.meta, keys.META_KEEP_TICKS + job[rows.JOB_SCHEDULE] + job_key)
    context.writer.delete(context.tables.extras, keys.extra(job_key, keys.EXTRA_TICK_NUMBER))


def _kept(profile: Profile) -> int:
    if profile.message.catch_up != job_pb2.CATCH_UP_POLICY_ALL:
        return 1
    return min(profile.message.catch_up_limit or CATCH_UP_MAX, CATCH_UP_MAX)


def _oldest_ms(profile: Profile, until_ms: int) -> int:
    window_ms = profile.message.catch_up_window_ms
    if not window_ms and profile.message.catch_up == job_pb2.CATCH_UP_POLICY_NONE:
        window_ms = CATCH_UP_NONE_WINDOW_MS
    return until_ms - window_ms if window_ms else 0


def _never_after_pause(profile: Profile) -> bool:
    return profile.message.catch_up == job_pb2.CATCH_UP_POLICY_NONE


def _was_paused(context: Context, job_key: bytes, tick_ms: int) -> bool:
    """Whether the tick came in the job's last pause."""
    pause = context.writer.get(context.tables.extras, keys.extra(job_key, keys.EXTRA_PAUSE))
    if pause is None:
        return False
    paused_ms, resumed_ms = keys.unpack_pair(pause[:16])
    return paused_ms <= tick_ms <= resumed_ms


def _number_beside_table(context: Context, timetable: Timetable, job_key: bytes, tick_ms: int) -> int | None:
    """The number of a tick that the table has forgotten since the job was paused."""
    if timetable.is_interval or timetable.number(tick_ms) is not None:
        return None
    value = context.writer.get(context.tables.extras, keys.extra(job_key, keys.EXTRA_TICK_NUMBER))
    return keys.unpack_id(value) if value is not None else None
