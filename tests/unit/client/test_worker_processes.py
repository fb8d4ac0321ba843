"""Handlers in processes: isolated from the worker, killed when their lease is lost."""

import os
from pathlib import Path

from raftsched.client import Worker
from raftsched.v1 import worker_pb2

from . import handlers_for_processes as handlers
from .scripted_cluster import ScriptedCluster, serving


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_process_runs_one_execution_after_another_and_tells_how_it_failed(tmp_path: Path) -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, processes=1)
        worker.handler("pid", process=True)(handlers.write_pid)
        worker.handler("fail", process=True)(handlers.fail)
        worker.handler("die", process=True)(handlers.die)
        async with serving(worker):
            entries = cluster.add("pid", 5, payload=str(tmp_path).encode())
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
            (failed,) = cluster.add("fail", payload=b"card expired")
            (died,) = cluster.add("die")
            await cluster.until(lambda: failed.state == "DEAD_LETTER" and died.state == "FAILED")
            (after,) = cluster.add("pid", payload=str(tmp_path).encode())
            await cluster.until(lambda: after.state == "SUCCEEDED")
        pids = {(tmp_path / f"{entry.id}-1").read_text() for entry in entries}
        assert len(pids) == 1
        assert str(os.getpid()) not in pids
        assert "PermanentError: card expired" in failed.errors[0]
        assert "handlers_for_processes.py" in failed.errors[0]
        assert died.errors == ["the handler's process ended with exit code 3"]


async def test_a_process_is_killed_when_its_lease_is_lost_and_none_outlives_the_worker(tmp_path: Path) -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, processes=2)
        worker.handler("hang", process=True)(handlers.write_pid_and_hang)
        worker.grace *= 0
        async with serving(worker):
            first, second = cluster.add("hang", 2, payload=str(tmp_path).encode())
            files = [tmp_path / f"{entry.id}-1" for entry in (first, second)]
            await cluster.until(lambda: all(file.exists() and file.read_text() for file in files))
            pids = [int(file.read_text()) for file in files]
            (connection,) = cluster.connections
            reason = worker_pb2.CANCEL_REASON_LEASE_LOST
            cancel = worker_pb2.CancelExecution(execution_id=first.id, token=first.token, reason=reason)
            connection.send(cancel_execution=cancel)
            await cluster.until(lambda: not exists(pids[0]))
            assert exists(pids[1])
        await cluster.until(lambda: not exists(pids[1]))
        assert not cluster.all_messages("fail")


async def test_a_process_that_leaves_a_child_behind_has_ended_all_the_same() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, processes=1)
        worker.handler("fork", process=True)(handlers.fork_and_die)
        async with serving(worker):
            (entry,) = cluster.add("fork")
            await cluster.until(lambda: entry.state == "FAILED")
        assert entry.errors == ["the handler's process ended with exit code 4"]
