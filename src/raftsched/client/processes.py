"""Handlers in processes of their own: for work that keeps a CPU busy, and that can be killed when its lease is lost."""

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from raftsched.client.context import Context
from raftsched.client.failures import PlainFailure, Report, ReportedFailure, report_of
from raftsched.client.leases import Block
from raftsched.client.results import encode_result
from raftsched.client.threads import DaemonThreads
from raftsched.v1 import worker_pb2

# A fork would copy gRPC's threads' locks.
_spawn = multiprocessing.get_context("spawn")


class HandlerProcessEnded(PlainFailure):
    """The process that ran the handler ended."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a child answers; no report: the handler returned."""

    report: Report | None = None
    result: bytes = b""


class HandlerProcesses:
    """Up to `limit` processes, started as needed and used again. A thread of `threads` waits for each that is busy."""

    def __init__(self, limit: int, threads: DaemonThreads) -> None:
        self._threads = threads
        self._free = asyncio.Semaphore(limit)
        self._idle: list[_Child] = []
        self._busy: dict[Context, _Child] = {}

    async def run(self, function: Callable[..., Any], context: Context) -> bytes:
        """Runs the handler; its result, encoded. Raises ReportedFailure with what it raised, or HandlerProcessEnded."""
        async with self._free:
            # Stopped while it waited for a process.
            context.raise_if_cancelled()
            child = self._idle.pop() if self._idle else _Child()
            self._busy[context] = child
            usable = False
            try:
                outcome = await self._threads.run(child.call, function, context)
                usable = True
            finally:
                del self._busy[context]
                if usable:
                    self._idle.append(child)
                else:
                    child.kill()
        if outcome.report is not None:
            raise ReportedFailure(outcome.report)
        return outcome.result

    def kill(self, context: Context) -> None:
        """Ends the process that runs this execution, if one does."""
        child = self._busy.get(context)
        if child is not None:
            child.kill()

    def close(self) -> None:
        """Ends all processes."""
        for child in (*self._idle, *self._busy.values()):
            child.kill()
        self._idle.clear()


class _Child:
    """One process, started by its first call. `call` runs in a thread, `kill` anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._killed = False
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def call(self, function: Callable[..., Any], context: Context) -> _Outcome:
        connection = self._start()
        block, index = context.location
        try:
            connection.send((function, block.single(index).SerializeToString(), block.received_ms))
            process = self._process
            if process is not None:
                # Not the pipe alone: a process that the handler has forked may hold its other end open.
                multiprocessing.connection.wait([connection, process.sentinel])
                if not connection.poll():
                    raise EOFError
            outcome: _Outcome = connection.recv()
        except (EOFError, OSError):
            raise HandlerProcessEnded(self._last_words()) from None
        return outcome

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.is_alive():
                self._process.kill()

    def _start(self) -> Connection:
        with self._lock:
            if self._connection is None:
                ours, theirs = _spawn.Pipe()
                # A daemon, so that a worker that ends without closing this does not wait for it.
                process = _spawn.Process(target=_serve, args=(theirs,), name="raftsched-handler", daemon=True)
                process.start()
                # The end of the process must be the end of the pipe.
                theirs.close()
                self._process, self._connection = process, ours
                if self._killed:
                    process.kill()
            return self._connection

    def _last_words(self) -> str:
        process = self._process
        if process is None:
            return "the handler's process did not start"
        process.join(timeout=5)
        code = process.exitcode
        if code is not None and code < 0:
            return f"the handler's process was ended by {signal.Signals(-code).name}"
        return f"the handler's process ended with exit code {code}"


def _serve(connection: Connection) -> None:
    """The child: one execution after another, until the worker is gone."""
    # Whoever signals the whole group means the worker, which lets running handlers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            function, batch, received_ms = connection.recv()
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - such as the import error of the handler's module
            connection.send(_Outcome(report_of(error)))
            continue
        connection.send(_outcome(function, batch, received_ms))


def _outcome(function: Callable[..., Any], batch: bytes, received_ms: int) -> _Outcome:
    context = Context(Block(worker_pb2.LeaseBatch.FromString(batch), received_ms=received_ms), 0, received_ms)
    try:
        result = encode_result(function(context, context.payload))
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its failure
        return _Outcome(report_of(error))
    return _Outcome(result=result)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
