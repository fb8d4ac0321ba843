"""Real gRPC servers that speak the worker protocol over a small lease book in memory, and do as a test tells them."""

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
import grpc.aio

from raftsched.v1 import worker_pb2, worker_pb2_grpc

END_OF_STREAM = vars(grpc.aio)["EOF"]
TIMEOUT_S = 10.0
# A lease that is not listed by a heartbeat this long after it was granted did not arrive.
GRANT_TIMEOUT_S = 0.5


@dataclass
class Entry:
    """One execution, as the cluster sees it."""

    id: int
    kind: worker_pb2.JobKind
    payload: bytes
    scheduled_for_ms: int
    state: str = "PENDING"
    session: int = 0
    token: int = 0
    attempt: int = 1
    errors: list[str] = field(default_factory=list)
    started: bool = False
    leased_s: float = 0.0


class Connection:
    """A worker's stream at one node."""

    def __init__(self, node: "ScriptedNode") -> None:
        self.node = node
        self.session = 0
        self.queues: tuple[str, ...] = ()
        self.credit = 0
        self.sent = 0
        self.outbox: asyncio.Queue[worker_pb2.ServerMessage | None] = asyncio.Queue()

    def send(self, **message: Any) -> None:
        self.outbox.put_nowait(worker_pb2.ServerMessage(**message))

    def end(self) -> None:
        self.outbox.put_nowait(None)


class ScriptedNode(worker_pb2_grpc.WorkerServiceServicer):
    """One node; `start` and `stop` it at will, it keeps its port."""

    def __init__(self, cluster: "ScriptedCluster", number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.port = 0
        self.connections: list[Connection] = []
        # Streams that were ever opened here.
        self.streams = 0
        # Messages this node received, with their kind.
        self.received: list[tuple[str, Any]] = []
        # Loses what it is told.
        self.deaf = False
        # Confirms with retry.
        self.without_quorum = False
        # Dismisses every stream.
        self.leaving = False
        # Leases nothing.
        self.idle = False
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0)

    def messages(self, kind: str) -> list[Any]:
        return [message for name, message in self.received if name == kind]

    async def Connect(self, request_iterator: Any, context: Any) -> None:  # noqa: ARG002 - gRPC's signature
        connection = Connection(self)
        self.streams += 1
        writer = asyncio.create_task(self._write(connection, context))
        reader = asyncio.create_task(self._read(connection, context))
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and not reader.cancelled() and (error := reader.exception()) is not None:
                raise error
            if not writer.done():
                connection.end()
                await writer
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            if connection in self.connections:
                self.connections.remove(connection)
            self.cluster.changed()

    async def _write(self, connection: Connection, context: Any) -> None:
        while (message := await connection.outbox.get()) is not None:
            await context.write(message)

    async def _read(self, connection: Connection, context: Any) -> None:
        while (message := await context.read()) is not END_OF_STREAM:
            kind = message.WhichOneof("message")
            self.received.append((kind, getattr(message, kind)))
            if kind == "hello" and self.cluster.refuse_hello:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.cluster.refuse_hello)
            if not self.deaf:
                self.cluster.handle(connection, kind, getattr(message, kind))
            self.cluster.changed()


