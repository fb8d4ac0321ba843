import dataclasses
from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.node.restore import restore
from raftsched.state.machine import Machine
from raftsched.store import keys
from raftsched.store.backup_file import backup_chunks, describe
from raftsched.store.environment import Store

NODES = [command_pb2.Member(node=number, address=f"old:{number}", voter=True) for number in (1, 2, 3)]


def applied(path: Path) -> Machine:
    """A state with members, owners of shards and a session."""
    machine = Machine(Store(path), node_id=1)
    members = command_pb2.Entry(now_ms=5, membership=command_pb2.Membership(members=NODES).SerializeToString())
    machine.apply_entry(1, 1, members.SerializeToString())
    commands = [
        command_pb2.Command(assign_shards=command_pb2.AssignShards(owners=[2] * keys.SHARDS)),
        command_pb2.Command(open_session=command_pb2.OpenSession(worker="w", queues=["q"], ttl_ms=9_000)),
    ]
    entry = command_pb2.Entry(now_ms=6, commands=[command.SerializeToString() for command in commands])
    machine.apply_entry(2, 4, entry.SerializeToString())
    machine.commit()
    return machine


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    machine = applied(tmp_path / "old")
    assert machine.membership[0] == 1
    copy = tmp_path / "copy"
    with Store.read(machine._store) as view:
        state = view.state()
    machine.snapshot_to(copy)
    machine.close()
    header = describe(state, size=copy.stat().st_size, cluster_id="old", node=1, version="0")
    path = tmp_path / "backup"
    path.write_bytes(b"".join(backup_chunks(header, copy)))
    other = dataclasses.replace(header, index=3)
    (tmp_path / "other").write_bytes(b"".join(backup_chunks(other, copy)))
    return path


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "new").mkdir()
    return tmp_path / "new"


def test_a_restored_state_is_the_old_one_without_the_old_nodes(backup: Path, data_dir: Path) -> None:
    header = restore(backup, data_dir)
    machine = Machine(Store(data_dir / "state"), node_id=1)
    assert (machine.applied_index, machine.applied_term, machine.digest.hex()) == (2, 4, header.digest)
    assert machine.membership == (0, b"")
    assert set(machine.shard_owners) == {0}
    assert len(machine.sessions) == 1
    machine.close()


def test_a_restored_folder_holds_nothing_else(backup: Path, data_dir: Path) -> None:
    restore(backup, data_dir)
    assert [path.relative_to(data_dir).as_posix() for path in data_dir.rglob("*")] == ["state", "state/data.mdb"]


def test_what_an_interrupted_restore_left_is_replaced(backup: Path, data_dir: Path) -> None:
    (data_dir / "state.restoring").mkdir()
    (data_dir / "state.restoring" / "data.mdb").write_bytes(b"half")
    restore(backup, data_dir)
    assert [path.name for path in data_dir.iterdir()] == ["state"]


def test_a_damaged_backup_leaves_the_folder_as_it_was(backup: Path, data_dir: Path) -> None:
    data = bytearray(backup.read_bytes())
    data[len(data) // 2] ^= 1
    backup.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="its checksum differs"):
        restore(backup, data_dir)
    assert list(data_dir.iterdir()) == []


def test_a_header_that_tells_of_another_state_is_refused(backup: Path, data_dir: Path) -> None:
    with pytest.raises(StoreCorrupt, match="not the one that its header tells of"):
        restore(backup.with_name("other"), data_dir)
    assert list(data_dir.iterdir()) == []
