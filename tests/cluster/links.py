"""The network between nodes as something tests can cut: every node reaches every other through a link of its own.

A cut link holds back what is sent, both ways, and lets it through when it is mended: to its ends it looks like a
network that delivers nothing, not like a peer that closes connections. Workers pass through here only on request, by
a link to each node that can lose answers.
"""

import asyncio
import threading
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from tests.cluster.processes import free_ports

CHUNK_BYTES = 1 << 16


K = TypeVar("K", bound=Hashable)


class _Link:
    """Connections to one node."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self.mended = asyncio.Event()
        self.mended.set()
        self.answering = asyncio.Event()
        self.answering.set()
        self._connections: set[asyncio.Task[None]] = set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def break_connections(self) -> None:
        """What is held is lost; connections made from now on work."""
        for task in self._connections:
            task.cancel()
        self.answering.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.mended.wait()
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, asyncio.CancelledError) as error:
            writer.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        await asyncio.gather(
            self._pump(reader, far_writer, self.mended), self._pump(far_reader, writer, self.mended, self.answering)
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *gates: asyncio.Event) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                for gate in gates:
                    await gate.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            # One end died; the other learns of it by the close.
            pass
        finally:
            writer.close()


class _Board(Generic[K]):
    """Links by a key, to the addresses given for them, served by a thread of their own until `close`."""

    def __init__(self, targets: Mapping[K, str]) -> None:
        self._ports = dict(zip(targets, free_ports(len(targets)), strict=True))
        self._targets = dict(targets)
        self._links: dict[K, _Link] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> None:
        self._servers = []
        for key, port in self._ports.items():
            link = self._links[key] = _Link(self._targets[key])
            self._servers.append(await asyncio.start_server(link.connected, "127.0.0.1", port))

    def _address(self, key: K) -> str:
        return f"127.0.0.1:{self._ports[key]}"

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Links(_Board[tuple[int, int]]):
    """All links between the nodes at `addresses`."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        super().__init__({(one, other): addresses[other] for one in addresses for other in addresses if one != other})
        self._nodes = list(addresses)

    def address(self, from_node: int, to_node: int) -> str:
        return self._address((from_node, to_node))

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between these two, in either direction."""
        self._set(one, other, mended=False)

    def mend(self, one: int, other: int) -> None:
        self._set(one, other, mended=True)

    def is_mended(self, one: int, other: int) -> bool:
        return self._links[one, other].mended.is_set()

    def isolate(self, node: int) -> None:
        for other in self._others(node):
            self.cut(node, other)

    def mend_all(self) -> None:
        for one, other in self._links:
            self.mend(one, other)

    def _others(self, node: int) -> Iterable[int]:
        return (other for other in self._nodes if other != node)

    def _set(self, one: int, other: int, *, mended: bool) -> None:
        for pair in ((one, other), (other, one)):
            event = self._links[pair].mended
            self._loop.call_soon_threadsafe(event.set if mended else event.clear)


class Routes(_Board[int]):
    """From workers to the nodes at `addresses`: what workers send arrives, answers can be lost."""

    @property
    def addresses(self) -> list[str]:
        return [self._address(node) for node in self._links]

    def hold_answers(self) -> None:
        """From now on no node's answer arrives."""
        for link in self._links.values():
            self._loop.call_soon_threadsafe(link.answering.clear)

    def lose_answers(self) -> None:
        """Every connection breaks, and with it is lost what was held; new ones work."""
        for link in self._links.values():
            self._loop.call_soon_threadsafe(link.break_connections)
