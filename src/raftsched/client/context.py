"""What a handler is told about the execution it runs."""

import json
import threading
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from raftsched.client.dedup import Dedup, HandlerCalls
from raftsched.client.leases import Block
from raftsched.client.values import Upstream
from raftsched.v1 import worker_pb2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_event_lock = threading.Lock()


class StopReason(StrEnum):
    """Why a worker stopped a handler. But for CANCELLED, what it still returns or raises is not reported."""

    # A caller has cancelled the execution. It succeeds if its handler returns all the same, and is not tried again.
    CANCELLED = "CANCELLED"
    RUN_TIMEOUT = "RUN_TIMEOUT"
    # Another worker may have the execution by now.
    LEASE_LOST = "LEASE_LOST"
    # The job's next occurrence took its place, as the overlap policy REPLACE wants it.
    REPLACED = "REPLACED"
    SHUTDOWN = "SHUTDOWN"


class ExecutionStopped(Exception):
    """The worker has stopped this execution; its result would not be accepted."""

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason
        super().__init__(f"{type(self).__doc__} ({reason})")


class Context:
    """One execution, as its handler sees it.

    It may run more than once: `idempotency_key` is the same for every run of this occurrence, `token` grows with
    every lease, so that a store which remembers the highest one seen can refuse a run that was overtaken.
    """

    # Defaults of the class, so that creating one, which happens for every execution, sets three attributes.
    # Why the worker has stopped this execution; None while it may go on.
    stop_reason: StopReason | None = None
    _event: threading.Event | None = None

    def __init__(self, block: Block, index: int, started_ms: int) -> None:
        self._block = block
        self._index = index
        self.started_ms = started_ms

    def __repr__(self) -> str:
        return f"<Context handler={self.handler} job={self.job_id} execution={self.execution_id} token={self.token}>"

    @property
    def location(self) -> tuple[Block, int]:
        """The block that holds the execution, and its index there; for the worker's own use."""
        return self._block, self._index

    @property
    def _kind(self) -> worker_pb2.JobKind:
        return self._block.kind(self._index)

    @property
    def execution_id(self) -> int:
        return self._block.ids[self._index]

    @property
    def job_id(self) -> int:
        return self._block.batch.job_ids[self._index]

    @property
    def scheduled_for(self) -> datetime:
        """The occurrence's time on its schedule: not delayed by jitter, backoff or load."""
        return _EPOCH + timedelta(milliseconds=self._block.batch.scheduled_for_ms[self._index])

    @property
    def attempt(self) -> int:
        """From 1; grows after a failure, not after a lost lease."""
        attempts = self._block.batch.attempts
        return attempts[self._index] if attempts else 1

    @property
    def max_attempts(self) -> int:
        return self._kind.max_attempts

    @property
    def token(self) -> int:
        """Fencing token of the lease."""
        return self._block.token

    @property
    def idempotency_key(self) -> str:
        """Names the occurrence: the job and the milliseconds since the epoch of `scheduled_for`."""
        return f"{self.job_id}@{self._block.batch.scheduled_for_ms[self._index]}"

    def dedup(self, key: str = "", *, keep: timedelta | None = None) -> Dedup:
        """Claims a key with the cluster, `idempotency_key` unless given, for the time of a block:

            async with context.dedup() as once:
                if once.done:
                    return
                once.result = await charge_the_card()

        When the block ends without an error the key is completed, and later runs find `done` and `result`. After an
        error, or when this run is lost, the next run takes the key over: it cannot know how far this one came. A key
        that another run holds raises KeyBusy, which puts this one off. The key is kept for `keep` after its last
        change, 7 days by default. In a thread: `with`. Raises RuntimeError in a handler with `process=True`, which may
        use Client.claim_key.
        """
        return Dedup(
            self._calls,
            key=key or self.idempotency_key,
            namespace=self.namespace,
            execution_id=self.execution_id,
            token=self.token,
            keep=keep,
        )

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """The executions that this one follows, in the order in which its job names their jobs; empty without any."""
        return tuple(
            Upstream(node=found.node, job_id=found.job_id, execution_id=found.execution_id)
            for found in self._block.upstreams(self._index)
        )

    async def upstream_result(self, upstream: str | int) -> bytes:
        """What the handler of an upstream returned, named by its node in the workflow, or by its job's id.

        Empty when it returned nothing. Raises KeyError for a name or id that is not among `upstreams`, NoResult when
        the upstream did not succeed. Not in a handler with `process=True`, which may use SyncClient.get_result.
        """
        return await self._calls.client.get_result(self._upstream(upstream).execution_id, linearizable=True)

    def upstream_result_sync(self, upstream: str | int) -> bytes:
        """As upstream_result, for handlers in threads."""
        return self._calls.wait(self.upstream_result(upstream))

    def _upstream(self, wanted: str | int) -> Upstream:
        for found in self.upstreams:
            if wanted == (found.node if isinstance(wanted, str) else found.job_id):
                return found
        known = ", ".join(repr(found.node or found.job_id) for found in self.upstreams) or "none"
        raise KeyError(f"{wanted!r} is no upstream of this execution; it has: {known}")

    @property
    def _calls(self) -> HandlerCalls:
        calls = self._block.calls
        if calls is None:
            raise RuntimeError("a handler in a process has no connection of the worker's: use SyncClient")
        return calls

    @property
    def deadline(self) -> datetime | None:
        """When the attempt fails with a timeout, by this machine's clock; None without a run timeout."""
        timeout_ms = self._kind.run_timeout_ms
        return _EPOCH + timedelta(milliseconds=self._block.received_ms + timeout_ms) if timeout_ms else None

    @property
    def namespace(self) -> str:
        return self._kind.namespace

    @property
    def handler(self) -> str:
        return self._kind.handler

    @property
    def queue(self) -> str:
        return self._kind.queue

    @property
    def tenant(self) -> str:
        return self._kind.tenant

    @property
    def content_type(self) -> str:
        return self._kind.content_type

    @property
    def payload(self) -> bytes:
        payloads = self._block.payloads
        return payloads[self._index] if payloads else b""

    def json(self) -> Any:
        """The payload, decoded from JSON. Raises ValueError."""
        return json.loads(self.payload)

    @property
    def cancelled(self) -> threading.Event:
        """Set when the worker stops this execution.

        A handler in a thread has to look at it, or call `raise_if_cancelled`; a coroutine gets CancelledError
        anyway, and a handler in a process is killed.
        """
        if self._event is None:
            with _event_lock:
                if self._event is None:
                    self._event = threading.Event()
            if self.stop_reason is not None:
                self._event.set()
        return self._event

    def raise_if_cancelled(self) -> None:
        """Raises ExecutionStopped once the worker has stopped this execution."""
        if self.stop_reason is not None:
            raise ExecutionStopped(self.stop_reason)

    def mark_stopped(self, reason: StopReason) -> None:
        """For the worker's own use."""
        self.stop_reason = reason
        with _event_lock:
            event = self._event
        if event is not None:
            event.set()


def log_fields(block: Block, index: int) -> dict[str, object]:
    """What every log line about an execution carries as `extra`."""
    return {
        "execution": block.ids[index],
        "job": block.batch.job_ids[index],
        "handler": block.kind(index).handler,
        "token": block.token,
    }
