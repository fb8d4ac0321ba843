import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.model.errors import NodeDraining, StoreCorrupt
from raftsched.store import keys, rows
from raftsched.store.environment import Store

MAP_SIZE = 1 << 28


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store", map_size=MAP_SIZE)
    yield made
    made.close()


def put(store: Store, key: bytes, value: bytes = b"v", index: int = 1) -> None:
    store.write.put(key, value, db=store.tables.jobs)
    store.write.put(keys.META_STATE, rows.StateRow(applied_index=index).pack(), db=store.tables.meta)


def jobs(store: Store) -> list[bytes]:
    with store.read() as view:
        return [key for key, _ in view.cursor(view.tables.jobs)]


def in_thread(call: object) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_new_store_is_empty_and_knows_its_format(store: Store) -> None:
    with store.read() as view:
        assert view.state() == rows.StateRow()
        assert view.get(view.tables.meta, keys.META_FORMAT) == keys.pack_small_id(rows.FORMAT)


def test_readers_see_what_was_committed_only(store: Store) -> None:
    put(store, b"a")
    assert jobs(store) == []
    store.commit()
    assert jobs(store) == [b"a"]
    with store.read() as view:
        put(store, b"b", index=2)
        store.commit()
        assert view.get(view.tables.jobs, b"b") is None
        assert view.state().applied_index == 1
    assert jobs(store) == [b"a", b"b"]


def test_a_view_reads_rows_in_several_ways(store: Store) -> None:
    for key in (b"a", b"b", b"c"):
        put(store, key, key * 2)
    store.commit()
    with store.read() as view:
        table = view.tables.jobs
        assert view.get(table, b"b") == b"bb"
        assert view.get_many(table, [b"c", b"x", b"a"]) == [(b"c", b"cc"), (b"a", b"aa")]
        assert view.entries(table) == 3


def test_another_thread_may_read(store: Store) -> None:
    put(store, b"a")
    store.commit()
    found: list[list[bytes]] = []
    in_thread(lambda: found.append(jobs(store))).join(10)
    assert found == [[b"a"]]


def test_aborted_writes_are_gone(store: Store) -> None:
    put(store, b"a")
    store.abort()
    store.commit()
    assert jobs(store) == []


def test_a_closed_store_opens_as_it_was_committed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", map_size=MAP_SIZE)
    put(store, b"a")
    store.commit()
    put(store, b"b")
    store.close()
    store = Store(tmp_path / "store", map_size=MAP_SIZE)
    assert jobs(store) == [b"a"]
    store.close()


# --- copies ---


def test_a_copy_holds_the_newest_commit(store: Store, tmp_path: Path) -> None:
    put(store, b"a", index=7)
    store.commit()
    put(store, b"b", index=8)
    assert store.copy_to(tmp_path / "copy").applied_index == 7
    other = Store(tmp_path / "other", map_size=MAP_SIZE)
    put(other, b"z")
    other.commit()
    put(other, b"y")
    other.install(tmp_path / "copy")
    assert jobs(other) == [b"a"]
    put(other, b"c")
    other.commit()
    assert jobs(other) == [b"a", b"c"]
    assert not (tmp_path / "copy").exists()
    other.close()


def test_a_copy_does_not_overwrite(store: Store, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        store.copy_to(tmp_path / "copy")


def test_installing_waits_for_readers_and_new_readers_wait_for_it(store: Store, tmp_path: Path) -> None:
    put(store, b"a")
    store.commit()
    store.copy_to(tmp_path / "copy")
    put(store, b"b")
    store.commit()
    reading, may_end = threading.Event(), threading.Event()
    seen: list[list[bytes]] = []

    def read_slowly() -> None:
        with store.read() as view:
            reading.set()
            assert may_end.wait(10)
            seen.append([key for key, _ in view.cursor(view.tables.jobs)])

    slow = in_thread(read_slowly)
    assert reading.wait(10)
    installing = in_thread(lambda: store.install(tmp_path / "copy"))
    while (tmp_path / "copy").exists():
        installing.join(0.001)
    late = in_thread(lambda: seen.append(jobs(store)))
    installing.join(0.05)
    assert installing.is_alive()
    may_end.set()
    for thread in (slow, installing, late):
        thread.join(10)
        assert not thread.is_alive()
    assert seen[0] == [b"a", b"b"]
    assert jobs(store) == [b"a"]


def test_closing_refuses_later_readers_rather_than_crash(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", map_size=MAP_SIZE)
    store.close()
    with pytest.raises(NodeDraining), store.read():
        pass


# --- damage ---


def filled(path: Path) -> Path:
    store = Store(path, map_size=MAP_SIZE)
    for number in range(200):
        put(store, b"%05d" % number, bytes(2_000))
    store.commit()
    store.close()
    return path / "data.mdb"


@pytest.mark.parametrize("length", [4_096, 8_192, 100_000])
def test_a_file_that_was_cut_is_refused_and_not_read(tmp_path: Path, length: int) -> None:
    data = filled(tmp_path / "store")
    data.write_bytes(data.read_bytes()[:length])
    with pytest.raises(StoreCorrupt):
        Store(tmp_path / "store", map_size=MAP_SIZE)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    data = filled(tmp_path / "store")
    data.write_bytes(b"nonsense" * 10_000)
    with pytest.raises(StoreCorrupt):
        Store(tmp_path / "store", map_size=MAP_SIZE)


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", map_size=MAP_SIZE)
    store.write.put(keys.META_FORMAT, keys.pack_small_id(99), db=store.tables.meta)
    store.commit()
    store.close()
    with pytest.raises(StoreCorrupt, match="another format than 2"):
        Store(tmp_path / "store", map_size=MAP_SIZE)


@pytest.mark.parametrize("content", [b"", b"x" * 50_000, bytes(50_000)])
def test_a_damaged_copy_is_refused_and_the_store_kept(store: Store, tmp_path: Path, content: bytes) -> None:
    put(store, b"a")
    store.commit()
    (tmp_path / "copy").write_bytes(content)
    with pytest.raises(StoreCorrupt):
        store.install(tmp_path / "copy")
    assert jobs(store) == [b"a"]
    put(store, b"b")
    store.commit()
