"""A worker that is told to stop lets its handlers end, reports what they did and says goodbye."""

import asyncio
import os
import signal
from datetime import timedelta

from raftsched.client import Context, StopReason, Worker

from .scripted_cluster import ScriptedCluster, serving


async def test_it_waits_for_running_handlers_gives_back_the_rest_and_says_goodbye() -> None:
    async with ScriptedCluster(2) as cluster:
        worker = Worker(cluster.addresses, concurrency=2)
        gate = asyncio.Event()
        begun: list[int] = []

        @worker.handler("wait")
        async def wait(context: Context, _payload: bytes) -> None:
            begun.append(context.execution_id)
            await gate.wait()

        async with serving(worker) as task:
            await cluster.until(lambda: len(cluster.connections) == 2)
            for node in cluster.nodes:
                node.idle = True
            entries = cluster.add("wait", 6)
            cluster.lease_to(cluster.connections[0], entries)
            await cluster.until(lambda: len(begun) == 2)
            worker.stop()
            await cluster.until(lambda: len(cluster.released) == 4)
            # What arrives now is given back at once.
            late = cluster.add("wait", 2)
            cluster.lease_to(cluster.connections[0], late)
            await cluster.until(lambda: len(cluster.released) == 6)
            assert not task.done()
            gate.set()
            await asyncio.wait_for(task, 5)
        assert cluster.states(entries[:2]) == {"SUCCEEDED"}
        assert cluster.states([*entries[2:], *late]) == {"PENDING"}
        assert len(cluster.all_messages("goodbye")) == 1
        assert not cluster.sessions
        assert worker.stats.confirmed == 2


async def test_handlers_that_take_longer_than_the_grace_are_stopped_and_run_again_elsewhere() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, grace=timedelta(milliseconds=100))
        contexts: list[Context] = []

        @worker.handler("endless")
        async def endless(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            await asyncio.Event().wait()

        async with serving(worker):
            (entry,) = cluster.add("endless")
            await cluster.until(lambda: contexts)
        assert contexts[0].stop_reason is StopReason.SHUTDOWN
        assert entry.state == "PENDING"
        assert not cluster.all_messages("fail")


async def test_a_second_request_to_stop_does_not_wait_for_handlers() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, grace=timedelta(hours=1))
        contexts: list[Context] = []

        @worker.handler("endless")
        async def endless(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            await asyncio.Event().wait()

        async with serving(worker) as task:
            cluster.add("endless")
            await cluster.until(lambda: contexts)
            worker.stop()
            worker.stop()
            await asyncio.wait_for(task, 5)


async def test_sigterm_lets_handlers_end() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        gate = asyncio.Event()
        begun = asyncio.Event()

        @worker.handler("wait")
        async def wait(_context: Context, _payload: bytes) -> None:
            begun.set()
            await gate.wait()

        task = asyncio.create_task(worker.serve(signals=True))
        (entry,) = cluster.add("wait")
        await asyncio.wait_for(begun.wait(), 5)
        os.kill(os.getpid(), signal.SIGTERM)
        await cluster.until(lambda: worker.stopping)
        gate.set()
        await asyncio.wait_for(task, 5)
        assert entry.state == "SUCCEEDED"
        assert len(cluster.all_messages("goodbye")) == 1


async def test_results_are_confirmed_before_it_leaves() -> None:
    async with ScriptedCluster() as cluster:
        (node,) = cluster.nodes
        worker = Worker(cluster.addresses)

        @worker.handler("quick")
        async def quick(_context: Context, _payload: bytes) -> None: ...

        async with serving(worker) as task:
            node.without_quorum = True
            entries = cluster.add("quick", 10)
            await cluster.until(lambda: node.messages("ack"))
            worker.stop()
            await cluster.until(lambda: len(node.messages("ack")) >= 2)
            assert not task.done()
            assert not node.messages("goodbye")
            node.without_quorum = False
            await asyncio.wait_for(task, 5)
        assert cluster.states(entries) == {"SUCCEEDED"}


async def test_without_any_node_it_ends_all_the_same() -> None:
    worker = Worker(["127.0.0.1:1"])
    async with serving(worker):
        await asyncio.sleep(0)
    assert worker.stats.confirmed == 0


async def test_a_worker_may_serve_again() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("quick")
        async def quick(_context: Context, _payload: bytes) -> None: ...

        for _ in range(2):
            async with serving(worker):
                (entry,) = cluster.add("quick")
                await cluster.until(lambda entry=entry: entry.state == "SUCCEEDED")
