"""Runs what a worker holds, `concurrency` handlers at a time.

A *runner* is a task that runs one handler after another, so that a handler which never suspends costs no task of its
own; while it is suspended in one, other runners, begun as needed, go on with what waits. Each handler has a true
current task and, unless one changes a context variable, the same clean context: a runner whose context was changed, or
whose task was cancelled, ends and another takes its place.
"""

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from raftsched.client.context import Context, StopReason, log_fields
from raftsched.client.failures import RUN_TIMEOUT_CLASS, PlainFailure, Report, report_of
from raftsched.client.handlers import Handler, Mode
from raftsched.client.leases import HeldBlock, Released
from raftsched.client.processes import HandlerProcesses
from raftsched.client.results import encode_result
from raftsched.client.threads import DaemonThreads

logger = logging.getLogger(__name__)

# A runner lets the event loop breathe after so long: heartbeats and other handlers wait for it.
_SLICE_MS = 5
# New runners per turn of the loop, doubled from turn to turn while work keeps waiting.
_MOST_AT_ONCE = 64
# How often running handlers are looked at for their run timeout and for being reported as started.
_LOOK_EVERY_S = 0.05
# Executions reported as started at one look: each may take a message, and a node takes only so many a second.
_MOST_REPORTED = 100
# How long handlers that were told to end may take to do so when the worker closes.
_CLOSE_TIMEOUT_S = 2.0

# As globals: looked up for every execution.
ASYNC, INLINE = Mode.ASYNC, Mode.INLINE


@dataclass(frozen=True, slots=True)
class Running:
    """An execution whose handler has begun and not ended; `started_ms` by the wall clock."""

    block: HeldBlock
    index: int
    started_ms: int


class Watcher(Protocol):
    """Who is told of handlers that run for long."""

    @property
    def started_after_s(self) -> float: ...

    def report_started(self, running: Sequence[Running]) -> None: ...


class _Runner:
    __slots__ = ("block", "current", "index", "mode", "noticed", "noticed_s", "reported", "task")

    def __init__(self, block: HeldBlock) -> None:
        # What runs, and where it is held; `current` is None between two handlers.
        self.current: Context | None = None
        self.block = block
        self.index = 0
        self.mode = Mode.ASYNC
        # The execution that was running at the last look, since when, and whether that was reported.
        self.noticed: Context | None = None
        self.noticed_s = 0.0
        self.reported = False
        self.task: asyncio.Task[None] | None = None


