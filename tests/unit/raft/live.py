"""Replicas as a node runs them: a core thread each, logs on disk with their own flushing threads, gRPC on loopback."""

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import grpc

from raftsched.internal.v1 import command_pb2
from raftsched.raft.background import ThreadBackground
from raftsched.raft.config import RaftConfig
from raftsched.raft.grpc_peers import SERVER_OPTIONS, GrpcPeers
from raftsched.raft.log import RaftLog
from raftsched.raft.replica import Replica
from raftsched.state.results import Done, Effects
from tests.unit.raft.support import ChainMachine

T = TypeVar("T")


class WallClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class EchoMachine(ChainMachine):
    """Answers, on the node that asked, each command that it applies."""

    def __init__(self, path: Path, node_id: int) -> None:
        super().__init__(path)
        self.node_id = node_id

    def apply_entry(self, index: int, term: int, entry: bytes) -> Effects:
        before = len(self.commands)
        super().apply_entry(index, term, entry)
        effects = Effects()
        for data in self.commands[before:]:
            command = command_pb2.Command.FromString(data)
            if command.origin == self.node_id:
                effects.results.append((command.request, Done()))
        return effects


class LiveNode:
    """`call` runs something on the core thread; `propose` returns a future of a command being applied here."""

    def __init__(
        self, number: int, folder: Path, addresses: dict[int, str], *, cluster_id: str = "test", **settings: Any
    ) -> None:
        self.number = number
        self.folder = folder
        self.addresses = addresses
        self.reports: list[tuple[int, bytes]] = []
        self.error: Exception | None = None
        self._settings = settings
        self._inbox: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._waiting: dict[int, Future[None]] = {}
        # Never one of an earlier life.
        self._requests = time.time_ns()
        self._is_stopping = False
        self.peers = GrpcPeers(
            node_id=number,
            peers=addresses,
            cluster_id=cluster_id,
            deliver=self._inbox.put,
            on_report=lambda node, data: self.reports.append((node, data)),
        )
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self.peers.add_to_server(self._server)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._opened: Future[None] = Future()

    async def start(self) -> None:
        assert self._server.add_insecure_port(self.addresses[self.number])
        self._thread.start()
        await asyncio.wrap_future(self._opened)
        await self._server.start()
        await self.peers.start()

    async def stop(self) -> None:
        await self.peers.stop()
        self._inbox.put(self._stop)
        await asyncio.to_thread(self._thread.join)
        await self._server.stop(0)

    def _stop(self) -> None:
        self._is_stopping = True

    def _wake(self) -> None:
        self._inbox.put(lambda: None)

    def _run(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.machine = EchoMachine(self.folder / "state.json", self.number)
        log = RaftLog(self.folder / "log", background=ThreadBackground(self._wake, name="log"))
        self.replica = Replica(
            RaftConfig(
                node_id=self.number, peers=self.addresses, snapshot_dir=self.folder / "snapshots", **self._settings
            ),
            log=log,
            machine=self.machine,
            transport=self.peers,
            clock=WallClock(),
            rng=random.Random(self.number),
            on_effects=self._on_effects,
            background=ThreadBackground(self._wake, name="files"),
        )
        self._opened.set_result(None)
        wait_s = 0.0
        try:
            while not self._is_stopping:
                try:
                    if wait_s > 0:
                        self._inbox.get(timeout=wait_s)()
                    while True:
                        self._inbox.get_nowait()()
                except queue.Empty:
                    pass
                wait_s = self.replica.tick()
        except Exception as error:  # noqa: BLE001  the test looks at it
            self.error = error
        self.replica.destroy()
        log.close()

    def _on_effects(self, effects: Effects) -> None:
        for request, _ in effects.results:
            # A restarted node applies again what it had asked for before.
            if (future := self._waiting.pop(request, None)) is not None and not future.done():
                future.set_result(None)

    def call(self, function: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        self._inbox.put(lambda: future.set_result(function()))
        return future

    def propose(self, payload: str = "") -> "Future[None]":
        """Any thread."""
        future: Future[None] = Future()

        def propose() -> None:
            self._requests += 1
            self._waiting[self._requests] = future
            command = command_pb2.Command(origin=self.number, request=self._requests)
            command.open_session.worker = payload
            self.replica.propose(command.SerializeToString(), 1)

        self._inbox.put(propose)
        return future

    def read_barrier(self) -> "Future[int | None]":
        future: Future[int | None] = Future()
        self._inbox.put(lambda: self.replica.read_barrier(future.set_result))
        return future


async def until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Waits for what happens in other threads. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  nothing there could set an event of this loop
            await asyncio.sleep(0.005)
