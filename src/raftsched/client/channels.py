"""One channel to each given node, and unary calls over them that outlive any single node.

Every node accepts every call, so a call goes round-robin over the nodes that answered last time and moves on to the
next when one does not. Which node leads is never of interest here.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from raftsched.client.errors import ClientClosed, InvalidField, RaftschedError, from_rpc
from raftsched.v1.backfill_pb2_grpc import BackfillServiceStub
from raftsched.v1.calendar_pb2_grpc import CalendarServiceStub
from raftsched.v1.cluster_pb2_grpc import ClusterServiceStub
from raftsched.v1.dedup_pb2_grpc import DedupServiceStub
from raftsched.v1.execution_pb2_grpc import ExecutionServiceStub
from raftsched.v1.job_pb2_grpc import JobServiceStub
from raftsched.v1.limit_pb2_grpc import LimitServiceStub
from raftsched.v1.workflow_pb2_grpc import WorkflowServiceStub

# A page of jobs with payloads is larger than gRPC's default of 4 MiB.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A node that restarts should be used again within seconds, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Retries are made here, over several nodes.
    ("grpc.enable_retries", 0),
    # Clients of one process must not share each other's reconnect backoff.
    ("grpc.use_local_subchannel_pool", 1),
)

_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 1.0
# One attempt's share of a call's time, doubled by each attempt that got no answer: a node that hangs must not use up
# the whole time, and a cluster that is only slow must not be asked faster than it can answer.
_FIRST_ATTEMPT_S = 3.0
# How long a node that just failed is asked only when all the others have failed too: doubled for one that goes on
# not answering at all, and which is then given little time to prove that it is back.
_SIT_OUT_S = 1.0
_LONGEST_SIT_OUT_S = 30.0
_PROBE_S = 0.5
# Of several nodes' errors: whether the request may have been carried out comes before why it was not, and that before a
# node that does not answer. Any other counts 1.
_TELLS = {"UNAVAILABLE": 0, "NO_QUORUM": 2, "OUTCOME_UNKNOWN": 3}


def open_channel(
    address: str, credentials: grpc.ChannelCredentials | None, *options: tuple[str, Any]
) -> grpc.aio.Channel:
    """A channel to one node; encrypted when there are credentials."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=(*CHANNEL_OPTIONS, *options))
    return grpc.aio.secure_channel(address, credentials, options=(*CHANNEL_OPTIONS, *options))


class Stubs:
    """The unary services of one node."""

    __slots__ = ("backfills", "calendars", "channel", "cluster", "dedup", "executions", "jobs", "limits", "workflows")

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.jobs: Any = JobServiceStub(channel)
        self.executions: Any = ExecutionServiceStub(channel)
        self.cluster: Any = ClusterServiceStub(channel)
        self.calendars: Any = CalendarServiceStub(channel)
        self.workflows: Any = WorkflowServiceStub(channel)
        self.dedup: Any = DedupServiceStub(channel)
        self.limits: Any = LimitServiceStub(channel)
        self.backfills: Any = BackfillServiceStub(channel)


class _Node:
    __slots__ = ("address", "silences", "sits_out_until_s", "stubs")

    def __init__(self, address: str) -> None:
        self.address = address
        self.stubs: Stubs | None = None
        self.sits_out_until_s = 0.0
        # Attempts in a row that it did not answer.
        self.silences = 0

    def open(self, credentials: grpc.ChannelCredentials | None) -> Stubs:
        if self.stubs is None:
            self.stubs = Stubs(open_channel(self.address, credentials))
        return self.stubs


