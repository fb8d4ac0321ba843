"""The blocking client, for scripts: the asyncio client's methods, run on an event loop in a thread of its own."""

import asyncio
import functools
import inspect
import threading
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args

import grpc

from raftsched.client.errors import ClientClosed
from raftsched.client.jobs import Client

P = ParamSpec("P")
T = TypeVar("T")

# Items that an iterator fetches from the loop's thread at a time; a hand-over costs some 50 µs.
_CHUNK = 100


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncClient", P], T]:
    @functools.wraps(method)
    def call(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[Client, P], AsyncIterator[T]],
) -> Callable[Concatenate["SyncClient", P], Iterator[T]]:
    @functools.wraps(method)
    def call(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self._client, *args, **kwargs)
        while chunk := self._run(_take(items, _CHUNK)):
            yield from chunk

    # As help() and editors tell it.
    signature = inspect.signature(method)
    returned = types.GenericAlias(Iterator, get_args(signature.return_annotation))
    call.__annotations__ = {**method.__annotations__, "return": returned}
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


async def _take(items: AsyncIterator[T], count: int) -> list[T]:
    taken: list[T] = []
    while len(taken) < count:
        try:
            taken.append(await anext(items))
        except StopAsyncIteration:
            break
    return taken


class SyncClient:
    """The blocking face of Client: same arguments, same answers, same errors. Safe to share between threads.

    Use it as a context manager, or close it.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        namespace: str = "default",
        *,
        timeout_s: float = 30.0,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        # Made here so that bad arguments raise before there is a thread; its channels open on the loop, at first use.
        self._client = Client(addresses, namespace, timeout_s=timeout_s, credentials=credentials)
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        # A daemon: a script that forgets to close its client must still be able to end.
        self._thread = threading.Thread(target=self._serve, name="raftsched-client", daemon=True)
        self._thread.start()

    create = _blocking(Client.create)
    create_spec = _blocking(Client.create_spec)
    create_many = _blocking(Client.create_many)
    get = _blocking(Client.get)
    get_by_name = _blocking(Client.get_by_name)
    list = _iterating(Client.list)
    cancel = _blocking(Client.cancel)
    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    trigger = _blocking(Client.trigger)
    update = _blocking(Client.update)
    delete = _blocking(Client.delete)
    reschedule = _blocking(Client.reschedule)
    get_execution = _blocking(Client.get_execution)
    cancel_execution = _blocking(Client.cancel_execution)
    executions = _iterating(Client.executions)
    skipped = _iterating(Client.skipped)
    occurrences = _iterating(Client.occurrences)
    dead_letters = _iterating(Client.dead_letters)
    replay = _blocking(Client.replay)
    claim_key = _blocking(Client.claim_key)
    complete_key = _blocking(Client.complete_key)
    preview_backfill = _blocking(Client.preview_backfill)
    create_backfill = _blocking(Client.create_backfill)
    get_backfill = _blocking(Client.get_backfill)
    backfills = _iterating(Client.backfills)
    cancel_backfill = _blocking(Client.cancel_backfill)
    put_limit = _blocking(Client.put_limit)
    limits = _iterating(Client.limits)
    delete_limit = _blocking(Client.delete_limit)
    create_workflow = _blocking(Client.create_workflow)
    workflow = _iterating(Client.workflow)
    get_result = _blocking(Client.get_result)
    put_calendar = _blocking(Client.put_calendar)
    get_calendar = _blocking(Client.get_calendar)
    calendars = _iterating(Client.calendars)
    delete_calendar = _blocking(Client.delete_calendar)
    status = _blocking(Client.status)
    add_node = _blocking(Client.add_node)
    remove_node = _blocking(Client.remove_node)
    transfer_leadership = _blocking(Client.transfer_leadership)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that this client knows."""
        return self._client.addresses

    @property
    def namespace(self) -> str:
        return self._client.namespace

    def close(self) -> None:
        """Closes the connections and ends the thread; harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._closed:
                call.close()
                raise ClientClosed
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting, above all: the call must not go on without anyone who waits for it.
            future.cancel()
            raise
