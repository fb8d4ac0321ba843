"""Nodes come and go over gRPC: who is let in, who is told that it is no member, whom a node that was away believes."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path

import grpc
import pytest

from raftsched.internal.v1 import peer_pb2, peer_pb2_grpc
from raftsched.model.errors import MembershipChangeInProgress, RaftschedError
from raftsched.raft.peer_link import REFUSED_BY
from tests.unit.raft.live import LiveNode, until
from tests.unit.raft.test_grpc_peers import free_addresses, propose


class Nodes:
    """Three nodes of a cluster, and two that may join it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses = free_addresses(5)
        self.nodes: dict[int, LiveNode] = {}

    async def start(self, number: int) -> LiveNode:
        """It knows of the first three and itself."""
        known = {other: address for other, address in self.addresses.items() if other <= 3 or other == number}
        node = self.nodes[number] = LiveNode(
            number, self.folder / f"n{number}", known, log_keep_entries=10, snapshot_chunk_bytes=1_000
        )
        await node.start()
        return node

    async def stop(self, number: int) -> None:
        await self.nodes.pop(number).stop()

    async def leader(self) -> LiveNode:
        await until(lambda: any(node.replica.is_leader and node.replica.has_quorum for node in self.nodes.values()))
        return next(node for node in self.nodes.values() if node.replica.is_leader)

    async def change(self, ask: Callable[[LiveNode, Callable[[RaftschedError | None], None]], None]) -> None:
        """Asks the leader until nothing else is under way."""
        for _ in range(100):
            future: Future[RaftschedError | None] = Future()
            node = await self.leader()
            node.call(lambda node=node, future=future: ask(node, future.set_result))
            error = await asyncio.wait_for(asyncio.wrap_future(future), 15)
            if error is None:
                return
            assert isinstance(error, MembershipChangeInProgress), error
            await asyncio.sleep(0.02)
        raise TimeoutError

    async def add(self, number: int) -> None:
        address = self.addresses[number]
        await self.change(lambda node, done: node.replica.add_node(number, address, done, timeout_s=10))
        await until(lambda: number in self.nodes[number].replica.membership.voters)

    async def remove(self, number: int) -> None:
        await self.change(lambda node, done: node.replica.remove_node(number, done, timeout_s=10))

    async def agreed(self) -> None:
        await until(lambda: len({node.machine.chain for node in self.nodes.values()}) == 1)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path)
    try:
        for number in (1, 2, 3):
            await nodes.start(number)
        yield nodes
    finally:
        for number in list(nodes.nodes):
            await nodes.stop(number)


async def test_a_node_is_let_in_once_it_is_added_and_told_once_it_is_removed(nodes: Nodes) -> None:
    await propose(await nodes.leader())
    joining = await nodes.start(4)
    await until(lambda: not joining.replica.is_member)
    await nodes.add(4)
    await until(lambda: joining.replica.is_member)
    await propose(joining)
    await nodes.agreed()
    leader = await nodes.leader()
    await nodes.remove(leader.number)
    await until(lambda: not leader.replica.is_member)
    await until(lambda: not leader.replica.connected_ids)
    assert (await nodes.leader()) is not leader
    await propose(await nodes.leader())
    assert leader.error is None


async def test_a_node_that_knows_only_former_members_is_found_by_the_present_ones(nodes: Nodes) -> None:
    await propose(await nodes.leader())
    for number in (4, 5):
        await nodes.start(number)
        await nodes.add(number)
    for number in (1, 2):
        await nodes.remove(number)
        await nodes.stop(number)
    for number in range(30):
        await propose(await nodes.leader(), f"{number}")
    await nodes.stop(3)
    shutil.rmtree(nodes.folder / "n3")
    back = await nodes.start(3)
    await until(lambda: back.replica.membership.voters == {3, 4, 5})
    await propose(back)
    await nodes.agreed()


async def test_a_stranger_is_told_by_which_entry_it_is_no_member_unless_it_knows_a_newer_one(nodes: Nodes) -> None:
    node = await nodes.leader()
    await propose(node)
    async with grpc.aio.insecure_channel(nodes.addresses[node.number]) as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        hello = peer_pb2.Hello(node=9, cluster="test", to=node.number, address="127.0.0.1:9", membership_index=1)
        call = stub.Exchange()
        await call.write(peer_pb2.PeerMessage(hello=hello))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert (REFUSED_BY, "1") in tuple(caught.value.trailing_metadata())
        hello.membership_index = 1_000
        call = stub.Exchange()
        await call.write(peer_pb2.PeerMessage(hello=hello))
        assert (await call.read()).welcome.node == node.number
