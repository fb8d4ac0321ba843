"""A backup of the state as a stream; from a copy on disk, so that a slow receiver does not hold up the store."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

from raftsched.api.ports import Core
from raftsched.model.errors import TooManyRequests
from raftsched.store.backup_file import backup_chunks, describe
from raftsched.store.environment import Store


class Backups:
    """One per server; one backup at a time, since each needs as much disk as the state."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._is_busy = False

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The bytes of a backup file of what is committed now. Raises TooManyRequests while another is being made."""
        if self._is_busy:
            raise TooManyRequests("This node makes a backup already.")
        self._is_busy = True
        store, known = self._core.store, self._core.status()
        copy = _copy_path(store)
        try:
            # To its end even if the caller goes away meanwhile: the thread cannot be stopped, and its file must go.
            making = asyncio.ensure_future(asyncio.to_thread(store.copy_to, copy))
            try:
                state = await asyncio.shield(making)
            except asyncio.CancelledError:
                await asyncio.wait([making])
                raise
            header = describe(
                state,
                size=copy.stat().st_size,
                cluster_id=known.cluster_id,
                node=known.node_id,
                version=known.version,
            )
            # On the loop: the file has just been written, so a piece costs well under a millisecond.
            for piece in backup_chunks(header, copy):
                yield piece
        finally:
            copy.unlink(missing_ok=True)
            self._is_busy = False


def _copy_path(store: Store) -> Path:
    """Among the snapshots on their way to other nodes: what a crash leaves there goes at the next start."""
    folder = store.path.parent / "snapshots"
    folder.mkdir(exist_ok=True)
    return folder / f"backup-{uuid.uuid4().hex}.snapshot"
