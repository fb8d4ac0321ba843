"""Fire: what is due becomes PENDING, and each recurring job is moved to its next tick in the same step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState, InvalidField
from raftsched.model.transitions import ExecutionState
from raftsched.state import catch_up, occurrences, skipped
from raftsched.state.catalog import Profile, Schedule
from raftsched.state.context import Context, grouped
from raftsched.state.due import DueRow, next_due_ms, read_due
from raftsched.state.lifecycle import IS_TERMINAL, RETRY, status
from raftsched.state.results import Fired
from raftsched.state.ticks import Timetable
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2

# Rows one command may consume: more would hold up everything else that waits for its turn.
MAX_ROWS = 10_000

_WAITING = bytes((rows.JOB_WAITING,))
_FIRED = bytes((rows.JOB_FIRED,))
_STARVED = bytes((rows.JOB_STARVED,))
_PENDING = status(ExecutionState.PENDING)
# The pieces of a job's row that firing keeps or copies: see the layouts in rows.py.
_LAST_AND_TICK_AND_KIND = slice(1, 25)
_LAST = slice(1, 9)
_STATUS = rows.EXECUTION_STATUS
_TICK = slice(9, 17)
_AFTER_LAST = slice(9, None)
_AFTER_TICK = slice(17, None)
_PAYLOAD_AND_PROFILE = slice(17, 25)
_PROFILE_AND_SCHEDULE = slice(21, 29)

# A due row's key with its job's row.
Due = tuple[bytes, bytes]


@dataclass(slots=True)
class _Batch:
    """What one command writes, gathered so that each table is written once."""

    next_execution: int
    # What follows the head's copied part in a new execution's row.
    new_execution_tail: bytes
    execution_keys: list[bytes] = field(default_factory=list)
    execution_values: list[bytes] = field(default_factory=list)
    job_keys: list[bytes] = field(default_factory=list)
    job_values: list[bytes] = field(default_factory=list)
    due_keys: list[bytes] = field(default_factory=list)
    starved_keys: list[bytes] = field(default_factory=list)
    runs: list[tuple[bytes, int, int]] = field(default_factory=list)
    # Keys of jobs that are fired one by one, once all this is written.
    singly: list[bytes] = field(default_factory=list)

    def number(self, lane: bytes, count: int) -> list[bytes]:
        """Keys for `count` new executions, which become ready in this lane."""
        first = self.next_execution
        self.next_execution += count
        if self.runs and self.runs[-1][0] == lane:
            _, run_first, run_count = self.runs[-1]
            self.runs[-1] = (lane, run_first, run_count + count)
        else:
            self.runs.append((lane, first, count))
        numbers = keys.pack_id_range(first, count)
        self.execution_keys += numbers
        return numbers


@dataclass(frozen=True, slots=True)
class _Step:
    """How jobs of one schedule that wait for the same tick go on."""

    fire_ms: int
    next_ms: int | None
    # Occurrences before fire_ms that are passed over: from the tick they wait for to passed_last_ms.
    passed: int
    passed_last_ms: int


def apply_fire(context: Context, command: command_pb2.Fire) -> Fired:
    """Raises InvalidField, having written nothing."""
    shards = sorted(set(command.shards))
    if shards and shards[-1] >= keys.SHARDS:
        raise InvalidField(f"is not below {keys.SHARDS}", field="shards")
    chunks, more = read_due(context, shards, min(command.limit, MAX_ROWS))
    due_rows: list[DueRow] = []
    for chunk in chunks:
        context.writer.delete_neighbours(context.tables.due, [key for key, _ in chunk])
        due_rows += chunk
    if not due_rows:
        return Fired(0, more)
    batch = _Batch(
        next_execution=context.state.executions + 1,
        new_execution_tail=keys.pack_id(context.now_ms)
        + bytes(rows.EXECUTION_STATUS - 40)
        + _PENDING
        + bytes(rows.EXECUTION_BYTES - rows.EXECUTION_STATUS - 1),
    )
    retried: list[bytes] = []
    for kind, found in grouped([kind for _, kind in due_rows], due_rows):
        due_keys = [key for key, _ in found]
        if kind == rows.DUE_RETRY:
            retried = due_keys
        else:
            _fire_jobs(context, due_keys, batch)
    _write(context, batch)
    # What follows may start executions of its own, whose numbers come after the batch's.
    if retried:
        _retry(context, retried)
    occurrences.fire_jobs(context, batch.singly)
    if (batch.due_keys or batch.singly) and not more:
        due_ms = next_due_ms(context, shards)
        more = due_ms is not None and due_ms <= context.now_ms
    return Fired(len(due_rows), more)


def _fire_jobs(context: Context, due_keys: Sequence[bytes], batch: _Batch) -> None:
    job_rows = context.writer.get_all(context.tables.jobs, [key[10:18] for key in due_keys])
    if {row[0] for row in job_rows} != {rows.JOB_WAITING}:
        raise ImpossibleState("a job has a due row though it does not wait")
    due = list(zip(due_keys, job_rows, strict=True))
    for label, jobs in grouped([row[_PROFILE_AND_SCHEDULE] for row in job_rows], due):
        profile = context.catalog.profile(label[:4])
        if not profile.fires_in_batches:
            batch.singly += [key[10:18] for key, _ in jobs]
        elif label[4:] == bytes(4):
            _fire_one_offs(profile, jobs, batch)
        else:
            _fire_recurring(context, profile, context.catalog.schedule(label[4:]), jobs, batch)


def _fire_one_offs(profile: Profile, jobs: Sequence[Due], batch: _Batch) -> None:
    numbers = batch.number(profile.lane, len(jobs))
    tail = batch.new_execution_tail
    batch.execution_values += [key[10:18] + row[_LAST_AND_TICK_AND_KIND] + tail for key, row in jobs]
    batch.job_keys += [key[10:18] for key, _ in jobs]
    batch.job_values += [_FIRED + number + row[_AFTER_LAST] for number, (_, row) in zip(numbers, jobs, strict=True)]


def _fire_recurring(context: Context, profile: Profile, schedule: Schedule, jobs: Sequence[Due], batch: _Batch) -> None:
    timetable = context.ticks.timetable(schedule)
    busy = _busy_executions(context, jobs) if profile.skips_overlap else frozenset()
    for label, same_tick in grouped([row[_TICK] for _, row in jobs], jobs):
        tick_ms = keys.unpack_id(label)
        for step, same_step in _steps(context, profile, timetable, tick_ms, same_tick):
            if step is None:
                batch.singly += [key[10:18] for key, _ in same_step]
                continue
            if step.passed:
                for key, _ in same_step:
                    skipped.record_passed(context, timetable, key[10:18], tick_ms, step.passed_last_ms, step.passed)
            if busy:
                free = [item for item in same_step if item[1][_LAST] not in busy]
                held = [item for item in same_step if item[1][_LAST] in busy]
                _skip(context, timetable, step, held, batch)
            else:
                free = list(same_step)
            if free:
                _advance(profile, step, free, batch)
            _wait(profile, schedule, tick_ms, step, same_step, batch)


def _steps(
    context: Context, profile: Profile, timetable: Timetable, tick_ms: int, jobs: Sequence[Due]
) -> list[tuple[_Step | None, Sequence[Due]]]:
    """How jobs that wait for this tick go on; None: each has to be looked at by itself.

    They may differ only by their jitter, after a delay.
    """
    if not profile.fires_latest_only:
        if profile.message.catch_up_interval_ms and any(keys.due_ms_of(key) != tick_ms for key, _ in jobs):
            # Catching up at a pace has moved some, and left a note of that.
            return [(None, jobs)]
        return [(_on_time(context, profile, timetable, tick_ms), jobs)]
    undelayed = _catch_up(timetable, tick_ms, context.now_ms)
    if not profile.jitter_ms or (undelayed is not None and not undelayed.passed):
        return [(undelayed, jobs)]
    steps: dict[_Step | None, list[Due]] = {}
    for key, row in jobs:
        jitter_ms = keys.due_ms_of(key) - tick_ms
        steps.setdefault(_catch_up(timetable, tick_ms, context.now_ms - jitter_ms), []).append((key, row))
    return list(steps.items())


def _on_time(context: Context, profile: Profile, timetable: Timetable, tick_ms: int) -> _Step | None:
    """Fires this tick, unless it is late, or may be."""
    if profile.jitter_ms or catch_up.is_missed(tick_ms, context.now_ms):
        return None
    next_ms = timetable.after(tick_ms)
    return None if next_ms is not None and next_ms <= context.now_ms else _Step(tick_ms, next_ms, 0, 0)


def _catch_up(timetable: Timetable, tick_ms: int, until_ms: int) -> _Step | None:
    """Fires the latest tick that is over; None when the table does not tell which that is, or how many are passed."""
    fire_ms, before_ms, missed = timetable.latest(tick_ms, until_ms)
    next_ms = timetable.after(fire_ms)
    if (next_ms is None and timetable.is_cut_off(fire_ms, until_ms)) or (missed and not timetable.holds(tick_ms)):
        return None
    return _Step(fire_ms, next_ms, missed, before_ms if missed else 0)


def _busy_executions(context: Context, jobs: Sequence[Due]) -> frozenset[bytes]:
    """The newest executions of jobs that have one unfinished: the newest itself, where no more is kept track of."""
    newest = [row[_LAST] for _, row in jobs if row[_LAST] != keys.NO_EXECUTION]
    found = context.writer.get_many(context.tables.executions, newest)
    busy = {key for key, row in found if row[_STATUS] not in IS_TERMINAL}
    if context.tracked:
        busy.update([row[_LAST] for key, row in jobs if key[10:18] in context.tracked])
    return frozenset(busy)


def _advance(profile: Profile, step: _Step, jobs: Sequence[Due], batch: _Batch) -> None:
    """Fires the jobs and lets each wait for its next tick."""
    numbers = batch.number(profile.lane, len(jobs))
    tick = keys.pack_id(step.fire_ms)
    tail = batch.new_execution_tail
    batch.execution_values += [key[10:18] + row[_LAST] + tick + row[_PAYLOAD_AND_PROFILE] + tail for key, row in jobs]
    state, following = _stamp(step)
    batch.job_keys += [key[10:18] for key, _ in jobs]
    batch.job_values += [
        state + number + following + row[_AFTER_TICK] for number, (_, row) in zip(numbers, jobs, strict=True)
    ]


def _skip(context: Context, timetable: Timetable, step: _Step, jobs: Sequence[Due], batch: _Batch) -> None:
    """Passes the occurrence over, since the one before it is not finished."""
    reason = execution_pb2.SKIP_REASON_OVERLAP
    for key, _ in jobs:
        skipped.record(context, timetable, key[10:18], reason, step.fire_ms, step.fire_ms, 1)
    state, following = _stamp(step)
    batch.job_keys += [key[10:18] for key, _ in jobs]
    batch.job_values += [state + row[_LAST] + following + row[_AFTER_TICK] for _, row in jobs]


def _stamp(step: _Step) -> tuple[bytes, bytes]:
    """State and scheduled_for_ms of a job's row after this step."""
    if step.next_ms is None:
        return _STARVED, keys.pack_id(step.fire_ms)
    return _WAITING, keys.pack_id(step.next_ms)


