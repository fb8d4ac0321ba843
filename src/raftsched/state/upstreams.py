"""Which executions an execution follows: what its handler may ask for the results of."""

from collections.abc import Sequence

from raftsched.state.context import Context
from raftsched.state.results import Upstream
from raftsched.store import keys, rows
from raftsched.store.graph_rows import Outcome, Wait

# What one of them takes in a message to a worker, its name included.
BYTES_EACH = 64


def any_depends(context: Context, found: Sequence[bytes]) -> bool:
    """Whether any of these executions may follow others."""
    return context.graph.has_edges and any(
        context.catalog.profile(profile).depends for profile in {row[rows.EXECUTION_PROFILE] for row in found}
    )


def message_bytes(context: Context, found: Sequence[bytes]) -> list[int]:
    """What the upstreams of each of these executions take in a message."""
    waits = dict(context.writer.get_many(context.tables.waits, {row[rows.EXECUTION_JOB]: None for row in found}))
    return [BYTES_EACH * len(waits.get(row[rows.EXECUTION_JOB], b"")) // keys.ID_BYTES for row in found]


def of_executions(
    context: Context, numbers: Sequence[bytes], found: Sequence[bytes]
) -> list[tuple[int, Sequence[Upstream]]]:
    """(id, upstreams) of those executions that follow others, the upstreams in the order of the job's request."""
    if not any_depends(context, found):
        return []
    waits = dict(context.writer.get_many(context.tables.waits, {row[rows.EXECUTION_JOB]: None for row in found}))
    listed: list[tuple[int, Sequence[Upstream]]] = []
    for number, row in zip(numbers, found, strict=True):
        value = waits.get(row[rows.EXECUTION_JOB])
        if value is not None:
            listed.append((keys.unpack_id(number), _upstreams(context, row, Wait.unpack(value))))
    return listed


def _upstreams(context: Context, row: bytes, wait: Wait) -> list[Upstream]:
    job = row[rows.EXECUTION_JOB]
    upstreams = keys.split_ids(wait.upstreams)
    counted = [job + keys.NO_INSTANCE + upstream for upstream in upstreams]
    if wait.recurring:
        counted += [job + row[rows.EXECUTION_SCHEDULED_FOR] + upstream for upstream in upstreams]
    outcomes = {
        key[-keys.ID_BYTES :]: Outcome.unpack(value)
        for key, value in context.writer.get_many(context.tables.waits, counted)
    }
    with_execution = [upstream for upstream in upstreams if upstream in outcomes and outcomes[upstream].execution]
    names = _node_names(context, job, with_execution)
    return [
        Upstream(names.get(upstream, ""), keys.unpack_id(upstream), outcomes[upstream].execution)
        for upstream in with_execution
    ]


def _node_names(context: Context, job: bytes, upstreams: Sequence[bytes]) -> dict[bytes, str]:
    workflow = context.writer.get(context.tables.extras, keys.extra(job, keys.EXTRA_WORKFLOW))
    if workflow is None:
        return {}
    first = keys.unpack_id(workflow)
    # A job of a workflow depends on jobs of that workflow only.
    places = {keys.workflow_node(first, keys.unpack_id(upstream) - first): upstream for upstream in upstreams}
    found = context.writer.get_many(context.tables.workflows, places)
    return {places[place]: name.decode() for place, name in found}
