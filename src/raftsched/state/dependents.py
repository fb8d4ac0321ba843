"""What CreateJobs does about jobs that depend on others: checked before anything is written, then written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.dag import Rule, ordered
from raftsched.model.errors import InvalidField, JobNotFound
from raftsched.model.transitions import ExecutionState
from raftsched.state.context import Context, check_column
from raftsched.store import keys, rows
from raftsched.store.graph_rows import (
    EDGES_ONCE,
    EDGES_RECURRING,
    Ended,
    Instance,
    Outcome,
    Wait,
    Work,
    WorkKind,
)

_RULES = frozenset(map(int, Rule))
_OUTCOMES: dict[int, Ended] = {
    ExecutionState.SUCCEEDED: Ended.SUCCEEDED,
    ExecutionState.DEAD_LETTER: Ended.FAILED,
    ExecutionState.CANCELLED: Ended.SKIPPED,
}


@dataclass(slots=True)
class _Upstreams:
    """The jobs outside of the command that jobs of it depend on."""

    recurring: set[bytes] = field(default_factory=set)
    # Of those that run once, and have.
    outcomes: dict[bytes, Outcome] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written for the jobs that depend on others, by their positions in the command."""

    rules: dict[int, int]
    # Keys of jobs outside of the command, and positions in it.
    outside: dict[int, list[bytes]]
    inside: dict[int, list[int]]
    recurring: set[int]
    upstreams: _Upstreams


def check(context: Context, command: command_pb2.CreateJobs, profiles: Sequence[command_pb2.Profile]) -> Plan | None:
    """None when no job depends on another. Raises InvalidField, DependencyCycle or JobNotFound."""
    rules = {}
    of_profile = [profile.dependency_rule for profile in profiles]
    for number, job in enumerate(command.jobs):
        rule = of_profile[job.profile]
        if rule or job.upstreams or job.upstream_positions:
            if rule not in _RULES or not (job.upstreams or job.upstream_positions) or job.schedule:
                raise InvalidField(
                    "is not a rule with jobs that it is about, or there is a schedule beside it",
                    field=f"jobs[{number}].dependencies",
                )
            rules[number] = rule
    if not rules:
        return None
    outside, inside = _edges(command, rules)
    upstreams = _find(context, outside)
    order = list(rules)
    if any(inside.values()):
        by_position = [inside.get(number, []) for number in range(len(command.jobs))]
        names = command.nodes or [f"jobs[{number}]" for number in range(len(command.jobs))]
        order = [number for number in ordered(by_position, names, "jobs") if number in rules]
    recurring = {number for number, job in enumerate(command.jobs) if job.schedule}
    for number in order:
        if not upstreams.recurring.isdisjoint(outside[number]) or not recurring.isdisjoint(inside[number]):
            recurring.add(number)
    return Plan(rules, outside, inside, recurring, upstreams)


def write(context: Context, plan: Plan, first: int) -> None:
    """Writes edges, headers and what has been counted already; `first` is the id of the command's first job."""
    writer, tables = context.writer, context.tables
    edges: list[bytes] = []
    marks: dict[bytes, bytes] = {}
    waits: list[tuple[bytes, bytes]] = []
    met = []
    for number, rule in plan.rules.items():
        job = keys.pack_id(first + number)
        upstreams = plan.outside[number] + [keys.pack_id(first + position) for position in plan.inside[number]]
        of_job = dict.fromkeys(plan.outside[number], EDGES_ONCE)
        of_job.update((key, EDGES_RECURRING) for key in plan.outside[number] if key in plan.upstreams.recurring)
        for position in plan.inside[number]:
            of_job[keys.pack_id(first + position)] = EDGES_RECURRING if position in plan.recurring else EDGES_ONCE
        edges += [keys.edge(upstream, job) for upstream in upstreams]
        marks.update((keys.edges_of(upstream), mark) for upstream, mark in of_job.items())
        once = sum(mark == EDGES_ONCE for mark in of_job.values())
        waits.append((job, Wait(rule, number in plan.recurring, once, b"".join(upstreams)).pack()))
        counted = [(key, plan.upstreams.outcomes[key]) for key in upstreams if key in plan.upstreams.outcomes]
        if counted:
            counts = Instance()
            for upstream, outcome in counted:
                counts.count(outcome.ended, 1)
                waits.append((job + keys.NO_INSTANCE + upstream, outcome.pack()))
            waits.append((job + keys.NO_INSTANCE, counts.pack()))
            met.append(Work(WorkKind.JUDGE, first + number))
    waits.sort()
    writer.put_many(tables.waits, [key for key, _ in waits], [value for _, value in waits])
    writer.put_same(tables.edges, sorted(edges), b"")
    for mark in (EDGES_ONCE, EDGES_RECURRING):
        marked = sorted(key for key, of_key in marks.items() if of_key == mark)
        if marked:
            writer.put_same(tables.edges, marked, mark)
    context.graph.has_edges = True
    for work in met:
        context.graph.add(work)


