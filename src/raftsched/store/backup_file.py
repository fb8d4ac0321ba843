"""The file that a backup is: who made it and how far it is, then a copy of the store, then a checksum over all.

Line 1: "raftsched backup 1". Line 2: the header, as JSON. Then `size` bytes, an LMDB file as Store.copy_to writes it.
Then 32 bytes: SHA-256 over everything before them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from raftsched.model.errors import StoreCorrupt
from raftsched.store import rows

MAGIC = b"raftsched backup 1\n"
CHUNK_BYTES = 256 << 10
CHECKSUM_BYTES = hashlib.sha256().digest_size
_HEADER_MAX_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """`index`, `term` and `digest` (hex) are those of the state; `now_ms` is its replicated clock, in milliseconds."""

    cluster_id: str
    node: int
    index: int
    term: int
    digest: str
    now_ms: int
    jobs: int
    executions: int
    state_format: int
    size: int
    version: str


def describe(state: rows.StateRow, *, size: int, cluster_id: str, node: int, version: str) -> BackupHeader:
    """The header of a backup of this state, whose copy has `size` bytes."""
    return BackupHeader(
        cluster_id=cluster_id,
        node=node,
        index=state.applied_index,
        term=state.applied_term,
        digest=state.digest.hex(),
        now_ms=state.now_ms,
        jobs=state.jobs,
        executions=state.executions,
        state_format=rows.FORMAT,
        size=size,
        version=version,
    )


def backup_chunks(header: BackupHeader, copy: Path) -> Iterator[bytes]:
    """The bytes of the backup file for this copy of a store, in pieces that fit into memory and a message."""
    checksum = hashlib.sha256()
    head = MAGIC + json.dumps(asdict(header)).encode() + b"\n"
    checksum.update(head)
    yield head
    with copy.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            checksum.update(data)
            yield data
    yield checksum.digest()


def read_backup(path: Path, take: Callable[[bytes], object] = lambda _data: None) -> BackupHeader:
    """Checks a backup file from beginning to end and hands the copy of the store to `take`, in pieces.

    What `take` was given is only good once this has returned. Raises StoreCorrupt with what is wrong, OSError.
    """
    with path.open("rb") as file:
        magic = file.readline(len(MAGIC))
        if magic != MAGIC:
            raise StoreCorrupt(f"{path} is not a raftsched backup of format 1")
        line = file.readline(_HEADER_MAX_BYTES)
        checksum = hashlib.sha256(magic + line)
        try:
            header = BackupHeader(**json.loads(line))
            left = int(header.size)
        except (ValueError, TypeError):
            raise StoreCorrupt(f"{path} is damaged: its header cannot be read") from None
        while left > 0:
            data = file.read(min(left, CHUNK_BYTES))
            if not data:
                raise StoreCorrupt(f"{path} is cut short: {left} bytes of the state are missing")
            checksum.update(data)
            take(data)
            left -= len(data)
        found = file.read(CHECKSUM_BYTES)
        if len(found) < CHECKSUM_BYTES:
            raise StoreCorrupt(f"{path} is cut short: its checksum is missing")
        if found != checksum.digest():
            raise StoreCorrupt(f"{path} is damaged: its checksum differs")
        if file.read(1):
            raise StoreCorrupt(f"{path} is damaged: something follows its end")
    if header.state_format != rows.FORMAT:
        raise StoreCorrupt(
            f"{path} holds a state of format {header.state_format}, this version reads {rows.FORMAT}; "
            f"restore it with raftsched {header.version}"
        )
    return header
