"""WorkerService over gRPC: reads a worker's messages, writes what its stream says. What they mean is in dispatch/."""

import asyncio
from typing import Any

import grpc

from raftsched.api.grpc_types import Context
from raftsched.api.validate import check_hello
from raftsched.dispatch.worker_hub import WorkerHub
from raftsched.dispatch.worker_stream import StreamCore, WorkerSettings, WorkerStream
from raftsched.model.errors import ProtocolViolation
from raftsched.v1 import worker_pb2_grpc

# Missing in the type stubs, hence by name.
END_OF_STREAM = vars(grpc.aio)["EOF"]
# How long a new stream may take to say hello, and a leaving one to hear its last confirmations.
HELLO_TIMEOUT_S = 10.0
LAST_ANSWERS_TIMEOUT_S = 10.0


class WorkerService(worker_pb2_grpc.WorkerServiceServicer):
    """One per node; its streams find each other through the hub."""

    def __init__(self, core: StreamCore, hub: WorkerHub, settings: WorkerSettings) -> None:
        self._core = core
        self._hub = hub
        self._settings = settings
        self._draining = False

    def drain(self) -> None:
        """Tells all workers, those to come too, that this node goes away."""
        self._draining = True
        self._hub.drain()

    async def Connect(self, request_iterator: Any, context: Context) -> None:  # noqa: ARG002 - gRPC's signature
        stream = WorkerStream(self._core, self._hub, self._settings, draining=self._draining)
        reader = asyncio.create_task(self._read(stream, context))
        writer = asyncio.create_task(self._write(stream, context))
        try:
            done, _ = await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if reader in done:
                # The worker has said all it has to say; it still hears what became of it.
                async with asyncio.timeout(LAST_ANSWERS_TIMEOUT_S):
                    await stream.all_answered()
                    stream.end()
                    await writer
            if stream.refusal is not None:
                raise stream.refusal
        finally:
            stream.closed()
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self, stream: WorkerStream, context: Context) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                first = await context.read()
        except TimeoutError:
            raise ProtocolViolation(f"no hello within {HELLO_TIMEOUT_S:g} s", field="hello") from None
        if first is END_OF_STREAM:
            return
        if first.WhichOneof("message") == "hello":
            check_hello(first.hello)
        if not await stream.hello(first):
            # The session is over: the writer ends the stream once the worker has been told.
            await asyncio.Event().wait()
        while (message := await context.read()) is not END_OF_STREAM:
            await stream.handle(message)

    async def _write(self, stream: WorkerStream, context: Context) -> None:
        while (message := await stream.outbox.get()) is not None:
            await context.write(message)
            stream.written()
