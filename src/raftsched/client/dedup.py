"""Dedup: lets a handler that may run twice do something once, by a key that the cluster keeps."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from raftsched.client.jobs import Client
from raftsched.client.outcomes import Snooze
from raftsched.client.values import KeyClaim

T = TypeVar("T")

# How long a run waits that finds another at work: that one may be about to end.
_BUSY_DELAY = timedelta(seconds=5)
_TIMEOUT_S = 30.0


class KeyBusy(Snooze):
    """Another run has claimed the key, holds its lease and has not completed it. Left alone it puts the execution off
    for a few seconds, without a failure."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(_BUSY_DELAY, f"another run is at work on {key!r}")


class HandlerCalls:
    """What a worker's handlers ask of the cluster, over connections that open when first used. Made on the loop."""

    def __init__(self, addresses: Sequence[str], credentials: grpc.ChannelCredentials | None) -> None:
        self._addresses = addresses
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """To be used on the worker's event loop."""
        if self._client is None:
            self._client = Client(self._addresses, timeout_s=_TIMEOUT_S, credentials=self._credentials)
        return self._client

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """From a thread: the call's result. Raises RuntimeError on the event loop, which would wait for itself."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            call.close()
            raise RuntimeError(
                "a handler on the event loop cannot wait here: declare it async and use `async with`, or await"
            )
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


class Dedup:
    """One key, claimed for the time of a `with` or `async with` block; see Context.dedup."""

    def __init__(
        self,
        calls: HandlerCalls,
        *,
        key: str,
        namespace: str,
        execution_id: int,
        token: int,
        keep: timedelta | None,
    ) -> None:
        self.key = key
        # An earlier run has completed the key: there is nothing left to do, and `result` is what it left.
        self.done = False
        # To be set inside the block, up to 64 KiB.
        self.result = b""
        self._calls = calls
        self._namespace = namespace
        self._execution_id = execution_id
        self._token = token
        self._keep = keep

    async def __aenter__(self) -> Self:
        return self._entered(await self._claim())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.done:
            await self._complete()

    def __enter__(self) -> Self:
        return self._entered(self._calls.wait(self._claim()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self.done:
            self._calls.wait(self._complete())

    def _entered(self, claim: KeyClaim) -> Self:
        if claim.completed:
            self.done, self.result = True, claim.result
        elif not claim.claimed:
            raise KeyBusy(self.key)
        return self

    async def _claim(self) -> KeyClaim:
        return await self._calls.client.claim_key(
            self.key,
            namespace=self._namespace,
            execution_id=self._execution_id,
            token=self._token,
            keep=self._keep,
        )

    async def _complete(self) -> None:
        await self._calls.client.complete_key(
            self.key, namespace=self._namespace, token=self._token, result=self.result
        )
