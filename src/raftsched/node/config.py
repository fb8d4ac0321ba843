"""One node's settings, checked as a whole before anything is opened."""

from dataclasses import dataclass, field
from pathlib import Path

from raftsched.model.errors import InvalidField
from raftsched.model.retention import RetentionSettings

DEFAULT_CLUSTER_ID = "raftsched"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: this node's certificate and key, and the authority that signs every node's and client's."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """`peers` maps node ids to "host:port" and holds this node too. Raises InvalidField.

    They are the cluster at its first start. A node that joins later names those that are there and itself; from then
    on the cluster's own record counts.
    """

    node_id: int
    data_dir: Path
    listen: str
    peers: dict[int, str] = field(hash=False)
    # Nodes of different clusters refuse each other.
    cluster_id: str = DEFAULT_CLUSTER_ID
    # A worker that is silent for so long has lost its leases: how fast a crash is noticed, against how long a
    # pause of a worker or an election may take.
    session_ttl_ms: int = 10_000
    # Handlers that run longer are recorded as RUNNING.
    started_after_ms: int = 500
    # Entries of the Raft log that are kept for nodes that were away; beyond that they get a snapshot.
    log_keep_entries: int = 10_000
    # How long a node that is told to stop waits for calls and worker messages under way.
    drain_grace_s: float = 10.0
    # What is kept of what is finished, for jobs that do not say so themselves; the leader's settings count.
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    tls: TlsFiles | None = None
    # Where this node reaches others, when that is not where everybody does, as behind a forwarded port.
    routes: dict[int, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not 1 <= self.node_id <= 65_535:
            raise InvalidField("must be 1 to 65535", field="node_id")
        if self.node_id not in self.peers:
            raise InvalidField(f"must name this node ({self.node_id}) too", field="peers")
        if len(set(self.peers.values())) != len(self.peers):
            raise InvalidField("two nodes have the same address", field="peers")
        for node_id, address in self.peers.items():
            split_address(address, f"peers[{node_id}]")
        for node_id, address in self.routes.items():
            split_address(address, f"routes[{node_id}]")
        split_address(self.listen, "listen")
        if not 1_000 <= self.session_ttl_ms <= 3_600_000:
            raise InvalidField("must be 1 s to 1 h", field="session_ttl_ms")
        if self.log_keep_entries < 16:
            raise InvalidField("must be at least 16", field="log_keep_entries")

    @property
    def heartbeat_interval_ms(self) -> int:
        """A worker may miss one heartbeat and still renew in time."""
        return self.session_ttl_ms // 4

    @property
    def grant_timeout_ms(self) -> int:
        """A lease that its worker does not know after this was lost on the way. Two heartbeats: one may cross it."""
        return self.session_ttl_ms // 2


def split_address(address: str, field_name: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port" as a pair. Raises InvalidField."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not int(port) <= 65_535:
        raise InvalidField(f"{address!r} is not host:port", field=field_name)
    return host, int(port)
