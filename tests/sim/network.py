"""The network between nodes, workers and clients: connections that deliver in order or break, as TCP does."""

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tests.sim.timeline import MILLISECOND_US, SECOND_US, Timeline

FAST_US = (100, 1_500)
# How soon a connection over which nothing comes back is given up: keepalives are sent every 10 s and waited for 5 s.
GIVE_UP_US = (2 * SECOND_US, 15 * SECOND_US)
# How long an end takes to notice that its connection is broken.
NOTICE_US = (100, 20 * MILLISECOND_US)

_END = object()


class Connection:
    """Between two parties, made by the first. Each end is told of messages and, once, of the loss."""

    def __init__(self, network: "Network", a: int, b: int) -> None:
        self._network = network
        self.parties = (a, b)
        self.is_broken = False
        # An end is gone and the other could not be told: the next message that reaches it is answered by a reset.
        self.is_half_open = False
        self._on_message: dict[int, Callable[[Any], None]] = {}
        self._on_lost: dict[int, Callable[[], None]] = {}
        # When the newest message to each party arrives, and those held up on the way.
        self._latest_us = {a: 0, b: 0}
        self._held: dict[int, deque[Any]] = {a: deque(), b: deque()}

    def listen(self, party: int, on_message: Callable[[Any], None], on_lost: Callable[[], None]) -> None:
        self._on_message[party] = on_message
        self._on_lost[party] = on_lost

    def other(self, party: int) -> int:
        a, b = self.parties
        return b if party == a else a

    def send(self, source: int, message: Any) -> None:
        """Arrives at the other end after all that was sent before, or never if the connection breaks first."""
        if self.is_broken:
            return
        to = self.other(source)
        timeline = self._network.timeline
        arrives_us = max(timeline.now_us + self._network.delay_us(source, to), self._latest_us[to])
        self._latest_us[to] = arrives_us
        timeline.after(arrives_us - timeline.now_us, lambda: self._arrive(source, to, message))

    def shut(self, party: int) -> None:
        """This end closes: it hears nothing more, the other end is told as soon as the network lets it know."""
        self._on_message.pop(party, None)
        self._on_lost.pop(party, None)
        if (party, self.other(party)) in self._network.cuts:
            self.is_half_open = True
            self._network.give_up_later(self)
        else:
            self.break_off()

    def end(self, party: int) -> None:
        """This end closes in order: what it has sent arrives first."""
        self._on_message.pop(party, None)
        self._on_lost.pop(party, None)
        self.send(party, _END)

    def break_off(self) -> None:
        """What is on its way is lost; each end notices in its own time."""
        if self.is_broken:
            return
        self.is_broken = True
        self._network.forget(self)
        for party in self.parties:
            self._held[party].clear()
            on_lost = self._on_lost.get(party)
            if on_lost is not None:
                self._network.timeline.after(self._network.rng.randint(*NOTICE_US), on_lost)

    def release(self, source: int, to: int) -> None:
        """That direction is open again."""
        held = self._held[to]
        while held and (source, to) not in self._network.cuts and not self.is_broken:
            self._hand_over(to, held.popleft())

    def _arrive(self, source: int, to: int, message: Any) -> None:
        if self.is_broken:
            return
        if (source, to) in self._network.cuts or self._held[to]:
            self._held[to].append(message)
        else:
            self._hand_over(to, message)

    def _hand_over(self, to: int, message: Any) -> None:
        if message is _END:
            self.break_off()
            return
        on_message = self._on_message.get(to)
        if on_message is not None:
            on_message(message)
        elif self.is_half_open:
            self.break_off()


class Network:
    """`cuts` holds the directions in which nothing passes. Parties are numbers: see simulation.py."""

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.timeline = timeline
        self.rng = rng
        self.cuts: set[tuple[int, int]] = set()
        # From the first to the second nothing can be opened, and what was is broken: a firewall before a port.
        self.refused: set[tuple[int, int]] = set()
        self.latency_us = FAST_US
        self._slow: dict[tuple[int, int], tuple[int, int]] = {}
        # In order of their opening.
        self._connections: dict[Connection, None] = {}

    def delay_us(self, source: int, to: int) -> int:
        low, high = self._slow.get((source, to), self.latency_us)
        return low + int((high - low) * self.rng.random())

    def can_reach(self, a: int, b: int) -> bool:
        """Whether a connection from `a` to `b` can be made: that needs both directions."""
        return (a, b) not in self.cuts and (b, a) not in self.cuts and (a, b) not in self.refused

    def open(self, a: int, b: int) -> Connection:
        connection = Connection(self, a, b)
        self._connections[connection] = None
        return connection

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def cut(self, directions: Iterable[tuple[int, int]]) -> None:
        """Nothing passes in these directions any more; connections that wait too long for an answer break."""
        directions = [direction for direction in directions if direction not in self.cuts]
        self.cuts.update(directions)
        hit = {frozenset(direction) for direction in directions}
        for connection in list(self._connections):
            if frozenset(connection.parties) in hit:
                self.give_up_later(connection)

    def give_up_later(self, connection: Connection) -> None:
        """Breaks the connection unless both directions are open by then."""
        a, b = connection.parties

        def give_up() -> None:
            if connection.is_half_open or (a, b) in self.cuts or (b, a) in self.cuts:
                connection.break_off()

        self.timeline.after(self.rng.randint(*GIVE_UP_US), give_up)

    def mend(self, directions: Iterable[tuple[int, int]] | None = None) -> None:
        """These directions, or all, are open again: what waited on the way arrives."""
        opened = sorted(self.cuts if directions is None else self.cuts & set(directions))
        self.cuts.difference_update(opened)
        for source, to in opened:
            for connection in list(self._connections):
                if set(connection.parties) == {source, to}:
                    connection.release(source, to)

    def refuse(self, a: int, b: int) -> None:
        self.refused.add((a, b))
        for connection in list(self._connections):
            if connection.parties == (a, b):
                connection.break_off()

    def allow_all(self) -> None:
        self.refused.clear()

    def slow_down(self, directions: Iterable[tuple[int, int]], latency_us: tuple[int, int]) -> None:
        for direction in directions:
            self._slow[direction] = latency_us

    def speed_up(self) -> None:
        self._slow.clear()
        self.latency_us = FAST_US

    def reset_between(self, a: int, b: int) -> None:
        """Breaks every connection between the two."""
        for connection in list(self._connections):
            if set(connection.parties) == {a, b}:
                connection.break_off()

    def connections_of(self, party: int) -> list[Connection]:
        return [connection for connection in self._connections if party in connection.parties]
