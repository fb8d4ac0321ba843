"""What a command is applied to: the store, the counters, the views kept in memory, and the entry it came in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from raftsched.model.errors import InvalidField
from raftsched.model.transitions import ExecutionState
from raftsched.state.catalog import Catalog
from raftsched.state.graph_work import GraphWork
from raftsched.state.limits import Limits
from raftsched.state.ready import ReadyLanes
from raftsched.state.refusals import Refusals
from raftsched.state.results import Effects
from raftsched.state.ticks import TickTables
from raftsched.store import keys, rows
from raftsched.store.environment import Store
from raftsched.store.writer import Writer

T = TypeVar("T")


class Context:
    """One per machine and loaded store. Everything in memory is derived from the store alone."""

    def __init__(self, store: Store, node_id: int) -> None:
        self.node_id = node_id
        self.writer = Writer(store)
        self.tables = store.tables
        value = self.writer.get(self.tables.meta, keys.META_STATE)
        self.state = rows.StateRow.unpack(value) if value is not None else rows.StateRow()
        self.catalog = Catalog(self.writer, self.state)
        self.ready = ReadyLanes(self.writer, self.catalog)
        self.limits = Limits(self.writer, self.catalog)
        self.ticks = TickTables(self.writer, self.catalog)
        self.graph = GraphWork(self.writer)
        self.refusals = Refusals(self.writer)
        self.sessions = self._load_sessions()
        # Keys of jobs that were cancelled while more executions than one command looks at might be unfinished.
        self.cancelling = self._load_jobs(keys.META_CANCELLING)
        # Keys of jobs whose unfinished executions are kept track of for a while, see unfinished.py.
        self.tracked = self._load_jobs(keys.META_TRACKED)
        owners = self.writer.get(self.tables.meta, keys.META_SHARD_OWNERS)
        self.shard_owners: tuple[int, ...] = rows.SHARD_OWNERS.unpack(owners) if owners else (0,) * keys.SHARDS
        membership = self.writer.get(self.tables.meta, keys.META_MEMBERSHIP)
        # The index of the last entry that held a membership, and what it held: internal.v1.Membership, serialized.
        self.membership = rows.unpack_membership(membership) if membership is not None else (0, b"")
        # The fencing token of a lease that the command being applied grants, see Machine.apply_entry.
        self.token = 0
        # Of the entry that is being applied.
        self.index = 0
        self.now_ms = self.state.now_ms
        self.effects = Effects()
        # Whether this node asked for the command that is being applied.
        self.is_own = False
        # Told of executions that have ended, see endings.py.
        self.end_followers: Sequence[Callable[[Context, Sequence[tuple[bytes, bytes]], ExecutionState], None]] = ()

    def _load_jobs(self, prefix: bytes) -> set[bytes]:
        """The jobs' keys that follow this prefix in meta."""
        cursor = self.writer.cursor(self.tables.meta)
        jobs = set()
        if cursor.set_range(prefix):
            for key in cursor.iternext(values=False):
                if not key.startswith(prefix):
                    break
                jobs.add(key[len(prefix) :])
        return jobs

    def _load_sessions(self) -> dict[int, rows.SessionRow]:
        """The open ones: each has an expiry."""
        sessions = {}
        cursor = self.writer.cursor(self.tables.deadlines)
        if cursor.set_range(bytes((keys.SESSION_EXPIRY,))):
            for key in cursor.iternext(values=False):
                kind, _, session, _ = keys.unpack_deadline(key)
                if kind != keys.SESSION_EXPIRY:
                    break
                value = self.writer.get_all(self.tables.sessions, [keys.pack_id(session)])[0]
                sessions[session] = rows.SessionRow.unpack(value)
        return sessions


def grouped(labels: Sequence[bytes], items: Sequence[T]) -> Iterable[tuple[bytes, Sequence[T]]]:
    """Items that share a label, in order of each label's first appearance. Free when all labels are equal."""
    if not labels:
        return ()
    if labels.count(labels[0]) == len(labels):
        return ((labels[0], items),)
    groups: dict[bytes, list[T]] = {}
    for label, item in zip(labels, items, strict=True):
        groups.setdefault(label, []).append(item)
    return groups.items()


def check_column(column: bytes, field: str, *, count: int | None = None) -> None:
    """Raises InvalidField unless the column holds whole 8-byte numbers, `count` of them if that is given."""
    if len(column) % keys.ID_BYTES:
        raise InvalidField("is not a column of 8-byte numbers", field=field)
    if count is not None and len(column) != count * keys.ID_BYTES:
        raise InvalidField(f"has {len(column) // keys.ID_BYTES} numbers where {count} belong", field=field)


def check_time_column(column: bytes, field: str, count: int) -> None:
    """As check_column, and every number must be a time."""
    check_column(column, field, count=count)
    # All times have their two leading bytes zero.
    if column[0::8].count(0) != count or column[1::8].count(0) != count:
        raise InvalidField("holds a number that is not a time", field=field)


def check_time(value_ms: int, field: str) -> None:
    """Raises InvalidField unless the number is a time."""
    if not 0 <= value_ms < keys.MAX_MS:
        raise InvalidField("is not a time", field=field)
