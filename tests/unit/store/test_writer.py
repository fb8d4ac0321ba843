from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raftsched.model.errors import ImpossibleState
from raftsched.store.environment import Store
from raftsched.store.writer import Writer

KEYS = [bytes((number,)) for number in range(10, 30)]
VALUES = [key * 3 for key in KEYS]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store", map_size=1 << 28)
    yield made
    made.close()


@pytest.fixture
def writer(store: Store) -> Writer:
    return Writer(store)


def test_what_was_put_is_read_in_the_order_asked_for(writer: Writer) -> None:
    jobs = writer.tables.jobs
    writer.put_many(jobs, KEYS, VALUES, append=True)
    assert writer.get_many(jobs, [KEYS[5], b"none", KEYS[2]]) == [(KEYS[5], VALUES[5]), (KEYS[2], VALUES[2])]
    assert writer.get_all(jobs, [KEYS[9], KEYS[0]]) == [VALUES[9], VALUES[0]]
    assert writer.get(jobs, KEYS[3]) == VALUES[3]
    assert writer.get(jobs, b"none") is None


def test_a_row_that_must_be_there_and_is_not_is_fatal(writer: Writer) -> None:
    jobs = writer.tables.jobs
    writer.put_many(jobs, KEYS, VALUES)
    for call in (
        lambda: writer.get_all(jobs, [KEYS[0], b"none"]),
        lambda: writer.delete_many(jobs, [KEYS[0], b"none"]),
        lambda: writer.delete_neighbours(jobs, [b"none", KEYS[0]]),
    ):
        with pytest.raises(ImpossibleState):
            call()
    assert not writer.delete(jobs, b"none")


def test_appending_out_of_order_is_fatal(writer: Writer) -> None:
    writer.put_many(writer.tables.jobs, KEYS, VALUES, append=True)
    with pytest.raises(ImpossibleState):
        writer.put_many(writer.tables.jobs, KEYS[:2], VALUES[:2], append=True)


def test_keys_and_values_must_be_as_many(writer: Writer) -> None:
    with pytest.raises(ValueError, match="zip"):
        writer.put_many(writer.tables.jobs, KEYS, VALUES[:-1])


def test_neighbours_are_deleted_together(writer: Writer) -> None:
    jobs = writer.tables.jobs
    writer.put_many(jobs, KEYS, VALUES)
    writer.delete_neighbours(jobs, KEYS[3:9])
    writer.delete_neighbours(jobs, KEYS[0:1])
    assert [key for key, _ in writer.cursor(jobs)] == KEYS[1:3] + KEYS[9:]


def test_a_gap_between_neighbours_is_fatal(writer: Writer) -> None:
    writer.put_many(writer.tables.jobs, KEYS, VALUES)
    with pytest.raises(ImpossibleState):
        writer.delete_neighbours(writer.tables.jobs, [KEYS[3], KEYS[5]])


def test_one_value_for_many_keys(writer: Writer) -> None:
    writer.put_same(writer.tables.due, KEYS, b"v")
    assert list(writer.cursor(writer.tables.due)) == [(key, b"v") for key in KEYS]


CALLS: list[Callable[[Writer], object]] = [
    lambda writer: writer.put(writer.tables.jobs, b"k", b"v"),
    lambda writer: writer.put(writer.tables.names, b"k", b"v"),
    lambda writer: writer.put(writer.tables.jobs, b"k", b"w"),
    lambda writer: writer.put(writer.tables.jobs, b"l", b"v"),
    lambda writer: writer.put_many(writer.tables.jobs, [b"k", b"l"], [b"v", b"w"]),
    lambda writer: writer.put_many(writer.tables.jobs, [b"k", b"l"], [b"w", b"v"]),
    lambda writer: writer.put_same(writer.tables.jobs, [b"k", b"l"], b"v"),
    lambda writer: writer.delete(writer.tables.jobs, KEYS[0]),
    lambda writer: writer.delete(writer.tables.jobs, KEYS[1]),
    lambda writer: writer.delete_neighbours(writer.tables.jobs, KEYS[0:2]),
    lambda writer: writer.delete_neighbours(writer.tables.jobs, KEYS[1:3]),
]


def test_the_digest_tells_every_change_from_every_other(writer: Writer) -> None:
    digests = set()
    for call in CALLS:
        writer.put_many(writer.tables.jobs, KEYS, VALUES)
        writer.take_digest()
        call(writer)
        digests.add(writer.take_digest())
    assert len(digests) == len(CALLS)


def test_reading_and_deleting_nothing_leave_the_digest(writer: Writer) -> None:
    writer.take_digest()
    nothing = writer.take_digest()
    writer.get_many(writer.tables.jobs, KEYS)
    writer.delete(writer.tables.jobs, b"none")
    assert writer.take_digest() == nothing
    assert writer.take_digest(b"salt") != nothing


def test_written_rows_are_counted(writer: Writer) -> None:
    writer.put(writer.tables.jobs, b"k", b"v")
    writer.put_many(writer.tables.jobs, KEYS, VALUES)
    writer.put_same(writer.tables.due, KEYS, b"")
    writer.delete_many(writer.tables.due, KEYS[:3])
    assert writer.written_rows == 1 + len(KEYS) * 2 + 3
