"""Removes executions and jobs with all that belongs to them alone."""

from collections.abc import Mapping, Sequence

import lmdb

from raftsched.state import backfill, unfinished
from raftsched.state.context import Context
from raftsched.store import keys, rows
from raftsched.store.graph_rows import Work, WorkKind

# Backfills that go with their job; each is some hundred rows at most, and hardly any job has had more.
BACKFILLS_AT_ONCE = 20
_NO_NAME = bytes(2)
# Kinds of extras that a job has few of: an EXTRA_BESIDE goes with its execution.
_EXTRAS = tuple(bytes((kind,)) for kind in range(1, keys.EXTRA_LAST + 1) if kind != keys.EXTRA_BESIDE)


def remove_executions(context: Context, numbers: Sequence[bytes], found: Sequence[bytes]) -> None:
    """Executions that have ended, in order of id, with their rows: attempts, results and payloads of their own go too.

    An execution that comes after one of them names it as the one before, which is how a history ends.
    """
    _delete_runs(context, context.tables.executions, numbers)
    for table in (context.tables.attempts, context.tables.results, context.tables.execution_payloads):
        _remove_prefixed(context, table, numbers)
    for number, row in zip(numbers, found, strict=True):
        if row[rows.EXECUTION_CAUSE]:
            job, scheduled_for_ms = row[rows.EXECUTION_JOB], keys.unpack_id(row[rows.EXECUTION_SCHEDULED_FOR])
            context.writer.delete(context.tables.extras, keys.extra_beside(job, scheduled_for_ms, number))


def remove_closed_job(context: Context, job: bytes, row: bytes) -> None:
    """As remove_closed_jobs, for one."""
    remove_closed_jobs(context, {job: row})


def remove_closed_jobs(context: Context, jobs: Mapping[bytes, bytes]) -> None:
    """Jobs, with their rows, that have run their only time or are cancelled, and have no executions any more.

    What they skipped goes later: such rows are removed when their job is not found.
    """
    numbers = sorted(jobs)
    _delete_runs(context, context.tables.jobs, numbers)
    _remove_prefixed(context, context.tables.payloads, numbers)
    _remove_prefixed(context, context.tables.extras, [number + kind for number in numbers for kind in _EXTRAS])
    if context.writer.has_rows(context.tables.backfills):
        for number in numbers:
            backfill.forget_some(context, number, BACKFILLS_AT_ONCE)
    for number in numbers:
        row = jobs[number]
        if row[rows.JOB_NAME_BYTES] != _NO_NAME:
            _free_name(context, number, row)
        if row[rows.JOB_STATE] == rows.JOB_CANCELLED:
            context.state.jobs_cancelled -= 1
    for number in sorted(context.tracked.intersection(numbers)):
        unfinished.untrack(context, number)
    for number in sorted(context.cancelling.intersection(numbers)):
        context.writer.delete(context.tables.meta, keys.META_CANCELLING + number)
        context.cancelling.discard(number)
    if context.graph.has_edges:
        for number in numbers:
            context.graph.add(Work(WorkKind.FORGET, keys.unpack_id(number)))


def _free_name(context: Context, job: bytes, row: bytes) -> None:
    namespace = context.catalog.profile(row[rows.JOB_PROFILE]).message.namespace
    name = keys.job_name(namespace, rows.JobRow.unpack(row).name)
    # Another may have taken it since.
    if context.writer.get(context.tables.names, name) == job:
        context.writer.delete(context.tables.names, name)


def _delete_runs(context: Context, table: lmdb._Database, numbers: Sequence[bytes]) -> None:
    """Deletes rows that must exist, whose keys ascend; those that have no other between them in one go."""
    runs: list[list[bytes]] = []
    cursor = context.writer.cursor(table)
    following = b""
    for number in numbers:
        if number == following:
            runs[-1].append(number)
        else:
            runs.append([number])
            cursor.set_key(number)
        following = cursor.key() if cursor.next() else b""
    for run in runs:
        context.writer.delete_neighbours(table, run)


def _remove_prefixed(context: Context, table: lmdb._Database, prefixes: Sequence[bytes]) -> None:
    """Removes what begins with one of these, which ascend, from a table that has rows for few: one seek for each at
    most, and none beyond the table's last."""
    found: list[bytes] = []
    cursor = context.writer.cursor(table)
    key = b""
    for prefix in prefixes:
        if key < prefix:
            if not cursor.set_range(prefix):
                break
            key = cursor.key()
        while key.startswith(prefix):
            found.append(key)
            if not cursor.next():
                break
            key = cursor.key()
    if found:
        context.writer.delete_many(table, found)
