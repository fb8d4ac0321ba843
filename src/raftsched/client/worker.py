"""The worker: a set of named handlers, and a process that runs what the cluster has due for them."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import grpc

from raftsched.client.channels import checked_addresses
from raftsched.client.handlers import HandlerRegistry
from raftsched.client.link import Link

F = TypeVar("F", bound=Callable[..., Any])

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What a worker has done since it began to serve, in executions, and what it holds now."""

    # Reported to the cluster.
    succeeded: int = 0
    failed: int = 0
    # Of those, on a quorum's disks; and refused since another lease, a timeout or a cancel was first.
    confirmed: int = 0
    stale: int = 0
    # Put off by their handlers; reported to the cluster too.
    snoozed: int = 0
    # Now.
    waiting: int = 0
    running: int = 0


class Worker:
    """Runs handlers for the queues it serves.

        app = Worker(["host:7101"], queues=["default"])

        @app.handler("reports.nightly")
        async def nightly(context, payload): ...

        app.run()

    It connects to every node in `addresses` ("host:port"), and works as long as one of them is connected to a quorum.
    `concurrency` bounds the handlers that run at once, `processes` those of them that run in processes (the number of
    CPUs by default). `grace` is how long handlers may go on when the worker is told to stop. No more than
    `prefetch_limit` executions are asked for in advance, and only when handlers are fast enough to begin them within
    half a second. Without `credentials` connections are not encrypted.

    The attributes may be changed until it serves.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 100,
        processes: int | None = None,
        name: str = "",
        grace: timedelta = timedelta(seconds=30),
        prefetch_limit: int = 4096,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.addresses = checked_addresses(addresses)
        self.queues = tuple(queues)
        self.concurrency = concurrency
        self.processes = processes
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.grace = grace
        self.prefetch_limit = prefetch_limit
        self.credentials = credentials
        self._handlers = HandlerRegistry()
        self._link: Link | None = None
        self._serving = False
        # Set by the first request to stop, and by the second, which does not wait for handlers.
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def handler_names(self) -> tuple[str, ...]:
        """The names that this worker has handlers for."""
        return self._handlers.names

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop and has not ended yet."""
        return self._stop.is_set()

    @property
    def stats(self) -> WorkerStats:
        """A snapshot; may be read while the worker serves."""
        link = self._link
        if link is None:
            return WorkerStats()
        counts, running = link.counts, link.pool.running
        return WorkerStats(
            succeeded=counts.succeeded,
            failed=counts.failed,
            snoozed=counts.snoozed,
            confirmed=counts.confirmed,
            stale=counts.stale,
            waiting=link.pool.unfinished - running,
            running=running,
        )

    def handler(self, name: str, *, process: bool = False, inline: bool = False) -> Callable[[F], F]:
        """Decorates the function (context, payload) that runs jobs whose handler has that name.

        * `async def`: runs on the event loop. One that never suspends costs no more than a call.
        * a plain function: runs in a thread.
        * a plain function with `inline=True`: is called on the event loop. Only for functions that return at once:
          heartbeats and all other handlers wait for it.
        * a plain function at the top level of a module with `process=True`: runs in a process of its own, which is
          killed when the execution is stopped.

        It succeeds by returning. Whatever it raises is a failure, which is retried as the job says; PermanentError
        is not retried, RetryAfter says when, and Snooze is no failure: it runs again later. See Context for what it can
        know, and note that an execution may run more than once.
        Raises InvalidField.
        """

        def register(function: F) -> F:
            self._handlers.add(name, function, process=process, inline=inline)
            return function

        return register

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then lets handlers end; a second signal does not wait for them."""
        asyncio.run(self.serve(signals=True))

    async def serve(self, *, signals: bool = False) -> None:
        """Serves until `stop` is called or, with `signals`, SIGTERM or SIGINT arrives.

        Raises RaftschedError when the cluster refuses this worker, such as for the name of a queue. When cancelled it
        ends at once, and what it held runs again elsewhere.
        """
        if self._serving:
            raise RuntimeError("this worker serves already")
        if self.concurrency < 1 or self.prefetch_limit < 1:
            raise ValueError("concurrency and prefetch_limit are at least 1")
        self._serving = True
        loop = asyncio.get_running_loop()
        link = self._link = Link(
            self.addresses,
            name=self.name,
            queues=self.queues,
            handlers=self._handlers,
            concurrency=self.concurrency,
            processes=self.processes or os.cpu_count() or 1,
            prefetch_limit=self.prefetch_limit,
            credentials=self.credentials,
        )
        if signals:
            for number in _SIGNALS:
                loop.add_signal_handler(number, self.stop)
        try:
            link.start()
            await self._until_stopped(link)
            await link.drain(self._grace())
        finally:
            await link.close()
            if signals:
                for number in _SIGNALS:
                    loop.remove_signal_handler(number)
            self._stop, self._hurry = asyncio.Event(), asyncio.Event()
            self._serving = False

    def stop(self) -> None:
        """Asks the worker to finish what runs and end; a second time: not to wait for what runs. On its event loop."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _until_stopped(self, link: Link) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((stopped, link.failed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if link.failed.done():
            raise link.failed.result()

    async def _grace(self) -> None:
        try:
            async with asyncio.timeout(self.grace.total_seconds()):
                await self._hurry.wait()
        except TimeoutError:
            return
