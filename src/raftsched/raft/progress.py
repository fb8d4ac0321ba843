"""What the leader knows of one follower, and what it may send to it next."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum


class Mode(Enum):
    # Where the logs agree is not known: one message, then wait for the answer.
    PROBE = "probe"
    # They agree up to `match`: keep sending, a window ahead.
    REPLICATE = "replicate"
    # The follower needs entries that the log no longer has.
    SNAPSHOT = "snapshot"


@dataclass(slots=True)
class Progress:
    """`match`: on the follower's disk for certain. `next`: the next entry to send."""

    next: int
    # When its last answer of this term came.
    heard_s: float
    match: int = 0
    mode: Mode = Mode.PROBE
    # The probe has been sent; what comes next waits for its answer, or for the answer to a heartbeat.
    probing: bool = False
    # Last index and bytes of each message of entries that is not answered yet.
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    in_flight_bytes: int = 0
    # The latest commit index and round it was told, the latest round it has answered.
    told_commit: int = 0
    told_round: int = 0
    answered_round: int = 0

    def may_send(self, window_bytes: int) -> bool:
        if self.mode is Mode.PROBE:
            return not self.probing
        # One message always fits, however large its only entry.
        return self.mode is Mode.REPLICATE and (not self.in_flight or self.in_flight_bytes < window_bytes)

    def sent(self, last: int, size: int) -> None:
        """Entries up to `last` have been handed to the transport."""
        if self.mode is Mode.PROBE:
            self.probing = True
            return
        # Optimistic: a loss is noticed by the follower's refusal of what comes after it.
        self.next = last + 1
        self.in_flight.append((last, size))
        self.in_flight_bytes += size

    def accepted(self, match: int) -> bool:
        """The follower has everything up to `match`. Whether that is news.

        Neither number ever moves back here: an answer to an earlier message says nothing against a later one.
        """
        while self.in_flight and self.in_flight[0][0] <= match:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        news = match > self.match
        self.match = max(self.match, match)
        self.next = max(self.next, match + 1)
        if self.mode is Mode.PROBE:
            self.mode = Mode.REPLICATE
            self.probing = False
        return news

    def refused(self, prev: int, hint: int, last: int) -> None:
        """The logs differ at `prev`, where a message began; they may agree at `hint`. `last`: the follower's end.

        Of several messages that began at one place only the first refusal counts: each one would have everything
        that follows sent once more.
        """
        if last < self.match:
            # It has lost what it had on disk. Counting it for those entries would be a lie.
            self.match = 0
        elif prev <= self.match or (self.mode is Mode.PROBE and prev != self.next - 1):
            return
        # The hint tells only of what the follower knows to be committed, which may be less than is known to match.
        self.probe(max(hint, self.match) + 1)

    def probe(self, next_index: int | None = None) -> None:
        """Back to one message at a time, from `next_index` or the first entry not known to match."""
        self.mode = Mode.PROBE
        self.probing = False
        self.next = self.match + 1 if next_index is None else next_index
        self.in_flight.clear()
        self.in_flight_bytes = 0
