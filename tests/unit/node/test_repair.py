from pathlib import Path

import pytest

from raftsched.node.repair import Findings, examine, set_aside
from raftsched.raft.log import RaftLog
from raftsched.state.machine import Machine
from raftsched.store.environment import Store

ENTRIES = 20


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A stopped node's folder."""
    log = RaftLog(tmp_path / "log")
    log.set_term(3, 1)
    for index in range(1, ENTRIES + 1):
        log.append(index, 3, b"entry %d" % index * 30)
    log.flush()
    log.close()
    machine = Machine(Store(tmp_path / "state"), node_id=1)
    for index in range(1, ENTRIES + 1):
        machine.apply_entry(index, 3, b"")
    machine.commit()
    machine.close()
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "node.json").write_text("{}")
    return tmp_path


def damage(file: Path, text: bytes) -> None:
    file.write_bytes(file.read_bytes().replace(text, text[:-1] + b"!"))


def test_nothing_is_found_in_whole_files(data_dir: Path) -> None:
    assert examine(data_dir) == Findings("", "")


def test_a_whole_log_stays_and_the_state_goes(data_dir: Path) -> None:
    repaired = set_aside(data_dir, everything=False)
    assert repaired.folder is not None
    assert repaired.moved == ("snapshots", "state")
    assert repaired.size == sum(path.stat().st_blocks * 512 for path in repaired.folder.rglob("*.mdb"))
    assert {path.name for path in data_dir.iterdir()} == {"log", "node.json", repaired.folder.name}
    assert (repaired.folder / "state" / "data.mdb").exists()
    log = RaftLog(data_dir / "log")
    assert (log.last_index, log.term, log.vote) == (ENTRIES, 3, 1)
    log.close()


def test_a_damaged_log_goes_too(data_dir: Path) -> None:
    damage(data_dir / "log" / "data.mdb", b"entry 7" * 30)
    assert "log entry 7 is damaged" in examine(data_dir).log_problem
    repaired = set_aside(data_dir, everything=False)
    assert repaired.moved == ("snapshots", "state", "log")
    assert "log entry 7 is damaged" in repaired.findings.log_problem
    assert not (data_dir / "log").exists()


def test_a_whole_log_goes_when_everything_is_to(data_dir: Path) -> None:
    assert set_aside(data_dir, everything=True).moved == ("snapshots", "state", "log")


def test_damage_in_the_structure_of_the_state_is_found(data_dir: Path) -> None:
    state = data_dir / "state" / "data.mdb"
    data = bytearray(state.read_bytes())
    for page in range(2 * 4_096, len(data), 4_096):
        data[page : page + 64] = b"\xff" * 64
    state.write_bytes(data)
    assert str(state) in examine(data_dir).state_problem


def test_an_empty_folder_is_left_alone(tmp_path: Path) -> None:
    repaired = set_aside(tmp_path, everything=True)
    assert (repaired.folder, repaired.moved, repaired.size) == (None, (), 0)
    assert list(tmp_path.iterdir()) == []
