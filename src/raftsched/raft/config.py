"""The settings of one replica, checked as a whole."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from raftsched.model.errors import InvalidField

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """`peers` holds the ids of all members, this node's too (a mapping keyed by id will do). Raises InvalidField."""

    node_id: int
    peers: Collection[int]
    # Where snapshots are written while they are sent or received; emptied at start.
    snapshot_dir: Path

    # A follower that hears nothing for a random time between these asks for an election.
    election_timeout_min_ms: int = 800
    election_timeout_max_ms: int = 1_500
    # One whose connection to the leader breaks asks after a random time up to this: a process that was killed need not
    # be waited for.
    leader_lost_max_ms: int = 300
    # As rare as the election timeout allows: heartbeats are most of what an idle cluster does.
    heartbeat_ms: int = 250
    # A leader that does not hear from a majority for so long gives up.
    leader_fallback_ms: int = 2_000

    # Where an entry ends: operations are what apply costs, bytes what the disk and the network cost.
    entry_max_ops: int = 2_000
    entry_max_bytes: int = 4 * MIB
    command_max_bytes: int = 16 * MIB
    entries_in_flight: int = 1

    # What waits to be proposed or forwarded; beyond it propose() raises.
    queue_max_ops: int = 200_000
    queue_max_bytes: int = 64 * MIB
    # How long a command waits for a leader to appear.
    queue_hold_ms: int = 1_000

    append_max_bytes: int = 4 * MIB
    # Sent to one follower and not answered yet.
    append_window_bytes: int = 16 * MIB

    read_timeout_ms: int = 3_000
    reads_max: int = 10_000

    # The applied state is committed at least this often, in time and in operations, while entries keep coming.
    state_commit_interval_ms: int = 100
    state_commit_max_ops: int = 200_000

    # The log's start moves when it holds more than either; a node that was away longer gets a snapshot.
    log_keep_entries: int = 10_000
    log_keep_bytes: int = 256 * MIB
    # Entries deleted from the log at once.
    compact_max_entries: int = 1_000

    snapshot_chunk_bytes: int = MIB
    snapshot_window_chunks: int = 4
    # A transfer without progress for so long is taken up again.
    snapshot_retry_ms: int = 2_000

    def __post_init__(self) -> None:
        if self.node_id not in self.peers:
            raise InvalidField(f"must name this node ({self.node_id}) too", field="peers")
        if min(self.peers) < 1:
            raise InvalidField("node ids start at 1", field="peers")
        if self.heartbeat_ms < 1 or self.election_timeout_min_ms <= 3 * self.heartbeat_ms:
            raise InvalidField("must be more than three heartbeats", field="election_timeout_min_ms")
        if self.election_timeout_max_ms <= self.election_timeout_min_ms:
            raise InvalidField("must be more than the minimum", field="election_timeout_max_ms")
        if self.leader_fallback_ms < self.election_timeout_max_ms:
            raise InvalidField("must be at least the longest election timeout", field="leader_fallback_ms")
        for name in (
            "entry_max_ops",
            "entry_max_bytes",
            "command_max_bytes",
            "entries_in_flight",
            "queue_max_ops",
            "queue_hold_ms",
            "append_max_bytes",
            "append_window_bytes",
            "read_timeout_ms",
            "reads_max",
            "state_commit_interval_ms",
            "state_commit_max_ops",
            "log_keep_entries",
            "log_keep_bytes",
            "compact_max_entries",
            "snapshot_chunk_bytes",
            "snapshot_window_chunks",
            "snapshot_retry_ms",
        ):
            if getattr(self, name) < 1:
                raise InvalidField("must be at least 1", field=name)
        if self.queue_max_bytes < self.command_max_bytes:
            raise InvalidField("must hold the largest command", field="queue_max_bytes")
