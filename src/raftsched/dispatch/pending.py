"""This node's commands that are under way: who waits for each, when to propose it again, when to give up.

Every command is idempotent, so a command without a result is simply proposed again under the same request number
until its deadline. Runs on the core thread.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import NoQuorum, OutcomeUnknown, RaftschedError, TooManyRequests
from raftsched.state.results import Rejected, Result

# Waiters each hold a serialized command, so this bounds memory; a client is told to come back later.
MAX_PENDING = 20_000
# Longer than an entry takes under load, shorter than an election: a lost forward is noticed before users are.
REPROPOSE_AFTER_S = 1.0

OnResult = Callable[[Result], None]
Propose = Callable[[bytes, int], None]


@dataclass(slots=True)
class _Waiter:
    data: bytes
    ops: int
    on_result: OnResult
    deadline_s: float
    retry_s: float
    proposed: bool


class PendingTable:
    """Requests from `first_request` on; a node that restarts must start above all it used before."""

    def __init__(self, *, node_id: int, first_request: int, propose: Propose) -> None:
        self._node_id = node_id
        self._first_request = first_request
        self._next_request = first_request
        self._propose = propose
        self._waiters: dict[int, _Waiter] = {}
        # (time, request): the earlier of a waiter's retry and deadline. Entries of finished waiters stay until popped.
        self._alarms: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def submit(
        self, command: command_pb2.Command, ops: int, on_result: OnResult, *, now_s: float, timeout_s: float
    ) -> None:
        """Proposes `command` and calls `on_result` once, with its result or `Rejected`.

        `now_s` is the monotonic clock. Rejected at once when the table is full or the replica refuses the command.
        """
        if len(self._waiters) >= MAX_PENDING:
            on_result(Rejected(TooManyRequests()))
            return
        request = self._next_request
        self._next_request += 1
        command.origin = self._node_id
        command.request = request
        waiter = _Waiter(command.SerializeToString(), ops, on_result, now_s + timeout_s, now_s, False)
        self._waiters[request] = waiter
        self._try_propose(request, waiter, now_s)

    def resolve(self, request: int, result: Result) -> bool:
        """Hands the result over; False when nobody waits for it (any more)."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return False
        waiter.on_result(result)
        return True

    def is_of_this_run(self, request: int) -> bool:
        """False for what this node asked for before it restarted."""
        return request >= self._first_request

    def step(self, now_s: float) -> float | None:
        """Proposes again what got no result, gives up what is over time. Returns when to be called next (monotonic)."""
        while self._alarms and self._alarms[0][0] <= now_s:
            _, request = heapq.heappop(self._alarms)
            waiter = self._waiters.get(request)
            if waiter is None:
                continue
            if waiter.deadline_s <= now_s:
                error = OutcomeUnknown() if waiter.proposed else NoQuorum()
                self.resolve(request, Rejected(error))
            elif waiter.retry_s <= now_s:
                self._try_propose(request, waiter, now_s)
        return self._alarms[0][0] if self._alarms else None

    def propose_all_again(self, now_s: float) -> None:
        """For a new leader: what was on its way to the old one is proposed at once."""
        for request, waiter in list(self._waiters.items()):
            self._try_propose(request, waiter, now_s)

    def fail_all(self, error: RaftschedError) -> None:
        """Answers every waiter with `error`, when the node stops."""
        for request in list(self._waiters):
            self.resolve(request, Rejected(error))

    def _try_propose(self, request: int, waiter: _Waiter, now_s: float) -> None:
        try:
            self._propose(waiter.data, waiter.ops)
            waiter.proposed = True
        except RaftschedError as error:
            # A command that is too large, say, will never be taken; one that was taken before may be again.
            if not waiter.proposed:
                self.resolve(request, Rejected(error))
                return
        waiter.retry_s = now_s + REPROPOSE_AFTER_S
        heapq.heappush(self._alarms, (min(waiter.retry_s, waiter.deadline_s), request))
