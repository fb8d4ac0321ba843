"""Bad values outside of jobs: filters, ids, names to look up, and a worker's first message."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from raftsched.api.messages import duration, timestamp
from raftsched.api.validate import (
    check_hello,
    check_id,
    check_job_filter,
    check_job_name,
    duration_ms,
    span_text,
    timestamp_ms,
)
from raftsched.model.errors import InvalidField, ProtocolViolation
from raftsched.v1 import job_pb2, worker_pb2


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"namespace": "A"}, "filter.namespace", "1–63 characters of a–z, 0–9 and - are right"),
        ({"handler": "a b"}, "filter.handler", "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"),
        ({"queue": "Q"}, "filter.queue", "1–63 characters of a–z, 0–9, . _ and - are right"),
        (
            {"state": 99},
            "filter.state",
            "99 is not a state; right are JOB_STATE_SCHEDULED, JOB_STATE_ACTIVE, JOB_STATE_SUCCEEDED,"
            " JOB_STATE_DEAD_LETTER, JOB_STATE_CANCELLED, JOB_STATE_PAUSED, JOB_STATE_COMPLETED, JOB_STATE_BLOCKED,"
            " JOB_STATE_UPSTREAM_FAILED",
        ),
        ({"labels": {f"l{i}": "" for i in range(33)}}, "filter.labels", "at most 32 labels are right"),
        ({"labels": {"L": ""}}, "filter.labels", "the key `L` is not 1–63 characters of a–z, 0–9, . _ / and -"),
        ({"labels": {"l": "\n"}}, "filter.labels[l]", "control characters are not allowed"),
    ],
)
def test_a_filter_that_no_job_can_match_is_refused(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check_job_filter(job_pb2.JobFilter(**fields))
    assert (caught.value.field, caught.value.message) == (field, message)


def test_an_empty_filter_and_a_full_one_are_accepted() -> None:
    check_job_filter(job_pb2.JobFilter())
    check_job_filter(
        job_pb2.JobFilter(
            namespace="a", handler="b.C:d/e-f", queue="q", state=job_pb2.JOB_STATE_ACTIVE, labels={"a": "ß"}
        )
    )


def test_no_id_is_zero() -> None:
    check_id(1)
    with pytest.raises(InvalidField) as caught:
        check_id(0, "job_id")
    assert (caught.value.field, caught.value.message) == ("job_id", "0 or unset; an id from 1 is right")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "empty; 1–200 characters are right"),
        ("n" * 201, "201 characters are too many; at most 200 are right"),
        ("\x1b[2J", "control characters are not allowed"),
    ],
)
def test_a_name_to_look_up_is_one_that_a_job_may_have(name: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        check_job_name(name, "name.name")
    assert (caught.value.field, caught.value.message) == ("name.name", message)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"worker": ""}, "hello.worker", "empty; 1–200 characters are right"),
        ({"worker": "w" * 201}, "hello.worker", "201 characters are too many; at most 200 are right"),
        ({"worker": "w\n"}, "hello.worker", "control characters are not allowed"),
        ({"queues": []}, "hello.queues", "0 queues; 1–64 are right"),
        ({"queues": [f"q{i}" for i in range(65)]}, "hello.queues", "65 queues; 1–64 are right"),
        ({"queues": ["a", ""]}, "hello.queues[1]", "1–63 characters of a–z, 0–9, . _ and - are right"),
        ({"queues": ["a", "b", "a"]}, "hello.queues", "a queue is named twice"),
    ],
)
def test_a_bad_hello_violates_the_protocol(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        check_hello(worker_pb2.Hello(**{"worker": "w", "queues": ["default"], **fields}))
    assert (caught.value.field, caught.value.message) == (field, message)


def test_a_good_hello_is_accepted() -> None:
    check_hello(worker_pb2.Hello(worker="host-1/4711", queues=["default", "slow"]))


@given(time_ms=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_milliseconds_survive_the_way_to_a_timestamp_and_back(time_ms: int) -> None:
    assert timestamp_ms(timestamp(time_ms), "t") == time_ms


@given(span_ms=st.integers(0, 10**12))
def test_milliseconds_survive_the_way_to_a_duration_and_back(span_ms: int) -> None:
    assert duration_ms(duration(span_ms), "d", low_ms=0, high_ms=10**12) == span_ms


@given(seconds=st.integers(-62_135_596_800, 253_402_300_798), nanos=st.integers(0, 999_999_999))
def test_a_timestamp_is_never_rounded_down(seconds: int, nanos: int) -> None:
    exact_nanos = seconds * 10**9 + nanos
    time_ms = timestamp_ms(Timestamp(seconds=seconds, nanos=nanos), "t")
    assert exact_nanos <= time_ms * 10**6 < exact_nanos + 10**6


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, 10**9), (0, -(10**9)), (1, -1), (-1, 1), (315_576_000_001, 0), (-315_576_000_001, 0)]
)
def test_what_protobuf_does_not_call_a_duration_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(InvalidField, match="not a valid Duration"):
        duration_ms(Duration(seconds=seconds, nanos=nanos), "d", low_ms=0, high_ms=10**20)


def test_spans_are_told_in_their_largest_whole_unit() -> None:
    spans_ms = (0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000, 365 * 86_400_000 + 21_600_000)
    assert [span_text(span) for span in spans_ms] == ["0", "1 ms", "999 ms", "1 s", "90 s", "1 h", "1 day", "1 year"]