def _wait(profile: Profile, schedule: Schedule, tick_ms: int, step: _Step, jobs: Sequence[Due], batch: _Batch) -> None:
    """Puts the jobs, which waited for `tick_ms`, where their next tick, or more ticks, will find them."""
    if step.next_ms is None:
        schedule_key = keys.pack_small_id(schedule.id)
        batch.starved_keys += [schedule_key + key[10:18] for key, _ in jobs]
    elif profile.jitter_ms:
        later_ms, pack, unpack = step.next_ms - tick_ms, keys.pack_id, keys.unpack_id
        batch.due_keys += [key[:2] + pack(unpack(key[2:10]) + later_ms) + key[10:] for key, _ in jobs]
    else:
        due_ms = keys.pack_id(step.next_ms)
        batch.due_keys += [key[:2] + due_ms + key[10:] for key, _ in jobs]


def _retry(context: Context, due_keys: Sequence[bytes]) -> None:
    """The backoff of these executions is over: they are ready again."""
    numbers = [key[keys.DUE_EXECUTION] for key in due_keys]
    found = context.writer.get_all(context.tables.executions, numbers)
    values = []
    lanes: dict[bytes, list[int]] = {}
    for number, row in zip(numbers, found, strict=True):
        after = RETRY.get(row[rows.EXECUTION_STATUS])
        if after is None:
            raise ImpossibleState("an execution waits for its backoff though it has not failed")
        values.append(row[: rows.EXECUTION_STATUS] + after + row[71:87] + bytes(8) + row[95:])
        lane = context.catalog.profile(row[rows.EXECUTION_PROFILE]).lane
        lanes.setdefault(lane, []).append(keys.unpack_id(number))
    context.writer.put_many(context.tables.executions, numbers, values)
    context.ready.add(lanes)


def _write(context: Context, batch: _Batch) -> None:
    writer, tables = context.writer, context.tables
    if batch.execution_values:
        writer.put_many(tables.executions, batch.execution_keys, batch.execution_values, append=True)
        context.state.executions = batch.next_execution - 1
        context.ready.add_runs(batch.runs)
    if batch.job_keys:
        writer.put_many(tables.jobs, batch.job_keys, batch.job_values)
    if batch.due_keys:
        batch.due_keys.sort()
        writer.put_same(tables.due, batch.due_keys, rows.DUE_TICK)
    if batch.starved_keys:
        writer.put_same(tables.starved, batch.starved_keys, b"")
