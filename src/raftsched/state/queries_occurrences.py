"""The occurrence record of a job: what happened to each scheduled time, newest first.

Four lists are merged by time. Executions of the schedule form a chain in which both ids and times ascend; those that
were started beside it (triggers, backfills, replays, dependencies that were met) have an index of their own; skipped
ranges and the overlap queue are in order as they are. Nothing is walked that a page does not look at, except links of
the chain that are too new.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from raftsched.model.transitions import ExecutionState
from raftsched.state.queries import PAGE_MAX_BYTES
from raftsched.state.queries_executions import ExecutionRecord, execution_record
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.v1 import execution_pb2

# Rows one page looks at; it may then be empty and still say where the next one begins.
MAX_EXAMINED = 10_000
# Single skips that may stand within a range.
_LOOKED_BACK = 100

# All others stand in the index of what was started beside the schedule.
_OF_SCHEDULE = (0, execution_pb2.EXECUTION_CAUSE_SCHEDULE)
_SCHEDULED_FOR = rows.EXECUTION_SCHEDULED_FOR
_PREVIOUS = slice(8, 16)
_ATTEMPT = slice(44, 46)
# At the same time an execution says more than the queue, and that more than a skip.
_EXECUTION, _QUEUED, _SKIPPED = range(3)


@dataclass(frozen=True, slots=True)
class OccurrenceRecord:
    """Exactly one of `execution`, `skipped` and `queued` says what happened."""

    scheduled_for_ms: int
    last_ms: int
    count: int
    execution: ExecutionRecord | None = None
    skipped: int = 0
    queued: bool = False


@dataclass(frozen=True, slots=True)
class OccurrencePosition:
    """Where a page ended: the next has times before this one, and walks along the chain from there (0: nowhere)."""

    before_ms: int
    execution: int


@dataclass(frozen=True, slots=True)
class OccurrencePage:
    items: list[OccurrenceRecord]
    # None: there is nothing more.
    next: OccurrencePosition | None


def list_occurrences(
    view: View, job: int, *, start_ms: int, position: OccurrencePosition, limit: int, max_bytes: int = PAGE_MAX_BYTES
) -> OccurrencePage:
    """Up to `limit` occurrences from `start_ms` on and before the position, newest first.

    A skipped range that begins before `start_ms` and reaches beyond it is among them.
    """
    walk = _Walk(view, keys.pack_id(job), start_ms, position)
    items: list[OccurrenceRecord] = []
    workers: dict[int, str] = {}
    size_bytes = 0
    before_ms = position.before_ms
    for time_ms, found in walk.by_time():
        if len(items) == limit or size_bytes > max_bytes:
            return OccurrencePage(items, OccurrencePosition(before_ms, walk.chain_from))
        item = _what_happened(view, walk, time_ms, found, workers)
        if item is not None:
            items.append(item)
            size_bytes += 200 + (len(item.execution.row.error) if item.execution is not None else 0)
        before_ms = time_ms
        walk.settled(time_ms)
    if walk.stopped:
        return OccurrencePage(items, OccurrencePosition(min(before_ms, walk.reached_ms), walk.chain_from))
    return OccurrencePage(items, None)


# What is known of a time: (kind, id of the execution or 0, row).
_Found = tuple[int, int, bytes]


class _Walk:
    """Goes back in time through all that is known of a job's occurrences."""

    def __init__(self, view: View, job: bytes, start_ms: int, position: OccurrencePosition) -> None:
        self._view = view
        self._job = job
        self._start_ms = start_ms
        self._before_ms = position.before_ms
        # The newest link of the chain that is not settled: from there the next page goes on.
        self.chain_from = position.execution
        self.examined = 0
        # Too many rows were looked at; everything from `reached_ms` on has been.
        self.stopped = False
        self.reached_ms = position.before_ms
        self._links: list[tuple[int, int]] = []

    def by_time(self) -> Iterator[tuple[int, list[_Found]]]:
        """Each time with everything that happened to it, newest first."""
        merged = heapq.merge(self._chain(), self._beside(), self._skips(), self._queue(), key=lambda found: -found[0])
        group: list[_Found] = []
        time_ms = -1
        for found_ms, kind, execution, value in merged:
            if self.stopped and found_ms < self.reached_ms:
                break
            if group and found_ms != time_ms:
                yield time_ms, group
                group = []
            time_ms = found_ms
            group.append((kind, execution, value))
        if group:
            yield time_ms, group

    def settled(self, time_ms: int) -> None:
        """Everything at that time has been told."""
        while self._links and self._links[0][0] >= time_ms:
            self.chain_from = self._links.pop(0)[1]

    def _chain(self) -> Iterator[tuple[int, int, int, bytes]]:
        execution = self.chain_from
        time_ms = self._before_ms
        while execution:
            value = self._view.get(self._view.tables.executions, keys.pack_id(execution))
            # What is not an execution of the job ends the chain: history has been trimmed up to there.
            if value is None or value[rows.EXECUTION_JOB] != self._job:
                return
            self.examined += 1
            previous = keys.unpack_id(value[_PREVIOUS])
            if rows.cause_of(value) not in _OF_SCHEDULE or keys.unpack_id(value[_SCHEDULED_FOR]) >= self._before_ms:
                self._skip_link(previous)
            else:
                time_ms = keys.unpack_id(value[_SCHEDULED_FOR])
                if time_ms < self._start_ms:
                    return
                self._links.append((time_ms, previous))
                yield time_ms, _EXECUTION, execution, value
            if self.examined >= MAX_EXAMINED:
                self.stopped, self.reached_ms = True, time_ms
                return
            execution = previous

    def _skip_link(self, previous: int) -> None:
        """A link that is told elsewhere, or was told before, is passed with the one that comes after it."""
        if self._links:
            self._links[-1] = (self._links[-1][0], previous)
        else:
            self.chain_from = previous

    def _beside(self) -> Iterator[tuple[int, int, int, bytes]]:
        prefix = keys.extra(self._job, keys.EXTRA_BESIDE)
        cursor = self._view.cursor(self._view.tables.extras)
        found = cursor.set_range(prefix + keys.pack_id(self._before_ms))
        found = cursor.prev() if found else cursor.last()
        while found and cursor.key().startswith(prefix):
            time_ms, execution = keys.unpack_pair(cursor.key()[len(prefix) :])
            if time_ms < self._start_ms:
                return
            value = self._view.get(self._view.tables.executions, keys.pack_id(execution))
            if value is not None:
                yield time_ms, _EXECUTION, execution, value
            found = cursor.prev()

    def _skips(self) -> Iterator[tuple[int, int, int, bytes]]:
        cursor = self._view.cursor(self._view.tables.skipped)
        found = cursor.set_range(self._job + keys.pack_id(self._before_ms))
        found = cursor.prev() if found else cursor.last()
        while found and cursor.key().startswith(self._job):
            time_ms = keys.unpack_id(cursor.key()[keys.ID_BYTES :])
            if (
                time_ms < self._start_ms
                and rows.SkippedRow.unpack(cursor.value()).last_scheduled_for_ms < self._start_ms
            ):
                return
            yield time_ms, _SKIPPED, 0, cursor.value()
            found = cursor.prev()

    def is_skipped(self, time_ms: int) -> bool:
        """Whether a range that begins earlier tells of that time."""
        cursor = self._view.cursor(self._view.tables.skipped)
        found = cursor.set_range(self._job + keys.pack_id(time_ms))
        found = cursor.prev() if found else cursor.last()
        for _ in range(_LOOKED_BACK):
            if not found or not cursor.key().startswith(self._job):
                return False
            row = rows.SkippedRow.unpack(cursor.value())
            if row.last_scheduled_for_ms >= time_ms or row.count > 1:
                return row.last_scheduled_for_ms >= time_ms
            # A trigger that was skipped may stand between the range's first time and this one.
            found = cursor.prev()
        return False

    def _queue(self) -> Iterator[tuple[int, int, int, bytes]]:
        prefix = keys.extra(self._job, keys.EXTRA_WAITING)
        cursor = self._view.cursor(self._view.tables.extras)
        waiting = []
        if cursor.set_range(prefix):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    break
                waiting.append(rows.WAITING.unpack_from(value)[0])
        for time_ms in sorted(waiting, reverse=True):
            if self._start_ms <= time_ms < self._before_ms:
                yield time_ms, _QUEUED, 0, b""


def _what_happened(
    view: View, walk: _Walk, time_ms: int, found: list[_Found], workers: dict[int, str]
) -> OccurrenceRecord | None:
    """Of several executions the newest counts. One that never started leaves the word to the reason why."""
    executions = [(number, value) for kind, number, value in found if kind == _EXECUTION]
    skips = [rows.SkippedRow.unpack(value) for kind, _, value in found if kind == _SKIPPED]
    if executions:
        number, value = max(executions)
        if not skips and _never_started(value) and rows.cause_of(value) in _OF_SCHEDULE and walk.is_skipped(time_ms):
            return None
        if not skips or (skips[0].count == 1 and not _never_started(value)):
            return OccurrenceRecord(time_ms, time_ms, 1, execution_record(view, number, value, workers))
    elif any(kind == _QUEUED for kind, _, _ in found):
        return OccurrenceRecord(time_ms, time_ms, 1, queued=True)
    if not skips:
        return None
    return OccurrenceRecord(time_ms, skips[0].last_scheduled_for_ms, skips[0].count, skipped=skips[0].reason)


def _never_started(value: bytes) -> bool:
    return value[rows.EXECUTION_STATUS] == ExecutionState.CANCELLED and value[_ATTEMPT] == bytes(2)
