from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.model.errors import StoreCorrupt
from raftsched.store import keys, rows

U16 = st.integers(0, (1 << 16) - 1)
U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)


@given(U64, U64, U32, U32, U32, st.text(max_size=50), st.dictionaries(st.text(max_size=20), st.text(max_size=99)))
def test_a_job_row_reads_back_and_its_slices_are_where_they_say(
    last: int, tick: int, payload: int, profile: int, schedule: int, name: str, labels: dict[str, str]
) -> None:
    head = rows.JOB.pack(rows.JOB_WAITING, last, tick, payload, profile, schedule, 5, 6, len(name.encode()))
    value = head + rows.pack_job_tail(name, labels.items())
    assert astuple(rows.JobRow.unpack(value)) == (
        rows.JOB_WAITING,
        last,
        tick,
        payload,
        profile,
        schedule,
        5,
        6,
        name,
        labels,
    )
    assert value[rows.JOB_STATE] == rows.JOB_WAITING
    assert value[rows.JOB_LAST_EXECUTION] == keys.pack_id(last)
    assert value[rows.JOB_SCHEDULED_FOR] == keys.pack_id(tick)
    assert value[rows.JOB_PROFILE] == keys.pack_small_id(profile)
    assert value[rows.JOB_SCHEDULE] == keys.pack_small_id(schedule)


@given(U64, U32, U64, U64, st.integers(1, 7))
def test_an_execution_row_reads_back_and_its_slices_are_where_they_say(
    job: int, profile: int, session: int, token: int, status: int
) -> None:
    flagged = (rows.CANCEL_REQUESTED | 4) << 24 | 5
    value = rows.EXECUTION.pack(job, 2, 3, flagged, profile, 6, 7, 8, 9, session, token, 12, status, 14, 15)
    row = rows.ExecutionRow.unpack(value)
    decoded = (job, 2, 3, 4, 5, profile, 6, 7, 8, 9, session, token, 12, status, 14, 15)
    assert astuple(row) == (*decoded, 0, 0, 0, "", rows.CANCEL_REQUESTED)
    assert value[rows.EXECUTION_JOB] == keys.pack_id(job)
    assert value[rows.EXECUTION_PROFILE] == keys.pack_small_id(profile)
    assert value[rows.EXECUTION_LEASE] == keys.lease(session, token)
    assert value[rows.EXECUTION_TOKEN] == keys.pack_id(token)
    assert value[rows.EXECUTION_STATUS] == status
    extra = rows.EXECUTION_EXTRA.pack(16, 17, 18) + "größer".encode()
    assert rows.ExecutionRow.unpack(value + extra) == replace(
        row, changed_ms=16, replayed_as=17, first_began_ms=18, error="größer"
    )


@given(U64, st.lists(U64, max_size=3), st.lists(U64, max_size=5), st.lists(st.tuples(U32, U32), max_size=4))
def test_a_lease_row_reads_back(
    leased_ms: int, timeouts: list[int], executions: list[int], profiles: list[tuple[int, int]]
) -> None:
    row = rows.LeaseRow(leased_ms, tuple(timeouts), keys.pack_ids(executions), tuple(profiles))
    assert rows.LeaseRow.unpack(row.pack()) == row


@given(U32, U64, U32, U32, U64, U64, U32)
def test_a_limit_row_reads_back(
    concurrency: int, rate: int, burst: int, weight: int, level: int, at_ms: int, number: int
) -> None:
    row = rows.LimitRow(concurrency, rate, burst, weight, level, at_ms, number)
    assert rows.LimitRow.unpack(row.pack()) == row


@given(st.booleans(), U64, st.text(max_size=200), st.lists(st.text(max_size=63), max_size=64))
def test_a_session_row_reads_back(is_open: bool, time_ms: int, worker: str, queues: list[str]) -> None:
    row = rows.SessionRow(is_open, time_ms, 2, 3, 4, worker, tuple(queues))
    assert rows.SessionRow.unpack(row.pack()) == row


@given(st.integers(0, 255), U64, U64)
def test_a_skipped_row_reads_back(reason: int, count: int, last_ms: int) -> None:
    row = rows.SkippedRow(reason, count, last_ms)
    assert rows.SkippedRow.unpack(row.pack()) == row


def test_the_state_row_reads_back() -> None:
    state = rows.StateRow(1, 2, 3, b"d" * 16, *range(5, 18))
    assert rows.StateRow.unpack(state.pack()) == state
    assert len(set(astuple(state))) == 17


@pytest.mark.parametrize("value", [b"", b"short", rows.StateRow().pack() + b"\x00"])
def test_a_state_row_of_another_length_is_damage(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        rows.StateRow.unpack(value)
