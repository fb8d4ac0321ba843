"""One instance of a job that waits for others: counting its upstreams once each, and what its rule says of them."""

from dataclasses import dataclass

from raftsched.model.dag import Rule, Verdict
from raftsched.model.dag import judge as judge_rule
from raftsched.model.transitions import ExecutionState
from raftsched.state import overlap
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.store.graph_rows import Ended, Instance, InstanceState, Kept, Outcome, Wait, Work, WorkKind
from raftsched.v1 import execution_pb2

# Instances that are kept of one recurring job; those whose execution is under way come on top.
KEPT_INSTANCES_MAX = 1_000
# How many are looked at for one to drop.
_DROP_CANDIDATES = 64
_FIRST_TICK = keys.pack_id(1)
_REASON = execution_pb2.SKIP_REASON_UPSTREAM
# Jobs in any other state do not start by what they wait for.
_WAITS = (rows.JOB_BLOCKED, rows.JOB_UPSTREAM_FAILED)
_ENDED_WELL = (ExecutionState.SUCCEEDED, ExecutionState.CANCELLED)
_NO_TIME = -1


@dataclass(slots=True)
class _Waiting:
    """A job that waits: its key, its row as it is now, its header."""

    key: bytes
    row: bytes
    wait: Wait


def tell(context: Context, downstream: bytes, work: Work) -> int:
    """Counts how the upstream `work.job` ended, unless that has been counted, and does what follows; the steps taken.

    The newest execution of an upstream is the one that counts.
    """
    waiting = _load(context, downstream)
    if waiting is None:
        return 1
    table, writer = context.tables.waits, context.writer
    instance = keys.pack_id(work.instance)
    outcome_key = downstream + instance + keys.pack_id(work.job)
    value = writer.get(table, outcome_key)
    if value is not None:
        before = Outcome.unpack(value)
        if not (work.execution > before.execution or work.execution == before.execution == 0):
            return 1
    elif work.ended == Ended.NONE:
        return 1
    steps = 1
    known = writer.get(table, downstream + instance)
    if known is None and work.instance:
        if not work.opens_ms or not _open(context, waiting, work.instance, work.opens_ms):
            return 1
        steps += 1
    counts = Instance.unpack(known) if known is not None else Instance()
    if value is not None:
        counts.count(before.ended, -1)
    counts.count(work.ended, 1)
    if work.ended == Ended.NONE:
        writer.delete(table, outcome_key)
    else:
        writer.put(table, outcome_key, Outcome(work.ended, work.execution).pack())
    writer.put(table, downstream + instance, counts.pack())
    return steps + _judge(context, waiting, work.instance)


def judge(context: Context, job: bytes, instance_ms: int) -> int:
    """Sees whether an instance can start; the steps taken."""
    waiting = _load(context, job)
    return _judge(context, waiting, instance_ms) if waiting is not None else 1


def close(context: Context, job: bytes, instance_ms: int) -> int:
    """Forgets an instance of a recurring job that has run well, if all its upstreams were counted; the steps taken."""
    waiting = _load(context, job)
    if waiting is None or not instance_ms:
        return 1
    value = context.writer.get(context.tables.waits, job + keys.pack_id(instance_ms))
    if value is None:
        return 1
    return _close_if_complete(context, waiting, instance_ms, Instance.unpack(value))


def _load(context: Context, job: bytes) -> _Waiting | None:
    """None when it is not there any more, or is cancelled."""
    value = context.writer.get(context.tables.waits, job)
    row = context.writer.get(context.tables.jobs, job)
    if value is None or row is None or row[rows.JOB_STATE] == rows.JOB_CANCELLED:
        return None
    return _Waiting(job, row, Wait.unpack(value))


def _counts(context: Context, waiting: _Waiting, instance: bytes) -> Instance:
    value = context.writer.get(context.tables.waits, waiting.key + instance)
    return Instance.unpack(value) if value is not None else Instance()


def _judge(context: Context, waiting: _Waiting, instance_ms: int) -> int:
    """Does what the counts of one instance say; what counts in all instances is looked at in each."""
    if not waiting.wait.recurring:
        counts = _counts(context, waiting, keys.NO_INSTANCE)
        _decide(context, waiting, 0, counts, counts)
        return 1
    common = _counts(context, waiting, keys.NO_INSTANCE)
    if instance_ms:
        counts = _counts(context, waiting, keys.pack_id(instance_ms))
        _decide(context, waiting, instance_ms, counts, common, counts)
        return 1
    found = _instances(context, waiting)
    for time_ms in found:
        counts = _counts(context, waiting, keys.pack_id(time_ms))
        _decide(context, waiting, time_ms, counts, common, counts)
    return len(found)


