"""What a node's services see of gRPC: the context of a call, that of a worker's stream, and what a call came to."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from raftsched.model.errors import RaftschedError
from tests.sim.loop import SimLoop
from tests.sim.network import Connection


class CallContext:
    """What services ask of gRPC's context."""

    def __init__(self, loop: SimLoop, deadline_s: float) -> None:
        self._loop = loop
        self._deadline_s = deadline_s

    def time_remaining(self) -> float:
        return self._deadline_s - self._loop.time()


class StreamContext:
    """A worker's stream as its node's service sees it."""

    def __init__(self, loop: SimLoop, connection: Connection, node: int) -> None:
        self._loop = loop
        self._connection = connection
        self._node = node
        self._arrived: list[Any] = []
        self._waiter: Any = None

    def put(self, message: Any) -> None:
        self._arrived.append(message)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self) -> Any:
        while not self._arrived:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._arrived.pop(0)

    async def write(self, message: Message) -> None:
        self._connection.send(self._node, message.SerializeToString())


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to: a response or an error; `index` is how far the node was when it answered."""

    response: Any = None
    error: RaftschedError | None = None
