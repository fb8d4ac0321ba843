"""An asyncio event loop whose time is the simulation's: it runs the parts of a node that live on its event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sim.timeline import SECOND_US, Timeline

# Between what wakes the loop and its turn.
TURN_US = 20


class SimLoop(asyncio.AbstractEventLoop):
    """One per life of a node, and one for the clients. Never blocks; runs only from within the timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ready: deque[asyncio.Handle] = deque()
        self._is_scheduled = False
        self._is_paused = False
        self._is_dead = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        # What callbacks raised and nobody took.
        self.errors: list[str] = []

    # --- what asyncio calls ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._timeline.now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_dead

    def is_closed(self) -> bool:
        return self._is_dead

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_dead:
            self._ready.append(handle)
            self._schedule()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled() and not self._is_dead:
                self._ready.append(handle)
                self._schedule()

        self._timeline.after(int(when * SECOND_US) - self._timeline.now_us, due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in the timeline and does nothing there."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":  # noqa: ARG002
        """At once: there is one thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  handed over, as a thread does
            future.set_exception(error)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_dead:
            self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # --- what the simulation calls --------------------------------------------------------------------------------

    def pause(self) -> None:
        """Nothing runs any more; what comes meanwhile waits."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._ready:
            self._schedule()

    def kill(self) -> None:
        """Cancels all tasks and lets them end; whatever they still do must reach nobody."""
        self._is_paused = False
        for task in list(self._tasks):
            task.cancel()
        for _ in range(100):
            if not self._ready:
                break
            self._run_ready()
        self._is_dead = True
        self._ready.clear()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_paused:
            self._is_scheduled = True
            self._timeline.after(TURN_US, self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._is_paused or self._is_dead:
            return
        self._run_ready()
        if self._ready:
            self._schedule()

    def _run_ready(self) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(before)
