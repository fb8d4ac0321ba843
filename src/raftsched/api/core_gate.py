"""What every service does with the core: submits and remembers how far, waits before it reads, and never for ever."""

import asyncio
from collections.abc import Awaitable, Callable

from raftsched.api.grpc_types import Context
from raftsched.api.ports import Core
from raftsched.api.shared_barrier import SharedBarrier
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import NodeDiverged, OutcomeUnknown, ReadTimeout
from raftsched.state.results import Rejected, Result
from raftsched.v1 import cluster_pb2, job_pb2

# Of callers without a deadline, or with a later one: longer than an election, shorter than anybody's patience.
MAX_WAIT_S = 10.0
# Kept from the caller's deadline, so that our answer, which says more, comes before gRPC's own.
ANSWER_MARGIN_S = 0.1


class CoreGate:
    """One per server, shared by its services: what one of them wrote, the others read."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._barrier = SharedBarrier(core.read_barrier)
        # The state at this index holds everything this node has answered a mutation with.
        self._answered_index = 0

    @property
    def core(self) -> Core:
        return self._core

    async def submit(
        self, command: command_pb2.Command, context: Context, *, ops: int = 1, at_least_s: float = 0.0
    ) -> Result:
        """The result of `command`, never Rejected: raises its error instead. `at_least_s`: also for a caller who waits
        less long."""
        self._refuse_if_diverged()
        result = await self._core.submit(command, ops, max(remaining_s(context), at_least_s))
        self._answered_index = max(self._answered_index, self._core.machine.applied_index)
        if isinstance(result, Rejected):
            raise result.error
        return result

    async def change(self, ask: Callable[[float], Awaitable[None]], context: Context) -> None:
        """Has the cluster itself changed by `ask(timeout_s)`, whose errors pass through. Raises OutcomeUnknown."""
        self._refuse_if_diverged()
        timeout_s = remaining_s(context)
        try:
            # The core ends it in time, unless it stops meanwhile.
            async with asyncio.timeout(timeout_s + ANSWER_MARGIN_S / 2):
                await ask(timeout_s)
        except TimeoutError:
            raise OutcomeUnknown() from None
        self._answered_index = max(self._answered_index, self._core.machine.applied_index)

    @property
    def answered_index(self) -> int:
        """For answers to mutations: reading at or after it sees them, and everything this node answered before."""
        return self._answered_index

    async def wait_readable(self, options: job_pb2.ReadOptions, context: Context) -> None:
        """Returns once `store.read()` is as recent as `options` ask for, and holds all this node has confirmed.

        Raises ReadTimeout, NoQuorum (linearizable only), NodeDiverged.
        """
        self._refuse_if_diverged()
        index = max(options.min_index, self._answered_index)
        try:
            async with asyncio.timeout(remaining_s(context)):
                if options.linearizable:
                    index = max(index, await self._barrier.index())
                if self._core.machine.committed_index < index:
                    await self._core.committed(index)
        except TimeoutError:
            raise ReadTimeout(
                min_index=str(options.min_index), committed_index=str(self._core.machine.committed_index)
            ) from None

    def _refuse_if_diverged(self) -> None:
        if self._core.status().health == cluster_pb2.NODE_HEALTH_DIVERGED:
            raise NodeDiverged()


def remaining_s(context: Context) -> float:
    """How long this call may still take, never more than MAX_WAIT_S."""
    deadline_s: float | None = context.time_remaining()
    if deadline_s is None:
        return MAX_WAIT_S
    return min(MAX_WAIT_S, max(0.0, deadline_s - ANSWER_MARGIN_S))
