from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import StoreCorrupt
from raftsched.store import keys, rows
from tests.unit.state.support import Node

FIRST, SECOND = b"\x0a\x04\x08\x01\x18\x01", b"\x0a\x04\x08\x02\x18\x01"


def change(node: Node, content: bytes) -> None:
    node.apply(command_pb2.Entry(now_ms=node.now_ms, membership=content).SerializeToString())


def test_the_newest_membership_is_kept_with_the_index_of_its_entry(node: Node) -> None:
    assert node.machine.membership == (0, b"")
    change(node, FIRST)
    assert node.machine.membership == (1, FIRST)
    node.create()
    assert node.machine.membership == (1, FIRST)
    change(node, SECOND)
    assert node.machine.membership == (3, SECOND)


def test_it_outlives_a_restart_as_far_as_it_was_committed(node: Node) -> None:
    change(node, FIRST)
    node.machine.commit()
    change(node, SECOND)
    node.reopen()
    assert node.machine.membership == (1, FIRST)


def test_it_travels_with_a_snapshot(node: Node, tmp_path: Path) -> None:
    change(node, FIRST)
    node.machine.commit()
    node.machine.snapshot_to(tmp_path / "copy")
    other = Node(tmp_path / "other", node_id=2)
    other.machine.install_snapshot(tmp_path / "copy")
    assert other.machine.membership == (1, FIRST)
    other.machine.close()


def test_nodes_that_were_told_of_different_members_have_different_digests(node: Node, tmp_path: Path) -> None:
    other = Node(tmp_path / "other")
    change(node, FIRST)
    change(other, SECOND)
    assert node.machine.digest != other.machine.digest
    other.machine.close()


def test_a_row_that_is_cut_short_is_damage(node: Node) -> None:
    assert rows.unpack_membership(rows.pack_membership(7, FIRST)) == (7, FIRST)
    with pytest.raises(StoreCorrupt, match="membership"):
        rows.unpack_membership(bytes(8))
    change(node, FIRST)
    node.store.write.put(keys.META_MEMBERSHIP, b"short", db=node.store.tables.meta)
    node.machine.commit()
    with pytest.raises(StoreCorrupt):
        node.reopen()
