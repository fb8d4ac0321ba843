"""Runs one node until it is told to stop: opens the core, serves, follows health, drains on SIGTERM or SIGINT."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

import grpc

from raftsched.api.server import ApiServer, Service
from raftsched.api.worker_service import WorkerService
from raftsched.dispatch.worker_hub import WorkerHub
from raftsched.dispatch.worker_stream import WorkerSettings
from raftsched.internal.v1 import peer_pb2
from raftsched.node.config import NodeConfig, TlsFiles
from raftsched.node.core import Core
from raftsched.raft.grpc_peers import GrpcPeers
from raftsched.state.results import LeaseEnded
from raftsched.v1 import cluster_pb2, worker_pb2, worker_pb2_grpc

logger = logging.getLogger(__name__)

# The core thread and the loop share one interpreter lock: how long one may keep the other waiting.
SWITCH_INTERVAL_S = 0.0005
DRAIN_LOOK_EVERY_S = 0.05
# Leadership goes to another node before this one stops; an election that takes longer is not waited for.
HAND_OVER_S = 3.0


class Node:
    """The parts of one node and their order of starting and stopping."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._stop_asked = asyncio.Event()
        self._core_gone = asyncio.Event()
        self._health_changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._hub = WorkerHub()

    async def run(self) -> None:
        """Returns after a clean stop. Raises what made the node stop otherwise."""
        config = self._config
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        peers = GrpcPeers(
            node_id=config.node_id,
            peers=dict(config.peers),
            cluster_id=config.cluster_id,
            deliver=lambda call: self._core.post(call),
            on_report=lambda node_id, data: self._core.on_report(node_id, data),
            credentials=_channel_credentials(config.tls),
            routes=config.routes,
        )
        self._core = Core(config, peers, loop, self)
        settings = WorkerSettings(
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            session_ttl_ms=config.session_ttl_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            grant_timeout_ms=config.grant_timeout_ms,
            started_after_ms=config.started_after_ms,
        )
        self._workers = WorkerService(self._core, self._hub, settings)
        await self._core.start()
        server = ApiServer(
            self._core,
            listen=config.listen,
            services=(
                Service(
                    worker_pb2.DESCRIPTOR.services_by_name["WorkerService"].full_name,
                    lambda grpc_server: worker_pb2_grpc.add_WorkerServiceServicer_to_server(self._workers, grpc_server),
                ),
                Service(peer_pb2.DESCRIPTOR.services_by_name["PeerService"].full_name, peers.add_to_server),
            ),
            credentials=_server_credentials(config.tls),
            wall_ms=self._core.wall_ms,
        )
        try:
            await server.start()
            await peers.start()
            health = asyncio.create_task(self._follow_health(server))
            await self._wait_for_end()
            health.cancel()
            await self._drain(server, peers)
        finally:
            await peers.stop()
            await self._core.stop()
            await server.drain(0)
        if self._failure is not None:
            raise self._failure

    def _on_signal(self) -> None:
        """The first asks for a drain. The second ends it: what is confirmed is on a majority's disks anyway."""
        if self._stop_asked.is_set():
            logger.warning("stopping at once, on a second signal")
            logging.shutdown()
            os._exit(1)
        self._stop_asked.set()

    async def _wait_for_end(self) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._stop_asked, self._core_gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _follow_health(self, server: ApiServer) -> None:
        while True:
            self._health_changed.clear()
            await server.set_serving(self._core.status().health == cluster_pb2.NODE_HEALTH_SERVING)
            await self._health_changed.wait()

    async def _drain(self, server: ApiServer, peers: GrpcPeers) -> None:
        """Leadership and workers go to other nodes, calls under way are answered, then the peers are let go."""
        if self._core_gone.is_set():
            return
        logger.info("draining", extra={"grace_s": self._config.drain_grace_s})
        await server.set_serving(False)
        self._core.drain()
        self._workers.drain()
        if len(self._core.status().peers) > 1:
            await self._until(lambda: self._core.status().leader_id != self._config.node_id, HAND_OVER_S)
        await self._until(lambda: self._hub.stream_count == 0, self._config.drain_grace_s)
        refusing = asyncio.create_task(server.drain(self._config.drain_grace_s))
        await self._until(lambda: server.calls_under_way == 0, self._config.drain_grace_s)
        await peers.stop()
        await refusing
        logger.info("drained")

    async def _until(self, condition: Callable[[], bool], at_most_s: float) -> None:
        """Waits for `condition`, but no longer than `at_most_s`: a node that must stop stops."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + at_most_s
        while not condition() and loop.time() < end_s:  # noqa: ASYNC110
            # What is waited for happens in other threads and processes, which set no event of ours.
            await asyncio.sleep(DRAIN_LOOK_EVERY_S)

    # --- what the core thread tells, called on the loop

    def lease_ended(self, ended: LeaseEnded) -> None:
        self._hub.lease_ended(ended)

    def session_ended(self, session: int, reason: str) -> None:
        self._hub.session_ended(session, reason)

    def health_changed(self) -> None:
        self._health_changed.set()

    async def ask_to_drop(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        return await self._hub.ask_to_drop(session, execution, token, timeout_s)

    def core_stopped(self, error: BaseException | None) -> None:
        self._failure = error
        self._core_gone.set()


def run_node(config: NodeConfig) -> None:
    """Runs a node in this process until SIGTERM or SIGINT. Raises what made it stop otherwise."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    asyncio.run(Node(config).run())


def _channel_credentials(tls: TlsFiles | None) -> grpc.ChannelCredentials | None:
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(tls.authority.read_bytes(), tls.key.read_bytes(), tls.certificate.read_bytes())


def _server_credentials(tls: TlsFiles | None) -> grpc.ServerCredentials | None:
    """Mutual: a client without a certificate of the same authority is refused."""
    if tls is None:
        return None
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair], tls.authority.read_bytes(), require_client_auth=True)
