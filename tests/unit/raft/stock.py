"""pysyncobj's own SyncObj, driven by hand: made-up messages in, sent messages out, a clock that a test moves."""

from typing import Any

import pytest
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node

from tests.unit.raft.support import StockTransport

REGULAR = b"\x00"
NO_OP = b"\x01"
LEADER = 2


class StockClock:
    """Replaces the clock that pysyncobj's module reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr("pysyncobj.syncobj.monotonicTime", lambda: self.now_s)


class Stock(SyncObj):  # type: ignore[misc]
    """Node "a" of a cluster, nothing changed; only with names for what the tests look at."""

    def __init__(self, *, others: str = "bc", journal: str | None = None, **settings: Any) -> None:
        self.transport = StockTransport()
        self.nodes = {name: Node(name) for name in others}
        conf = SyncObjConf(autoTick=False, journalFile=journal, **settings)
        super().__init__(Node("a"), list(self.nodes.values()), conf, transport=self.transport)
        for node in self.nodes.values():
            self.transport._onNodeConnected(node)

    def receive(self, source: str, **message: Any) -> None:
        self.transport._onMessageReceived(self.nodes[source], message)

    def take(self, kind: str) -> list[dict[str, Any]]:
        """Sent messages of one type; everything sent is forgotten."""
        found = [message for _, message in self.transport.sent if message["type"] == kind]
        self.transport.sent.clear()
        return found

    def append(self, *, term: int = 1, prev: int, prev_term: int, entries: list[Any], commit: int = 1) -> None:
        self.receive(
            "b",
            type="append_entries",
            term=term,
            commit_index=commit,
            entries=entries,
            prevLogIdx=prev,
            prevLogTerm=prev_term,
        )

    def become_leader(self, clock: StockClock) -> None:
        clock.now_s += 10
        self.doTick()
        for name in self.nodes:
            self.receive(name, type="response_vote", term=self.raftCurrentTerm)
        assert self._isLeader()

    @property
    def last_index(self) -> int:
        return int(self._SyncObj__raftLog[-1][1])

    @property
    def log(self) -> Any:
        return self._SyncObj__raftLog

    @property
    def next_index(self) -> dict[str, int]:
        return {node.id: index for node, index in self._SyncObj__raftNextIndex.items()}

    @property
    def match_index(self) -> dict[str, int]:
        return {node.id: index for node, index in self._SyncObj__raftMatchIndex.items()}


@pytest.fixture
def stock_clock(monkeypatch: pytest.MonkeyPatch) -> StockClock:
    return StockClock(monkeypatch)
