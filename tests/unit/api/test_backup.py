"""Verification and Backup over a real channel."""

import dataclasses
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.backup import Backups
from raftsched.dispatch.cluster_view import VerificationView
from raftsched.model.errors import StoreCorrupt, TooManyRequests
from raftsched.store.backup_file import BackupHeader, read_backup
from raftsched.store.environment import Store
from raftsched.v1 import cluster_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, LocalCore, refused


async def create(api: Api, count: int) -> None:
    job = job_pb2.Job(handler="h", payload=b"p" * 2_000, run_at=Timestamp(seconds=START_MS // 1000 + 60))
    await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count))


async def fetch(api: Api, file: Path) -> BackupHeader:
    with file.open("wb") as opened:
        async for piece in api.cluster.Backup(cluster_pb2.BackupRequest()):
            opened.write(piece.data)
    return read_backup(file)


def leftovers(api: Api) -> list[Path]:
    return list((api.core.store.path.parent / "snapshots").glob("*"))


async def test_a_backup_holds_all_that_was_confirmed(api: Api, tmp_path: Path) -> None:
    await create(api, 400)
    header = await fetch(api, tmp_path / "backup")
    machine = api.core.machine
    assert (header.cluster_id, header.node, header.jobs) == ("test", 1, 400)
    assert (header.index, header.digest) == (machine.applied_index, machine.digest.hex())
    (tmp_path / "copy").mkdir()
    with (tmp_path / "copy" / "data.mdb").open("wb") as file:
        read_backup(tmp_path / "backup", file.write)
    store = Store(tmp_path / "copy", map_size=1 << 30)
    with store.read() as view:
        assert view.entries(view.tables.jobs) == 400
        assert view.state().digest == machine.digest
    store.close()
    assert leftovers(api) == []


async def test_the_copy_goes_when_the_receiver_goes_away(api: Api) -> None:
    await create(api, 2_000)
    call = api.cluster.Backup(cluster_pb2.BackupRequest())
    await call.read()
    call.cancel()
    # The next one can only begin once the first has cleaned up.
    while True:
        try:
            async for _ in api.cluster.Backup(cluster_pb2.BackupRequest()):
                pass
            break
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
    assert leftovers(api) == []


async def test_one_backup_at_a_time(tmp_path: Path) -> None:
    core = LocalCore(tmp_path)
    core.machine.commit()
    backups = Backups(core)
    first = backups.stream()
    assert await anext(first)
    with pytest.raises(TooManyRequests):
        await anext(backups.stream())
    await first.aclose()
    assert [piece async for piece in backups.stream()]
    core.machine.close()


async def test_a_backup_needs_a_quorum_and_a_state_that_can_be_trusted(api: Api) -> None:
    api.core.has_quorum = False
    async with refused() as told:
        await api.cluster.Backup(cluster_pb2.BackupRequest()).read()
    assert told.reason == "NO_QUORUM"
    api.core.health = cluster_pb2.NODE_HEALTH_DIVERGED
    async with refused() as told:
        await api.cluster.Backup(cluster_pb2.BackupRequest()).read()
    assert told.reason == "NODE_DIVERGED"


async def test_a_backup_that_is_cut_off_is_noticed(api: Api, tmp_path: Path) -> None:
    await create(api, 400)
    with (tmp_path / "backup").open("wb") as opened:
        pieces = [piece.data async for piece in api.cluster.Backup(cluster_pb2.BackupRequest())]
        opened.write(b"".join(pieces[:-1]))
    with pytest.raises(StoreCorrupt, match="cut short"):
        read_backup(tmp_path / "backup")


async def test_a_verification_begins_at_an_entry(api: Api) -> None:
    started = await api.cluster.StartVerification(cluster_pb2.StartVerificationRequest())
    assert started.index == api.core.machine.applied_index


async def test_a_verification_under_way_is_joined(api: Api) -> None:
    running = VerificationView(
        index=77,
        state=cluster_pb2.VERIFICATION_STATE_RUNNING,
        content_hash="",
        state_rows=0,
        log_entries=0,
        duration_ms=0,
        problem="",
        same=(),
        other=(),
    )
    known = dataclasses.replace(api.core.status(), verification=running)
    api.core.status = lambda: known  # type: ignore[method-assign]
    before = api.core.submitted
    started = await api.cluster.StartVerification(cluster_pb2.StartVerificationRequest())
    assert (started.index, api.core.submitted) == (77, before)
    told = await api.cluster.GetVerification(cluster_pb2.GetVerificationRequest())
    assert (told.node, told.index, told.state) == (1, 77, cluster_pb2.VERIFICATION_STATE_RUNNING)


async def test_a_node_that_has_verified_nothing_says_so(api: Api) -> None:
    told = await api.cluster.GetVerification(cluster_pb2.GetVerificationRequest())
    assert told == cluster_pb2.GetVerificationResponse(node=1)
