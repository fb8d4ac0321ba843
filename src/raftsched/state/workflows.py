"""Workflows: jobs that were created as the nodes of one graph, found by its id and their names in it."""

from collections.abc import Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.context import Context
from raftsched.store import keys, rows


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
    writer.put(tables.workflows, workflow, rows.WORKFLOW.pack(len(nodes), len(nodes)))
    context.graph.has_edges = True
    places = [keys.workflow_node(first, position) for position in range(len(nodes))]
    writer.put_many(tables.workflows, places, [name.encode() for name in nodes])
    jobs = keys.pack_id_range(first, len(nodes))
    writer.put_same(tables.extras, [keys.extra(job, keys.EXTRA_WORKFLOW) for job in jobs], workflow)


def job_removed(context: Context, job: int) -> int | None:
    """Notes that a job is gone; the workflow that it was the last job of."""
    table = context.tables.workflows
    cursor = context.writer.cursor(table)
    found = cursor.set_range(keys.pack_id(job + 1))
    if not (cursor.prev() if found else cursor.last()):
        return None
    # The last row of the newest workflow that begins at or before this job.
    key = cursor.key()[: keys.ID_BYTES]
    value = context.writer.get(table, key)
    workflow = keys.unpack_id(key)
    if value is None or job >= workflow + rows.WORKFLOW.unpack(value)[0]:
        return None
    nodes, left = rows.WORKFLOW.unpack(value)
    context.writer.put(table, key, rows.WORKFLOW.pack(nodes, left - 1))
    return workflow if left == 1 else None
