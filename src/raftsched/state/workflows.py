"""Workflows: jobs that were created as the nodes of one graph, found by its id and their names in it."""

from collections.abc import Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.context import Context
from raftsched.store import keys


def check(command: command_pb2.CreateJobs) -> None:
    """Raises InvalidField unless there is no node, or one name for each job."""
    if not command.nodes:
        return
    if len(command.nodes) != len(command.jobs):
        raise InvalidField(f"holds {len(command.nodes)} names for {len(command.jobs)} jobs", field="nodes")
    names: set[str] = set()
    for number, name in enumerate(command.nodes):
        if not name or len(name) > limits.NODE_NAME_MAX_LENGTH or name in names:
            raise InvalidField("is empty, too long, or not the first of that name", field=f"nodes[{number}].name")
        names.add(name)


def write(context: Context, nodes: Sequence[str], first: int) -> None:
    """The jobs from `first` on are the workflow of that id."""
    writer, tables = context.writer, context.tables
    workflow = keys.pack_id(first)
    writer.put(tables.workflows, workflow, keys.pack_small_id(len(nodes)))
    places = [keys.workflow_node(first, position) for position in range(len(nodes))]
    writer.put_many(tables.workflows, places, [name.encode() for name in nodes])
    jobs = keys.pack_id_range(first, len(nodes))
    writer.put_same(tables.extras, [keys.extra(job, keys.EXTRA_WORKFLOW) for job in jobs], workflow)
