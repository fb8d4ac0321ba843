"""Checks that LMDB will open a log at its newest commit, which nothing but a number on two root pages decides.

With that number damaged LMDB would open the commit before, and the node forget an entry or a vote that it had already
told of. The record that each commit writes holds the number too, with a checksum.
"""

import struct
from collections.abc import Callable
from pathlib import Path

from raftsched.model.errors import StoreCorrupt
from raftsched.raft.log_records import STATE_KEY, LogState

# Offsets in a root page of LMDB 0.9 on 64 bits: the page size, the main table's record, the transaction's number.
_PAGE_SIZE = 40
_MAIN_TABLE = 88
_TRANSACTION = 144
# In a table's record: how deep its tree is, and its root page.
_DEPTH = 6
_ROOT = 40
_TABLE_BYTES = 48
# In a page: its kind, the end of its list of rows, that list. In a row: size of the value, of the key, the key.
_KIND = 10
_LIST_END = 12
_LIST = 16
_ROW = struct.Struct("=HHHH")
_LEAF = 2

_U16 = struct.Struct("=H")
_U32 = struct.Struct("=I")
_U64 = struct.Struct("=Q")
_ROOT_PAGES = 2


def check_roots(data: Path) -> None:
    """Raises StoreCorrupt when LMDB would not open the newest commit."""
    if not data.exists():
        return
    size = data.stat().st_size
    with data.open("rb") as file:
        head = file.read(_PAGE_SIZE + _U32.size)
        page_size = _U32.unpack_from(head, _PAGE_SIZE)[0] if len(head) == _PAGE_SIZE + _U32.size else 0

        def page(number: int) -> bytes:
            if number * page_size >= size:
                raise LookupError(number)
            file.seek(number * page_size)
            return file.read(page_size)

        # Of each root page: its number, and that of the commit it leads to.
        found: list[tuple[int, int]] = []
        for slot in range(_ROOT_PAGES):
            try:
                root = page(slot)
                (number,) = _U64.unpack_from(root, _TRANSACTION)
                states = _find(root[_MAIN_TABLE : _MAIN_TABLE + _TABLE_BYTES], page, b"state")
                found.append((number, LogState.unpack(_find(states, page, STATE_KEY)).transaction))
            except (LookupError, struct.error, StoreCorrupt):
                # Nothing was written yet, or the pages of the commit before the last are being used again.
                continue
    if not found:
        return
    _, opened = max(found)
    newest = max(commit for _, commit in found)
    if (opened and opened < newest) or any(number < commit for number, commit in found):
        raise StoreCorrupt(f"{data} is damaged: its root pages do not lead to the newest commit, {newest}")


def _find(table: bytes, page: Callable[[int], bytes], key: bytes) -> bytes:
    """The value of `key` in a table that is a single page. Raises LookupError."""
    if _U16.unpack_from(table, _DEPTH)[0] != 1:
        raise LookupError(key)
    leaf = page(_U64.unpack_from(table, _ROOT)[0])
    if _U16.unpack_from(leaf, _KIND)[0] != _LEAF:
        raise LookupError(key)
    for at in range(_LIST, _U16.unpack_from(leaf, _LIST_END)[0], 2):
        row = _U16.unpack_from(leaf, at)[0]
        low, high, _, key_bytes = _ROW.unpack_from(leaf, row)
        start = row + _ROW.size
        if leaf[start : start + key_bytes] == key:
            return leaf[start + key_bytes : start + key_bytes + (low | high << 16)]
    raise LookupError(key)
