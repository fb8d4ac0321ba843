"""Verification of one node: reads its whole state and log in search of damage, and compares with the other nodes.

A Verify command marks an entry. Every node, when it has applied it, commits, takes a view of exactly that state and
has every row hashed beside its work; then every entry of its log is checked. Nodes tell each other their hashes. What
a majority has is right: a node with another content is damaged, and so is one that cannot read all it has.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from raftsched.dispatch.cluster_view import VerificationView
from raftsched.internal.v1 import report_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.raft.log import RaftLog
from raftsched.raft.ports import Background, Clock
from raftsched.state.machine import Machine
from raftsched.store.content import content_hash
from raftsched.store.environment import DAMAGE, HeldView, Store
from raftsched.v1 import cluster_pb2

logger = logging.getLogger(__name__)

# The reader works so long at a stretch, then rests in proportion to its share.
STRETCH_S = 0.005
_UNDECIDED = (cluster_pb2.VERIFICATION_STATE_RUNNING, cluster_pb2.VERIFICATION_STATE_ALONE)


class _CancelledError(Exception):
    """The reading was ended: the node stops, a newer one begins, or the state is to be replaced."""


@dataclass(frozen=True, slots=True)
class _Found:
    content_hash: bytes
    rows: int
    log_entries: int


@dataclass(slots=True, eq=False)
class _Run:
    """One verification on this node. `state` is a raftsched.v1.VerificationState."""

    index: int
    began_s: float
    cancelled: threading.Event = field(default_factory=threading.Event)
    state: int = cluster_pb2.VERIFICATION_STATE_RUNNING
    found: _Found | None = None
    duration_ms: int = 0
    problem: str = ""
    same: tuple[int, ...] = ()
    other: tuple[int, ...] = ()


class Verifications:
    """On the core thread; only the reading itself happens in the background. At most one runs, the newest."""

    def __init__(
        self,
        *,
        node_id: int,
        members: Callable[[], Collection[int]],
        machine: Machine,
        store: Store,
        log: RaftLog,
        clock: Clock,
        background: Background,
        share: float,
    ) -> None:
        """`members`: the nodes whose majority decides. `share`: of the time, what the reader takes; 1 for all of it."""
        self._node_id = node_id
        self._members = members
        self._machine = machine
        self._store = store
        self._log = log
        self._clock = clock
        self._background = background
        self._share = share
        self._run: _Run | None = None
        # Of the reading under way, and of those that wait for a cancelled one to end.
        self._held: list[HeldView] = []
        # Peer -> the index and hash of the newest verification that it has completed.
        self._peers: dict[int, tuple[int, bytes]] = {}

    def start(self) -> None:
        """The entry just applied asks for it. Commits, so that a reader sees exactly this state."""
        if self._run is not None:
            self._run.cancelled.set()
        self._machine.commit()
        run = self._run = _Run(self._machine.applied_index, self._clock.monotonic())
        logger.info("verifying state and log", extra={"index": run.index})
        held = self._store.hold()
        self._held.append(held)
        pace = _Pace(run.cancelled, held, self._share)
        self._background.submit(
            partial(_read, held, self._store.path, self._log, pace), partial(self._finished, run, held)
        )

    def poll(self) -> None:
        """Takes note of a reading that has ended."""
        self._background.poll()

    def reported(self, peer: int, verified: report_pb2.Verified) -> None:
        """What a peer has found."""
        self._peers[peer] = (verified.index, verified.content_hash)
        self._judge()

    def report(self) -> report_pb2.Verified | None:
        """What this node has found, for the others to compare with."""
        if self._run is None or self._run.found is None:
            return None
        return report_pb2.Verified(index=self._run.index, content_hash=self._run.found.content_hash)

    @property
    def problem(self) -> str:
        """Why this node must not serve any more; empty when there is no reason."""
        return self._run.problem if self._run is not None else ""

    def view(self) -> VerificationView | None:
        run = self._run
        if run is None:
            return None
        found = run.found or _Found(b"", 0, 0)
        return VerificationView(
            index=run.index,
            state=run.state,
            content_hash=found.content_hash.hex(),
            state_rows=found.rows,
            log_entries=found.log_entries,
            duration_ms=run.duration_ms,
            problem=run.problem,
            same=run.same,
            other=run.other,
        )

    def close(self) -> None:
        """Ends what runs, and waits for it."""
        if self._run is not None:
            self._run.cancelled.set()
        self._background.close()
        for held in self._held:
            held.close()

    def _finished(self, run: _Run, held: HeldView, found: _Found | None, error: Exception | None) -> None:
        held.close()
        self._held.remove(held)
        run.duration_ms = round((self._clock.monotonic() - run.began_s) * 1000)
        if isinstance(error, StoreCorrupt):
            run.state, run.problem = cluster_pb2.VERIFICATION_STATE_DAMAGED, error.message
        elif isinstance(error, _CancelledError):
            run.state = cluster_pb2.VERIFICATION_STATE_CANCELLED
        elif error is not None:
            raise error
        else:
            run.found = found
        if run is self._run:
            self._judge()
            logger.info("verified state and log", extra={"index": run.index, "duration_ms": run.duration_ms})

    def _judge(self) -> None:
        run = self._run
        # What a majority has said stays said, when the peers go on to their next verification.
        if run is None or run.found is None or run.state not in _UNDECIDED:
            return
        hashes = {peer: told for peer, (index, told) in self._peers.items() if index == run.index}
        hashes[self._node_id] = own = run.found.content_hash
        members = self._members()
        votes = Counter(told for peer, told in hashes.items() if peer in members)
        # None when this node has no vote and has not heard from those that have one.
        winner, count = max(votes.items(), key=lambda vote: vote[1], default=(own, 0))
        run.same = tuple(sorted(peer for peer, told in hashes.items() if told == own))
        run.other = tuple(sorted(peer for peer, told in hashes.items() if told != own))
        # Less than a majority decides nothing: of two nodes that differ either may be the damaged one.
        if count <= len(members) // 2:
            run.state = cluster_pb2.VERIFICATION_STATE_ALONE
        elif winner == own:
            run.state = cluster_pb2.VERIFICATION_STATE_SAME
        else:
            run.state = cluster_pb2.VERIFICATION_STATE_DIFFERS
            run.problem = f"the content of {self._store.path / 'data.mdb'} differs from that of a majority of the nodes"


class _Pace:
    """What the reader calls now and then: rests, since the node's own work comes first, and ends what was cancelled."""

    def __init__(self, cancelled: threading.Event, held: HeldView, share: float) -> None:
        self._cancelled = cancelled
        self._held = held
        self._rest_per_work = 1 / share - 1
        self._since_s = time.monotonic()

    def __call__(self) -> None:
        if self._rest_per_work > 0:
            worked_s = time.monotonic() - self._since_s
            if worked_s >= STRETCH_S:
                self._cancelled.wait(worked_s * self._rest_per_work)
                self._since_s = time.monotonic()
        if self._cancelled.is_set() or self._held.is_in_the_way:
            raise _CancelledError


def _read(held: HeldView, state: Path, log: RaftLog, pace: _Pace) -> _Found:
    """In the background. The view of the state is let go before the log is read."""
    try:
        digest, rows = content_hash(held.view, pace)
    except DAMAGE as error:
        raise StoreCorrupt(f"{state / 'data.mdb'} is damaged: {error}") from error
    finally:
        held.close()
    return _Found(digest, rows, log.check(pace))