class RunnerPool:
    """`concurrency` bounds the handlers that have begun and not ended, of all kinds."""

    def __init__(self, *, concurrency: int, processes: int, watcher: Watcher) -> None:
        # Executions that were given to the pool less those that were dropped.
        self._taken = 0
        # Executions whose handlers have ended, however they did.
        self.finished = 0
        self._concurrency = concurrency
        self._watcher = watcher
        self._closing = False
        self._threads = DaemonThreads(concurrency, "raftsched-handler")
        self._processes = HandlerProcesses(processes, self._threads)
        self._waiting: deque[HeldBlock] = deque()
        self._runners: set[_Runner] = set()
        self._breathing = 0
        self._burst = 1
        self._spawn_soon = False
        self._look_timer: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unfinished(self) -> int:
        """Executions that wait or run."""
        return self._taken - self.finished

    @property
    def running(self) -> int:
        """Handlers that have begun and not ended."""
        return sum(runner.current is not None for runner in self._runners)

    def add(self, block: HeldBlock) -> None:
        """Begins the block's executions as slots become free."""
        self._taken += block.count - len(block.dropped)
        self._waiting.append(block)
        if not self._spawn_soon:
            self._spawn()

    def drop(self, block: HeldBlock, index: int) -> bool:
        """Whether the execution had not begun, and now will not."""
        if index < block.next or index in block.dropped:
            return False
        block.dropped.add(index)
        self._taken -= 1
        return True

    def drop_unbegun(self) -> Released:
        """Drops all that has not begun, and says what that was."""
        dropped: Released = []
        for block in self._waiting:
            unbegun = block.unbegun()
            if unbegun:
                block.dropped.update(unbegun)
                self._taken -= len(unbegun)
                dropped.append((block, unbegun))
        self._waiting.clear()
        return dropped

    def waiting_for_s(self) -> float:
        """How long the work that comes next has waited here for a slot."""
        return time.monotonic() - self._waiting[0].received_s if self._waiting else 0.0

    def stop(self, block: HeldBlock, index: int, reason: StopReason) -> bool:
        """Stops the handler of that execution; false when none is running that was not stopped before."""
        for runner in self._runners:
            if runner.current is not None and runner.block is block and runner.index == index:
                return self._stop(runner, runner.current, reason)
        return False

    def stop_all(self, reason: StopReason) -> Released:
        """Stops every running handler; returns those that had not been stopped before."""
        stopped: Released = []
        for runner in self._runners:
            if runner.current is not None and self._stop(runner, runner.current, reason):
                stopped.append((runner.block, [runner.index]))
        return stopped

    def report_again(self) -> None:
        """Reports what is running as started once more: a report may have been lost."""
        for runner in self._runners:
            runner.reported = False

    async def wait_idle(self) -> None:
        """Until nothing runs or waits."""
        await self._idle.wait()

    async def close(self) -> None:
        """Ends the runners. Threads that do not look at `cancelled` are left behind."""
        self._closing = True
        if self._look_timer is not None:
            self._look_timer.cancel()
        self._waiting.clear()
        self._processes.close()
        tasks = [runner.task for runner in self._runners if runner.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S)
        self._threads.close()

    def _stop(self, runner: _Runner, context: Context, reason: StopReason) -> bool:
        if context.stop_reason is not None and (
            context.stop_reason is not StopReason.CANCELLED or reason is StopReason.CANCELLED
        ):
            return False
        extra = {**log_fields(runner.block, runner.index), "reason": str(reason)}
        logger.warning("stopping a handler: %s", reason, extra=extra)
        context.mark_stopped(reason)
        if runner.mode is Mode.ASYNC and runner.task is not None:
            runner.task.cancel()
        elif runner.mode is Mode.PROCESS:
            self._processes.kill(context)
        return True

    def _spawn(self) -> None:
        """Begins runners for what waits. Called again each turn of the loop for as long as work is left waiting."""
        self._spawn_soon = False
        free = self._concurrency - len(self._runners)
        if not self._waiting:
            self._burst = 1
            return
        if free <= 0:
            # The next runner to end, or to go on, takes what waits.
            return
        if not self._breathing:
            unbegun = sum(block.count - block.next for block in self._waiting)
            for _ in range(min(free, self._burst, unbegun)):
                self._begin_runner()
            self._burst = min(self._burst * 2, _MOST_AT_ONCE)
        self._spawn_soon = True
        asyncio.get_running_loop().call_soon(self._spawn)
        if self._look_timer is None:
            self._look_timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look)

    def _begin_runner(self) -> None:
        runner = _Runner(self._waiting[0])
        # A copy for each: the task runs in it, and changes to it end with the runner.
        context = self._context.copy()
        runner.task = asyncio.get_running_loop().create_task(self._run(runner), context=context)
        self._runners.add(runner)
        self._idle.clear()
        runner.task.add_done_callback(lambda _task: self._runner_ended(runner))

    def _runner_ended(self, runner: _Runner) -> None:
        self._runners.discard(runner)
        task = runner.task
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a runner failed", exc_info=error)
        if self._waiting and not self._spawn_soon:
            self._spawn()
        if not self._runners and not self._waiting:
            self._idle.set()

    async def _run(self, runner: _Runner) -> None:
        """One handler after another, until nothing waits. Per execution, this is the hot path of a worker."""
        waiting = self._waiting
        clean = self._context
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a runner is a task")
        cancelling, copy_context, time_ns = task.cancelling, contextvars.copy_context, time.time_ns
        started_ms = slice_began_ms = time_ns() // 1_000_000
        while waiting:
            block = waiting[0]
            index = block.next
            block.next = index + 1
            if index + 1 >= block.count:
                waiting.popleft()
            if block.dropped and index in block.dropped:
                continue
            handler = block.handlers[block.kind_indexes[index] if block.kind_indexes else 0]
            mode = handler.mode
            context = Context(block, index, started_ms)
            runner.block = block
            runner.index = index
            runner.mode = mode
            runner.current = context
            error: BaseException | None = None
            result = b""
            try:
                if mode is ASYNC:
                    returned = await handler.function(context, block.payloads[index] if block.payloads else b"")
                elif mode is INLINE:
                    returned = handler.function(context, block.payloads[index] if block.payloads else b"")
                else:
                    returned = await self._run_elsewhere(handler, context)
                if returned is not None:
                    result = encode_result(returned)
            except BaseException as raised:  # noqa: BLE001 - whatever a handler raises is its failure, SystemExit too
                error = raised
            runner.current = None
            ended_ms = time_ns() // 1_000_000
            self.finished += 1
            if context.stop_reason is None or context.stop_reason is StopReason.CANCELLED:
                if error is None:
                    block.outbox.succeeded(block, block.ids[index], started_ms, ended_ms, result)
                else:
                    self._failed(runner, context, error, ended_ms)
            if isinstance(error, GeneratorExit):
                # It may be this coroutine that is being closed: it must not wait for anything any more.
                return
            if cancelling() or copy_context() != clean:
                return
            started_ms = ended_ms
            if not 0 <= ended_ms - slice_began_ms < _SLICE_MS:
                if waiting:
                    await self._breathe()
                started_ms = slice_began_ms = time_ns() // 1_000_000

    async def _breathe(self) -> None:
        self._breathing += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._breathing -= 1

    async def _run_elsewhere(self, handler: Handler, context: Context) -> object:
        if handler.mode is Mode.THREAD:
            return await self._threads.run(handler.function, context, context.payload)
        return await self._processes.run(handler.function, context)

    def _failed(self, runner: _Runner, context: Context, error: BaseException, ended_ms: int) -> None:
        block, index = runner.block, runner.index
        if isinstance(error, asyncio.CancelledError | GeneratorExit) and self._closing:
            # Not the handler's doing: the event loop is being shut down. The session gives the execution back.
            context.mark_stopped(StopReason.SHUTDOWN)
            return
        report = report_of(error)
        if report.snooze:
            logger.info("handler put its execution off: %s", report.error, extra=log_fields(block, index))
        else:
            logger.warning(
                "handler failed: %s: %s",
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, PlainFailure) else error,
                extra=log_fields(block, index),
            )
        block.outbox.failed(block, block.ids[index], context.started_ms, ended_ms, report)

    def _look(self) -> None:
        """Finds handlers that have run for long: to report them, and to end those whose time is up."""
        self._look_timer = None
        now_s = time.monotonic()
        started: list[Running] = []
        for runner in self._runners:
            context = runner.current
            if context is None or context.stop_reason not in (None, StopReason.CANCELLED):
                continue
            if runner.noticed is not context:
                runner.noticed, runner.noticed_s, runner.reported = context, now_s, False
            long = now_s - runner.noticed_s >= self._watcher.started_after_s
            if long and not runner.reported and len(started) < _MOST_REPORTED:
                runner.reported = True
                started.append(Running(runner.block, runner.index, context.started_ms))
            timeout_ms = runner.block.kind(runner.index).run_timeout_ms
            if timeout_ms and now_s >= runner.block.received_s + timeout_ms / 1000:
                self._time_out(runner, context, timeout_ms)
        if started:
            self._watcher.report_started(started)
        if self._runners:
            self._look_timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look)

    def _time_out(self, runner: _Runner, context: Context, timeout_ms: int) -> None:
        block, index = runner.block, runner.index
        self._stop(runner, context, StopReason.RUN_TIMEOUT)
        # The cluster does the same by its own clock; whichever is first counts.
        report = Report(f"run timeout of {timeout_ms} ms exceeded", classes=(RUN_TIMEOUT_CLASS,))
        block.outbox.failed(block, block.ids[index], context.started_ms, _wall_ms(), report)


def _wall_ms() -> int:
    return int(time.time() * 1000)
