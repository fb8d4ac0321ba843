"""Replicas as they run in production: own threads, logs on disk, gRPC on loopback."""

import asyncio
import logging
import pickle
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from raftsched.internal.v1 import peer_pb2, peer_pb2_grpc
from raftsched.raft import peer_link
from raftsched.raft.grpc_peers import GrpcPeers
from tests.unit.raft.live import LiveNode, until
from tests.unit.raft.test_hazard_transport import Bomb


def free_addresses(count: int) -> dict[int, str]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = {number: f"127.0.0.1:{one.getsockname()[1]}" for number, one in enumerate(sockets, 1)}
    for one in sockets:
        one.close()
    return addresses


class LiveCluster:
    def __init__(self, folder: Path, **settings: int) -> None:
        self.folder = folder
        self.settings = settings
        self.addresses = free_addresses(3)
        self.nodes: dict[int, LiveNode] = {}

    async def start(self, number: int) -> LiveNode:
        node = LiveNode(number, self.folder / f"n{number}", self.addresses, **self.settings)
        self.nodes[number] = node
        await node.start()
        return node

    async def stop(self, number: int) -> None:
        await self.nodes.pop(number).stop()

    async def leader(self) -> LiveNode:
        """Once all nodes follow one."""

        def agree() -> bool:
            leaders = {node.replica.leader_id for node in self.nodes.values()}
            return len(leaders) == 1 and leaders <= self.nodes.keys()

        await until(agree)
        return next(node for node in self.nodes.values() if node.replica.is_leader)

    def other_than(self, node: LiveNode) -> int:
        return next(number for number in self.nodes if number != node.number)

    async def agreed(self) -> None:
        """Once all nodes have the same state."""
        await until(lambda: len({node.machine.chain for node in self.nodes.values()}) == 1)


@asynccontextmanager
async def running(folder: Path, **settings: int) -> AsyncIterator[LiveCluster]:
    cluster = LiveCluster(folder, **settings)
    try:
        for number in cluster.addresses:
            await cluster.start(number)
        yield cluster
    finally:
        for number in list(cluster.nodes):
            await cluster.stop(number)


async def result(future: "Future[object]") -> object:
    return await asyncio.wait_for(asyncio.wrap_future(future), 10)


async def propose(node: LiveNode, payload: str = "") -> None:
    """Again and again, as a waiter does: what crosses a change of leader may be lost."""
    for _ in range(20):
        future = node.propose(payload)
        try:
            await asyncio.wait_for(asyncio.wrap_future(future), 1)
        except TimeoutError:
            continue
        return
    raise TimeoutError


