"""A job's jitter is fixed, within its window, and spread evenly."""

from hypothesis import given
from hypothesis import strategies as st

from raftsched.model.jitter import job_jitter_ms, mix64
from raftsched.model.limits import JITTER_MAX_MS


@given(job_id=st.integers(1, 2**64 - 1), window_ms=st.integers(0, JITTER_MAX_MS))
def test_jitter_lies_within_the_window_and_never_changes(job_id: int, window_ms: int) -> None:
    jitter = job_jitter_ms(job_id, window_ms)
    assert 0 <= jitter <= window_ms
    assert job_jitter_ms(job_id, window_ms) == jitter


def test_no_window_is_no_jitter() -> None:
    assert job_jitter_ms(7, 0) == 0


def test_both_ends_of_the_window_occur() -> None:
    assert {job_jitter_ms(job_id, 3) for job_id in range(1, 100)} == {0, 1, 2, 3}


def test_neighbouring_jobs_are_spread_evenly() -> None:
    counts = [0] * 10
    for job_id in range(1, 10_001):
        counts[job_jitter_ms(job_id, 9)] += 1
    assert all(900 < count < 1100 for count in counts)


def test_the_hash_is_splitmix64() -> None:
    # The first outputs of the published generator for seed 0: state advances by its constant each time.
    gamma = 0x9E3779B97F4A7C15
    assert mix64(0) == 0xE220A8397B1DCDAF
    assert mix64(gamma) == 0x6E789E6AA1B965F4
