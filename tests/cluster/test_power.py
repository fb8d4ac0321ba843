"""All machines lose power under load: what was not synced is gone, what was accepted or confirmed is not."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.disks import Disk, require_disks
from tests.cluster.harness import Cluster, Machine
from tests.cluster.ledger import timestamp
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.processes import now_ms
from tests.cluster.raw_worker import RawWorker

DISK_MEBIBYTES = 192
QUEUE = "confirmed"
JOBS = 400
CONFIRMED_BEFORE = 60


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[int, Disk]]:
    """One for each of three nodes."""
    require_disks()
    disks: dict[int, Disk] = {}
    try:
        for number in (1, 2, 3):
            disks[number] = Disk(tmp_path / f"disk-{number}", mebibytes=DISK_MEBIBYTES)
        yield disks
    finally:
        for disk in disks.values():
            disk.close()


@pytest.fixture
def cluster(tmp_path: Path, disks: dict[int, Disk]) -> Iterator[Cluster]:
    machines = {number: Machine(data_dir=disk.path / "data") for number, disk in disks.items()}
    cluster = Cluster(tmp_path / "cluster", machines=machines)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


def lose_all_power(cluster: Cluster, disks: dict[int, Disk]) -> None:
    """The disks first: nothing that a node writes while others still run may count."""
    for disk in disks.values():
        disk.lose_power()
    for node in cluster.nodes.values():
        node.kill()
    for disk in disks.values():
        disk.restore_power()


def test_a_disk_that_loses_power_has_forgotten_what_was_not_synced(disks: dict[int, Disk]) -> None:
    file = disks[1].path / "file"
    with file.open("wb", buffering=0) as written:
        written.write(b"synced")
        os.fsync(written.fileno())
        written.write(b" and not synced")
        disks[1].lose_power()
    disks[1].restore_power()
    assert file.read_bytes() == b"synced"


def test_every_job_runs_though_all_machines_lose_power_while_they_run(cluster: Cluster, disks: dict[int, Disk]) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name)
    ledger = start_load(cluster, seconds=8)
    # One after the other over the loss of power, so that some are just being accepted then.
    creating = threading.Event()

    def create() -> None:
        while not creating.is_set():
            ledger.once(f"during-{len(ledger.entries)}", now_ms() + 500)

    creator = threading.Thread(target=create)
    creator.start()
    try:
        wait_progress(ledger, 300)
        lose_all_power(cluster, disks)
        for node in cluster.nodes.values():
            node.start()
        cluster.wait_serving()
    finally:
        creating.set()
        creator.join()
    finish(ledger)


def test_what_was_confirmed_to_a_worker_is_still_completed_after_all_machines_lost_power(
    cluster: Cluster, disks: dict[int, Disk]
) -> None:
    job = job_pb2.Job(handler="raw", queue=QUEUE, run_at=timestamp(now_ms()))
    job_ids = cluster.api.create_batch([job] * JOBS)
    confirmed: dict[int, int] = {}
    with RawWorker(cluster.node(cluster.leader())) as worker:
        worker.hello("confirmed", QUEUE)
        granted = 0
        while len(confirmed) < CONFIRMED_BEFORE:
            granted += 4
            worker.credit(granted)
            lease = worker.lease()
            assert not worker.ack(lease.token, *lease.execution_ids).stale_execution_ids
            confirmed.update(dict.fromkeys(lease.execution_ids, lease.token))
        lose_all_power(cluster, disks)
    for node in cluster.nodes.values():
        node.start()
    cluster.wait_serving()

    executions = [execution for job_id in job_ids for execution in cluster.api.executions(job_id)]
    assert len({execution.job_id for execution in executions}) == JOBS
    completed = {
        execution.id: execution.token
        for execution in executions
        if execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED
    }
    assert confirmed == {execution: token for execution, token in completed.items() if execution in confirmed}
