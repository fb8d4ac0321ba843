"""The gRPC server of one node: its services, health and reflection on one port, and how it starts and drains."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from raftsched.api.backfill_service import BackfillService
from raftsched.api.calendar_service import CalendarService
from raftsched.api.cluster_service import ClusterService
from raftsched.api.core_gate import CoreGate
from raftsched.api.dedup_service import DedupService
from raftsched.api.execution_service import ExecutionService
from raftsched.api.interceptor import CallInterceptor
from raftsched.api.job_service import JobService
from raftsched.api.limit_service import LimitService
from raftsched.api.ports import Core
from raftsched.api.workflow_service import WorkflowService
from raftsched.v1 import (
    backfill_pb2,
    backfill_pb2_grpc,
    calendar_pb2,
    calendar_pb2_grpc,
    cluster_pb2,
    cluster_pb2_grpc,
    dedup_pb2,
    dedup_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    job_pb2,
    job_pb2_grpc,
    limit_pb2,
    limit_pb2_grpc,
    workflow_pb2,
    workflow_pb2_grpc,
)

log = logging.getLogger(__name__)

# Peers send snapshots and log entries in pieces below this; public requests have smaller limits of their own.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# All calls together, open streams included. Unary calls have a lower limit of their own (interceptor.py), so that a
# flood of them cannot keep peers and workers from opening their streams.
MAX_RPCS = 20_000
KEEPALIVE_INTERVAL_MS = 10_000
KEEPALIVE_TIMEOUT_MS = 5_000
# Pings of a client that come faster than this end its connection with `too_many_pings`; half our own interval, so
# that a client that uses the same interval, jitter included, is never near it.
MIN_PING_INTERVAL_MS = KEEPALIVE_INTERVAL_MS // 2
# As a string it is not called as in gRPC's headers, where the name has a RECV in it; an unknown name is ignored.
MIN_PING_INTERVAL_OPTION = "grpc.http2.min_ping_interval_without_data_ms"

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A second process on the same port is a mistake; without this the kernel would share connections among both.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", KEEPALIVE_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    (MIN_PING_INTERVAL_OPTION, MIN_PING_INTERVAL_MS),
)


@dataclass(frozen=True, slots=True)
class Service:
    """A service to serve: its full name, as in health and reflection, and what adds its handlers to a server."""

    full_name: str
    add_to: Callable[[grpc.aio.Server], None]


def system_wall_ms() -> int:
    """The clock of this machine."""
    return time.time_ns() // 1_000_000


class ApiServer:
    """Lives on the event loop that makes it. Health starts as NOT_SERVING: `set_serving` says when that changes."""

    def __init__(
        self,
        core: Core,
        *,
        listen: str,
        services: Sequence[Service] = (),
        credentials: grpc.ServerCredentials | None = None,
        wall_ms: Callable[[], int] = system_wall_ms,
    ) -> None:
        """`listen` is "host:port", port 0 for any free one. `services` are served beside the public ones of this
        package. Without `credentials` connections are not encrypted. `wall_ms` is what "now" means in a request.
        """
        self._listen = listen
        self._credentials = credentials
        self._serving: bool | None = None
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self._interceptor = CallInterceptor()
        self._server = grpc.aio.server(
            interceptors=[self._interceptor], options=SERVER_OPTIONS, maximum_concurrent_rpcs=MAX_RPCS
        )
        all_services = (*_public_services(core, wall_ms), *services)
        for service in all_services:
            service.add_to(self._server)
        self._health_names = ("", *(service.full_name for service in all_services))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            [*(service.full_name for service in all_services), health.SERVICE_NAME, reflection.SERVICE_NAME],
            self._server,
        )

    async def start(self) -> int:
        """Listens and serves; returns the port. Raises OSError when the address cannot be had."""
        await self.set_serving(False)
        try:
            if self._credentials is None:
                port = self._server.add_insecure_port(self._listen)
            else:
                port = self._server.add_secure_port(self._listen, self._credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._listen}: {error}") from error
        if port == 0:
            raise OSError(f"cannot listen on {self._listen}")
        await self._server.start()
        log.info("listening on %s, port %d", self._listen, port, extra={"listen": self._listen, "port": port})
        return port

    async def set_serving(self, serving: bool) -> None:
        """What health answers, for every service. Nothing changes any more once the server drains."""
        if serving == self._serving:
            return
        self._serving = serving
        statuses = health_pb2.HealthCheckResponse
        for name in self._health_names:
            await self._health.set(name, statuses.SERVING if serving else statuses.NOT_SERVING)

    @property
    def calls_under_way(self) -> int:
        """Unary calls of the public services."""
        return self._interceptor.calls

    async def drain(self, grace_s: float) -> None:
        """Says NOT_SERVING, takes no new calls, lets those under way end within `grace_s`, cancels the rest.

        Streams do not end by themselves: whoever owns them tells their other end before.
        """
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


def _public_services(core: Core, wall_ms: Callable[[], int]) -> tuple[Service, ...]:
    gate = CoreGate(core)
    jobs = JobService(gate, wall_ms)
    executions = ExecutionService(gate)
    cluster = ClusterService(gate)
    calendars = CalendarService(gate)
    workflows = WorkflowService(gate, wall_ms)
    dedup = DedupService(gate)
    limits = LimitService(gate)
    backfills = BackfillService(gate, wall_ms)
    return (
        Service(
            job_pb2.DESCRIPTOR.services_by_name["JobService"].full_name,
            lambda server: job_pb2_grpc.add_JobServiceServicer_to_server(jobs, server),
        ),
        Service(
            execution_pb2.DESCRIPTOR.services_by_name["ExecutionService"].full_name,
            lambda server: execution_pb2_grpc.add_ExecutionServiceServicer_to_server(executions, server),
        ),
        Service(
            workflow_pb2.DESCRIPTOR.services_by_name["WorkflowService"].full_name,
            lambda server: workflow_pb2_grpc.add_WorkflowServiceServicer_to_server(workflows, server),
        ),
        Service(
            calendar_pb2.DESCRIPTOR.services_by_name["CalendarService"].full_name,
            lambda server: calendar_pb2_grpc.add_CalendarServiceServicer_to_server(calendars, server),
        ),
        Service(
            cluster_pb2.DESCRIPTOR.services_by_name["ClusterService"].full_name,
            lambda server: cluster_pb2_grpc.add_ClusterServiceServicer_to_server(cluster, server),
        ),
        Service(
            dedup_pb2.DESCRIPTOR.services_by_name["DedupService"].full_name,
            lambda server: dedup_pb2_grpc.add_DedupServiceServicer_to_server(dedup, server),
        ),
        Service(
            backfill_pb2.DESCRIPTOR.services_by_name["BackfillService"].full_name,
            lambda server: backfill_pb2_grpc.add_BackfillServiceServicer_to_server(backfills, server),
        ),
        Service(
            limit_pb2.DESCRIPTOR.services_by_name["LimitService"].full_name,
            lambda server: limit_pb2_grpc.add_LimitServiceServicer_to_server(limits, server),
        ),
    )
