"""Graphs: whoever waits for a job is told how it ended, in bounded steps from a work list in the store.

Nothing is told within the command that ended the execution: it adds a row to the work list, and each entry carries out
a bounded part of the list when its commands are done. While something is left, Tick has something to do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import lmdb

from raftsched.model.transitions import ExecutionState
from raftsched.state import instances, workflows
from raftsched.state.context import Context
from raftsched.state.endings import Ended as EndedExecution
from raftsched.store import keys, rows
from raftsched.store.graph_rows import EDGES_ONCE, EDGES_RECURRING, Ended, Instance, Wait, Work, WorkKind
from raftsched.v1 import execution_pb2

# Downstream jobs told, and rows removed, by one entry: more would hold up everything else that waits for its turn.
MAX_STEPS = 1_000

_OUTCOMES = {
    ExecutionState.SUCCEEDED: Ended.SUCCEEDED,
    ExecutionState.DEAD_LETTER: Ended.FAILED,
    ExecutionState.CANCELLED: Ended.SKIPPED,
}


def follow(context: Context, items: Sequence[EndedExecution], status: ExecutionState) -> None:
    """These executions have ended: notes what is to be told. Returns at once where no job depends on another."""
    if not context.graph.has_edges:
        return
    jobs = list(dict.fromkeys([row[rows.EXECUTION_JOB] for _, row in items]))
    marks = dict(context.writer.get_many(context.tables.edges, [keys.edges_of(job) for job in jobs]))
    if marks:
        _note_ends(
            context, [item for item in items if keys.edges_of(item[1][rows.EXECUTION_JOB]) in marks], marks, status
        )
    if status is not ExecutionState.DEAD_LETTER:
        _close(context, items)


def _note_ends(
    context: Context, items: Sequence[EndedExecution], marks: Mapping[bytes, bytes], status: ExecutionState
) -> None:
    """Downstream jobs are to be told of these."""
    # Of those that were started by an instance that had been given up before.
    instances_of = [row[rows.EXECUTION_JOB] + row[rows.EXECUTION_SCHEDULED_FOR] for _, row in items]
    known = context.writer.get_many(context.tables.waits, dict.fromkeys(instances_of))
    revived = {key for key, value in known if Instance.unpack(value).revived}
    for (number, row), own in zip(items, instances_of, strict=True):
        job, fired_ms = keys.unpack_id(row[rows.EXECUTION_JOB]), rows.ExecutionRow.unpack(row).fired_ms
        is_new = rows.cause_of(row) != execution_pb2.EXECUTION_CAUSE_REPLAY and own not in revived
        is_recurring = marks[keys.edges_of(row[rows.EXECUTION_JOB])] == EDGES_RECURRING
        context.graph.add(
            Work(
                WorkKind.TELL,
                job,
                keys.unpack_id(row[rows.EXECUTION_SCHEDULED_FOR]) if is_recurring else 0,
                keys.unpack_id(number),
                _OUTCOMES[status],
                opens_ms=fired_ms if is_new else 0,
            )
        )


def _close(context: Context, items: Sequence[EndedExecution]) -> None:
    """What started these executions need not be kept, once all upstreams have been counted."""
    profile = context.catalog.profile
    depending = {key for key in {row[rows.EXECUTION_PROFILE] for _, row in items} if profile(key).depends}
    if not depending:
        return
    ended = [row for _, row in items if row[rows.EXECUTION_PROFILE] in depending]
    waits = dict(context.writer.get_many(context.tables.waits, [row[rows.EXECUTION_JOB] for row in ended]))
    for row in ended:
        job = row[rows.EXECUTION_JOB]
        if job in waits and Wait.unpack(waits[job]).recurring:
            instance = keys.unpack_id(row[rows.EXECUTION_SCHEDULED_FOR])
            context.graph.add(Work(WorkKind.CLOSE, keys.unpack_id(job), instance))


def cancelled(context: Context, job: bytes, newest_execution: bytes) -> None:
    """The job has become CANCELLED: to those that wait for its only run it counts as skipped."""
    if not context.graph.has_edges:
        return
    if context.writer.get(context.tables.edges, keys.edges_of(job)) == EDGES_ONCE:
        execution = keys.unpack_id(newest_execution)
        context.graph.add(Work(WorkKind.TELL, keys.unpack_id(job), 0, execution, Ended.SKIPPED))


def advance(context: Context) -> None:
    """Carries out a bounded part of the work list, oldest first. Call at the end of each entry."""
    left = MAX_STEPS
    while left > 0 and not context.graph.is_empty:
        key, work = context.graph.first()
        left -= 1
        if work.kind == WorkKind.TELL:
            left -= _tell(context, key, work, left)
        elif work.kind == WorkKind.JUDGE:
            left -= instances.judge(context, keys.pack_id(work.job), work.instance)
            context.graph.done(key)
        elif work.kind == WorkKind.CLOSE:
            left -= instances.close(context, keys.pack_id(work.job), work.instance)
            context.graph.done(key)
        else:
            forget = _forget if work.kind == WorkKind.FORGET else _forget_workflow
            left -= forget(context, key, work, left)
            # At once, since another command may come before the rest is removed.
            context.graph.look_again()


def _tell(context: Context, key: bytes, work: Work, limit: int) -> int:
    """Tells further downstream jobs, about `limit` at most; how much that was."""
    upstream = keys.pack_id(work.job)
    downstreams = _edges_after(context, upstream, work.told, limit + 1)
    steps = 0
    for told, downstream in enumerate(downstreams):
        if steps >= limit:
            last = keys.unpack_id(downstreams[told - 1]) if told else work.told
            context.graph.replace(key, dataclasses.replace(work, told=last))
            return steps
        steps += instances.tell(context, downstream, work)
    context.graph.done(key)
    return steps


def _edges_after(context: Context, upstream: bytes, told: int, limit: int) -> list[bytes]:
    """Keys of up to `limit` downstream jobs after `told`."""
    found: list[bytes] = []
    cursor = context.writer.cursor(context.tables.edges)
    if cursor.set_range(keys.edge(upstream, keys.pack_id(told + 1))):
        for edge in cursor.iternext(values=False):
            if len(found) == limit or not edge.startswith(upstream):
                break
            found.append(edge[keys.ID_BYTES :])
    return found


def _forget(context: Context, key: bytes, work: Work, limit: int) -> int:
    """Removes rows of a job that is gone; the last step removes the row of the work list."""
    job = keys.pack_id(work.job)
    writer, tables = context.writer, context.tables
    value = writer.get(tables.waits, job)
    gone = _with_prefix(context, tables.waits, job, limit + 2)
    if value is not None and len(gone) > 1:
        # The header comes last: it says which edges lead here.
        gone = [row for row in gone if row != job][: max(limit, 1)]
        writer.delete_many(tables.waits, gone)
        return len(gone)
    if value is not None:
        upstreams = keys.split_ids(Wait.unpack(value).upstreams)
        for upstream in upstreams:
            writer.delete(tables.edges, keys.edge(upstream, job))
            if not _edges_after(context, upstream, 0, 1):
                writer.delete(tables.edges, keys.edges_of(upstream))
        writer.delete(tables.waits, job)
        return len(upstreams)
    gone = _with_prefix(context, tables.edges, job, max(limit, 1))
    if gone:
        writer.delete_many(tables.edges, gone)
        return len(gone)
    workflow = workflows.job_removed(context, work.job)
    if workflow is not None:
        context.graph.add(Work(WorkKind.FORGET_WORKFLOW, workflow))
    context.graph.done(key)
    return 1


def _forget_workflow(context: Context, key: bytes, work: Work, limit: int) -> int:
    """Removes names of the nodes of a workflow of which no job is left."""
    gone = _with_prefix(context, context.tables.workflows, keys.pack_id(work.job), max(limit, 1))
    context.writer.delete_many(context.tables.workflows, gone)
    if len(gone) < max(limit, 1):
        context.graph.done(key)
    return len(gone)


def _with_prefix(context: Context, table: lmdb._Database, prefix: bytes, limit: int) -> list[bytes]:
    found: list[bytes] = []
    cursor = context.writer.cursor(table)
    if cursor.set_range(prefix):
        for key in cursor.iternext(values=False):
            if len(found) == limit or not key.startswith(prefix):
                break
            found.append(key)
    return found
