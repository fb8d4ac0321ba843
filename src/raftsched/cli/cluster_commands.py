"""`raftsched cluster`: the state of the cluster, as each of its nodes tells it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import grpc

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP, UNAVAILABLE
from raftsched.cli.output import document, print_facts, print_json, print_table
from raftsched.client import ClusterStatus, Kept, NodeHealth, NodeRole, SyncClient
from raftsched.client.errors import RaftschedError, Unavailable

# What of a status is about the node that answers.
_OF_ONE_NODE = {
    "node",
    "nodes",
    "health",
    "applied_index",
    "commit_index",
    "first_log_index",
    "state_digest",
    "version",
}

# One node that hangs should not keep an operator waiting.
_NODE_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class NodeAnswer:
    """What one node said of itself; `status` is None when it said nothing, and `error` why."""

    id: int
    address: str
    status: ClusterStatus | None
    error: str


@click.group("cluster", epilog=EXIT_CODES_HELP)
def cluster() -> None:
    """See the state of the cluster, change its nodes, verify what they hold, back it up."""


@cluster.command("status", epilog=EXIT_CODES_HELP)
@connects
def status(connection: Connection) -> None:
    """Show the nodes, the leader, queues, workers and counts. Every node is asked for itself.

    Exit code 5 when no node answers or the cluster has no quorum, 1 when a node is down or has diverged.

    \b
    Examples:
      raftsched cluster status
      raftsched cluster status --node 10.0.0.2:7100 --json
    """
    with connection.client() as client:
        first = client.status()
        answers = _ask_nodes(first, connection.credentials())
    # Of those that answered, the one that knows most.
    best = max((one.status for one in answers if one.status), key=_knowledge, default=first)
    if connection.as_json:
        print_json({"cluster": _cluster_document(best), "nodes": [_node_document(one) for one in answers]})
    else:
        _print_status(best, answers)
    if not best.has_quorum:
        raise SystemExit(UNAVAILABLE)
    if any(one.status is None or one.status.health != NodeHealth.SERVING for one in answers):
        raise SystemExit(1)


def _ask_nodes(known: ClusterStatus, credentials: grpc.ChannelCredentials | None) -> list[NodeAnswer]:
    """Asks every node that `known` lists, by the addresses it lists."""
    answers = []
    addresses = [one.address for one in known.nodes]
    with SyncClient(addresses, timeout_s=_NODE_TIMEOUT_S, credentials=credentials) as client:
        for one in sorted(known.nodes, key=lambda node: node.id):
            try:
                answers.append(NodeAnswer(one.id, one.address, client.status(one.address), ""))
            except RaftschedError as error:
                silent = isinstance(error, Unavailable)
                answers.append(NodeAnswer(one.id, one.address, None, "does not answer" if silent else error.message))
    return answers


def _knowledge(status: ClusterStatus) -> tuple[bool, bool, int]:
    # Only the leader knows how far the others are.
    return status.has_quorum, status.leader == status.node, status.applied_index


def _cluster_document(best: ClusterStatus) -> dict[str, Any]:
    of_cluster: dict[str, Any] = document(best)
    return {key: value for key, value in of_cluster.items() if key not in _OF_ONE_NODE}


def _node_document(one: NodeAnswer) -> dict[str, Any]:
    return {"id": one.id, "address": one.address, "error": one.error, "status": document(one.status)}


def _print_status(best: ClusterStatus, answers: list[NodeAnswer]) -> None:
    clock = best.replicated_clock
    due = best.oldest_due_time
    behind = clock - due if clock and due and due < clock else None
    print_facts(
        [
            ("cluster", best.cluster_id),
            ("leader", f"node {best.leader}, term {best.term}" if best.leader else "none"),
            ("quorum", "yes" if best.has_quorum else "NO: nothing can be registered or run"),
            ("jobs", best.jobs),
            ("executions", best.executions),
            ("dead letters", best.dead_letters),
            ("oldest due", due),
            ("behind by", behind),
            ("tz database", best.time_zone_database),
            ("kept beside", _kept_text(best.kept)),
            *(("ALARM", alarm.message) for alarm in best.alarms),
        ]
    )
    print_table(
        ("node", "address", "role", "health", "applied", "committed", "log from", "digest", "version"),
        (_node_row(one) for one in answers),
        empty="",
        title="\nnodes",
    )
    if best.queues:
        rows = ((one.name, one.ready, one.workers) for one in best.queues)
        print_table(("queue", "ready", "workers"), rows, empty="", title="\nqueues")
    if best.workers:
        print_table(
            ("session", "worker", "queues", "holds", "expires in"),
            ((one.session, one.name, one.queues, one.leased, _until(one.expire_time, clock)) for one in best.workers),
            empty="",
            title="\nworkers",
        )


def _kept_text(kept: Kept) -> str:
    return (
        f"{kept.skipped_ranges} skipped ranges, {kept.attempts} attempts, {kept.request_ids} request ids,"
        f" {kept.dedup_keys} dedup keys, {kept.sessions} sessions"
    )


def _node_row(one: NodeAnswer) -> tuple[Any, ...]:
    if one.status is None:
        return (one.id, one.address, None, one.error, None, None, None, None, None)
    own = one.status
    digest = own.state_digest[:12]
    return (
        one.id,
        one.address,
        _role(own),
        own.health,
        own.applied_index,
        own.commit_index,
        own.first_log_index,
        digest,
        own.version,
    )


def _role(own: ClusterStatus) -> str:
    if own.health == NodeHealth.NOT_A_MEMBER:
        return "none"
    if own.leader == own.node:
        return "leader"
    is_learner = any(node.id == own.node and node.role == NodeRole.LEARNER for node in own.nodes)
    return "learner" if is_learner else "follower"


def _until(moment: datetime | None, clock: datetime | None) -> str | None:
    if moment is None:
        return None
    seconds = (moment - (clock or datetime.now(UTC))).total_seconds()
    return f"{seconds:.1f} s"
