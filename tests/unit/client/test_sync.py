"""The blocking client answers as the asyncio one does, from any thread, and leaves nothing behind."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar, get_args, get_origin

import grpc
import pytest

from raftsched.client import Client, ClientClosed, JobRunning, JobSpec, SyncClient

from .scripted_jobs import JobsNode, hang, refusal

T = TypeVar("T")
NOW = datetime(2026, 7, 12, 2, tzinfo=UTC)


def client_threads() -> list[threading.Thread]:
    """Those of all clients in this process: other tests may share one that is open."""
    return [thread for thread in threading.enumerate() if thread.name == "raftsched-client"]


async def in_thread(script: Callable[[SyncClient], T], node: JobsNode) -> T:
    def run() -> T:
        with SyncClient([node.address]) as client:
            return script(client)

    return await asyncio.to_thread(run)


async def test_calls_and_listings_block_until_they_are_answered() -> None:
    async with JobsNode() as node:

        def script(client: SyncClient) -> list[int]:
            assert client.create("h", run_at=NOW).id == 1
            assert client.create_many([JobSpec("h", run_at=NOW)] * 3) == [2, 3, 4]
            assert client.get(1).handler == "h"
            assert client.addresses == (node.address,)
            return [job.id for job in client.list()]

        assert await in_thread(script, node) == [1, 2, 5, 6, 7, 8]


async def test_errors_are_raised_where_the_call_was_made() -> None:
    async with JobsNode() as node:
        node.script.append(refusal(grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING"))

        def script(client: SyncClient) -> None:
            with pytest.raises(JobRunning):
                client.cancel(1)

        await in_thread(script, node)


async def test_threads_may_share_one() -> None:
    async with JobsNode() as node:

        def script(client: SyncClient) -> set[int]:
            with ThreadPoolExecutor(8) as pool:
                return {job.id for job in pool.map(lambda _: client.create("h", run_at=NOW), range(40))}

        assert await in_thread(script, node) == set(range(1, 41))


async def test_closing_ends_the_thread_and_calls_that_wait_and_refuses_new_ones() -> None:
    before = client_threads()
    async with JobsNode() as node:
        node.script.append(hang)
        outcomes: list[BaseException] = []

        def wait(client: SyncClient) -> None:
            try:
                client.get(1)
            except ClientClosed as error:
                outcomes.append(error)

        def script() -> None:
            client = SyncClient([node.address])
            waiting = threading.Thread(target=wait, args=(client,))
            waiting.start()
            while not node.requests:
                waiting.join(0.01)
            client.close()
            client.close()
            waiting.join(5)
            assert len(outcomes) == 1
            with pytest.raises(ClientClosed):
                client.get(1)

        await asyncio.to_thread(script)
    assert client_threads() == before


def test_bad_arguments_start_no_thread() -> None:
    before = client_threads()
    with pytest.raises(ValueError, match="addresses"):
        SyncClient([])
    assert client_threads() == before


def test_what_help_tells_of_a_method_is_what_it_returns() -> None:
    for name, method in inspect.getmembers(SyncClient, inspect.isfunction):
        of_async = getattr(Client, name, None)
        if name.startswith("_") or of_async is None or name == "close":
            continue
        asynchronous, blocking = inspect.signature(of_async), inspect.signature(method)
        assert list(blocking.parameters) == list(asynchronous.parameters)
        assert method.__annotations__["return"] == blocking.return_annotation
        if inspect.iscoroutinefunction(of_async):
            assert blocking.return_annotation == asynchronous.return_annotation
        else:
            assert get_origin(blocking.return_annotation) is Iterator
            assert get_args(blocking.return_annotation) == get_args(asynchronous.return_annotation)
