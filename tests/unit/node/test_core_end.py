"""How a core's thread ends, and that the event loop hears of it whatever happens."""

import asyncio
from pathlib import Path
from typing import Any

import lmdb
import pytest

from raftsched.node.config import NodeConfig
from raftsched.node.core import Core
from raftsched.raft.grpc_peers import GrpcPeers
from raftsched.state.results import LeaseEnded


class LoopSide:
    """What the core tells."""

    def __init__(self) -> None:
        self.stopped: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def lease_ended(self, ended: LeaseEnded) -> None: ...

    def session_ended(self, session: int, reason: str) -> None: ...

    async def ask_to_drop(self, *_args: Any) -> bool | None:
        return None

    def core_stopped(self, error: BaseException | None) -> None:
        self.stopped.set_result(error)


async def started(folder: Path) -> tuple[Core, LoopSide]:
    config = NodeConfig(node_id=1, data_dir=folder, listen="127.0.0.1:1", peers={1: "127.0.0.1:1"})
    peers = GrpcPeers(node_id=1, peers=config.peers, cluster_id="test", deliver=lambda call: core.post(call))
    side = LoopSide()
    core = Core(config, peers, asyncio.get_running_loop(), side)
    await core.start()
    return core, side


async def test_a_core_that_is_stopped_says_so(tmp_path: Path) -> None:
    core, side = await started(tmp_path)
    await core.stop()
    async with asyncio.timeout(5):
        assert await side.stopped is None


async def test_a_state_that_cannot_be_committed_at_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a node on a full disk would end as if all were well, or never."""
    core, side = await started(tmp_path)
    close_without_commit = core._engine.close

    def close(*, commit: bool) -> None:
        close_without_commit(commit=False)
        assert commit
        raise lmdb.DiskError("No space left on device")

    monkeypatch.setattr(core._engine, "close", close)
    await core.stop()
    async with asyncio.timeout(5):
        assert isinstance(await side.stopped, lmdb.DiskError)
