"""`raftsched repair`: sets a stopped node's damaged files aside, so that the other nodes fill it again."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftsched.cli.data_folder import IDENTITY_FILE, locked
from raftsched.cli.failures import Failure, reported
from raftsched.cli.output import print_json

if TYPE_CHECKING:
    from raftsched.node.repair import Findings, Repaired


@click.command("repair")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="RAFTSCHED_DATA",
    required=True,
    help="The node's data folder.",
)
@click.option("--all", "everything", is_flag=True, help="Set the log aside too, even if it is whole.")
@click.option("--check", is_flag=True, help="Only look for damage: change nothing, exit with 1 if there is any.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
def repair(data_dir: Path, everything: bool, check: bool, as_json: bool) -> None:
    """Have a damaged node rebuilt by the others: stop it, run this, start it.

    Moves the node's state, and its log if that is damaged, into a folder damaged-TIME beside them. Started again, the
    node keeps its place in the cluster and fetches what is missing from the leader. Delete that folder when the node
    is well again.

    The other nodes must hold what this one gives up. With its log set aside a node does not vote until it was filled:
    repair one node at a time, and never set the logs of a majority aside.

    \b
    Exit codes: 0 done, or --check found nothing; 1 --check found damage, or the folder is in use or no node's.

    \b
    Examples:
      raftsched repair --data /var/lib/raftsched --check
      raftsched repair --data /var/lib/raftsched
    """
    # Imported here so that the commands which only ask a cluster start without Raft and the store.
    from raftsched.node.repair import examine, set_aside

    with reported(as_json=as_json):
        if not (data_dir / IDENTITY_FILE).exists():
            raise Failure(f"{data_dir} is not the data folder of a node: it has no {IDENTITY_FILE}")
        try:
            with locked(data_dir):
                if check:
                    _tell_findings(examine(data_dir), as_json)
                else:
                    _tell_repaired(set_aside(data_dir, everything=everything), as_json)
        except OSError as error:
            raise Failure(str(error)) from error


def _tell_findings(findings: "Findings", as_json: bool) -> None:
    if as_json:
        print_json(findings)
    else:
        click.echo(f"log: {findings.log_problem or 'whole'}")
        click.echo(f"state: {findings.state_problem or 'its structure is whole; compare it with: cluster verify'}")
    if findings.log_problem or findings.state_problem:
        raise SystemExit(1)


def _tell_repaired(repaired: "Repaired", as_json: bool) -> None:
    if as_json:
        folder = str(repaired.folder) if repaired.folder else None
        print_json({"folder": folder, "moved": repaired.moved, "bytes": repaired.size, "findings": repaired.findings})
        return
    for problem in (repaired.findings.log_problem, repaired.findings.state_problem):
        if problem:
            click.echo(f"found: {problem}")
    if repaired.folder is None:
        click.echo("nothing to set aside: the folder holds neither state nor log")
        return
    click.echo(f"set aside: {', '.join(repaired.moved)} in {repaired.folder}, {repaired.size >> 10} KiB")
    if "log" in repaired.moved:
        click.echo("The node does not vote until the leader has filled it: repair no other node before that.")
    else:
        click.echo("The log is whole and stays: the node votes as before.")
    click.echo(f"Start the node. When it serves again, delete {repaired.folder}.")
