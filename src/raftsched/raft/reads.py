"""Read barriers (ReadIndex): which reads wait for what, on a leader and on a follower."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from raftsched.model.errors import TooManyRequests


@dataclass(slots=True, eq=False)
class Read:
    """`done` is called once: with an index, or None when leadership could not be confirmed in time."""

    done: Callable[[int | None], None]
    deadline_s: float
    # Asked by a peer, which itself waits until it has applied the index.
    is_remote: bool


class ReadBarriers:
    """A read waits for a round of messages that began after it came, then for its index to be applied.

    One round, and one question to the leader, is under way at a time; later reads share the next one.
    """

    def __init__(self, *, max_waiting: int, timeout_s: float, ask_again_s: float) -> None:
        self._max_waiting = max_waiting
        self._timeout_s = timeout_s
        self._ask_again_s = ask_again_s
        self._new: list[Read] = []
        # The leader's: round that must be confirmed, the commit index when it began, who waits.
        self._in_round: tuple[int, int, list[Read]] | None = None
        # The follower's: number of the question, when it was asked, who waits.
        self._asked: tuple[int, float, list[Read]] | None = None
        self._questions = 0
        self._applying: deque[tuple[int, Read]] = deque()

    def __len__(self) -> int:
        in_round = self._in_round[2] if self._in_round else []
        asked = self._asked[2] if self._asked else []
        return len(self._new) + len(in_round) + len(asked) + len(self._applying)

    @property
    def wants_round(self) -> bool:
        return bool(self._new) and self._in_round is None

    @property
    def wants_leader(self) -> bool:
        return bool(self._new) and self._asked is None

    def add(self, done: Callable[[int | None], None], now_s: float, *, is_remote: bool = False) -> None:
        """Raises TooManyRequests."""
        if len(self) >= self._max_waiting:
            raise TooManyRequests()
        self._new.append(Read(done, now_s + self._timeout_s, is_remote))

    # On the leader.

    def begin_round(self, number: int, commit_index: int) -> None:
        """Everything confirmed before now is at or below `commit_index`."""
        self._in_round = (number, commit_index, self._new)
        self._new = []

    def confirmed(self, number: int) -> None:
        """A majority took this node for the leader in round `number`."""
        if self._in_round is None or self._in_round[0] > number:
            return
        _, index, reads = self._in_round
        self._in_round = None
        self._wait_until_applied(index, reads)

    def leadership_lost(self) -> None:
        """The next leader is asked instead; peers ask it themselves."""
        if self._in_round is not None:
            self._new = self._in_round[2] + self._new
            self._in_round = None
        remote = [read for read in self._new if read.is_remote]
        self._new = [read for read in self._new if not read.is_remote]
        for read in remote:
            read.done(None)

    # On a follower.

    def ask(self, now_s: float) -> int:
        """The number of the question to put to the leader."""
        self._questions += 1
        self._asked = (self._questions, now_s, self._new)
        self._new = []
        return self._questions

    def answered(self, question: int, index: int) -> None:
        """`index` 0: that node could not say; another try follows after a while."""
        if self._asked is not None and self._asked[0] == question and index > 0:
            reads = self._asked[2]
            self._asked = None
            self._wait_until_applied(index, reads)

    def leader_changed(self) -> None:
        if self._asked is not None:
            self._new = self._asked[2] + self._new
            self._asked = None

    # On both.

    def _wait_until_applied(self, index: int, reads: list[Read]) -> None:
        for read in reads:
            if read.is_remote:
                read.done(index)
            else:
                self._applying.append((index, read))

    def applied(self, index: int) -> None:
        # In order of index, give or take an answer from an earlier leader, which merely waits a little longer.
        while self._applying and self._applying[0][0] <= index:
            read_index, read = self._applying.popleft()
            read.done(max(read_index, index))

    def expire(self, now_s: float) -> None:
        if self._asked is not None and now_s - self._asked[1] >= self._ask_again_s:
            self.leader_changed()
        # All have the same timeout, so those that came first are over first.
        waiting = [*(read for _, read in self._applying)]
        waiting += self._in_round[2] if self._in_round else []
        waiting += self._asked[2] if self._asked else []
        waiting += self._new
        over = {id(read) for read in waiting if read.deadline_s <= now_s}
        if not over:
            return
        self._applying = deque(item for item in self._applying if id(item[1]) not in over)
        self._new = [read for read in self._new if id(read) not in over]
        if self._in_round is not None:
            number, index, reads = self._in_round
            self._in_round = (number, index, [read for read in reads if id(read) not in over])
        if self._asked is not None:
            question, asked_s, reads = self._asked
            self._asked = (question, asked_s, [read for read in reads if id(read) not in over])
        for read in waiting:
            if id(read) in over:
                read.done(None)

    def fail_all(self) -> None:
        """Calls every `done` with None."""
        self.expire(float("inf"))
