"""Workflows as callers describe them: turned into the command that registers their jobs, every field checked."""

from collections.abc import Sequence

from raftsched.api import validate
from raftsched.api.convert import CommandBuilder
from raftsched.api.dependencies import WaitsFor, check_count, checked_rule
from raftsched.api.job_settings import DEFAULT_NAMESPACE
from raftsched.api.recurrence import no_calendar
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.dag import indexed, ordered
from raftsched.model.errors import InvalidField, RaftschedError
from raftsched.state.calendars import FindCalendar
from raftsched.v1 import job_pb2, workflow_pb2

_RECURRING = ("cron", "interval")


def create_workflow_command(
    nodes: Sequence[workflow_pb2.WorkflowNode], request_id: str, now_ms: int, find_calendar: FindCalendar = no_calendar
) -> command_pb2.Command:
    """The command that registers a job for each node, all or none, under the idempotency key `request_id`.

    The key lives in the namespace of the first node's job. `now_ms` is the proposer's clock. Raises InvalidField,
    DependencyCycle, UnknownNode and NotImplementedField; their fields begin with "nodes[i].".
    """
    validate.check_request_id(request_id)
    if not nodes:
        raise InvalidField("at least one node is required", field="nodes")
    if len(nodes) > limits.WORKFLOW_MAX_NODES:
        raise InvalidField(
            f"{len(nodes):,} are too many; at most {limits.WORKFLOW_MAX_NODES:,} are right",
            field="nodes",
            limit=str(limits.WORKFLOW_MAX_NODES),
        )
    names = _names(nodes)
    upstreams = _upstreams(nodes, names)
    _check_roots(nodes)
    builder = CommandBuilder(now_ms, find_calendar)
    for number, node in enumerate(nodes):
        waits_for = None
        if upstreams[number]:
            waits_for = WaitsFor(upstreams[number], checked_rule(node.rule, f"nodes[{number}].rule"))
        elif node.rule:
            raise InvalidField("means nothing without depends_on; leave it unset", field=f"nodes[{number}].rule")
        try:
            builder.add(node.job, waits_for)
        except RaftschedError as error:
            error.field = f"nodes[{number}].job.{error.field}"
            raise
    builder.add_nodes(names)
    return builder.finish(nodes[0].job.namespace or DEFAULT_NAMESPACE, request_id)


def _names(nodes: Sequence[workflow_pb2.WorkflowNode]) -> list[str]:
    first: dict[str, int] = {}
    for number, node in enumerate(nodes):
        validate.check_node_name(node.name, f"nodes[{number}].name")
        if first.setdefault(node.name, number) != number:
            raise InvalidField(
                f"{node.name!r} is the name of nodes[{first[node.name]}] already", field=f"nodes[{number}].name"
            )
    return list(first)


def _upstreams(nodes: Sequence[workflow_pb2.WorkflowNode], names: Sequence[str]) -> list[list[int]]:
    """What each node depends on, by position; there is an order in which they can run."""
    total = 0
    for number, node in enumerate(nodes):
        field = f"nodes[{number}].depends_on"
        check_count(len(node.depends_on), field)
        if len(set(node.depends_on)) != len(node.depends_on):
            raise InvalidField("names a node twice", field=field)
        total += len(node.depends_on)
    if total > limits.EDGES_MAX_COUNT:
        raise InvalidField(
            f"the nodes have {total:,} dependencies together; at most {limits.EDGES_MAX_COUNT:,} are right",
            field="nodes",
            limit=str(limits.EDGES_MAX_COUNT),
        )
    upstreams = indexed(names, [node.depends_on for node in nodes], "nodes")
    ordered(upstreams, names, "nodes")
    return upstreams


def _check_roots(nodes: Sequence[workflow_pb2.WorkflowNode]) -> None:
    """Raises InvalidField unless the roots alone have schedules, which go together."""
    first: tuple[str, job_pb2.Job] | None = None
    for number, node in enumerate(nodes):
        kind, field = node.job.WhichOneof("schedule"), f"nodes[{number}].job"
        if kind == "dependencies":
            raise InvalidField("means nothing in a workflow; name nodes in depends_on", field=f"{field}.dependencies")
        if node.depends_on:
            if kind is not None:
                raise InvalidField("means nothing beside depends_on; leave it unset", field=f"{field}.{kind}")
            continue
        if kind is None:
            raise InvalidField(
                "unset; the roots of a workflow have a run_at, or all the same cron or interval",
                field=f"{field}.schedule",
            )
        if first is None:
            first = node.name, node.job
        elif kind in _RECURRING or first[1].WhichOneof("schedule") in _RECURRING:
            schedule, wanted = getattr(node.job, kind), getattr(first[1], kind)
            if first[1].WhichOneof("schedule") != kind or schedule != wanted:
                raise InvalidField(
                    f"differs from that of the root {first[0]!r}; a tick of one schedule runs the whole workflow",
                    field=f"{field}.{kind}",
                )
