"""Sets damaged files of a stopped node aside, so that it starts empty where it must and is filled by the others.

The log holds what this node promised to the others: as long as it is whole it stays, and the node goes on voting. The
state can always be had again. A node without its log does not vote until a leader has filled it (raft/elections.py).
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lmdb

from raftsched.model.errors import StoreCorrupt
from raftsched.raft.log import RaftLog
from raftsched.store.content import content_hash
from raftsched.store.environment import Store
from raftsched.store.structure import check_structure

LOG, STATE, SNAPSHOTS = "log", "state", "snapshots"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a stopped node's files; empty where nothing was found.

    Damage inside of the state's values cannot be seen from one node alone: `raftsched cluster verify` finds it.
    """

    log_problem: str
    state_problem: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was moved where, and how many bytes it takes there; `folder` is None when there was nothing to move."""

    folder: Path | None
    moved: tuple[str, ...]
    size: int
    findings: Findings


def examine(data_dir: Path) -> Findings:
    """Reads all of the log and the state. Nothing may have them open."""
    return Findings(_problem(_read_log, data_dir / LOG), _problem(_read_state, data_dir / STATE))


def set_aside(data_dir: Path, *, everything: bool) -> Repaired:
    """Moves the state away, and the log when it is damaged or `everything` is to go. Raises OSError."""
    findings = examine(data_dir)
    names = [SNAPSHOTS, STATE] + ([LOG] if everything or findings.log_problem else [])
    present = tuple(name for name in names if (data_dir / name).exists())
    if not present:
        return Repaired(None, (), 0, findings)
    folder = data_dir / time.strftime("damaged-%Y%m%dT%H%M%SZ", time.gmtime())
    folder.mkdir(mode=0o700)
    for name in present:
        # On the same file system: done or not done, whatever happens.
        (data_dir / name).rename(folder / name)
    for changed in (folder, data_dir):
        _sync(changed)
    size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    return Repaired(folder, present, size, findings)


def _problem(read: Callable[[Path], None], folder: Path) -> str:
    if not (folder / "data.mdb").exists():
        return ""
    try:
        check_structure(folder / "data.mdb", max_bytes=None)
        read(folder)
    except StoreCorrupt as error:
        return error.message
    except lmdb.Error as error:
        return f"{folder / 'data.mdb'}: {error}"
    return ""


def _read_log(folder: Path) -> None:
    log = RaftLog(folder)
    try:
        log.check()
    finally:
        log.close()


def _read_state(folder: Path) -> None:
    store = Store(folder)
    try:
        with store.read() as view:
            content_hash(view)
    finally:
        store.close()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
