"""What the client says of a cluster and its nodes: plain values, with aware datetimes in UTC."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class NodeHealth(StrEnum):
    """Whether a node serves, and if not, why."""

    UNSPECIFIED = "UNSPECIFIED"
    SERVING = "SERVING"
    NO_QUORUM = "NO_QUORUM"
    DRAINING = "DRAINING"
    DIVERGED = "DIVERGED"
    NOT_A_MEMBER = "NOT_A_MEMBER"


class NodeRole(StrEnum):
    """Whether a node counts for elections and for what is confirmed, or is still catching up."""

    UNSPECIFIED = "UNSPECIFIED"
    VOTER = "VOTER"
    LEARNER = "LEARNER"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node of the cluster, as another one sees it."""

    id: int
    address: str
    connected: bool
    # Highest log entry known to be on it; only the leader knows, else 0.
    match_index: int
    role: NodeRole


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A queue: what is ready and who serves it."""

    name: str
    ready: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker's session."""

    session: int
    name: str
    queues: tuple[str, ...]
    leased: int
    expire_time: datetime | None


class AlarmKind(StrEnum):
    """What an operator should see to."""

    UNSPECIFIED = "UNSPECIFIED"
    DEAD_LETTERS = "DEAD_LETTERS"  # more than the quota; none is ever dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Something that an operator should see to; the message is for people."""

    kind: AlarmKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Rows that are kept beside jobs and executions until their time is over."""

    skipped_ranges: int
    attempts: int
    request_ids: int
    dedup_keys: int
    # Of workers, open and closed.
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What one node knows of the cluster."""

    node: int
    # None when it knows of none.
    leader: int | None
    has_quorum: bool
    term: int
    commit_index: int
    applied_index: int
    first_log_index: int
    state_digest: str
    replicated_clock: datetime | None
    version: str
    nodes: tuple[NodeStatus, ...]
    # shard_owners[i] is the node that dispatches shard i.
    shard_owners: tuple[int, ...]
    queues: tuple[QueueStatus, ...]
    workers: tuple[WorkerStatus, ...]
    jobs: int
    executions: int
    dead_letters: int
    # None when nothing waits.
    oldest_due_time: datetime | None
    health: NodeHealth
    cluster_id: str
    time_zone_database: str
    alarms: tuple[Alarm, ...]
    kept: Kept
