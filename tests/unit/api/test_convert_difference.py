"""In what a request differs from the job that its idempotency key registered before."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.convert import job_difference
from raftsched.v1 import job_pb2

CREATED_S = 1_767_225_600
CREATED = Timestamp(seconds=CREATED_S)
SOON = Timestamp(seconds=CREATED_S + 3600)
HOURLY = job_pb2.Interval(every=Duration(seconds=3600))
NIGHTLY = job_pb2.Cron(expression="0 2 * * *", time_zone="UTC")


def stored(**fields: Any) -> job_pb2.Job:
    """A job as GetJob returns it: defaults spelled out, times of the server set."""
    defaults: dict[str, Any] = {
        "id": 1,
        "namespace": "default",
        "handler": "h",
        "queue": "default",
        "content_type": "application/octet-stream",
        "retry": job_pb2.RetryPolicy(
            max_attempts=3,
            initial_backoff=Duration(seconds=1),
            max_backoff=Duration(seconds=3600),
            multiplier=2,
        ),
        "state": job_pb2.JOB_STATE_SCHEDULED,
        "create_time": CREATED,
    }
    if "cron" in fields or "interval" in fields:
        defaults["overlap"] = job_pb2.OVERLAP_POLICY_SKIP
        defaults["catch_up"] = job_pb2.CATCH_UP_POLICY_LATEST
    else:
        defaults["run_at"] = SOON
    return job_pb2.Job(**{**defaults, **fields})


def requested(**fields: Any) -> job_pb2.Job:
    if not {"run_at", "cron", "interval"} & set(fields):
        fields["run_at"] = SOON
    return job_pb2.Job(**{"handler": "h", **fields})


def test_a_stored_job_does_not_differ_from_the_request_that_made_it() -> None:
    assert job_difference(stored(), requested()) == []
    assert job_difference(stored(cron=NIGHTLY), requested(cron=job_pb2.Cron(expression="0  2 * * *"))) == []
    assert job_difference(stored(interval=HOURLY), requested(interval=HOURLY)) == []


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"namespace": "other"}, ["namespace"]),
        ({"name": "n"}, ["name"]),
        ({"handler": "other"}, ["handler"]),
        ({"payload": b"x"}, ["payload"]),
        ({"content_type": "text/plain"}, ["content_type"]),
        ({"queue": "other"}, ["queue"]),
        ({"priority": 1}, ["priority"]),
        ({"tenant": "t"}, ["tenant"]),
        ({"labels": {"a": "b"}}, ["labels"]),
        ({"jitter": Duration(seconds=1)}, ["jitter"]),
        ({"run_timeout": Duration(seconds=1)}, ["run_timeout"]),
        ({"retry": job_pb2.RetryPolicy(max_attempts=4)}, ["retry.max_attempts"]),
        ({"retry": job_pb2.RetryPolicy(initial_backoff=Duration(seconds=2))}, ["retry.initial_backoff"]),
        ({"retry": job_pb2.RetryPolicy(max_backoff=Duration(seconds=2))}, ["retry.max_backoff"]),
        ({"retry": job_pb2.RetryPolicy(multiplier=3)}, ["retry.multiplier"]),
        ({"retry": job_pb2.RetryPolicy(jitter=0.5)}, ["retry.jitter"]),
        ({"run_at": Timestamp(seconds=SOON.seconds + 1)}, ["run_at"]),
        ({"cron": NIGHTLY}, ["schedule"]),
        ({"cron": NIGHTLY, "priority": 1}, ["priority", "schedule"]),
        ({"name": "n", "payload": b"x", "queue": "q"}, ["queue", "name", "payload"]),
    ],
)
def test_the_fields_that_differ_are_named(fields: dict[str, Any], names: list[str]) -> None:
    assert job_difference(stored(), requested(**fields)) == names


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"cron": NIGHTLY}, {"cron": job_pb2.Cron(expression="0 3 * * *")}, ["cron.expression"]),
        (
            {"cron": NIGHTLY},
            {"cron": job_pb2.Cron(expression="0 2 * * *", time_zone="Europe/Berlin")},
            ["cron.time_zone"],
        ),
        ({"cron": NIGHTLY}, {"cron": NIGHTLY, "overlap": job_pb2.OVERLAP_POLICY_ALLOW}, ["overlap"]),
        ({"cron": NIGHTLY}, {"cron": NIGHTLY, "catch_up": job_pb2.CATCH_UP_POLICY_ALL}, ["catch_up"]),
        ({"cron": NIGHTLY}, {"interval": HOURLY}, ["schedule"]),
        (
            {"interval": HOURLY},
            {"interval": job_pb2.Interval(every=Duration(seconds=60))},
            ["interval.every"],
        ),
        (
            {"interval": HOURLY, "next_run_time": SOON},
            {"interval": job_pb2.Interval(every=Duration(seconds=3600), start=Timestamp(seconds=SOON.seconds + 1))},
            ["interval.start"],
        ),
        (
            {"interval": HOURLY, "next_run_time": SOON},
            {"interval": job_pb2.Interval(every=Duration(seconds=3600), start=Timestamp(seconds=SOON.seconds - 7200))},
            [],
        ),
    ],
)
def test_schedules_that_differ_are_named(before: dict[str, Any], after: dict[str, Any], names: list[str]) -> None:
    assert job_difference(stored(**before), requested(**after)) == names


def test_a_past_run_at_that_became_now_is_no_difference() -> None:
    became_now = stored(run_at=Timestamp(seconds=CREATED_S, nanos=3_000_000))
    assert job_difference(became_now, requested(run_at=Timestamp(seconds=7))) == []
    assert job_difference(became_now, requested(run_at=SOON)) == ["run_at"]
    assert job_difference(stored(), requested(run_at=Timestamp(seconds=7))) == ["run_at"]
