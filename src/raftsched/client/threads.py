"""Plain functions in threads, for handlers that block.

Not concurrent.futures: the interpreter joins those threads when it exits, so that one stuck handler would keep a
worker from ending.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Task = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class DaemonThreads:
    """Up to `limit` threads, started as needed. Callers must not have more than `limit` calls under way."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, from a thread, in the caller's context. Cancelling this does not stop the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        self._busy += 1
        if self._busy > self._threads and self._threads < self._limit:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
        self._tasks.put((loop, future, lambda: context.run(function, *args, **kwargs)))
        return await future

    def close(self) -> None:
        """Lets the threads end, each when it has nothing to do any more."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            loop, future, call = task
            result: Any = None
            error: BaseException | None = None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - it is the handler's, and is raised where that is awaited
                error = raised
            # The loop may be closed if the worker did not wait for this handler; nobody needs the result then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, future, result, error)
            del task, future, call, result, error

    def _settle(self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        self._busy -= 1
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration) or not isinstance(error, Exception):
            # A future cannot hold the one, and the others would end the event loop.
            future.set_exception(RuntimeError(f"the handler raised {error!r}"))
        else:
            future.set_exception(error)
