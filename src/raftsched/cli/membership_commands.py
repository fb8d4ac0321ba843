"""`raftsched cluster add`, `remove` and `transfer`: which nodes the cluster is made of, and which of them leads."""

from collections.abc import Sequence

import click

from raftsched.cli.connection import Connection, connects
from raftsched.cli.failures import EXIT_CODES_HELP
from raftsched.cli.output import document, print_json, print_table
from raftsched.cli.values import PEER, WholeNumber
from raftsched.client import NodeRole, NodeStatus

_NODE_ID = WholeNumber(1, 65_535)


@click.command("add", epilog=EXIT_CODES_HELP)
@click.argument("node", type=PEER, metavar="ID=HOST:PORT")
@connects
def add(connection: Connection, node: tuple[int, str]) -> None:
    """Add a node to the cluster, by its number and the address at which all others reach it.

    It learns everything first (a learner), and votes from when it has caught up: start it before or after this, with
    --peer for the nodes that are there and itself. One node at a time. Give it a number that no other node ever had.

    \b
    Examples:
      raftsched cluster add 4=10.0.0.4:7100
      raftsched cluster status
    """
    node_id, address = node
    with connection.client() as client:
        nodes = client.add_node(node_id, address)
    is_learner = any(one.id == node_id and one.role == NodeRole.LEARNER for one in nodes)
    told = "is added; it votes once it has caught up" if is_learner else "is a member"
    _answer(connection, nodes, f"node {node_id} {told}")


@click.command("remove", epilog=EXIT_CODES_HELP)
@click.argument("node_id", type=_NODE_ID, metavar="ID")
@connects
def remove(connection: Connection, node_id: int) -> None:
    """Remove a node from the cluster, whether it runs or not. If it leads, it hands over first.

    Refused when too few of the others are connected to go on without it. The node keeps its data and takes part in
    nothing any more: stop it, and empty its folder before it is used for anything else.

    \b
    Example:
      raftsched cluster remove 2
    """
    with connection.client() as client:
        was_member = any(one.id == node_id for one in client.status(linearizable=True).nodes)
        nodes = client.remove_node(node_id)
    _answer(connection, nodes, f"node {node_id} is {'no member any more' if was_member else 'not a member'}")


@click.command("transfer", epilog=EXIT_CODES_HELP)
@click.argument("to", type=_NODE_ID, required=False, metavar="[ID]")
@connects
def transfer(connection: Connection, to: int | None) -> None:
    """Have another node lead: the one named, or whichever has most of the log.

    \b
    Example:
      raftsched cluster transfer 3
    """
    with connection.client() as client:
        leader = client.transfer_leadership(to)
    if connection.as_json:
        print_json({"leader": leader})
    else:
        click.echo(f"node {leader} leads")


def _answer(connection: Connection, nodes: Sequence[NodeStatus], told: str) -> None:
    if connection.as_json:
        print_json({"nodes": [document(one) for one in nodes]})
        return
    click.echo(told)
    rows = ((one.id, one.address, str(one.role).lower(), one.connected) for one in nodes)
    print_table(("node", "address", "role", "connected"), rows, empty="", title="\nnodes")
