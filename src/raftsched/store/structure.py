"""Looks through an LMDB file before LMDB opens it: following a damaged page would kill the process without a word.

LMDB has no checksums. What can be seen is whether every page is what its place in the tree says, and is used once.
Damage inside of values is not seen here; replicas find it by comparing their content, see content.py.
"""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

from lmdb.verify import VerifyError, verify

from raftsched.model.errors import StoreCorrupt

# What is looked through at every start: some 50 MiB a second.
MAX_BYTES = 128 << 20
# Space that nothing uses is no danger, and no reason not to start.
_HARMLESS = "-- a leak"
# A value that was replaced by a shorter one within its transaction keeps its pages, and LMDB counts them as used.
_SHRUNK = re.compile(r"(.*) DB: overflow page \d+ header mp_pages (\d+) != OVPAGES\(\d+\)=(\d+)")
_USED = re.compile(r"(.*) DB: walked (\d+) overflow pages, record says (\d+)")


def check_structure(data: Path, *, max_bytes: int | None = MAX_BYTES) -> None:
    """Raises StoreCorrupt, naming the file and what was found. Nothing may have the file open for writing.

    A file that is not there, is empty or has more than `max_bytes` (None: no bound) passes.
    """
    size = data.stat().st_size if data.exists() else 0
    if size == 0 or (max_bytes is not None and size > max_bytes):
        return
    try:
        found = _dangers(verify(data))  # type: ignore[no-untyped-call]
    except (VerifyError, struct.error, LookupError, ValueError) as error:
        found = [str(error)]
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise StoreCorrupt(f"{data} is damaged: {found[0]}{more}")


def _dangers(problems: Iterable[str]) -> list[str]:
    """Those that LMDB itself does not make."""
    found = []
    spare: dict[str, int] = {}
    for problem in problems:
        shrunk, used = _SHRUNK.fullmatch(problem), _USED.fullmatch(problem)
        if shrunk and int(shrunk[2]) > int(shrunk[3]):
            spare[shrunk[1]] = spare.get(shrunk[1], 0) + int(shrunk[2]) - int(shrunk[3])
        elif _HARMLESS not in problem and not (used and int(used[2]) + spare.get(used[1], 0) == int(used[3])):
            found.append(problem)
    return found
