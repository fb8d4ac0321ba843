"""Removes executions and jobs with all that belongs to them alone."""

from collections.abc import Sequence

import lmdb

from raftsched.state import attempts, unfinished
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.store.graph_rows import Work, WorkKind


def remove_executions(context: Context, numbers: Sequence[bytes], found: Sequence[bytes]) -> None:
    """Executions that have ended, in order of id, with their rows: attempts, results and payloads of their own go too.

    An execution that comes after one of them names it as the one before, which is how a history ends.
    """
    for run in _neighbours(context, numbers):
        context.writer.delete_neighbours(context.tables.executions, run)
    attempts.forget(context, numbers)
    _remove_from(context, context.tables.results, numbers)
    _remove_from(context, context.tables.execution_payloads, numbers)
    for number, row in zip(numbers, found, strict=True):
        if row[rows.EXECUTION_CAUSE]:
            job, scheduled_for_ms = row[rows.EXECUTION_JOB], keys.unpack_id(row[rows.EXECUTION_SCHEDULED_FOR])
            context.writer.delete(context.tables.extras, keys.extra_beside(job, scheduled_for_ms, number))


def remove_closed_job(context: Context, job: bytes, row: bytes) -> None:
    """A job that has run its only time or is cancelled, and has no executions any more.

    What it skipped goes later: such rows are removed when their job is not found.
    """
    writer, tables = context.writer, context.tables
    decoded = rows.JobRow.unpack(row)
    writer.delete(tables.jobs, job)
    if decoded.payload_bytes:
        writer.delete(tables.payloads, job)
    if decoded.name:
        namespace = context.catalog.profile(row[rows.JOB_PROFILE]).message.namespace
        name = keys.job_name(namespace, decoded.name)
        # Another may have taken the name since.
        if writer.get(tables.names, name) == job:
            writer.delete(tables.names, name)
    _remove_extras(context, job)
    unfinished.untrack(context, job)
    if job in context.cancelling:
        writer.delete(tables.meta, keys.META_CANCELLING + job)
        context.cancelling.discard(job)
    if decoded.state == rows.JOB_CANCELLED:
        context.state.jobs_cancelled -= 1
    if context.graph.has_edges:
        context.graph.add(Work(WorkKind.FORGET, keys.unpack_id(job)))


def _neighbours(context: Context, numbers: Sequence[bytes]) -> list[list[bytes]]:
    """The keys in runs that have no other execution between them."""
    runs: list[list[bytes]] = []
    cursor = context.writer.cursor(context.tables.executions)
    following = b""
    for number in numbers:
        if number == following:
            runs[-1].append(number)
        else:
            runs.append([number])
            cursor.set_key(number)
        following = cursor.key() if cursor.next() else b""
    return runs


def _remove_from(context: Context, table: lmdb._Database, numbers: Sequence[bytes]) -> None:
    """Removes the rows of these executions from a table that has some for few."""
    cursor = context.writer.cursor(table)
    if not numbers or not cursor.set_range(numbers[0]):
        return
    gone, last = set(numbers), numbers[-1]
    found = []
    for key in cursor.iternext(values=False):
        if key > last:
            break
        if key in gone:
            found.append(key)
    if found:
        context.writer.delete_many(table, found)


def _remove_extras(context: Context, job: bytes) -> None:
    cursor = context.writer.cursor(context.tables.extras)
    beside = keys.extra(job, keys.EXTRA_BESIDE)
    found = []
    if cursor.set_range(job):
        for key in cursor.iternext(values=False):
            # Executions that stood beside the schedule go with their rows: there may be many.
            if not key.startswith(job) or key.startswith(beside):
                break
            found.append(key)
    if cursor.set_range(keys.after_prefix(beside) or job):
        for key in cursor.iternext(values=False):
            if not key.startswith(job):
                break
            found.append(key)
    if found:
        context.writer.delete_many(context.tables.extras, found)
