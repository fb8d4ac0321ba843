"""How many pages of an LMDB file are in use and how many wait to be used again, looked at beside its owner."""

from dataclasses import dataclass
from pathlib import Path

import lmdb

_META_PAGES = 2
# More named databases than any environment here has.
_MAX_DBS = 128


@dataclass(frozen=True, slots=True)
class Pages:
    """`free` are pages that were used and are not; the file is never cut, so they are what it could do without."""

    used: int
    free: int
    page_bytes: int


def pages_of(environment: Path) -> Pages:
    """Of the newest commit. It takes a place in the table of readers, for a moment."""
    opened = lmdb.open(str(environment), readonly=True, create=False, max_dbs=_MAX_DBS, lib_version=0)
    try:
        last = int(opened.info()["last_pgno"])
        with opened.begin() as transaction:
            main = opened.open_db(None, transaction)
            names = [bytes(key) for key, _ in transaction.cursor(main)]
            stats = [transaction.stat(main)]
            stats += [transaction.stat(opened.open_db(name, transaction, create=False)) for name in names]
    finally:
        opened.close()
    used = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
    return Pages(used, max(0, last + 1 - _META_PAGES - used), int(stats[0]["psize"]))
