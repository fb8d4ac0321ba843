"""Health, reflection, ports and draining, seen from the other end of a real channel."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from raftsched.api import server as server_module
from raftsched.api.server import ApiServer, Service
from raftsched.v1 import cluster_pb2, cluster_pb2_grpc, job_pb2, worker_pb2, worker_pb2_grpc
from tests.unit.api.support import Api, LocalCore, running_api

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PUBLIC = ("raftsched.v1.JobService", "raftsched.v1.ExecutionService", "raftsched.v1.ClusterService")


async def health_of(api: Api, service: str) -> int:
    response = await health_pb2_grpc.HealthStub(api.channel).Check(health_pb2.HealthCheckRequest(service=service))
    return response.status


async def ask_reflection(api: Api, request: reflection_pb2.ServerReflectionRequest) -> Any:
    call = reflection_pb2_grpc.ServerReflectionStub(api.channel).ServerReflectionInfo(iter([request]))
    return await call.read()


class EchoWorkers(worker_pb2_grpc.WorkerServiceServicer):
    async def Connect(self, request_iterator: AsyncIterator[worker_pb2.WorkerMessage], context: Any) -> None:
        async for message in request_iterator:
            renewed = worker_pb2.Renewed(sequence=message.heartbeat.sequence)
            await context.write(worker_pb2.ServerMessage(renewed=renewed))


EXTRA = Service(
    "raftsched.v1.WorkerService",
    lambda server: worker_pb2_grpc.add_WorkerServiceServicer_to_server(EchoWorkers(), server),
)


@pytest.mark.parametrize("service", ["", *PUBLIC])
async def test_health_of_each_service_follows_the_node(api: Api, service: str) -> None:
    assert await health_of(api, service) == SERVING
    await api.server.set_serving(False)
    assert await health_of(api, service) == NOT_SERVING
    await api.server.set_serving(True)
    assert await health_of(api, service) == SERVING


async def test_health_does_not_know_other_services(api: Api) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health_of(api, "raftsched.v1.Nothing")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_node_is_not_serving_until_it_is_told_so(tmp_path: Path) -> None:
    core = LocalCore(tmp_path)
    server = ApiServer(core, listen="127.0.0.1:0")
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        response = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert response.status == NOT_SERVING
    await server.drain(0)
    core.machine.close()


async def test_a_health_watcher_hears_of_the_drain(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        watch = health_pb2_grpc.HealthStub(api.channel).Watch(health_pb2.HealthCheckRequest(service=PUBLIC[0]))
        assert (await watch.read()).status == SERVING
        drain = asyncio.create_task(api.server.drain(0.2))
        assert (await watch.read()).status == NOT_SERVING
        await drain
        await api.server.set_serving(True)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.cluster.GetStatus(cluster_pb2.GetStatusRequest(), timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_calls_under_way_end_within_the_grace(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        late = api.jobs.ListJobs(job_pb2.ListJobsRequest(read=job_pb2.ReadOptions(min_index=1)))
        await api.core.until_waiting(1)
        drain = asyncio.create_task(api.server.drain(5))
        await _until_refusing(api)
        await api.core.apply_nothing()
        assert (await late).index == 1
        await drain


async def _until_refusing(api: Api) -> None:
    async with asyncio.timeout(5):
        while (code := await api.cluster.GetStatus(cluster_pb2.GetStatusRequest()).code()) is grpc.StatusCode.OK:
            pass
    # CANCELLED: it arrived just before the server stopped taking calls. Clients take both as "try another node".
    assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


async def test_pings_at_the_interval_that_is_allowed_keep_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**dict(server_module.SERVER_OPTIONS), server_module.MIN_PING_INTERVAL_OPTION: 50}
    monkeypatch.setattr(server_module, "SERVER_OPTIONS", tuple(options.items()))
    core = LocalCore(tmp_path)
    server = ApiServer(core, listen="127.0.0.1:0")
    pinging = (("grpc.keepalive_time_ms", 100), ("grpc.http2.max_pings_without_data", 0))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}", options=pinging) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == NOT_SERVING
        # Clients ping once a second at most; by default the third ping within five minutes ends the connection.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4):
                await watch.read()
    await server.drain(0)
    core.machine.close()


async def test_reflection_lists_every_service(tmp_path: Path) -> None:
    async with running_api(tmp_path, services=(EXTRA,)) as api:
        response = await ask_reflection(api, reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {service.name for service in response.list_services_response.service}
        assert names >= {*PUBLIC, EXTRA.full_name, "grpc.health.v1.Health"}
        assert await health_of(api, EXTRA.full_name) == SERVING


async def test_reflection_describes_a_service(api: Api) -> None:
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=PUBLIC[0])
    response = await ask_reflection(api, request)
    files = [FileDescriptorProto.FromString(data) for data in response.file_descriptor_response.file_descriptor_proto]
    methods = {method.name for file in files for service in file.service for method in service.method}
    assert {"CreateJob", "BatchCreateJobs", "GetJob", "ListJobs", "CancelJob"} <= methods


async def test_further_services_share_the_port(tmp_path: Path) -> None:
    async with running_api(tmp_path, services=(EXTRA,)) as api:
        call = worker_pb2_grpc.WorkerServiceStub(api.channel).Connect()
        await call.write(worker_pb2.WorkerMessage(heartbeat=worker_pb2.Heartbeat(sequence=5)))
        assert (await call.read()).renewed.sequence == 5
        await call.done_writing()


async def test_a_port_in_use_is_an_error_that_names_it(tmp_path: Path) -> None:
    first, second = LocalCore(tmp_path / "1"), LocalCore(tmp_path / "2")
    one = ApiServer(first, listen="127.0.0.1:0")
    port = await one.start()
    other = ApiServer(second, listen=f"127.0.0.1:{port}")
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        await other.start()
    await one.drain(0)
    await other.drain(0)
    for core in (first, second):
        core.machine.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_with_a_certificate_only_encrypted_connections_are_served(tmp_path: Path) -> None:
    key, certificate = make_certificate(tmp_path)
    core = LocalCore(tmp_path)
    credentials = grpc.ssl_server_credentials([(key, certificate)])
    server = ApiServer(core, listen="localhost:0", credentials=credentials)
    port = await server.start()
    trusting = grpc.ssl_channel_credentials(certificate)
    async with grpc.aio.secure_channel(f"localhost:{port}", trusting) as channel:
        status = await cluster_pb2_grpc.ClusterServiceStub(channel).GetStatus(cluster_pb2.GetStatusRequest())
        assert status.node == 1
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await cluster_pb2_grpc.ClusterServiceStub(channel).GetStatus(cluster_pb2.GetStatusRequest(), timeout=5)
    assert caught.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    await server.drain(0)
    core.machine.close()


def make_certificate(folder: Path) -> tuple[bytes, bytes]:
    """A key and a certificate for localhost that is its own authority."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    return key.read_bytes(), certificate.read_bytes()


async def test_a_message_beyond_the_limit_is_refused_and_the_server_lives(api: Api) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job_pb2.Job(payload=bytes(65 << 20))))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())).node == 1


async def test_a_method_that_does_not_exist_is_unimplemented(api: Api) -> None:
    call = api.channel.unary_unary("/raftsched.v1.JobService/Nothing")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
