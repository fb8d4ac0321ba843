"""`raftsched cluster verify`: every node reads all it has in search of damage, and is compared with the others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import grpc

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.node_stubs import cluster_stub
from raftsched.cli.output import print_json, print_table
from raftsched.cli.values import DURATION, format_duration
from raftsched.client import NodeStatus
from raftsched.client.errors import RaftschedError, Unavailable
from raftsched.v1 import cluster_pb2

ASK_EVERY_S = 0.2
_NODE_TIMEOUT_S = 3.0
# A node that is silent for so long is not waited for; one that has finished learns the others' results sooner.
_SILENCE_S = 5.0
_DIVERGED, _NO_ANSWER, _RESTARTED, _UNFINISHED = "DIVERGED", "NO_ANSWER", "RESTARTED", "UNFINISHED"
_WHOLE = "SAME"


@dataclass(slots=True)
class NodeVerdict:
    """What one node has found so far. `verdict` is a VerificationState's name without its prefix, or one of above."""

    id: int
    address: str
    verdict: str = _UNFINISHED
    index: int = 0
    content_hash: str = ""
    state_rows: int = 0
    log_entries: int = 0
    duration_ms: int = 0
    problem: str = ""
    heard_s: float = 0.0

    @property
    def is_whole(self) -> bool:
        return self.verdict == _WHOLE


@click.command("verify", epilog=EXIT_CODES_HELP)
@click.option(
    "--wait",
    "wait_ms",
    type=DURATION,
    default="1h",
    metavar="DURATION",
    help="How long to wait for the nodes to finish.  [default: 1h]",
)
@connects
def verify(connection: Connection, wait_ms: int) -> None:
    """Search the state and the log of every node for damage, while the cluster works.

    Every node hashes all it holds as of one log entry and checks the checksum of every entry of its log. A node that
    holds something else than a majority, or cannot read all it has, stops serving: see "Repair" in cluster/README.md.

    Exit code 1 when a node is damaged, did not answer or did not finish.

    \b
    Examples:
      raftsched cluster verify
      raftsched --json cluster verify --wait 10m
    """
    with connection.client() as client:
        nodes = sorted(client.status().nodes, key=lambda node: node.id)
        credentials = connection.credentials()
        index = _start(connection.nodes or [node.address for node in nodes], credentials)
        verdicts = _follow(nodes, index, credentials, wait_s=wait_ms / 1000)
    if connection.as_json:
        print_json({"index": index, "nodes": [_document(one) for one in verdicts]})
    else:
        _print(verdicts)
    if not all(one.is_whole for one in verdicts):
        raise SystemExit(1)


def _start(addresses: Sequence[str], credentials: grpc.ChannelCredentials | None) -> int:
    """The index as of which all nodes read, from the first node that can have it begin."""
    for position, address in enumerate(addresses, 1):
        try:
            with cluster_stub(address, credentials) as stub:
                request = cluster_pb2.StartVerificationRequest()
                return int(stub.StartVerification(request, timeout=10.0).index)
        except Unavailable:
            if position == len(addresses):
                raise
    raise AssertionError("there is always an address")


def _follow(
    nodes: Sequence[NodeStatus],
    index: int,
    credentials: grpc.ChannelCredentials | None,
    *,
    wait_s: float,
    now: Callable[[], float] = time.monotonic,
) -> list[NodeVerdict]:
    """Asks every node until all have finished, or are not heard of, or time is up."""
    begun_s = now()
    verdicts = [NodeVerdict(node.id, node.address, heard_s=begun_s) for node in nodes]
    # When all had finished; those that were first to may not know the others' results yet.
    finished_s: float | None = None
    while True:
        for one in verdicts:
            _ask(one, index, credentials, now)
        now_s = now()
        if any(one.verdict in {_UNFINISHED, "RUNNING"} for one in verdicts):
            finished_s = None
        elif finished_s is None:
            finished_s = now_s
        is_compared = all(one.verdict != "ALONE" for one in verdicts)
        if finished_s is not None and (is_compared or now_s - finished_s >= _SILENCE_S):
            return verdicts
        if now_s - begun_s >= wait_s:
            return verdicts
        time.sleep(ASK_EVERY_S)


def _ask(one: NodeVerdict, index: int, credentials: grpc.ChannelCredentials | None, now: Callable[[], float]) -> None:
    if one.verdict in {_DIVERGED, _RESTARTED, "DAMAGED", "DIFFERS"}:
        return
    try:
        with cluster_stub(one.address, credentials) as stub:
            # In this order: a node that has applied the entry and knows of no verification has forgotten it.
            status = stub.GetStatus(cluster_pb2.GetStatusRequest(), timeout=_NODE_TIMEOUT_S)
            answer = stub.GetVerification(cluster_pb2.GetVerificationRequest(), timeout=_NODE_TIMEOUT_S)
    except RaftschedError as error:
        if now() - one.heard_s >= _SILENCE_S:
            one.verdict = _NO_ANSWER
            one.problem = "" if isinstance(error, Unavailable) else error.message
        return
    one.heard_s = now()
    has_stopped = status.health == cluster_pb2.NODE_HEALTH_DIVERGED
    if answer.index < index and not has_stopped:
        one.verdict = _RESTARTED if status.applied_index >= index else _UNFINISHED
        return
    one.verdict = cluster_pb2.VerificationState.Name(answer.state).removeprefix("VERIFICATION_STATE_")
    if has_stopped and one.verdict not in {"DAMAGED", "DIFFERS"}:
        one.verdict = _DIVERGED
    one.index, one.content_hash, one.state_rows = answer.index, answer.content_hash, answer.state_rows
    one.log_entries, one.duration_ms, one.problem = answer.log_entries, answer.duration_ms, answer.problem


def _document(one: NodeVerdict) -> dict[str, Any]:
    return {
        "id": one.id,
        "address": one.address,
        "verdict": one.verdict,
        "index": one.index,
        "content_hash": one.content_hash,
        "state_rows": one.state_rows,
        "log_entries": one.log_entries,
        "duration_ms": one.duration_ms,
        "problem": one.problem,
    }


_MEANINGS = {
    "DAMAGED": "is damaged and has stopped serving: repair it from the others, see cluster/README.md",
    "DIFFERS": "holds another state than the others and has stopped serving: repair it, see cluster/README.md",
    _DIVERGED: "had stopped serving before: see its log, repair it from the others, see cluster/README.md",
    "ALONE": "is whole by itself, but there is no majority that has the same: verify again when all nodes run",
    "CANCELLED": "was interrupted: verify again",
    _RESTARTED: "was restarted meanwhile: verify again",
    _NO_ANSWER: "does not answer: nothing is known about what it holds",
    _UNFINISHED: "has not finished",
    "RUNNING": "has not finished",
}


def _print(verdicts: Sequence[NodeVerdict]) -> None:
    print_table(
        ("node", "address", "verdict", "as of", "content", "rows", "log entries", "took"),
        (
            (
                one.id,
                one.address,
                one.verdict,
                one.index or None,
                one.content_hash[:12] or None,
                one.state_rows,
                one.log_entries,
                format_duration(one.duration_ms),
            )
            for one in verdicts
        ),
        empty="",
    )
    for one in verdicts:
        if not one.is_whole:
            click.echo(f"node {one.id} {_MEANINGS.get(one.verdict, one.verdict)}")
            if one.problem:
                click.echo(f"  {one.problem}")
    if all(one.is_whole for one in verdicts):
        click.echo("all nodes hold the same, and it is whole")
