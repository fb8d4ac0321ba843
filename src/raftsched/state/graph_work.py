"""The work list of graphs: what jobs that wait for others have yet to be told, in order, in the store."""

from __future__ import annotations

from raftsched.store import keys
from raftsched.store.graph_rows import Work
from raftsched.store.writer import Writer


class GraphWork:
    """Derived from the store when it is loaded. While no job depends on another it costs nothing."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._table = writer.tables.waits
        # Whether there is anything about graphs in the store, beside the work list.
        self.has_edges = self._is_in_use()
        self._next = self._after_last()

    @property
    def is_empty(self) -> bool:
        return self._next == 1

    def add(self, work: Work) -> None:
        """At the end."""
        self._writer.put(self._table, keys.graph_work(self._next), work.pack())
        self._next += 1

    def first(self) -> tuple[bytes, Work]:
        """The key and content of the oldest row. There must be one."""
        cursor = self._writer.cursor(self._table)
        cursor.set_range(keys.graph_work(1))
        return cursor.key(), Work.unpack(cursor.value())

    def replace(self, key: bytes, work: Work) -> None:
        """The first row, part of which is done."""
        self._writer.put(self._table, key, work.pack())

    def done(self, key: bytes) -> None:
        """Removes the first row."""
        self._writer.delete(self._table, key)
        cursor = self._writer.cursor(self._table)
        if not cursor.set_range(keys.graph_work(1)) or not cursor.key().startswith(keys.NO_JOB):
            # So that the numbers, too, follow from the store alone.
            self._next = 1

    def look_again(self) -> None:
        """After rows of a graph were removed: what is remembered has to follow from the store alone."""
        self.has_edges = self._is_in_use()

    def _is_in_use(self) -> bool:
        writer, tables = self._writer, self._writer.tables
        return (
            writer.cursor(tables.edges).first()
            or writer.cursor(tables.workflows).first()
            or writer.cursor(self._table).set_range(keys.pack_id(1))
        )

    def _after_last(self) -> int:
        cursor = self._writer.cursor(self._table)
        found = cursor.set_range(keys.pack_id(1))
        if (cursor.prev() if found else cursor.last()) and cursor.key().startswith(keys.NO_JOB):
            return keys.unpack_id(cursor.key()[keys.ID_BYTES :]) + 1
        return 1
