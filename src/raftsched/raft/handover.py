"""How a leader hands over to another node: it stops proposing, waits until that node has everything, and asks it."""

import logging
from typing import Any

from raftsched.internal.v1 import peer_pb2
from raftsched.raft.replication import Replication

logger = logging.getLogger(__name__)


class Handover(Replication):
    def __init__(self, *args: Any) -> None:
        self._transfer_to: int | None = None
        self._transfer_until_s = 0.0
        super().__init__(*args)

    def transfer_leadership(self, target: int | None) -> bool:
        """Asks `target`, or the most advanced follower, to take over. False when there is nobody who could.

        Until the target has everything nothing is proposed; after an election timeout this node goes on leading.
        """
        if not self.is_leader:
            return False
        candidates = self.connected_ids & self._progress.keys() & self.membership.voters
        if target is None and candidates:
            target = max(candidates, key=lambda peer: (self._progress[peer].match, -peer))
        if target not in candidates:
            return False
        self._transfer_to = target
        self._transfer_until_s = self._clock.monotonic() + self._config.election_timeout_max_ms / 1000
        logger.info("handing over leadership", extra={"to": target, "term": self.term})
        return True

    def step_down(self) -> None:
        """Gives up leadership at once, and leaves the next election to the others."""
        if self.is_leader:
            self._become_follower(self.term, None, "asked to")
            self._SyncObj__raftElectionDeadline += self._config.election_timeout_max_ms / 1000

    def _hand_over(self, now_s: float) -> None:
        if self._transfer_to is None:
            return
        progress = self._progress[self._transfer_to]
        if now_s >= self._transfer_until_s:
            logger.warning("leadership was not taken over", extra={"by": self._transfer_to, "term": self.term})
            self._transfer_to = None
        elif progress.match == self._log.last_index:
            self._send(self._transfer_to, timeout_now=peer_pb2.TimeoutNow())

    def _on_leadership_lost(self) -> None:
        super()._on_leadership_lost()
        self._transfer_to = None
