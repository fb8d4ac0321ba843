"""Backoff grows as asked, is capped, and is the same everywhere."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.model.limits import BACKOFF_MAX_MS, MAX_ATTEMPTS_MAX, MULTIPLIER_MAX
from raftsched.model.retry import backoff_ms, is_retryable
from raftsched.v1 import job_pb2


def plain(attempt: int, *, initial_ms: int = 1000, max_ms: int = 3_600_000, multiplier: float = 2.0) -> int:
    return backoff_ms(1, attempt, initial_ms=initial_ms, max_ms=max_ms, multiplier=multiplier, jitter=0.0)


def test_the_delay_doubles_from_the_initial_one() -> None:
    assert [plain(attempt) for attempt in (1, 2, 3, 4)] == [1000, 2000, 4000, 8000]


def test_the_delay_stops_at_the_maximum() -> None:
    assert plain(12) == 2_048_000
    assert plain(13) == 3_600_000


def test_attempt_ten_thousand_is_capped() -> None:
    assert plain(10_000) == 3_600_000
    assert plain(10_000, multiplier=MULTIPLIER_MAX, max_ms=BACKOFF_MAX_MS) == BACKOFF_MAX_MS
    assert plain(2**31) == 3_600_000


def test_a_multiplier_of_one_keeps_the_delay() -> None:
    assert plain(MAX_ATTEMPTS_MAX, multiplier=1.0) == 1000


def test_a_multiplier_barely_above_one_still_grows_from_one_millisecond() -> None:
    grown = plain(10_000, initial_ms=1, multiplier=1.001)
    assert abs(grown - 1.001**9_999) <= 1


def test_no_initial_delay_is_no_delay() -> None:
    assert plain(7, initial_ms=0) == 0


def test_known_values_with_jitter() -> None:
    values = [
        backoff_ms(execution, attempt, initial_ms=1000, max_ms=60_000, multiplier=1.5, jitter=0.5)
        for execution, attempt in ((1, 1), (1, 2), (2, 1), (2**63, 5))
    ]
    assert values == [936, 836, 991, 4343]


@given(
    attempt=st.integers(1, MAX_ATTEMPTS_MAX),
    initial_ms=st.integers(1, BACKOFF_MAX_MS),
    max_ms=st.integers(1, BACKOFF_MAX_MS),
    multiplier=st.floats(1.0, MULTIPLIER_MAX),
)
def test_the_delay_is_the_formula_within_rounding(
    attempt: int, initial_ms: int, max_ms: int, multiplier: float
) -> None:
    delay = plain(attempt, initial_ms=initial_ms, max_ms=max_ms, multiplier=multiplier)
    exponent = math.log(initial_ms) + (attempt - 1) * math.log(multiplier)
    expected = float(max_ms) if exponent > math.log(max_ms) + 1 else min(math.exp(exponent), max_ms)
    assert delay == pytest.approx(expected, rel=1e-4, abs=1.001)
    assert 0 < delay <= max_ms


@given(
    execution=st.integers(1, 2**64 - 1),
    attempt=st.integers(1, MAX_ATTEMPTS_MAX),
    jitter=st.floats(0.0, 1.0),
)
def test_jitter_only_shortens_and_by_no_more_than_its_share(execution: int, attempt: int, jitter: float) -> None:
    full = plain(attempt)
    delay = backoff_ms(execution, attempt, initial_ms=1000, max_ms=3_600_000, multiplier=2.0, jitter=jitter)
    assert math.floor(full * (1 - jitter)) <= delay <= full


def test_jitter_spreads_executions() -> None:
    delays = {
        backoff_ms(execution, 1, initial_ms=1000, max_ms=1000, multiplier=1.0, jitter=1.0) for execution in range(1000)
    }
    assert len(delays) > 500
    assert min(delays) < 50
    assert max(delays) > 950


def test_a_fixed_delay_stays_and_a_linear_one_grows_by_the_first() -> None:
    def delays(backoff: int) -> list[int]:
        return [
            backoff_ms(1, attempt, initial_ms=1000, max_ms=3500, multiplier=9.0, jitter=0.0, backoff=backoff)
            for attempt in (1, 2, 3, 4, 10_000)
        ]

    assert delays(job_pb2.BACKOFF_FIXED) == [1000] * 5
    assert delays(job_pb2.BACKOFF_LINEAR) == [1000, 2000, 3000, 3500, 3500]


def test_full_jitter_takes_any_delay_up_to_the_whole_one_and_differs_between_attempts() -> None:
    delays = [
        backoff_ms(7, attempt, initial_ms=1000, max_ms=1000, multiplier=1.0, jitter=1.0) for attempt in range(1, 200)
    ]
    assert min(delays) < 50
    assert max(delays) > 950
    assert delays == [
        backoff_ms(7, attempt, initial_ms=1000, max_ms=1000, multiplier=1.0, jitter=1.0) for attempt in range(1, 200)
    ]


def test_an_error_is_not_retried_for_its_class_or_one_that_it_derives_from() -> None:
    classes = ["app.Declined", "app.PaymentError", "Exception"]
    assert is_retryable(classes, [])
    assert is_retryable(classes, ["app.Decline", "Declined", "ValueError"])
    assert not is_retryable(classes, ["app.Declined"])
    assert not is_retryable(classes, ["ValueError", "app.PaymentError"])
    assert is_retryable([], ["app.Declined"])
