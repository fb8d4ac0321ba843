"""Makes the state of a new cluster's node from a backup file; its log begins where that state ends."""

import os
import shutil
from pathlib import Path

from raftsched.model.errors import StoreCorrupt
from raftsched.store import keys
from raftsched.store.backup_file import BackupHeader, read_backup
from raftsched.store.environment import Store
from raftsched.store.structure import check_structure

_STAGED = "state.restoring"


def restore(backup: Path, data_dir: Path) -> BackupHeader:
    """Fills the folder, which must hold neither state nor log. Raises StoreCorrupt for a bad backup, OSError.

    What fails leaves the folder as it was. Without a log the node takes the state's index for the log's start when it
    opens, and does not count as one that has held all that was committed; nor do the others of the new cluster, so
    they elect each other as at any cluster's first start.
    """
    staged = data_dir / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(mode=0o700)
    try:
        with (staged / "data.mdb").open("xb") as file:
            header = read_backup(backup, file.write)
            file.flush()
            os.fsync(file.fileno())
        _make_new(staged, header, backup)
        staged.rename(data_dir / "state")
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    descriptor = os.open(data_dir, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return header


def _make_new(folder: Path, header: BackupHeader, backup: Path) -> None:
    """Checks the state, and takes out of it what is the old cluster's: who its nodes are and which does what."""
    data = folder / "data.mdb"
    check_structure(data, max_bytes=None)
    store = Store(folder)
    try:
        with store.read() as view:
            state = view.state()
        for key in (keys.META_MEMBERSHIP, keys.META_SHARD_OWNERS):
            store.write.delete(key, db=store.tables.meta)
        store.commit()
    finally:
        store.close()
    if (state.applied_index, state.applied_term, state.digest.hex()) != (header.index, header.term, header.digest):
        raise StoreCorrupt(f"{backup} is damaged: its state is not the one that its header tells of")
    (folder / "lock.mdb").unlink(missing_ok=True)
    with data.open("rb") as file:
        # The store's commits leave their root page to the next one.
        os.fsync(file.fileno())
