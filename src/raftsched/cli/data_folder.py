"""Keeps a node's data folder to one process at a time, and always to the same member of the same cluster."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raftsched.cli.failures import Failure

# Says whose folder it is; see cluster/README.md for when an operator removes it.
IDENTITY_FILE = "node.json"
_LOCK_FILE = "lock"


@contextmanager
def claimed(folder: Path, node_id: int, cluster_id: str) -> Iterator[None]:
    """Makes the folder if need be and holds it. Raises Failure when it is in use or belongs to another node."""
    try:
        # Payloads are nobody else's business.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Failure(f"the data folder {folder} cannot be used: {error.strerror}") from error
    try:
        _lock(descriptor, folder)
        _check_identity(folder, node_id, cluster_id)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a folder that is there, whoever's it is. Raises Failure when it is in use."""
    try:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Failure(f"the data folder {folder} cannot be used: {error.strerror}") from error
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        # The kernel lets go of it however this process ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Failure(
            f"another process uses the data folder {folder}", advice="end it, or give this node a folder of its own"
        ) from None


def _check_identity(folder: Path, node_id: int, cluster_id: str) -> None:
    file = folder / IDENTITY_FILE
    own = {"cluster_id": cluster_id, "node_id": node_id}
    if not file.exists():
        new = file.with_suffix(".new")
        with new.open("w") as opened:
            json.dump(own, opened)
            opened.flush()
            os.fsync(opened.fileno())
        new.rename(file)
        return
    try:
        found = json.loads(file.read_text())
    except ValueError:
        raise Failure(f"{file} is damaged", advice="see what else is, then remove it") from None
    if found != own:
        raise Failure(
            f"the data folder {folder} belongs to node {found.get('node_id')} of cluster {found.get('cluster_id')!r}, "
            f"this is node {node_id} of cluster {cluster_id!r}",
            advice=f"correct the node's settings; only to restore a copy of another node's folder, remove {file}",
        )