class ChannelPool:
    """Channels to the nodes at `addresses` ("host:port"), opened when first used, on the running event loop."""

    def __init__(self, addresses: Sequence[str], credentials: grpc.ChannelCredentials | None = None) -> None:
        self._credentials = credentials
        self._nodes = [_Node(address) for address in checked_addresses(addresses)]
        # Processes that start together should not all begin with the same node.
        self._next = random.randrange(len(self._nodes))
        self._closed = False

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(node.address for node in self._nodes)

    async def call(
        self, method: Callable[[Stubs], Any], request: Any, *, timeout_s: float, address: str | None = None
    ) -> Any:
        """The answer of `method` to `request`, from any node that gives one within `timeout_s`.

        A mutation must carry a request_id, since it is repeated whenever its outcome is unknown. With an `address`,
        only that node is asked. Raises the error of the attempt that tells most.
        """
        deadline_s = time.monotonic() + timeout_s
        attempt_s = _FIRST_ATTEMPT_S
        backoff_s = _FIRST_BACKOFF_S
        attempts = 0
        telling: RaftschedError | None = None
        while True:
            node = self._pick() if address is None else self._named(address)
            asked_s = time.monotonic()
            # One that was silent gets little time, unless it is the only hope.
            patience_s = _PROBE_S if node.silences and node.sits_out_until_s <= asked_s else attempt_s
            within_s = max(min(deadline_s - asked_s, patience_s), 0.001)
            try:
                answer = await self._attempt(node, method, request, within_s)
            except grpc.aio.AioRpcError as failure:
                error = from_rpc(failure)
                if not error.retryable:
                    raise error from None
                if telling is None or _TELLS.get(error.reason, 1) >= _TELLS.get(telling.reason, 1):
                    telling = error
                silent = failure.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                if silent and patience_s == attempt_s:
                    attempt_s *= 2
                node.silences = node.silences + 1 if silent else 0
            else:
                node.silences = 0
                node.sits_out_until_s = 0.0
                return answer
            attempts += 1
            now_s = time.monotonic()
            node.sits_out_until_s = now_s + min(_SIT_OUT_S * 2**node.silences, _LONGEST_SIT_OUT_S)
            wait_s = 0.0
            # The other nodes are asked at once; only when all have failed is there a reason to wait.
            if address is not None or attempts % len(self._nodes) == 0:
                wait_s = backoff_s * random.uniform(0.5, 1.0)
                backoff_s = min(backoff_s * 2, _LONGEST_BACKOFF_S)
            if now_s + wait_s >= deadline_s:
                raise telling
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Closes every channel; calls that are under way fail with ClientClosed."""
        self._closed = True
        for node in self._nodes:
            stubs, node.stubs = node.stubs, None
            if stubs is not None:
                await stubs.channel.close(None)

    async def _attempt(self, node: _Node, method: Callable[[Stubs], Any], request: Any, timeout_s: float) -> Any:
        if self._closed:
            raise ClientClosed
        try:
            return await method(node.open(self._credentials))(request, timeout=timeout_s)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # Closing a channel cancels its calls; only a cancelled task may end in CancelledError.
            if self._closed and (task is None or not task.cancelling()):
                raise ClientClosed from None
            raise

    def _pick(self) -> _Node:
        """The next node in turn that has not just failed; if all have, the one that failed first."""
        now_s = time.monotonic()
        nodes = self._nodes
        for offset in range(len(nodes)):
            index = (self._next + offset) % len(nodes)
            if nodes[index].sits_out_until_s <= now_s:
                self._next = index + 1
                return nodes[index]
        return min(nodes, key=lambda node: node.sits_out_until_s)

    def _named(self, address: str) -> _Node:
        for node in self._nodes:
            if node.address == address:
                return node
        raise ValueError(f"{address} is not one of {', '.join(self.addresses)}")


def checked_addresses(addresses: Sequence[str]) -> tuple[str, ...]:
    """The addresses without repeats. Raises InvalidField if there is none, or one that is not "host:port"."""
    if isinstance(addresses, str) or not addresses:
        raise InvalidField('must be a sequence of at least one "host:port"', field="addresses")
    for number, address in enumerate(addresses):
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not (port.isascii() and port.isdigit()):
            raise InvalidField(f'{address!r} is not "host:port"', field=f"addresses[{number}]")
    return tuple(dict.fromkeys(addresses))
