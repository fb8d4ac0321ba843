"""A worker that is told that a caller has cancelled an execution stops its handler, and says how that ended."""

import asyncio
import threading

import pytest

from raftsched.client import Context, StopReason, Worker
from raftsched.v1 import worker_pb2

from .scripted_cluster import Entry, ScriptedCluster, serving

REQUESTED = worker_pb2.CANCEL_REASON_REQUESTED


def tell(cluster: ScriptedCluster, entry: Entry, reason: worker_pb2.CancelReason = REQUESTED) -> None:
    """Tells the worker, as a node does once the request is on a quorum's disks."""
    cancel = worker_pb2.CancelExecution(execution_id=entry.id, token=entry.token, reason=reason)
    cluster.connections[0].send(cancel_execution=cancel)


async def test_a_coroutine_is_cancelled_and_its_end_reported() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        contexts: list[Context] = []

        @worker.handler("wait")
        async def wait(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            await asyncio.Event().wait()

        async with serving(worker):
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: contexts)
            tell(cluster, entry)
            # The cluster, not this script, makes CANCELLED of a failure after a request.
            await cluster.until(lambda: entry.state == "FAILED")
            await cluster.until(lambda: cluster.held_tokens == [])
        assert contexts[0].stop_reason is StopReason.CANCELLED
        assert contexts[0].cancelled.is_set()
        (error,) = entry.errors
        assert "CancelledError" in error


async def test_a_handler_that_returns_all_the_same_has_succeeded() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        began = asyncio.Event()

        @worker.handler("tidy")
        async def tidy(_context: Context, _payload: bytes) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

        async with serving(worker):
            (entry,) = cluster.add("tidy")
            await began.wait()
            tell(cluster, entry)
            await cluster.until(lambda: entry.state == "SUCCEEDED")
            # Its slot is free again.
            (other,) = cluster.add("tidy")
            began.clear()
            await began.wait()
            tell(cluster, other)
            await cluster.until(lambda: other.state == "SUCCEEDED")


@pytest.mark.parametrize("returns", [False, True])
async def test_a_thread_looks_whether_it_was_cancelled(returns: bool) -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        began = threading.Event()

        @worker.handler("thread")
        def in_thread(context: Context, _payload: bytes) -> None:
            began.set()
            context.cancelled.wait(10)
            if not returns:
                context.raise_if_cancelled()

        async with serving(worker):
            (entry,) = cluster.add("thread")
            await cluster.until(began.is_set)
            tell(cluster, entry)
            await cluster.until(lambda: entry.state == ("SUCCEEDED" if returns else "FAILED"))


async def test_what_has_not_begun_is_given_back_at_once() -> None:
    async with ScriptedCluster(1) as cluster:
        worker = Worker(cluster.addresses, concurrency=1)
        gate = asyncio.Event()
        ran: list[int] = []

        @worker.handler("wait")
        async def wait(context: Context, _payload: bytes) -> None:
            ran.append(context.execution_id)
            await gate.wait()

        async with serving(worker):
            await cluster.until(lambda: cluster.connections)
            cluster.nodes[0].idle = True
            entries = cluster.add("wait", 2)
            cluster.lease_to(cluster.connections[0], entries)
            await cluster.until(lambda: ran)
            tell(cluster, entries[1])
            await cluster.until(lambda: cluster.all_messages("release"))
            (release,) = cluster.all_messages("release")
            assert [list(block.execution_ids) for block in release.leases] == [[entries[1].id]]
            gate.set()
            await cluster.until(lambda: entries[0].state == "SUCCEEDED")
        assert ran == [entries[0].id]


async def test_a_lease_that_is_lost_after_the_request_ends_the_handler_without_a_report() -> None:
    async with ScriptedCluster(1) as cluster:
        worker = Worker(cluster.addresses)
        contexts: list[Context] = []

        @worker.handler("stubborn")
        async def stubborn(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()

        async with serving(worker):
            (entry,) = cluster.add("stubborn")
            await cluster.until(lambda: contexts)
            tell(cluster, entry)
            await cluster.until(lambda: contexts[0].stop_reason is StopReason.CANCELLED)
            tell(cluster, entry)
            tell(cluster, entry, worker_pb2.CANCEL_REASON_LEASE_LOST)
            await cluster.until(lambda: contexts[0].stop_reason is StopReason.LEASE_LOST)
            await cluster.until(lambda: cluster.held_tokens == [])
        assert not cluster.all_messages("ack")
        assert not cluster.all_messages("fail")


async def test_a_handler_that_is_replaced_is_told_so_and_reports_nothing() -> None:
    async with ScriptedCluster(1) as cluster:
        worker = Worker(cluster.addresses)
        contexts: list[Context] = []

        @worker.handler("long")
        async def long(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            await asyncio.Event().wait()

        async with serving(worker):
            (entry,) = cluster.add("long")
            await cluster.until(lambda: contexts)
            tell(cluster, entry, worker_pb2.CANCEL_REASON_REPLACED)
            await cluster.until(lambda: contexts[0].stop_reason is StopReason.REPLACED)
            await cluster.until(lambda: cluster.held_tokens == [])
        assert not cluster.all_messages("ack")
        assert not cluster.all_messages("fail")
