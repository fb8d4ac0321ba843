import random
from pathlib import Path

import pytest

from raftsched.model.errors import StoreCorrupt
from raftsched.store import rows
from raftsched.store.backup_file import CHECKSUM_BYTES, CHUNK_BYTES, BackupHeader, backup_chunks, describe, read_backup

STATE = rows.StateRow(applied_index=7, applied_term=2, now_ms=123, digest=b"d" * 16, jobs=5, executions=9)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / "copy"
    path.write_bytes(random.Random(1).randbytes(2 * CHUNK_BYTES + 77))
    return path


def header_of(copy: Path) -> BackupHeader:
    return describe(STATE, size=copy.stat().st_size, cluster_id="production", node=3, version="1.0")


@pytest.fixture
def backup(copy: Path, tmp_path: Path) -> Path:
    path = tmp_path / "backup"
    path.write_bytes(b"".join(backup_chunks(header_of(copy), copy)))
    return path


def test_what_was_written_is_read_back(copy: Path, backup: Path) -> None:
    pieces: list[bytes] = []
    header = read_backup(backup, pieces.append)
    assert header == header_of(copy)
    assert (header.index, header.term, header.digest, header.jobs) == (7, 2, (b"d" * 16).hex(), 5)
    assert b"".join(pieces) == copy.read_bytes()
    assert max(map(len, pieces)) <= CHUNK_BYTES


def test_an_operator_sees_what_a_file_is(backup: Path) -> None:
    first, second = backup.read_bytes().split(b"\n")[:2]
    assert first == b"raftsched backup 1"
    assert b'"cluster_id": "production"' in second


def test_a_flipped_bit_anywhere_is_refused(backup: Path) -> None:
    data = backup.read_bytes()
    chance = random.Random(2)
    head = data.index(b"\n", 20) + 1
    positions = [*range(0, head, 5), *(chance.randrange(len(data)) for _ in range(30)), len(data) - 1]
    for position in positions:
        flipped = bytearray(data)
        flipped[position] ^= 1 << chance.randrange(8)
        backup.write_bytes(flipped)
        with pytest.raises(StoreCorrupt, match=str(backup)):
            read_backup(backup)


@pytest.mark.parametrize("left", [0, 5, 19, 60, 400, CHUNK_BYTES, -CHECKSUM_BYTES, -CHECKSUM_BYTES - 1, -1])
def test_a_file_that_is_cut_short_is_refused_with_the_reason(backup: Path, left: int) -> None:
    backup.write_bytes(backup.read_bytes()[:left])
    with pytest.raises(StoreCorrupt, match=r"cut short|not a raftsched backup|cannot be read"):
        read_backup(backup)


def test_what_follows_the_end_is_refused(backup: Path) -> None:
    backup.write_bytes(backup.read_bytes() + b"x")
    with pytest.raises(StoreCorrupt, match="something follows its end"):
        read_backup(backup)


def test_a_state_of_another_format_is_refused_with_the_version_that_reads_it(copy: Path, tmp_path: Path) -> None:
    header = header_of(copy)
    other = BackupHeader(**{name: getattr(header, name) for name in header.__slots__} | {"state_format": 99})
    path = tmp_path / "other"
    path.write_bytes(b"".join(backup_chunks(other, copy)))
    with pytest.raises(StoreCorrupt, match=r"format 99.*raftsched 1\.0"):
        read_backup(path)
