"""What one node knows of the cluster at one moment: the answer to "how are you?", taken as one consistent value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeerView:
    """Another node, as the node that answers sees it. `match_index` is 0 unless that node leads.

    Who is no voter is a learner: it has been added and not caught up yet.
    """

    node_id: int
    address: str
    connected: bool
    match_index: int
    is_voter: bool = True


@dataclass(frozen=True, slots=True)
class VerificationView:
    """The newest verification on the node that answers, as raftsched.v1.GetVerificationResponse has it."""

    index: int
    state: int
    content_hash: str
    state_rows: int
    log_entries: int
    duration_ms: int
    problem: str
    same: tuple[int, ...]
    other: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """`peers` holds every member, the answering node included; `leader_id` is None when none is known.

    `health` is a value of raftsched.v1.NodeHealth, `digest` hex, `now_ms` the replicated clock.
    """

    node_id: int
    leader_id: int | None
    has_quorum: bool
    term: int
    commit_index: int
    applied_index: int
    first_log_index: int
    digest: str
    now_ms: int
    peers: tuple[PeerView, ...]
    health: int
    cluster_id: str
    version: str
    # More dead letters raise an alarm; 0: never.
    dead_letter_quota: int = 0
    # None: nothing was verified since the node's start.
    verification: VerificationView | None = None
