"""`raftsched cluster backup` writes a running cluster's state to a file, `raftsched restore` makes new nodes of it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click
import grpc

from raftsched.cli.connection import Connection, connects
from raftsched.cli.data_folder import claimed
from raftsched.cli.failures import EXIT_CODES_HELP, USAGE, Failure, reported
from raftsched.cli.node_stubs import cluster_stub
from raftsched.cli.output import print_facts, print_json
from raftsched.cli.values import WholeNumber
from raftsched.client import SyncClient
from raftsched.client.errors import Unavailable
from raftsched.model.errors import RaftschedError
from raftsched.store.backup_file import BackupHeader, read_backup
from raftsched.v1 import cluster_pb2

_PATH = click.Path(path_type=Path)


@click.command("backup", epilog=EXIT_CODES_HELP)
@click.argument("file", type=_PATH)
@connects
def backup(connection: Connection, file: Path) -> None:
    """Write the whole state of the running cluster to FILE.

    It holds all that was confirmed before the command began: jobs, schedules, executions, history, dead letters. One
    node makes it beside its work, a follower if there is one, or the one named by --node. FILE appears when it is
    complete, on disk and checked; it must not exist before.

    \b
    Examples:
      raftsched cluster backup /backups/raftsched-$(date +%F).backup
    """
    if file.exists():
        raise click.UsageError(f"{file} exists already")
    partial = file.with_name(f"{file.name}.part")
    with connection.client() as client:
        try:
            address = _fetch(_order(connection, client), connection.credentials(), partial)
            header = read_backup(partial)
            partial.rename(file)
            _sync(file.absolute().parent)
        except OSError as error:
            raise Failure(str(error)) from error
        except RaftschedError as error:
            raise Failure(f"the backup did not arrive whole: {error.message}", reason=error.reason) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    if connection.as_json:
        print_json({"file": str(file), "from": address, **asdict(header)})
    else:
        _print(header, [("file", file), ("from", f"node {header.node}, {address}")])


def _order(connection: Connection, client: SyncClient) -> Sequence[str]:
    """The nodes that were named, else all, the leader last: it has enough to do."""
    if connection.nodes:
        return connection.nodes
    status = client.status()
    return [node.address for node in sorted(status.nodes, key=lambda node: (node.id == status.leader, node.id))]


def _fetch(addresses: Sequence[str], credentials: grpc.ChannelCredentials | None, file: Path) -> str:
    """Writes what the first node that answers sends; returns its address."""
    for position, address in enumerate(addresses, 1):
        try:
            # Payloads are nobody else's business.
            with (
                cluster_stub(address, credentials) as stub,
                os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened,
            ):
                for piece in stub.Backup(cluster_pb2.BackupRequest()):
                    opened.write(piece.data)
                opened.flush()
                os.fsync(opened.fileno())
        except Unavailable:
            if position == len(addresses):
                raise
        else:
            return address
    raise AssertionError("there is always an address")


@click.command("restore")
@click.argument("file", type=_PATH)
@click.option("--data", "data_dir", type=_PATH, required=True, help="Folder to make, for the new node's --data.")
@click.option("--id", "node_id", type=WholeNumber(1, 65_535), required=True, help="The new node's number.")
@click.option("--cluster-id", required=True, help="The new cluster's name; not the old one's.")
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
def restore(file: Path, data_dir: Path, node_id: int, cluster_id: str, as_json: bool) -> None:
    """Make the data folder of a node of a NEW cluster from a backup FILE.

    Run it once for each node of the new cluster, with the same FILE, then start them all. What the old cluster did
    after the backup is not in it: its jobs run again from where the backup was made. Recurring jobs go on, missed
    ticks by their catch-up policy. What workers held then is leased anew once their sessions have ended, so it may
    run twice.

    \b
    Example, on three machines:
      raftsched restore r.backup --data /var/lib/raftsched --id 1 --cluster-id production-2
      raftsched restore r.backup --data /var/lib/raftsched --id 2 --cluster-id production-2
      raftsched restore r.backup --data /var/lib/raftsched --id 3 --cluster-id production-2

    \b
    Exit codes: 0 done, 1 the file is damaged or the folder cannot be used, 2 wrong usage.
    """
    with reported(as_json=as_json):
        try:
            header = read_backup(file)
            if header.cluster_id == cluster_id:
                raise Failure(
                    f"the backup is of the cluster {cluster_id!r} itself",
                    exit_code=USAGE,
                    advice="choose another --cluster-id: nodes of the old cluster must not be taken for new ones",
                )
            with claimed(data_dir, node_id, cluster_id):
                for name in ("log", "state"):
                    if (data_dir / name).exists():
                        raise Failure(
                            f"the data folder {data_dir} holds a {name} already", advice="name a new folder with --data"
                        )
                _restore(file, data_dir)
        except RaftschedError as error:
            raise Failure(error.message, reason=error.reason) from error
        except OSError as error:
            raise Failure(str(error)) from error
    if as_json:
        print_json({"data": str(data_dir), "node_id": node_id, "new_cluster_id": cluster_id, **asdict(header)})
    else:
        _print(header, [("node", f"{node_id} of {cluster_id}, in {data_dir}")])


def _restore(file: Path, data_dir: Path) -> None:
    # Imported here so that the commands which only ask a cluster start without the store.
    from raftsched.node.restore import restore as restore_state

    restore_state(file, data_dir)


def _print(header: BackupHeader, facts: list[tuple[str, object]]) -> None:
    print_facts(
        [
            *facts,
            ("cluster", header.cluster_id),
            ("as of entry", f"{header.index}, term {header.term}"),
            ("digest", header.digest[:12]),
            ("jobs", header.jobs),
            ("executions", header.executions),
            ("size", f"{header.size} bytes"),
        ]
    )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