def _edges(
    command: command_pb2.CreateJobs, rules: dict[int, int]
) -> tuple[dict[int, list[bytes]], dict[int, list[int]]]:
    """What each job depends on. Raises InvalidField."""
    outside, inside, total = {}, {}, 0
    for number in rules:
        job, where = command.jobs[number], f"jobs[{number}].dependencies"
        check_column(job.upstreams, f"{where}.job_ids")
        ids, positions = keys.split_ids(job.upstreams), list(job.upstream_positions)
        if len(set(ids)) != len(ids) or len(set(positions)) != len(positions):
            raise InvalidField("names a job twice", field=f"{where}.job_ids")
        if any(position >= len(command.jobs) for position in positions):
            raise InvalidField("is not one of the jobs", field=f"{where}.upstream_positions")
        if len(ids) + len(positions) > limits.UPSTREAMS_MAX_COUNT:
            raise InvalidField(
                f"{len(ids) + len(positions)} are too many; at most {limits.UPSTREAMS_MAX_COUNT} are right",
                field=f"{where}.job_ids",
                limit=str(limits.UPSTREAMS_MAX_COUNT),
            )
        outside[number], inside[number] = ids, positions
        total += len(ids) + len(positions)
    if total > limits.EDGES_MAX_COUNT:
        raise InvalidField(
            f"the jobs have {total:,} dependencies together; at most {limits.EDGES_MAX_COUNT:,} are right at once",
            field="jobs",
            limit=str(limits.EDGES_MAX_COUNT),
        )
    return outside, inside


def _find(context: Context, outside: dict[int, list[bytes]]) -> _Upstreams:
    """Looks up the jobs that exist already. Raises JobNotFound."""
    writer, tables = context.writer, context.tables
    wanted = list(dict.fromkeys(key for of_job in outside.values() for key in of_job))
    found = dict(writer.get_many(tables.jobs, wanted))
    for number, of_job in outside.items():
        for place, key in enumerate(of_job):
            if key not in found:
                raise JobNotFound(
                    field=f"jobs[{number}].dependencies.job_ids[{place}]", job_id=str(keys.unpack_id(key))
                )
    marks = dict(writer.get_many(tables.edges, [keys.edges_of(key) for key in wanted]))
    upstreams = _Upstreams()
    fired: dict[bytes, bytes] = {}
    for key, row in found.items():
        mark = marks.get(keys.edges_of(key)) or _mark(context, key, row)
        if mark == EDGES_RECURRING:
            upstreams.recurring.add(key)
        elif row[rows.JOB_STATE] == rows.JOB_CANCELLED:
            upstreams.outcomes[key] = Outcome(Ended.SKIPPED, keys.unpack_id(row[rows.JOB_LAST_EXECUTION]))
        elif row[rows.JOB_STATE] == rows.JOB_UPSTREAM_FAILED:
            upstreams.outcomes[key] = Outcome(Ended.FAILED, 0)
        elif row[rows.JOB_STATE] == rows.JOB_FIRED:
            fired[key] = row[rows.JOB_LAST_EXECUTION]
    executions = dict(writer.get_many(tables.executions, fired.values()))
    for key, execution in fired.items():
        ended = _OUTCOMES.get(executions[execution][rows.EXECUTION_STATUS]) if execution in executions else None
        if ended is not None:
            upstreams.outcomes[key] = Outcome(ended, keys.unpack_id(execution))
    return upstreams


def _mark(context: Context, key: bytes, row: bytes) -> bytes:
    """Whether a job that nobody depended on so far runs once or by ticks."""
    if row[rows.JOB_SCHEDULE] != bytes(4):
        return EDGES_RECURRING
    if context.catalog.profile(row[rows.JOB_PROFILE]).depends:
        value = context.writer.get(context.tables.waits, key)
        if value is not None and Wait.unpack(value).recurring:
            return EDGES_RECURRING
    return EDGES_ONCE
