"""ReplayDeadLetters: a new execution for each dead letter, which keeps its row and names its successor."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, IllegalTransition, InvalidField, NotDeadLetter
from raftsched.model.limits import REPLAY_MAX_EXECUTIONS
from raftsched.model.transitions import ExecutionState
from raftsched.state import overlap
from raftsched.state.context import Context, check_column
from raftsched.state.results import Replayed
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2


def apply_replay_dead_letters(context: Context, command: command_pb2.ReplayDeadLetters) -> Replayed:
    """Raises InvalidField, ExecutionNotFound, NotDeadLetter or IllegalTransition, having written nothing."""
    check_column(command.executions, "execution_ids")
    asked = keys.split_ids(command.executions)
    if not 1 <= len(asked) <= REPLAY_MAX_EXECUTIONS:
        raise InvalidField(f"holds {len(asked)} executions", field="execution_ids")
    found = dict(context.writer.get_many(context.tables.executions, asked))
    jobs = dict(context.writer.get_many(context.tables.jobs, [row[rows.EXECUTION_JOB] for row in found.values()]))
    for place, number in enumerate(asked):
        _check(place, number, found, jobs)
    successors: dict[bytes, int] = {}
    for number in dict.fromkeys(asked):
        old = rows.ExecutionRow.unpack(found[number])
        if old.replayed_as:
            successors[number] = old.replayed_as
            continue
        successors[number] = _start(context, number, found[number], old, jobs)
    return Replayed([successors[number] for number in asked])


def _check(place: int, number: bytes, found: dict[bytes, bytes], jobs: dict[bytes, bytes]) -> None:
    field, execution = f"execution_ids[{place}]", str(keys.unpack_id(number))
    row = found.get(number)
    if row is None:
        raise ExecutionNotFound(field=field, execution=execution)
    if row[rows.EXECUTION_STATUS] != ExecutionState.DEAD_LETTER:
        raise NotDeadLetter(field=field, execution=execution)
    if rows.ExecutionRow.unpack(row).replayed_as:
        return
    job = jobs.get(row[rows.EXECUTION_JOB])
    # One that is gone was cancelled, and nothing of it but dead letters was kept.
    if job is None or job[rows.JOB_STATE] == rows.JOB_CANCELLED:
        raise IllegalTransition("the job of this execution is cancelled", field=field, execution=execution)


def _start(context: Context, number: bytes, row: bytes, old: rows.ExecutionRow, jobs: dict[bytes, bytes]) -> int:
    """The new execution, the newest of its job."""
    writer, tables = context.writer, context.tables
    job_key, profile = row[rows.EXECUTION_JOB], row[rows.EXECUTION_PROFILE]
    cause = execution_pb2.EXECUTION_CAUSE_REPLAY
    has_own = row[rows.EXECUTION_CAUSE] & rows.OWN_PAYLOAD
    started = overlap.start(
        context,
        job_key,
        jobs[job_key],
        old.scheduled_for_ms,
        cause,
        profile=profile,
        payload=writer.get(tables.execution_payloads, number) if has_own else None,
        ignore_overlap=True,
    )
    new_key, jobs[job_key] = started.execution, started.job
    assert new_key is not None, "what ignores the overlap policy starts"
    writer.put(tables.executions, number, row[:95] + new_key + row[103:])
    namespace = context.catalog.profile(profile).namespace
    writer.delete(tables.dead_letters, keys.dead_letter(namespace, old.changed_ms, keys.unpack_id(number)))
    context.state.dead_letters -= 1
    return keys.unpack_id(new_key)
