"""Reads of workflows: their nodes in order of the request, page by page; and the upstreams of an execution."""

from collections.abc import Sequence
from dataclasses import dataclass

from raftsched.model.errors import StoreCorrupt
from raftsched.state.queries import PAGE_MAX_BYTES, JobRecord, Page, get_job
from raftsched.store import keys, rows
from raftsched.store.environment import View


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node, with the names of those it depends on. `job` is None once the job has been removed."""

    name: str
    job: JobRecord | None
    depends_on: Sequence[str]


def workflow_size(view: View, workflow: int) -> int | None:
    """How many nodes the workflow has; None when there is no such workflow."""
    value = view.get(view.tables.workflows, keys.pack_id(workflow))
    return int(rows.WORKFLOW.unpack(value)[0]) if value is not None else None


def list_nodes(
    view: View, workflow: int, size: int, *, first: int, limit: int, max_bytes: int = PAGE_MAX_BYTES
) -> Page[NodeRecord, int]:
    """The nodes from position `first` on. `next` is the position of the first not given."""
    items: list[NodeRecord] = []
    size_bytes = 0
    for position in range(first, size):
        job = get_job(view, workflow + position)
        upstreams = keys.unpack_ids(job.wait.upstreams) if job is not None and job.wait is not None else ()
        depends_on = [node_name(view, workflow, upstream - workflow) for upstream in upstreams]
        node_bytes = 200 + (len(job.payload) if job is not None else 0) + sum(map(len, depends_on))
        if len(items) == limit or (items and size_bytes + node_bytes > max_bytes):
            return Page(items, position, len(items), size_bytes)
        items.append(NodeRecord(node_name(view, workflow, position), job, depends_on))
        size_bytes += node_bytes
    return Page(items, None, len(items), size_bytes)


def node_name(view: View, workflow: int, position: int) -> str:
    """Raises StoreCorrupt when the workflow has no such node."""
    value = view.get(view.tables.workflows, keys.workflow_node(workflow, position))
    if value is None:
        raise StoreCorrupt(f"workflow {workflow} has no node {position}")
    return value.decode()
