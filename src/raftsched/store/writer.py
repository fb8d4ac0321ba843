"""Batch-wise reads and writes in the open write transaction, every one of them counted into a digest.

Two stores to which the same calls were made, in the same order, have the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import repeat

import lmdb

from raftsched.model.errors import ImpossibleState
from raftsched.store.environment import TABLE_NAMES, Store, Tables

DIGEST_BYTES = 16


class Writer:
    """Used by the writing thread only; valid until `store` is closed or replaced."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tables: Tables = store.tables
        self._tags = {getattr(store.tables, name): bytes((number,)) for number, name in enumerate(TABLE_NAMES)}
        self._hash = hashlib.sha256()
        # Rows put or deleted since the owner last set it to 0.
        self.written_rows = 0

    def take_digest(self, *salt: bytes) -> bytes:
        """16 bytes over `salt` and all that was written since the last call.

        SHA-256 cut short: with the instructions that current processors have for it, it is the cheapest good hash.
        """
        for part in salt:
            self._hash.update(part)
        digest = self._hash.digest()[:DIGEST_BYTES]
        self._hash = hashlib.sha256()
        return digest

    def get(self, table: lmdb._Database, key: bytes) -> bytes | None:
        return self._store.write.get(key, db=table)

    def get_many(self, table: lmdb._Database, wanted: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """(key, value) of the keys that exist, in the order asked for."""
        return self._store.write.cursor(table).getmulti(wanted)

    def get_all(self, table: lmdb._Database, wanted: Sequence[bytes]) -> list[bytes]:
        """The values of keys that must exist, in the order asked for. Raises ImpossibleState when one does not."""
        found = self._store.write.cursor(table).getmulti(wanted)
        if len(found) != len(wanted):
            raise ImpossibleState(f"{len(wanted) - len(found)} rows are missing that others refer to")
        return [value for _, value in found]

    def has_rows(self, table: lmdb._Database) -> bool:
        return bool(self._store.write.stat(table)["entries"])

    def cursor(self, table: lmdb._Database) -> lmdb.Cursor[bytes]:
        """For reading."""
        return self._store.write.cursor(table)

    def put(self, table: lmdb._Database, key: bytes, value: bytes) -> None:
        self._store.write.put(key, value, db=table)
        self._hash.update(self._tags[table] + key + value)
        self.written_rows += 1

    def put_many(
        self, table: lmdb._Database, keys: Sequence[bytes], values: Sequence[bytes], *, append: bool = False
    ) -> None:
        """`append`: the keys ascend and come after all there are, which is cheaper. Raises ImpossibleState if not."""
        _, added = self._store.write.cursor(table).putmulti(zip(keys, values, strict=True), append=append)
        if added != len(keys):
            raise ImpossibleState(f"{len(keys) - added} of {len(keys)} rows could not be put in order")
        self._count(table, b"+", b"".join(keys), b"".join(values))
        self.written_rows += len(keys)

    def put_same(self, table: lmdb._Database, keys: Sequence[bytes], value: bytes) -> None:
        """One value for all keys."""
        self._store.write.cursor(table).putmulti(zip(keys, repeat(value)))
        self._count(table, b"=", b"".join(keys), value)
        self.written_rows += len(keys)

    def delete(self, table: lmdb._Database, key: bytes) -> bool:
        """Whether there was such a row."""
        deleted = self._store.write.delete(key, db=table)
        if deleted:
            self._count(table, b"-", key, b"")
            self.written_rows += 1
        return deleted

    def delete_many(self, table: lmdb._Database, keys: Sequence[bytes]) -> None:
        """Deletes rows that must exist. Raises ImpossibleState when one does not."""
        cursor = self._store.write.cursor(table)
        for key in keys:
            if not cursor.set_key(key):
                raise ImpossibleState("a row to delete is missing")
            cursor.delete()
        self._count(table, b"-", b"".join(keys), b"")
        self.written_rows += len(keys)

    def delete_neighbours(self, table: lmdb._Database, keys: Sequence[bytes]) -> None:
        """As delete_many, for keys that ascend and have no other between them: each delete finds the next in place."""
        cursor = self._store.write.cursor(table)
        if not cursor.set_key(keys[0]):
            raise ImpossibleState("a row to delete is missing")
        delete = cursor.delete
        for _ in range(len(keys) - 1):
            delete()
        if cursor.key() != keys[-1]:
            raise ImpossibleState("rows to delete are not neighbours")
        delete()
        self._count(table, b"-", b"".join(keys), b"")
        self.written_rows += len(keys)

    def _count(self, table: lmdb._Database, kind: bytes, keys: bytes, values: bytes) -> None:
        update = self._hash.update
        update(self._tags[table] + kind)
        update(keys)
        update(values)
