import random
import shutil
import threading
from pathlib import Path

import lmdb
import pytest

from raftsched.model.errors import StoreCorrupt
from raftsched.store import rows
from raftsched.store.content import content_hash
from raftsched.store.environment import TABLE_NAMES, Store
from raftsched.store.structure import check_structure
from raftsched.store.writer import Writer

ROWS = 600
FLIPS = 400


def filled(path: Path) -> Path:
    """A store with every kind of page: branches, leaves, values of several pages, free pages."""
    store = Store(path)
    writer = Writer(store)
    state = rows.StateRow()
    for turn in range(8):
        for number in range(ROWS):
            if number % 8 <= turn:
                key = (number * 7_919 % ROWS).to_bytes(8, "big")
                writer.put(writer.tables.executions, key, b"%d" % turn * (number % 60))
                writer.put(writer.tables.due, key * 3, b"\x01")
        writer.put(writer.tables.payloads, turn.to_bytes(8, "big"), bytes([turn]) * 9_000)
        state.applied_index += 1
        writer.put(writer.tables.meta, b"state", state.pack())
        store.commit()
    store.close()
    return path / "data.mdb"


def read_all(path: Path) -> tuple[dict[str, list[tuple[bytes, bytes]]], bytes, int]:
    """Every row, the hash, and how many rows were hashed."""
    store = Store(path)
    try:
        with store.read() as view:
            found = {name: list(view.cursor(getattr(view.tables, name))) for name in TABLE_NAMES}
            return found, *content_hash(view)
    finally:
        store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("whole"))


def test_a_whole_file_passes(whole: Path) -> None:
    check_structure(whole)


def test_values_that_were_made_shorter_before_they_were_committed_pass(tmp_path: Path) -> None:
    """LMDB leaves them the pages they had: a lease block of which a part was settled at once."""
    path = filled(tmp_path / "store")
    store = Store(path.parent)
    writer = Writer(store)
    for table in (writer.tables.leases, writer.tables.payloads):
        for number, size in enumerate((4_020, 20_000, 1)):
            writer.put(table, b"%d" % number, bytes(64_000))
            writer.put(table, b"%d" % number, bytes(size))
    store.commit()
    store.close()
    check_structure(path)
    Store(path.parent).close()


def test_what_is_not_there_or_empty_or_too_large_passes(tmp_path: Path) -> None:
    check_structure(tmp_path / "data.mdb")
    (tmp_path / "data.mdb").touch()
    check_structure(tmp_path / "data.mdb")
    (tmp_path / "data.mdb").write_bytes(b"x" * 101)
    check_structure(tmp_path / "data.mdb", max_bytes=100)


@pytest.mark.parametrize("pages", [0, 1, 2, 10])
def test_a_file_that_is_cut_short_is_named(whole: Path, tmp_path: Path, pages: int) -> None:
    cut = tmp_path / "data.mdb"
    cut.write_bytes(whole.read_bytes()[: pages * 4_096 + 100])
    with pytest.raises(StoreCorrupt, match=str(cut)):
        check_structure(cut)


def test_what_is_not_lmdb_is_named(tmp_path: Path) -> None:
    other = tmp_path / "data.mdb"
    other.write_bytes(b"something else " * 1_000)
    with pytest.raises(StoreCorrupt, match=str(other)):
        check_structure(other)


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_found_or_changes_the_content_hash_or_does_nothing(
    whole: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    rows_before, hash_before, count_before = read_all(whole.parent)
    assert count_before == sum(map(len, rows_before.values()))
    found = changed = harmless = 0
    for turn in range(FLIPS // 4):
        folder = tmp_path / str(turn)
        folder.mkdir()
        data = bytearray(whole.read_bytes())
        # Page headers and the pages' lists of rows are few bytes; half of the flips go there.
        position = chance.randrange(len(data))
        if turn % 2:
            position = position // 4_096 * 4_096 + chance.randrange(200)
        data[position] ^= 1 << chance.randrange(8)
        (folder / "data.mdb").write_bytes(data)
        try:
            rows_now, hash_now, _ = read_all(folder)
        except StoreCorrupt:
            found += 1
        else:
            assert (hash_now == hash_before) == (rows_now == rows_before), f"silent change at {position}"
            changed += rows_now != rows_before
            harmless += rows_now == rows_before
        shutil.rmtree(folder)
    assert found > 0
    assert changed > 0
    assert harmless > 0


def test_the_same_rows_have_the_same_hash_whatever_the_order_they_were_written_in(tmp_path: Path) -> None:
    hashes = set()
    for order in (1, -1):
        store = Store(tmp_path / str(order))
        writer = Writer(store)
        for number in range(300)[::order]:
            writer.put(writer.tables.jobs, number.to_bytes(8, "big"), b"job")
        store.commit()
        with store.read() as view:
            hashes.add(content_hash(view))
        store.close()
    assert len(hashes) == 1


def test_a_row_in_another_table_or_split_otherwise_has_another_hash(tmp_path: Path) -> None:
    hashes = set()
    for name, key, value in (("jobs", b"ab", b"c"), ("jobs", b"a", b"bc"), ("names", b"ab", b"c")):
        store = Store(tmp_path / f"{name}{key.decode()}")
        writer = Writer(store)
        writer.put(getattr(writer.tables, name), key, value)
        store.commit()
        with store.read() as view:
            hashes.add(content_hash(view))
        store.close()
    assert len(hashes) == 3


def test_damage_that_a_reader_meets_is_noted_for_the_owner(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreCorrupt, match=str(tmp_path / "data.mdb")), store.read():
        raise lmdb.CorruptedError("a page")
    assert "a page" in store.damage
    store.close()


def test_a_view_is_held_across_commits_until_the_store_wants_it_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    writer = Writer(store)
    writer.put(writer.tables.jobs, b"1", b"")
    store.commit()
    held = store.hold()
    writer.put(writer.tables.jobs, b"2", b"")
    store.commit()
    assert held.view.entries(held.view.tables.jobs) == 1
    assert not held.is_in_the_way
    closing = threading.Thread(target=store.close)
    closing.start()
    while not held.is_in_the_way:
        assert closing.is_alive()
    held.close()
    held.close()
    closing.join()
