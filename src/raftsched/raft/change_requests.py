"""Changes of the cluster that were asked for at this node: put to whoever leads until there is an answer."""

from collections.abc import Callable
from dataclasses import dataclass

from raftsched.internal.v1 import peer_pb2
from raftsched.model.errors import (
    CannotLead,
    LeaderNotReady,
    MemberExists,
    MembershipChangeInProgress,
    NodeNotFound,
    NoQuorum,
    OutcomeUnknown,
    QuorumAtRisk,
    RaftschedError,
    TooManyRequests,
)

# Operators ask, seldom and one at a time.
MAX_WAITING = 64
# What a leader refuses with, by the reason that travels.
REFUSALS: dict[str, type[RaftschedError]] = {
    refusal.reason: refusal
    for refusal in (
        CannotLead,
        LeaderNotReady,
        MemberExists,
        MembershipChangeInProgress,
        NodeNotFound,
        QuorumAtRisk,
        TooManyRequests,
    )
}

Done = Callable[[RaftschedError | None], None]


@dataclass(slots=True, eq=False)
class Waiting:
    """`done` is called once. `index`: the leader's answer, the change holds from this entry on."""

    request: peer_pb2.ChangeRequest
    done: Done
    deadline_s: float
    # Who led when this was asked first; 0: nobody that is known.
    first_leader: int
    # Whom it was put to last, and when it is to be put again.
    asked: int = 0
    ask_at_s: float = float("-inf")
    index: int = 0
    # Why the leader would not yet.
    not_yet: RaftschedError | None = None


class ChangeRequests:
    def __init__(self, *, node_id: int, ask_again_s: float, not_ready_s: float) -> None:
        """A question without an answer is asked again after `ask_again_s`, one that came too early after
        `not_ready_s`."""
        self._node_id = node_id
        self._ask_again_s = ask_again_s
        self._not_ready_s = not_ready_s
        self._waiting: dict[int, Waiting] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: peer_pb2.ChangeRequest, done: Done, *, leader: int, deadline_s: float) -> None:
        """Raises TooManyRequests."""
        if len(self._waiting) >= MAX_WAITING:
            raise TooManyRequests()
        self._count += 1
        request.id = self._count
        self._waiting[request.id] = Waiting(request, done, deadline_s, leader)

    def to_ask(self, leader: int, now_s: float) -> list[peer_pb2.ChangeRequest]:
        """What is to be put to this leader now."""
        due = []
        for waiting in self._waiting.values():
            if waiting.index == 0 and (waiting.asked != leader or waiting.ask_at_s <= now_s):
                waiting.asked, waiting.ask_at_s = leader, now_s + self._ask_again_s
                due.append(waiting.request)
        return due

    def done_at(self, number: int, index: int) -> None:
        """The leader says that the change holds from this entry on."""
        if (waiting := self._waiting.get(number)) is not None:
            waiting.index = index
            if waiting.request.remove == self._node_id:
                # Nobody sends a removed node the entry that removes it.
                self._end(waiting, None)

    def refused(self, number: int, error: RaftschedError, now_s: float) -> None:
        """The leader says why not."""
        if (waiting := self._waiting.get(number)) is None:
            return
        if isinstance(error, LeaderNotReady):
            waiting.not_yet = error
            waiting.ask_at_s = now_s + self._not_ready_s
        else:
            self._end(waiting, error)

    def step(self, *, leader: int, applied_index: int, is_member: bool, now_s: float) -> None:
        """Ends what is done or over time."""
        for waiting in list(self._waiting.values()):
            request = waiting.request
            is_other_leader = leader not in (0, waiting.first_leader) and request.transfer in (0, leader)
            if (
                0 < waiting.index <= applied_index
                or (request.WhichOneof("change") == "transfer" and is_other_leader)
                or (request.remove == self._node_id and not is_member)
            ):
                self._end(waiting, None)
            elif waiting.deadline_s <= now_s:
                self._end(waiting, waiting.not_yet or (OutcomeUnknown() if waiting.asked else NoQuorum()))

    def fail_all(self, error: RaftschedError) -> None:
        for waiting in list(self._waiting.values()):
            self._end(waiting, error)

    def _end(self, waiting: Waiting, error: RaftschedError | None) -> None:
        del self._waiting[waiting.request.id]
        waiting.done(error)


def refusal(reason: str, message: str) -> RaftschedError:
    """The error that a leader sent."""
    return REFUSALS.get(reason, RaftschedError)(message)
