"""ReplayDeadLetters: a new execution for each dead letter, which keeps its row and names its successor."""

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, IllegalTransition, InvalidField, NotDeadLetter
from raftsched.model.limits import REPLAY_MAX_EXECUTIONS
from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context, check_column
from raftsched.state.lifecycle import status
from raftsched.state.results import Replayed
from raftsched.store import keys, rows

_PENDING = status(ExecutionState.PENDING)


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
    lanes: dict[bytes, list[int]] = {}
    for number in dict.fromkeys(asked):
        old = rows.ExecutionRow.unpack(found[number])
        if old.replayed_as:
            successors[number] = old.replayed_as
            continue
        job_key = found[number][rows.EXECUTION_JOB]
        new = _start(context, number, found[number], old, job_key, jobs)
        successors[number] = new
        lanes.setdefault(context.catalog.profile(found[number][rows.EXECUTION_PROFILE]).lane, []).append(new)
    context.ready.add(lanes)
    return Replayed([successors[number] for number in asked])


def _check(place: int, number: bytes, found: dict[bytes, bytes], jobs: dict[bytes, bytes]) -> None:
    field, execution = f"execution_ids[{place}]", str(keys.unpack_id(number))
    row = found.get(number)
    if row is None:
        raise ExecutionNotFound(field=field, execution=execution)
    if row[rows.EXECUTION_STATUS] != ExecutionState.DEAD_LETTER:
        raise NotDeadLetter(field=field, execution=execution)
    replayed = rows.ExecutionRow.unpack(row).replayed_as
    if not replayed and jobs[row[rows.EXECUTION_JOB]][rows.JOB_STATE] == rows.JOB_CANCELLED:
        raise IllegalTransition("the job of this execution is cancelled", field=field, execution=execution)


def _start(
    context: Context, number: bytes, row: bytes, old: rows.ExecutionRow, job_key: bytes, jobs: dict[bytes, bytes]
) -> int:
    """The new execution, the newest of its job."""
    writer, tables = context.writer, context.tables
    context.state.executions += 1
    new = context.state.executions
    new_key = keys.pack_id(new)
    job = jobs[job_key]
    head = job_key + job[rows.JOB_LAST_EXECUTION] + row[16:32] + keys.pack_id(context.now_ms)
    unleased = bytes(rows.EXECUTION_STATUS - len(head))
    rest = bytes(rows.EXECUTION_BYTES - rows.EXECUTION_STATUS - 1)
    writer.put(tables.executions, new_key, head + unleased + _PENDING + rest)
    jobs[job_key] = job[:1] + new_key + job[9:]
    writer.put(tables.jobs, job_key, jobs[job_key])
    writer.put(tables.executions, number, row[:95] + new_key + row[103:])
    namespace = context.catalog.profile(row[rows.EXECUTION_PROFILE]).namespace
    writer.delete(tables.dead_letters, keys.dead_letter(namespace, old.changed_ms, keys.unpack_id(number)))
    context.state.dead_letters -= 1
    return new
