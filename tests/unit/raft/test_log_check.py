import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from raftsched.model.errors import StoreCorrupt
from raftsched.raft.log import RaftLog
from raftsched.raft.log_check import SLICE_ENTRIES

PAGE = 4_096
# In a root page: the number of the transaction that it belongs to.
TRANSACTION = 144
FLIPS = 300


def written(folder: Path, count: int = 60, *, flush_every: int = 1) -> RaftLog:
    """A log with a compacted beginning, entries of several pages, and many flushes."""
    log = RaftLog(folder)
    log.set_term(1, 1)
    for index in range(1, count + 1):
        log.append(index, 1, b"%d" % index * (3_000 if index % 20 == 0 else 40))
        if index % flush_every == 0:
            log.flush()
        log.set_commit_index(index)
    log.compact_to(count // 2)
    log.set_term(2, 3)
    log.flush()
    return log


def content(log: RaftLog) -> object:
    """All that a node may have told others of."""
    entries = [log.entry(index) for index in range(log.first_index, log.last_index + 1)]
    return log.term, log.vote, log.base_index, log.base_term, log.joined, entries


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    written(folder).close()
    return folder


def flipped(whole: Path, folder: Path, position: int, bit: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    data = bytearray((whole / "data.mdb").read_bytes())
    data[position] ^= 1 << bit
    (folder / "data.mdb").write_bytes(data)
    return folder


def found_or_content(folder: Path) -> object:
    """None when the damage is found."""
    try:
        log = RaftLog(folder)
    except StoreCorrupt:
        return None
    try:
        log.check()
        return content(log)
    except StoreCorrupt:
        return None
    finally:
        log.close()


def test_a_flipped_bit_is_found_or_changes_nothing(whole: Path, tmp_path: Path) -> None:
    expected = found_or_content(whole)
    assert expected is not None
    size = (whole / "data.mdb").stat().st_size
    chance = random.Random(5)
    found = 0
    for turn in range(FLIPS):
        position = chance.randrange(size) if turn % 2 else chance.randrange(size) // PAGE * PAGE + chance.randrange(150)
        outcome = found_or_content(flipped(whole, tmp_path / "log", position, chance.randrange(8)))
        assert outcome in (None, expected), f"silent change at {position}"
        found += outcome is None
    assert found > FLIPS // 10


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("bit", range(16))
def test_a_log_does_not_open_at_an_older_commit(whole: Path, tmp_path: Path, slot: int, bit: int) -> None:
    expected = found_or_content(whole)
    position = slot * PAGE + TRANSACTION + bit // 8
    assert found_or_content(flipped(whole, tmp_path / "log", position, bit % 8)) in (None, expected)


def test_a_check_counts_what_it_has_read_and_rests_between(tmp_path: Path) -> None:
    log = written(tmp_path, 4 * SLICE_ENTRIES, flush_every=100)
    rests: list[int] = []
    assert log.check(lambda: rests.append(1)) == 2 * SLICE_ENTRIES
    assert len(rests) == 1
    log.close()


def test_a_log_may_change_while_it_is_checked(tmp_path: Path) -> None:
    count = 8 * SLICE_ENTRIES
    log = written(tmp_path, count, flush_every=100)
    changes: list[Callable[[], None]] = [
        lambda: log.compact_to(count - 2 * SLICE_ENTRIES),
        lambda: log.append(count + 1, 2, b"new"),
    ]

    def change() -> None:
        if changes:
            changes.pop(0)()
            log.set_term(log.term + 1, 0)
            log.flush()

    # A slice, then what compaction has left, then the entry that came meanwhile.
    assert log.check(change) == SLICE_ENTRIES + 2 * SLICE_ENTRIES + 1
    assert not changes
    log.close()


def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    log = RaftLog(tmp_path)
    assert log.check() == 0
    log.close()


def test_damage_under_a_running_log_is_named(tmp_path: Path) -> None:
    log = written(tmp_path)
    file = tmp_path / "data.mdb"
    # LMDB maps the file: what is written to it is seen at once.
    with file.open("r+b") as opened:
        data = opened.read().replace(b"45" * 40, b"45" * 39 + b"44")
        opened.seek(0)
        opened.write(data)
    with pytest.raises(StoreCorrupt, match=f"{tmp_path}: log entry 45 is damaged"):
        log.check()
    log.close()