class ScriptedCluster:
    """The state that the nodes share. An async context manager."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        ttl_ms: int = 3_000,
        heartbeat_ms: int = 150,
        started_after_ms: int = 100,
        batch: int = 1_000,
    ) -> None:
        self.nodes = [ScriptedNode(self, number) for number in range(1, nodes + 1)]
        self.entries: dict[int, Entry] = {}
        self.sessions: set[int] = set()
        self.released: list[int] = []
        self.answers: list[worker_pb2.CancelAnswer] = []
        # Non-empty: every hello is refused with this text.
        self.refuse_hello = ""
        self.renewing = True
        # What the newest heartbeat listed.
        self.held_tokens: list[int] | None = None
        self._ttl_ms = ttl_ms
        self._heartbeat_ms = heartbeat_ms
        self._started_after_ms = started_after_ms
        self._batch = batch
        self._ready: deque[Entry] = deque()
        self._execution_ids = itertools.count(1)
        self._session_ids = itertools.count(1)
        self._tokens = itertools.count(100)
        self._change = asyncio.Event()

    async def __aenter__(self) -> Self:
        for node in self.nodes:
            await node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            await node.stop()

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]

    @property
    def connections(self) -> list[Connection]:
        return [connection for node in self.nodes for connection in node.connections]

    def add(self, handler: str, count: int = 1, *, payload: bytes = b"", **kind: Any) -> list[Entry]:
        """Makes executions ready and leases them to whoever has credit."""
        kind.setdefault("max_attempts", 3)
        kind.setdefault("queue", "default")
        job_kind = worker_pb2.JobKind(namespace="default", handler=handler, **kind)
        added = []
        for execution_id in itertools.islice(self._execution_ids, count):
            entry = Entry(execution_id, job_kind, payload, scheduled_for_ms=1_700_000_000_000 + execution_id)
            self.entries[execution_id] = entry
            added.append(entry)
        self._ready.extend(added)
        self.lease()
        return added

    def lease(self) -> None:
        """Gives what is ready to streams with credit."""
        for connection in self.connections:
            if connection.node.idle:
                continue
            free = min(connection.credit - connection.sent, self._batch)
            wanted = [entry for entry in self._ready if entry.kind.queue in connection.queues][: max(0, free)]
            if wanted:
                self.lease_to(connection, wanted)

    def lease_to(self, connection: Connection, entries: list[Entry], token: int | None = None) -> int:
        """Leases these executions in one batch; returns the token."""
        token = next(self._tokens) if token is None else token
        chosen = {entry.id for entry in entries}
        self._ready = deque(entry for entry in self._ready if entry.id not in chosen)
        kinds: list[worker_pb2.JobKind] = []
        batch = worker_pb2.LeaseBatch(token=token)
        for entry in entries:
            entry.state, entry.token, entry.session = "LEASED", token, connection.session
            entry.leased_s = time.monotonic()
            if entry.kind not in kinds:
                kinds.append(entry.kind)
            batch.execution_ids.append(entry.id)
            batch.job_ids.append(entry.id + 1_000_000)
            batch.scheduled_for_ms.append(entry.scheduled_for_ms)
        batch.kinds.extend(kinds)
        if len(kinds) > 1:
            batch.kind_indexes.extend(kinds.index(entry.kind) for entry in entries)
        if any(entry.attempt > 1 for entry in entries):
            batch.attempts.extend(entry.attempt for entry in entries)
        if any(entry.payload for entry in entries):
            batch.payloads.extend(entry.payload for entry in entries)
        connection.sent += len(entries)
        connection.send(lease_batch=batch)
        return token

    def handle(self, connection: Connection, kind: str, message: Any) -> None:
        if kind == "hello":
            self._hello(connection, message)
        elif kind == "credit":
            connection.credit = max(connection.credit, message.total)
            self.lease()
        elif kind == "heartbeat":
            self.held_tokens = list(message.held_tokens)
            if self.renewing:
                self._take_back_what_is_not_held(connection.session, self.held_tokens)
                connection.send(renewed=worker_pb2.Renewed(sequence=message.sequence))
        elif kind == "ack":
            pairs = [(lease.token, execution) for lease in message.leases for execution in lease.execution_ids]
            self._settle(connection, message.sequence, [(token, execution, "SUCCEEDED") for token, execution in pairs])
        elif kind == "fail":
            for failure in message.failures:
                self.entries[failure.execution_id].errors.append(failure.error)
            items = [
                (failure.token, failure.execution_id, "DEAD_LETTER" if failure.permanent else "FAILED")
                for failure in message.failures
            ]
            self._settle(connection, message.sequence, items)
        elif kind == "started":
            for lease in message.leases:
                for execution in lease.execution_ids:
                    self.entries[execution].started = True
        elif kind == "release":
            for lease in message.leases:
                self._give_back(entry for entry in self._held(lease.execution_ids) if entry.token == lease.token)
                self.released.extend(lease.execution_ids)
        elif kind == "cancel_answer":
            self.answers.append(message)
        elif kind == "goodbye":
            self.sessions.discard(connection.session)
            self._forget(connection)
            self._give_back(entry for entry in self.entries.values() if entry.session == connection.session)
            connection.end()

    def expire(self) -> None:
        """Ends all sessions, and tells their workers."""
        self.sessions.clear()
        for connection in self.connections:
            connection.send(session_lost=worker_pb2.SessionLost(reason="expired"))
            connection.end()
            self._forget(connection)
        self._give_back(self.entries.values())

    def states(self, entries: Iterable[Entry]) -> set[str]:
        return {entry.state for entry in entries}

    def all_messages(self, kind: str) -> list[Any]:
        return [message for node in self.nodes for message in node.messages(kind)]

    def changed(self) -> None:
        self._change.set()

    async def until(self, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        """Until the condition holds; looked at whenever something arrived, and now and then."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._change.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self._change.wait()

    def _hello(self, connection: Connection, hello: worker_pb2.Hello) -> None:
        if hello.session and hello.session not in self.sessions:
            connection.send(session_lost=worker_pb2.SessionLost(reason="unknown"))
            connection.end()
            return
        connection.session = hello.session or next(self._session_ids)
        connection.queues = tuple(hello.queues)
        self.sessions.add(connection.session)
        connection.node.connections.append(connection)
        welcome = worker_pb2.Welcome(
            session=connection.session,
            node=connection.node.number,
            session_ttl_ms=self._ttl_ms,
            heartbeat_interval_ms=self._heartbeat_ms,
            started_after_ms=self._started_after_ms,
        )
        connection.send(welcome=welcome)
        if connection.node.leaving:
            connection.send(drain=worker_pb2.Drain())

    def _settle(self, connection: Connection, sequence: int, items: list[tuple[int, int, str]]) -> None:
        if connection.node.without_quorum:
            connection.send(confirm=worker_pb2.Confirm(sequence=sequence, retry=True))
            return
        stale = []
        for token, execution, state in items:
            entry = self.entries[execution]
            if entry.token != token or entry.state not in ("LEASED", state):
                stale.append(execution)
            else:
                entry.state = state
        connection.send(confirm=worker_pb2.Confirm(sequence=sequence, stale_execution_ids=stale))

    def _forget(self, connection: Connection) -> None:
        connection.node.connections.remove(connection)

    def _take_back_what_is_not_held(self, session: int, tokens: list[int]) -> None:
        granted_before_s = time.monotonic() - GRANT_TIMEOUT_S
        self._give_back(
            entry
            for entry in self.entries.values()
            if entry.session == session and entry.token not in tokens and entry.leased_s < granted_before_s
        )

    def _held(self, executions: Iterable[int]) -> list[Entry]:
        return [self.entries[execution] for execution in executions]

    def _give_back(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.state == "LEASED":
                entry.state, entry.session, entry.token = "PENDING", 0, 0
                self._ready.append(entry)
        self.lease()


@contextlib.asynccontextmanager
async def serving(worker: Any) -> AsyncIterator[asyncio.Task[None]]:
    """The worker, serving in a task; stopped, and waited for, at the end."""
    task = asyncio.create_task(worker.serve())
    try:
        yield task
    finally:
        worker.stop()
        async with asyncio.timeout(TIMEOUT_S):
            await task
