"""The leader's side of a snapshot: one copy of the state, streamed to every follower that needs it."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.config import RaftConfig
from raftsched.raft.ports import Background, StateMachine

logger = logging.getLogger(__name__)

_HASH_BYTES = 1 << 20
# A follower that comes back so soon goes on with the copy that it had begun to receive.
_KEEP_COPY_S = 30.0


@dataclass(frozen=True, slots=True)
class Copy:
    path: Path
    index: int
    term: int
    size: int
    sha256: bytes


@dataclass(slots=True)
class Transfer:
    """`sent` bytes have been handed to the transport, `received` bytes were confirmed."""

    number: int
    progress_s: float
    sent: int = 0
    received: int = 0
    # Goes up with every rewind, so that a chunk read before it is not sent after it.
    turn: int = 0
    is_reading: bool = False


class SnapshotSender:
    """Copying and reading happen in the background; memory holds one window of chunks for each follower."""

    def __init__(
        self,
        config: RaftConfig,
        machine: StateMachine,
        background: Background,
        send: Callable[[int, peer_pb2.SnapshotChunk], bool],
    ) -> None:
        self._config = config
        self._machine = machine
        self._background = background
        self._send = send
        self._transfers: dict[int, Transfer] = {}
        self._copy: Copy | None = None
        self._making: Path | None = None
        self._retry_at_s = 0.0
        self._unused_since_s: float | None = None
        self._count = 0

    @property
    def hold_index(self) -> int | None:
        """The log must keep what follows this index: the followers continue there."""
        return self._copy.index if self._copy is not None and self._transfers else None

    @property
    def is_active(self) -> bool:
        return bool(self._transfers)

    def start(self, node: int, now_s: float) -> None:
        if node not in self._transfers:
            self._count += 1
            self._transfers[node] = Transfer(self._count, now_s)
            logger.info("sending snapshot", extra={"peer": node, "transfer": self._count})

    def stop(self, node: int) -> None:
        self._transfers.pop(node, None)

    def stop_all(self) -> None:
        self._transfers.clear()
        self._making = None
        self._discard()

    def pump(self, now_s: float, log_base: int) -> None:
        """Does what is next for every transfer. `log_base`: the log can continue no state older than this."""
        if self._copy is not None and self._copy.index < log_base:
            self._discard()
        if not self._transfers:
            if self._unused_since_s is None:
                self._unused_since_s = now_s
            elif now_s - self._unused_since_s >= _KEEP_COPY_S:
                self._discard()
            return
        self._unused_since_s = None
        if self._copy is None and self._making is None and now_s >= self._retry_at_s:
            self._retry_at_s = now_s + self._config.snapshot_retry_ms / 1000
            self._make()
        if self._copy is None:
            return
        for node, transfer in list(self._transfers.items()):
            if now_s - transfer.progress_s >= self._config.snapshot_retry_ms / 1000:
                # The first chunk again: the follower answers with what it has.
                self._rewind(transfer, 0, now_s)
            self._read_next(node, transfer, self._copy)

    def on_reply(self, node: int, reply: peer_pb2.SnapshotReply, now_s: float) -> int | None:
        """The index that the follower's state has reached, once it has."""
        transfer = self._transfers.get(node)
        if transfer is None or reply.transfer != transfer.number:
            return None
        if reply.installed_index:
            del self._transfers[node]
            logger.info("snapshot installed", extra={"peer": node, "index": reply.installed_index})
            return reply.installed_index
        if reply.damaged:
            logger.warning("snapshot was damaged on its way", extra={"peer": node})
            self._discard()
            for other in self._transfers.values():
                self._rewind(other, 0, now_s)
        elif reply.rewind:
            self._rewind(transfer, reply.received, now_s)
        elif reply.received > transfer.received:
            transfer.received = reply.received
            transfer.progress_s = now_s
        return None

    def _rewind(self, transfer: Transfer, offset: int, now_s: float) -> None:
        transfer.sent = transfer.received = offset
        transfer.turn += 1
        transfer.is_reading = False
        transfer.progress_s = now_s

    def _read_next(self, node: int, transfer: Transfer, copy: Copy) -> None:
        window = self._config.snapshot_chunk_bytes * self._config.snapshot_window_chunks
        if transfer.is_reading or transfer.sent >= copy.size or transfer.sent - transfer.received >= window:
            return
        transfer.is_reading = True
        self._background.submit(
            partial(_read, copy.path, transfer.sent, self._config.snapshot_chunk_bytes),
            partial(self._read_done, node, transfer, transfer.turn, copy),
        )

    def _read_done(
        self, node: int, transfer: Transfer, turn: int, copy: Copy, data: bytes | None, error: Exception | None
    ) -> None:
        if self._copy is not copy or self._transfers.get(node) is not transfer or transfer.turn != turn:
            return
        transfer.is_reading = False
        if error is not None or not data:
            logger.error("snapshot cannot be read", extra={"path": str(copy.path), "error": str(error)})
            self._discard()
            return
        chunk = peer_pb2.SnapshotChunk(
            transfer=transfer.number,
            index=copy.index,
            index_term=copy.term,
            size=copy.size,
            sha256=copy.sha256,
            offset=transfer.sent,
            data=data,
        )
        if self._send(node, chunk):
            transfer.sent += len(data)
            self._read_next(node, transfer, copy)

    def _make(self) -> None:
        self._count += 1
        path = self._config.snapshot_dir / f"send-{self._count}.snapshot"
        self._making = path
        self._background.submit(partial(_make, self._machine, path), partial(self._made, path))

    def _made(self, path: Path, copy: Copy | None, error: Exception | None) -> None:
        if self._making != path:
            path.unlink(missing_ok=True)
            return
        self._making = None
        if copy is None:
            # The leader itself is well; the follower waits for the next try.
            logger.error("snapshot cannot be made", extra={"path": str(path), "error": str(error)})
            path.unlink(missing_ok=True)
            return
        logger.info("made snapshot", extra={"index": copy.index, "term": copy.term, "bytes": copy.size})
        self._copy = copy

    def _discard(self) -> None:
        if self._copy is not None:
            self._copy.path.unlink(missing_ok=True)
            self._copy = None


def _make(machine: StateMachine, path: Path) -> Copy:
    index, term, _ = machine.snapshot_to(path)
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while data := file.read(_HASH_BYTES):
            digest.update(data)
            size += len(data)
    return Copy(path, index, term, size, digest.digest())


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)
