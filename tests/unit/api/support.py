"""One node in this process: the real services on a real port, over the real state machine and store.

Only Raft is left out: a command is applied where it is submitted. Time stands still unless a test moves it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from raftsched.api.server import ApiServer, Service
from raftsched.dispatch.cluster_view import ClusterView, PeerView
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import NoQuorum, RaftschedError
from raftsched.state.machine import Machine
from raftsched.state.results import Leased, Result, SessionOpened
from raftsched.store import keys
from raftsched.store.environment import Store
from raftsched.v1 import cluster_pb2, cluster_pb2_grpc, execution_pb2_grpc, job_pb2_grpc, workflow_pb2_grpc

START_MS = 1_800_000_000_000
SESSION_TTL_MS = 10_000
R = TypeVar("R")


class LocalCore:
    """See raftsched.api.ports.Core. Tests turn its attributes to make the node or its worker behave."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path / "state", map_size=1 << 30)
        self.machine = Machine(self.store, node_id=1)
        self.now_ms = START_MS
        self.health: int = cluster_pb2.NODE_HEALTH_SERVING
        self.has_quorum = True
        # What the worker says when it is asked to drop an execution, and what it was asked.
        self.worker_answer: bool | None = None
        self.asked: list[tuple[int, int, int]] = []
        self.submitted = 0
        # The cluster, as the leader would have it; what it refuses to change it with; who was asked to lead.
        self.members = {1: "127.0.0.1:7001"}
        self.refusal: RaftschedError | None = None
        self.transfers: list[int | None] = []
        # Reads that wait for an index which is not applied yet.
        self.waiting = 0
        self._requests = 0
        self._changed = asyncio.Condition()

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result:
        assert ops >= 1
        assert timeout_s >= 0
        if not self.has_quorum:
            raise NoQuorum()
        self.submitted += 1
        result = self.apply(command)
        await self._tell()
        return result

    async def read_barrier(self) -> int:
        if not self.has_quorum:
            raise NoQuorum()
        return self.machine.applied_index

    async def committed(self, index: int) -> None:
        if self.machine.applied_index < index:
            self.waiting += 1
            await self._tell()
            async with self._changed:
                await self._changed.wait_for(lambda: self.machine.applied_index >= index)
        self.machine.commit()

    def status(self) -> ClusterView:
        return ClusterView(
            node_id=1,
            leader_id=1 if self.has_quorum else None,
            has_quorum=self.has_quorum,
            term=1,
            commit_index=self.machine.applied_index,
            applied_index=self.machine.applied_index,
            first_log_index=1,
            digest=self.machine.digest.hex(),
            now_ms=self.machine.now_ms,
            peers=tuple(
                PeerView(node_id, address, True, 0, is_voter=node_id == 1) for node_id, address in self.members.items()
            ),
            health=self.health,
            cluster_id="test",
            version="0.0",
        )

    async def add_node(self, node_id: int, address: str, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.refusal is not None:
            raise self.refusal
        self.members[node_id] = address

    async def remove_node(self, node_id: int, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.refusal is not None:
            raise self.refusal
        self.members.pop(node_id, None)

    async def transfer_leadership(self, target: int | None, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.refusal is not None:
            raise self.refusal
        self.transfers.append(target)

    async def ask_worker(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        assert timeout_s > 0
        self.asked.append((session, execution, token))
        return self.worker_answer

    async def until_waiting(self, reads: int) -> None:
        """Returns once so many reads have begun to wait for their index."""
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: self.waiting >= reads)

    async def apply_nothing(self) -> None:
        """The next entry comes, with nothing in it."""
        self.machine.apply_entry(self.machine.applied_index + 1, 1, b"")
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # --- what other parts of a node do, one step at a time ---------------------------------------------------------

    def apply(self, command: command_pb2.Command) -> Result:
        """Applies one command in an entry of its own; nothing is committed."""
        self._requests += 1
        command.origin, command.request = 1, self._requests
        entry = command_pb2.Entry(now_ms=self.now_ms, commands=[command.SerializeToString()])
        index = self.machine.applied_index + 1
        effects = self.machine.apply_entry(index, 1, entry.SerializeToString())
        (result,) = [result for request, result in effects.results if request == self._requests]
        return result

    def apply_as(self, kind: type[R], command: command_pb2.Command) -> R:
        result = self.apply(command)
        assert isinstance(result, kind), result
        return result

    def fire(self, limit: int = 10_000) -> None:
        """Moves what is due by now to ready."""
        fire = command_pb2.Fire(shards=range(keys.SHARDS), limit=limit)
        self.apply(command_pb2.Command(fire=fire))

    def open_session(self, worker: str = "w-1", queues: tuple[str, ...] = ("default",)) -> int:
        opened = command_pb2.OpenSession(worker=worker, queues=queues, ttl_ms=SESSION_TTL_MS)
        return self.apply_as(SessionOpened, command_pb2.Command(open_session=opened)).session

    def close_session(self, session: int) -> None:
        self.apply(command_pb2.Command(close_session=command_pb2.CloseSession(session=session)))

    def lease(self, session: int, queues: tuple[str, ...] = ("default",), limit: int = 1_000) -> Leased:
        lease = command_pb2.Lease(session=session, queues=queues, limit=limit, payload_bytes_limit=1 << 20)
        return self.apply_as(Leased, command_pb2.Command(lease=lease))

    def started(self, leased: Leased) -> None:
        block = command_pb2.LeasedBlock(token=leased.token, executions=keys.pack_ids(leased.executions))
        self.apply(command_pb2.Command(started=command_pb2.Started(blocks=[block], started_ms=self.now_ms)))

    def succeed(self, leased: Leased) -> None:
        times = keys.pack_ids([self.now_ms] * len(leased.executions))
        block = command_pb2.CompletedBlock(
            token=leased.token, executions=keys.pack_ids(leased.executions), started_ms=times, ended_ms=times
        )
        self.apply(command_pb2.Command(ack=command_pb2.Ack(blocks=[block])))

    def fail(self, leased: Leased, *, permanent: bool = True, error: str = "no such host") -> None:
        failures = [
            command_pb2.FailedExecution(
                token=leased.token,
                execution=execution,
                started_ms=self.now_ms,
                ended_ms=self.now_ms,
                error=error,
                permanent=permanent,
            )
            for execution in leased.executions
        ]
        self.apply(command_pb2.Command(fail=command_pb2.Fail(failures=failures)))


class Api:
    """A node with a channel to it."""

    def __init__(self, core: LocalCore, server: ApiServer, channel: grpc.aio.Channel) -> None:
        self.core = core
        self.server = server
        self.channel = channel
        # "host:port"
        self.address = ""
        self.jobs = job_pb2_grpc.JobServiceStub(channel)
        self.executions = execution_pb2_grpc.ExecutionServiceStub(channel)
        self.cluster = cluster_pb2_grpc.ClusterServiceStub(channel)
        self.workflows = workflow_pb2_grpc.WorkflowServiceStub(channel)


@asynccontextmanager
async def running_api(path: Path, *, services: tuple[Service, ...] = ()) -> AsyncIterator[Api]:
    """Serves until the block ends."""
    core = LocalCore(path)
    server = ApiServer(core, listen="127.0.0.1:0", services=services, wall_ms=lambda: core.now_ms)
    try:
        port = await server.start()
        await server.set_serving(True)
        options = (("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            api = Api(core, server, channel)
            api.address = f"127.0.0.1:{port}"
            yield api
    finally:
        await server.drain(0)
        core.machine.close()


class Refused:
    """What a refused call said: status code, ErrorInfo and the field of BadRequest, "" for none."""

    code: grpc.StatusCode
    reason: str
    field: str
    message: str
    metadata: dict[str, str]


@asynccontextmanager
async def refused() -> AsyncIterator[Refused]:
    """The call inside must fail; the value is filled in by then."""
    told = Refused()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield told
    status = rpc_status.from_call(caught.value)
    assert status is not None, f"no details with {caught.value}"
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    told.code, told.reason, told.message = caught.value.code(), info.reason, status.message
    told.metadata = dict(info.metadata)
    told.field = ""
    if len(status.details) > 1:
        assert status.details[1].Unpack(bad_request)
        told.field = bad_request.field_violations[0].field