async def test_commands_of_every_node_are_applied_on_all_in_one_order(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.leader()
        await asyncio.gather(*(propose(node, f"{number}") for number in range(50) for node in cluster.nodes.values()))
        await cluster.agreed()
        assert all(node.machine.count >= 150 for node in cluster.nodes.values())
        assert all(node.error is None for node in cluster.nodes.values())


async def test_a_read_on_any_node_sees_what_was_confirmed_before(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.leader()
        for writer in cluster.nodes.values():
            await propose(writer)
            written = writer.machine.applied_index
            for reader in cluster.nodes.values():
                index = await result(reader.read_barrier())
                assert isinstance(index, int)
                assert index >= written
                assert reader.machine.applied_index >= written


async def test_reports_reach_the_other_nodes_core_threads(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.leader()
        first, second, _ = cluster.nodes.values()
        assert await result(first.call(lambda: first.peers.send_report(2, b"all is well")))
        await until(lambda: second.reports == [(1, b"all is well")])


async def test_a_node_that_was_away_catches_up_from_the_log(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        away = cluster.other_than(await cluster.leader())
        await cluster.stop(away)
        leader = await cluster.leader()
        for number in range(20):
            await propose(leader, f"{number}")
        await cluster.start(away)
        await cluster.agreed()


async def test_a_node_that_comes_back_with_an_empty_disk_gets_the_state(tmp_path: Path) -> None:
    async with running(tmp_path, log_keep_entries=10, snapshot_chunk_bytes=1_000) as cluster:
        away = cluster.other_than(await cluster.leader())
        await cluster.stop(away)
        shutil.rmtree(cluster.folder / f"n{away}")
        leader = await cluster.leader()
        for number in range(60):
            await propose(leader, f"{number}")
        await until(lambda: leader.replica.first_log_index > 10)
        again = await cluster.start(away)
        await cluster.agreed()
        assert again.replica.first_log_index > 1
        assert again.machine.count == leader.machine.count


async def test_leadership_is_handed_over_without_an_election_timeout(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        leader = await cluster.leader()
        await propose(leader)
        target = cluster.other_than(leader)
        assert await result(leader.call(lambda: leader.replica.transfer_leadership(target)))
        await until(lambda: cluster.nodes[target].replica.is_leader)
        await propose(leader)


async def test_a_stopped_leader_is_replaced_and_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        leader = await cluster.leader()
        for number in range(10):
            await propose(leader, f"{number}")
        count = leader.machine.count
        await cluster.stop(leader.number)
        after = await cluster.leader()
        await propose(after)
        assert after.machine.count > count
        await cluster.start(leader.number)
        await cluster.agreed()


async def test_a_node_of_another_cluster_is_refused_and_both_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    addresses = free_addresses(2)
    ours = LiveNode(1, tmp_path / "ours", addresses)
    theirs = LiveNode(2, tmp_path / "theirs", addresses, cluster_id="other")
    await ours.start()
    await theirs.start()
    try:
        await until(lambda: "node 2 is of cluster 'other', this one of 'test'" in caplog.text)
        await until(lambda: any("is of cluster" in str(getattr(record, "error", "")) for record in caplog.records))
        assert not ours.replica.connected_ids
    finally:
        await ours.stop()
        await theirs.stop()


@pytest.mark.parametrize(
    ("hello", "problem"),
    [
        (peer_pb2.PeerMessage(report=b"no hello"), "did not begin with Hello"),
        (peer_pb2.PeerMessage(hello=peer_pb2.Hello(node=9, cluster="test", to=1)), "no other member"),
        (peer_pb2.PeerMessage(hello=peer_pb2.Hello(node=1, cluster="test", to=1)), "no other member"),
        (peer_pb2.PeerMessage(hello=peer_pb2.Hello(node=2, cluster="test", to=3)), "wanted to reach node 3"),
    ],
)
async def test_a_stream_that_is_no_peers_is_refused(tmp_path: Path, hello: peer_pb2.PeerMessage, problem: str) -> None:
    addresses = free_addresses(3)
    node = LiveNode(1, tmp_path, addresses)
    await node.start()
    try:
        async with grpc.aio.insecure_channel(addresses[1]) as channel:
            call = peer_pb2_grpc.PeerServiceStub(channel).Exchange()
            await call.write(hello)
            with pytest.raises(grpc.aio.AioRpcError, match=problem) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    finally:
        await node.stop()


async def test_bytes_that_are_no_message_end_the_stream_and_run_nothing(tmp_path: Path) -> None:
    addresses = free_addresses(1)
    node = LiveNode(1, tmp_path / "node", addresses)
    await node.start()
    target = tmp_path / "made by a stranger"
    try:
        async with grpc.aio.insecure_channel(addresses[1]) as channel:
            call = channel.stream_stream("/raftsched.internal.v1.PeerService/Exchange")()
            await call.write(pickle.dumps(Bomb(target)))
            with pytest.raises(grpc.aio.AioRpcError):
                await call.read()
        assert not target.exists()
        await propose(node)
    finally:
        await node.stop()


async def test_a_newer_stream_of_a_node_replaces_the_older_one(tmp_path: Path) -> None:
    addresses = free_addresses(2)
    node = LiveNode(1, tmp_path, addresses)
    await node.start()
    hello = peer_pb2.PeerMessage(hello=peer_pb2.Hello(node=2, cluster="test", to=1))
    try:
        async with grpc.aio.insecure_channel(addresses[1]) as channel:
            stub = peer_pb2_grpc.PeerServiceStub(channel)
            old, new = stub.Exchange(), stub.Exchange()
            for call in (old, new):
                await call.write(hello)
                assert (await call.read()).welcome.node == 1
            await old.write(peer_pb2.PeerMessage(report=b"from before"))
            with pytest.raises(grpc.aio.AioRpcError, match="superseded"):
                await old.read()
            await new.write(peer_pb2.PeerMessage(report=b"from now"))
            await until(lambda: node.reports == [(2, b"from now")])
    finally:
        await node.stop()


async def test_a_peer_that_does_not_keep_up_is_connected_anew_and_raft_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_link, "QUEUE_MAX_MESSAGES", 5)
    calls: list[Callable[[], None]] = []
    events: list[str] = []
    (address,) = free_addresses(1).values()

    class Accepting(peer_pb2_grpc.PeerServiceServicer):
        async def Exchange(self, request_iterator: object, context: grpc.aio.ServicerContext) -> None:  # type: ignore[type-arg]  # noqa: ARG002
            await context.read()
            await context.write(peer_pb2.PeerMessage(welcome=peer_pb2.Welcome(node=2)))
            await asyncio.Event().wait()

    server = grpc.aio.server()
    peer_pb2_grpc.add_PeerServiceServicer_to_server(Accepting(), server)
    server.add_insecure_port(address)
    await server.start()
    peers = GrpcPeers(node_id=1, peers={2: address}, cluster_id="test", deliver=calls.append)
    peers.setOnNodeConnectedCallback(lambda node: events.append(f"up {node}"))
    peers.setOnNodeDisconnectedCallback(lambda node: events.append(f"down {node}"))

    def run_calls() -> list[str]:
        while calls:
            calls.pop(0)()
        return events

    try:
        await peers.start()
        await until(lambda: run_calls() == ["up 2"])
        for _ in range(20):
            peers.send_report(2, b"x")
        await until(lambda: run_calls() == ["up 2", "down 2", "up 2"])
    finally:
        await peers.stop()
        await server.stop(0)


async def test_before_it_is_started_nothing_is_sent() -> None:
    peers = GrpcPeers(node_id=1, peers=free_addresses(3), cluster_id="test", deliver=lambda call: call())
    assert not peers.send_report(2, b"too early")
    await peers.stop()
