"""The follower's side of a snapshot: chunks go to a file, which is handed over once it is whole and checked."""

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.config import RaftConfig
from raftsched.raft.ports import Background

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Incoming:
    """`accepted` bytes came in order, `written` of them have reached the file."""

    path: Path
    index: int
    term: int
    size: int
    sha256: bytes
    accepted: int = 0
    written: int = 0
    file: BinaryIO | None = None
    hash: Any = field(default_factory=hashlib.sha256)

    def is_of(self, chunk: peer_pb2.SnapshotChunk) -> bool:
        return (self.index, self.term, self.size, self.sha256) == (
            chunk.index,
            chunk.index_term,
            chunk.size,
            chunk.sha256,
        )


class SnapshotReceiver:
    """Writing and checking happen in the background, in order. A failed write raises out of its `poll`."""

    def __init__(
        self,
        config: RaftConfig,
        background: Background,
        reply: Callable[[int, peer_pb2.SnapshotReply], None],
        install: Callable[[int, int, Incoming], None],
    ) -> None:
        """`install(leader, transfer, file)` takes over a file that is whole, on disk, and what was sent."""
        self._config = config
        self._background = background
        self._reply = reply
        self._install = install
        self._incoming: Incoming | None = None
        # Whom to answer: the latest sender of a chunk, and its number for the transfer.
        self._leader = 0
        self._transfer = 0
        self._count = 0

    def on_chunk(self, leader: int, chunk: peer_pb2.SnapshotChunk) -> None:
        self._leader, self._transfer = leader, chunk.transfer
        incoming = self._incoming
        if incoming is None or not incoming.is_of(chunk):
            # A transfer that goes on after a change of leader, or after a lost connection, keeps its file.
            self.stop()
            self._count += 1
            path = self._config.snapshot_dir / f"receive-{self._count}.snapshot"
            incoming = self._incoming = Incoming(path, chunk.index, chunk.index_term, chunk.size, chunk.sha256)
            logger.info("receiving snapshot", extra={"index": chunk.index, "bytes": chunk.size, "leader": leader})
        if chunk.offset != incoming.accepted or chunk.offset + len(chunk.data) > chunk.size:
            self._answer(received=incoming.accepted, rewind=True)
            return
        incoming.accepted += len(chunk.data)
        self._background.submit(
            partial(_write, incoming, chunk.data), partial(self._written, incoming, len(chunk.data))
        )

    def stop(self) -> None:
        """Forgets what has come so far."""
        if self._incoming is not None:
            # In the background, after what is still to be written there.
            self._background.submit(partial(_remove, self._incoming), _ignore)
            self._incoming = None

    def close(self) -> None:
        """At the end, when nothing runs in the background any more."""
        if self._incoming is not None:
            _remove(self._incoming)
            self._incoming = None

    def _written(self, incoming: Incoming, size: int, _result: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if incoming is not self._incoming:
            return
        incoming.written += size
        self._answer(received=incoming.written)
        if incoming.written == incoming.size:
            self._background.submit(partial(_finish, incoming), partial(self._finished, incoming))

    def _finished(self, incoming: Incoming, is_whole: bool | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        if incoming is not self._incoming:
            return
        if not is_whole:
            logger.error("snapshot is damaged: its hash differs", extra={"index": incoming.index})
            self.stop()
            self._answer(damaged=True)
            return
        self._install(self._leader, self._transfer, incoming)
        self.stop()

    def _answer(self, *, received: int = 0, rewind: bool = False, damaged: bool = False) -> None:
        self._reply(
            self._leader,
            peer_pb2.SnapshotReply(transfer=self._transfer, received=received, rewind=rewind, damaged=damaged),
        )


def _write(incoming: Incoming, data: bytes) -> None:
    if incoming.file is None:
        incoming.file = incoming.path.open("wb")
    incoming.file.write(data)
    incoming.hash.update(data)


def _finish(incoming: Incoming) -> bool:
    """Whether the file, now on disk, is what the leader had."""
    assert incoming.file is not None
    incoming.file.flush()
    os.fsync(incoming.file.fileno())
    incoming.file.close()
    return bool(incoming.hash.digest() == incoming.sha256)


def _remove(incoming: Incoming) -> None:
    if incoming.file is not None:
        incoming.file.close()
    incoming.path.unlink(missing_ok=True)


def _ignore(_result: None, error: Exception | None) -> None:
    if error is not None:
        logger.warning("snapshot file cannot be removed", extra={"error": str(error)})