def _instances(context: Context, waiting: _Waiting, limit: int | None = None) -> list[int]:
    """The scheduled times of the instances that are kept, oldest first."""
    found: list[int] = []
    cursor = context.writer.cursor(context.tables.waits)
    following = waiting.key + _FIRST_TICK
    while (limit is None or len(found) < limit) and cursor.set_range(following):
        key = cursor.key()
        if not key.startswith(waiting.key) or key[8:16] == keys.LAST_ID:
            break
        found.append(keys.unpack_id(key[8:16]))
        following = waiting.key + keys.pack_id(found[-1] + 1)
    return found


def _decide(context: Context, waiting: _Waiting, instance_ms: int, state: Instance, *counts: Instance) -> None:
    """`state` is the instance's row; `counts` together are its upstreams that have ended."""
    if state.state == InstanceState.FIRED:
        _close_if_complete(context, waiting, instance_ms, state)
        return
    if waiting.row[rows.JOB_STATE] not in _WAITS:
        return
    verdict = judge_rule(
        Rule(waiting.wait.rule),
        waiting.wait.total,
        succeeded=sum(part.succeeded for part in counts),
        failed=sum(part.failed for part in counts),
        skipped=sum(part.skipped for part in counts),
    )
    if verdict is Verdict.NEVER:
        if state.state != InstanceState.UNMET:
            state.state = InstanceState.UNMET
            _save(context, waiting, instance_ms, state)
            _give_up(context, waiting, instance_ms, state)
        return
    if state.state == InstanceState.UNMET:
        state.state, state.revived = InstanceState.OPEN, True
        _save(context, waiting, instance_ms, state)
        _revive(context, waiting, instance_ms)
    if verdict is Verdict.MET:
        _start(context, waiting, instance_ms, state)


def _start(context: Context, waiting: _Waiting, instance_ms: int, state: Instance) -> None:
    """Once for an instance, since it is FIRED from then on."""
    row, scheduled_for_ms = waiting.row, instance_ms
    if not waiting.wait.recurring:
        scheduled_for_ms = context.now_ms
        row = bytes((rows.JOB_FIRED,)) + row[1:9] + keys.pack_id(scheduled_for_ms) + row[17:]
    cause = execution_pb2.EXECUTION_CAUSE_DEPENDENCY
    started = overlap.start(context, waiting.key, row, scheduled_for_ms, cause)
    waiting.row = started.job
    state.state = InstanceState.FIRED
    state.execution = keys.unpack_id(started.execution) if started.execution is not None else 0
    _save(context, waiting, instance_ms, state)
    if started.skipped:
        _pass_on(context, waiting, instance_ms, Ended.SKIPPED, opens=not state.revived)


def _give_up(context: Context, waiting: _Waiting, instance_ms: int, state: Instance) -> None:
    """The rule cannot be met: says so, to the jobs that wait for this one too."""
    if waiting.wait.recurring:
        _record_skipped(context, waiting, instance_ms)
    else:
        _set_job_state(context, waiting, rows.JOB_UPSTREAM_FAILED)
    _pass_on(context, waiting, instance_ms, Ended.FAILED, opens=not state.revived)


def _revive(context: Context, waiting: _Waiting, instance_ms: int) -> None:
    """An upstream has succeeded after all: takes back what _give_up said."""
    if waiting.wait.recurring:
        key = waiting.key + keys.pack_id(instance_ms)
        value = context.writer.get(context.tables.skipped, key)
        if value is not None and rows.SkippedRow.unpack(value).reason == _REASON:
            context.writer.delete(context.tables.skipped, key)
    else:
        _set_job_state(context, waiting, rows.JOB_BLOCKED)
    _pass_on(context, waiting, instance_ms, Ended.NONE, opens=False)


def _pass_on(context: Context, waiting: _Waiting, instance_ms: int, ended: Ended, *, opens: bool) -> None:
    if context.writer.get(context.tables.edges, keys.edges_of(waiting.key)) is not None:
        job, opens_ms = keys.unpack_id(waiting.key), context.now_ms if opens else 0
        context.graph.add(Work(WorkKind.TELL, job, instance_ms, ended=ended, opens_ms=opens_ms))


