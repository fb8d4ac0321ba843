"""What a worker holds: blocks of executions leased in one step, each under one fencing token."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raftsched.client.handlers import Handler
from raftsched.v1 import worker_pb2

if TYPE_CHECKING:
    from raftsched.client.dedup import HandlerCalls
    from raftsched.client.outbox import Outbox


class Block:
    """The columns of one LeaseBatch. Those that few handlers look at stay in the message."""

    def __init__(self, batch: worker_pb2.LeaseBatch, *, received_ms: int) -> None:
        self.batch = batch
        self.token = batch.token
        self.ids = list(batch.execution_ids)
        self.count = len(self.ids)
        self.kind_indexes = list(batch.kind_indexes)
        self.payloads = list(batch.payloads)
        # By the wall clock.
        self.received_ms = received_ms
        # What its handlers ask of the cluster; None in a process of its own.
        self.calls: HandlerCalls | None = None
        self._upstreams: dict[int, Sequence[worker_pb2.UpstreamExecution]] | None = None

    def kind(self, index: int) -> worker_pb2.JobKind:
        return self.batch.kinds[self.kind_indexes[index] if self.kind_indexes else 0]

    def single(self, index: int) -> worker_pb2.LeaseBatch:
        """A batch of that one execution, to hand to another process."""
        batch = self.batch
        return worker_pb2.LeaseBatch(
            token=self.token,
            execution_ids=[self.ids[index]],
            job_ids=[batch.job_ids[index]],
            scheduled_for_ms=[batch.scheduled_for_ms[index]],
            attempts=[batch.attempts[index]] if batch.attempts else [],
            kinds=[self.kind(index)],
            payloads=[self.payloads[index]] if self.payloads else [],
            upstreams=[found for found in batch.upstreams if found.execution_id == self.ids[index]],
        )

    def upstreams(self, index: int) -> Sequence[worker_pb2.UpstreamExecution]:
        """The executions that this one follows."""
        if self._upstreams is None:
            self._upstreams = {found.execution_id: found.executions for found in self.batch.upstreams}
        return self._upstreams.get(self.ids[index], ())


class HeldBlock(Block):
    """A block this worker holds: its executions begin in order, and end in any."""

    def __init__(
        self,
        batch: worker_pb2.LeaseBatch,
        *,
        handlers: Sequence[Handler],
        outbox: "Outbox",
        received_ms: int,
        received_s: float,
        calls: "HandlerCalls | None" = None,
    ) -> None:
        super().__init__(batch, received_ms=received_ms)
        # handlers[i] runs what is of batch.kinds[i].
        self.handlers = handlers
        self.outbox = outbox
        self.calls = calls
        # By the monotonic clock.
        self.received_s = received_s
        # The first execution that has not begun.
        self.next = 0
        # Indexes of executions that will not begin although they are not before `next`.
        self.dropped: set[int] = set()
        # Executions whose result the cluster has not confirmed, and that were not given back or lost.
        self.unsettled = self.count
        # Completed since the last Ack.
        self.done_ids: list[int] = []
        self.done_started_ms: list[int] = []
        self.done_ended_ms: list[int] = []
        # Empty while no handler has returned anything.
        self.done_results: list[bytes] = []

    def unbegun(self) -> list[int]:
        """Indexes of the executions that wait for a handler slot."""
        return [index for index in range(self.next, self.count) if index not in self.dropped]


class LeaseBook:
    """The blocks of one session that are not settled yet."""

    def __init__(self) -> None:
        # A lease may come in several messages.
        self._blocks: dict[int, list[HeldBlock]] = {}

    def tokens(self) -> list[int]:
        """What a heartbeat lists as held."""
        return list(self._blocks)

    def ids_under(self, token: int) -> set[int]:
        """Executions that are held under that token already."""
        return {execution_id for block in self._blocks.get(token, ()) for execution_id in block.ids}

    def add(self, block: HeldBlock) -> None:
        self._blocks.setdefault(block.token, []).append(block)

    def find(self, token: int, execution_id: int) -> tuple[HeldBlock, int] | None:
        """The block that holds the execution under that token, and its index there."""
        for block in self._blocks.get(token, ()):
            if execution_id in block.ids:
                return block, block.ids.index(execution_id)
        return None

    def settle(self, block: HeldBlock, count: int) -> None:
        """`count` executions of the block need no answer any more. A block without any is not held any more."""
        block.unsettled -= count
        if block.unsettled <= 0:
            blocks = self._blocks.get(block.token, [])
            if block in blocks:
                blocks.remove(block)
            if not blocks:
                self._blocks.pop(block.token, None)


# (block, indexes in it) of executions that are given back.
Released = list[tuple[HeldBlock, list[int]]]


def release_message(released: Released) -> worker_pb2.WorkerMessage:
    """Gives executions back unrun."""
    message = worker_pb2.WorkerMessage()
    for block, indexes in released:
        message.release.leases.add(token=block.token, execution_ids=[block.ids[index] for index in indexes])
    return message
