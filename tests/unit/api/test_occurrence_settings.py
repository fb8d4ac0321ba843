"""What a job may say of its occurrences, what it means, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from raftsched.api.job_settings import job_settings, profile_bytes
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.v1 import job_pb2

SKIP, ALLOW = job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_ALLOW
QUEUE, REPLACE = job_pb2.OVERLAP_POLICY_QUEUE, job_pb2.OVERLAP_POLICY_REPLACE
LATEST, ALL, NONE = job_pb2.CATCH_UP_POLICY_LATEST, job_pb2.CATCH_UP_POLICY_ALL, job_pb2.CATCH_UP_POLICY_NONE


def lasting(**span: float) -> Duration:
    duration = Duration()
    duration.FromTimedelta(timedelta(**span))
    return duration


def profile(*, recurring: bool = True, **fields: Any) -> command_pb2.Profile:
    job = job_pb2.Job(handler="h", **fields)
    return command_pb2.Profile.FromString(profile_bytes(job_settings(job, recurring=recurring)))


def test_a_job_that_says_nothing_skips_overlaps_and_catches_up_with_the_latest() -> None:
    plain = profile()
    assert (plain.overlap, plain.overlap_limit, plain.catch_up, plain.catch_up_limit) == (SKIP, 0, LATEST, 0)
    assert (plain.max_runs, plain.start_deadline_ms, plain.catch_up_window_ms, plain.catch_up_interval_ms) == (0,) * 4
    assert profile(overlap=SKIP, catch_up=LATEST) == plain


def test_everything_arrives_in_milliseconds() -> None:
    full = profile(
        overlap=QUEUE,
        overlap_limit=7,
        catch_up=ALL,
        catch_up_window=lasting(hours=1),
        catch_up_limit=9,
        catch_up_interval=lasting(seconds=2),
        max_runs=3,
        start_deadline=lasting(minutes=5),
        jitter=lasting(minutes=4),
    )
    assert (full.overlap, full.overlap_limit, full.catch_up, full.catch_up_limit) == (QUEUE, 7, ALL, 9)
    assert (full.catch_up_window_ms, full.catch_up_interval_ms) == (3_600_000, 2_000)
    assert (full.max_runs, full.start_deadline_ms) == (3, 300_000)


def test_a_queue_holds_a_hundred_unless_told_otherwise() -> None:
    assert profile(overlap=QUEUE).overlap_limit == 100
    assert profile(overlap=ALLOW).overlap_limit == 0
    assert profile(overlap=REPLACE).overlap == REPLACE
    assert profile(catch_up=NONE).catch_up == NONE


def test_a_one_off_may_have_a_start_deadline() -> None:
    assert profile(recurring=False, start_deadline=lasting(seconds=1)).start_deadline_ms == 1_000


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"overlap_limit": 1}, "overlap_limit"),
        ({"overlap_limit": 1, "overlap": REPLACE}, "overlap_limit"),
        ({"overlap_limit": 1_001, "overlap": QUEUE}, "overlap_limit"),
        ({"catch_up_limit": 1}, "catch_up_limit"),
        ({"catch_up_limit": 10_001, "catch_up": ALL}, "catch_up_limit"),
        ({"catch_up_interval": lasting(seconds=1)}, "catch_up_interval"),
        ({"catch_up_interval": lasting(seconds=0.5), "catch_up": ALL}, "catch_up_interval"),
        ({"catch_up_interval": lasting(days=2), "catch_up": ALL}, "catch_up_interval"),
        ({"catch_up_window": lasting(seconds=0.5)}, "catch_up_window"),
        ({"catch_up_window": lasting(days=4_000)}, "catch_up_window"),
        ({"start_deadline": lasting(seconds=0.5)}, "start_deadline"),
        ({"start_deadline": lasting(days=31)}, "start_deadline"),
        ({"start_deadline": lasting(minutes=1), "jitter": lasting(minutes=1)}, "start_deadline"),
        ({"overlap": ALLOW, "recurring": False}, "overlap"),
        ({"overlap_limit": 1, "recurring": False}, "overlap_limit"),
        ({"catch_up": NONE, "recurring": False}, "catch_up"),
        ({"catch_up_limit": 1, "recurring": False}, "catch_up_limit"),
        ({"catch_up_window": lasting(minutes=1), "recurring": False}, "catch_up_window"),
        ({"catch_up_interval": lasting(minutes=1), "recurring": False}, "catch_up_interval"),
        ({"max_runs": 1, "recurring": False}, "max_runs"),
        (
            {
                "start_deadline": lasting(minutes=1),
                "recurring": False,
                "dependencies": job_pb2.Dependencies(job_ids=[1]),
            },
            "start_deadline",
        ),
    ],
)
def test_what_means_nothing_or_is_out_of_range_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        profile(**fields)
    assert caught.value.field == field