def _save(context: Context, waiting: _Waiting, instance_ms: int, state: Instance) -> None:
    context.writer.put(context.tables.waits, waiting.key + keys.pack_id(instance_ms), state.pack())


def _set_job_state(context: Context, waiting: _Waiting, state: int) -> None:
    waiting.row = bytes((state,)) + waiting.row[1:]
    context.writer.put(context.tables.jobs, waiting.key, waiting.row)


def _record_skipped(context: Context, waiting: _Waiting, instance_ms: int) -> None:
    key = waiting.key + keys.pack_id(instance_ms)
    if context.writer.get(context.tables.skipped, key) is None:
        context.writer.put(context.tables.skipped, key, rows.SkippedRow(_REASON, 1, instance_ms).pack())


# --- which instances are kept ---


def _open(context: Context, waiting: _Waiting, instance_ms: int, fired_ms: int) -> bool:
    """Begins an instance; not one that may have been dropped already, since what it started might start twice."""
    kept = _kept(context, waiting)
    if instance_ms <= kept.dropped_until_ms and fired_ms <= kept.dropped_ms:
        return False
    kept.count += 1
    if kept.count > KEPT_INSTANCES_MAX:
        _drop_oldest(context, waiting, kept)
    _save_kept(context, waiting, kept)
    return True


def _drop_oldest(context: Context, waiting: _Waiting, kept: Kept) -> None:
    """Drops the oldest instance whose execution is not under way. What did not run is recorded as skipped."""
    for time_ms in _instances(context, waiting, _DROP_CANDIDATES):
        state = _counts(context, waiting, keys.pack_id(time_ms))
        if state.state == InstanceState.FIRED and not _is_finished(context, state.execution):
            continue
        if state.state == InstanceState.OPEN:
            _record_skipped(context, waiting, time_ms)
        _remove(context, waiting, time_ms)
        kept.count -= 1
        kept.dropped_until_ms, kept.dropped_ms = max(kept.dropped_until_ms, time_ms), context.now_ms
        return


def _is_finished(context: Context, execution: int) -> bool:
    row = context.writer.get(context.tables.executions, keys.pack_id(execution))
    return row is None or row[rows.EXECUTION_STATUS] in (*_ENDED_WELL, ExecutionState.DEAD_LETTER)


def _close_if_complete(context: Context, waiting: _Waiting, instance_ms: int, state: Instance) -> int:
    """Forgets an instance of which nothing more is to be counted and nothing can be replayed."""
    wait = waiting.wait
    if not instance_ms or state.state != InstanceState.FIRED:
        return 1
    if state.ended + wait.once < wait.total or _counts(context, waiting, keys.NO_INSTANCE).ended < wait.once:
        return 1
    row = context.writer.get(context.tables.executions, keys.pack_id(state.execution))
    if row is not None and not _has_ended_well(context, row):
        return 1
    kept = _kept(context, waiting)
    kept.count -= 1
    _save_kept(context, waiting, kept)
    return _remove(context, waiting, instance_ms)


def _has_ended_well(context: Context, row: bytes) -> bool:
    """By the execution itself, or the replay of it that came last."""
    execution = rows.ExecutionRow.unpack(row)
    while execution.replayed_as:
        found = context.writer.get(context.tables.executions, keys.pack_id(execution.replayed_as))
        if found is None:
            return True
        execution = rows.ExecutionRow.unpack(found)
    return execution.status in _ENDED_WELL


def _remove(context: Context, waiting: _Waiting, instance_ms: int) -> int:
    """Removes an instance's rows; how many."""
    prefix = waiting.key + keys.pack_id(instance_ms)
    gone: list[bytes] = []
    cursor = context.writer.cursor(context.tables.waits)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if not key.startswith(prefix):
                break
            gone.append(key)
    context.writer.delete_many(context.tables.waits, gone)
    return len(gone)


def _kept(context: Context, waiting: _Waiting) -> Kept:
    value = context.writer.get(context.tables.waits, waiting.key + keys.LAST_ID)
    return Kept.unpack(value) if value is not None else Kept()


def _save_kept(context: Context, waiting: _Waiting, kept: Kept) -> None:
    context.writer.put(context.tables.waits, waiting.key + keys.LAST_ID, kept.pack())
