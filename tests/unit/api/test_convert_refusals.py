"""Each kind of bad input, and its exact error."""

import math
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api.convert import create_jobs_command
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.model.limits import YEAR_MS
from raftsched.v1 import job_pb2
from tests.unit.api.job_requests import NOW_MS, create, cron, job, repeated, seconds

NO_TIMESTAMP = "not a valid Timestamp: seconds (not milliseconds) of the years 1–9999, nanos in 0–999,999,999 are right"
# Fields of the job, the field named, what is said.
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"namespace": "Team"}, "namespace", "1–63 characters of a–z, 0–9 and - are right"),
    ({"namespace": repeated(64)}, "namespace", "1–63 characters of a–z, 0–9 and - are right"),
    ({"namespace": "a\n"}, "namespace", "1–63 characters of a–z, 0–9 and - are right"),
    ({"name": repeated(201)}, "name", "201 characters are too many; at most 200 are right"),
    ({"name": "a\x00b"}, "name", "control characters are not allowed"),
    ({"name": "a\u2028b"}, "name", "control characters are not allowed"),
    ({"handler": ""}, "handler", "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"),
    ({"handler": repeated(201)}, "handler", "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"),
    ({"handler": "reports nightly"}, "handler", "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"),
    ({"handler": "naïve"}, "handler", "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"),
    ({"payload": bytes(256 * 1024 + 1)}, "payload", "262,145 bytes are too many; at most 262,144 are right"),
    (
        {"content_type": "json"},
        "content_type",
        "a media type such as application/json is right, up to 300 characters of printable ASCII",
    ),
    (
        {"content_type": "text/plain; x=" + repeated(300)},
        "content_type",
        "a media type such as application/json is right, up to 300 characters of printable ASCII",
    ),
    ({"queue": "Slow"}, "queue", "1–63 characters of a–z, 0–9, . _ and - are right"),
    ({"queue": repeated(64)}, "queue", "1–63 characters of a–z, 0–9, . _ and - are right"),
    ({"priority": 10}, "priority", "10 is not 0–9"),
    ({"priority": 2**32 - 1}, "priority", "4294967295 is not 0–9"),
    ({"tenant": repeated(101)}, "tenant", "101 characters are too many; at most 100 are right"),
    ({"tenant": "\x7f"}, "tenant", "control characters are not allowed"),
    ({"labels": {f"l{i}": "" for i in range(33)}}, "labels", "33 are too many; at most 32 are right"),
    ({"labels": {"": "x"}}, "labels", "the key `` is not 1–63 characters of a–z, 0–9, . _ / and -"),
    ({"labels": {"Größe": "x"}}, "labels", "the key `Größe` is not 1–63 characters of a–z, 0–9, . _ / and -"),
    (
        {"labels": {repeated(64): "x"}},
        "labels",
        f"the key `{repeated(63)}` is not 1–63 characters of a–z, 0–9, . _ / and -",
    ),
    ({"labels": {"a": repeated(201)}}, "labels[a]", "201 characters are too many; at most 200 are right"),
    (
        {"run_at": Timestamp(seconds=253_402_300_800)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(seconds=-62_135_596_801)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(seconds=2**63 - 1)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(nanos=-1)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(nanos=10**9)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(seconds=NOW_MS)},
        "run_at",
        NO_TIMESTAMP,
    ),
    (
        {"run_at": Timestamp(seconds=NOW_MS // 1000 + 101 * YEAR_MS // 1000)},
        "run_at",
        "more than 100 years from now",
    ),
    (
        {"cron": cron("0 0 31 2 *")},
        "cron.expression",
        "never fires: no year has a day 31 in month 2 with day of week *; for the end of a month write L as the day",
    ),
    (
        {"cron": cron("")},
        "cron.expression",
        "empty; five fields (minute hour day month weekday) such as `0 2 * * *`, or six with seconds first",
    ),
    ({"cron": cron("61 * * * *")}, "cron.expression", "minute `61`: 61 is not 0–59"),
    (
        {"cron": cron("@reboot")},
        "cron.expression",
        "@reboot is not a time; a cluster has no boot; use another expression, or run it once",
    ),
    (
        {"cron": cron("R 2 * * *")},
        "cron.expression",
        "minute `r`: a random time would differ at each look; use `jitter` to spread jobs",
    ),
    (
        {"cron": cron(time_zone="Europe/Berlim")},
        "cron.time_zone",
        "`Europe/Berlim` is not a time zone; did you mean Europe/Berlin?",
    ),
    (
        {"cron": cron(time_zone="+02:00")},
        "cron.time_zone",
        "`+02:00` is not a time zone; an IANA name such as Europe/Berlin is right",
    ),
    ({"interval": job_pb2.Interval()}, "interval.every", "0 is not within 1 s – 10 years"),
    ({"interval": job_pb2.Interval(every=seconds(0.999))}, "interval.every", "999 ms is not within 1 s – 10 years"),
    ({"interval": job_pb2.Interval(every=seconds(-5))}, "interval.every", "-5 s is not within 1 s – 10 years"),
    (
        {"interval": job_pb2.Interval(every=seconds(11 * YEAR_MS // 1000))},
        "interval.every",
        "11 years is not within 1 s – 10 years",
    ),
    (
        {"interval": job_pb2.Interval(every=Duration(seconds=60, nanos=1))},
        "interval.every",
        "not a whole number of milliseconds",
    ),
    (
        {"interval": job_pb2.Interval(every=Duration(seconds=2, nanos=-1))},
        "interval.every",
        "not a valid Duration: seconds and nanos of one sign are right, nanos below one second",
    ),
    (
        {"interval": job_pb2.Interval(every=Duration(seconds=2**63 - 1))},
        "interval.every",
        "not a valid Duration: seconds and nanos of one sign are right, nanos below one second",
    ),
    (
        {"interval": job_pb2.Interval(every=seconds(60), start=Timestamp(nanos=-5))},
        "interval.start",
        NO_TIMESTAMP,
    ),
    (
        {"interval": job_pb2.Interval(every=seconds(60), start=Timestamp(seconds=200_000_000_000))},
        "interval.start",
        "more than 100 years from now",
    ),
    ({"jitter": seconds(3601)}, "jitter", "3601 s is not within 0 – 1 h"),
    ({"jitter": seconds(-1)}, "jitter", "-1 s is not within 0 – 1 h"),
    ({"run_timeout": seconds(0)}, "run_timeout", "0 is not within 1 ms – 30 days"),
    ({"run_timeout": seconds(-1)}, "run_timeout", "-1 s is not within 1 ms – 30 days"),
    ({"run_timeout": seconds(31 * 86_400)}, "run_timeout", "31 days is not within 1 ms – 30 days"),
    ({"retry": job_pb2.RetryPolicy(max_attempts=10_001)}, "retry.max_attempts", "10001 is not 1–10,000"),
    (
        {"retry": job_pb2.RetryPolicy(initial_backoff=seconds(-1))},
        "retry.initial_backoff",
        "-1 s is not within 0 – 30 days",
    ),
    (
        {"retry": job_pb2.RetryPolicy(max_backoff=seconds(31 * 86_400))},
        "retry.max_backoff",
        "31 days is not within 0 – 30 days",
    ),
    (
        {"retry": job_pb2.RetryPolicy(initial_backoff=seconds(10), max_backoff=seconds(9))},
        "retry.max_backoff",
        "9 s is less than the initial backoff of 10 s",
    ),
    ({"retry": job_pb2.RetryPolicy(multiplier=0.5)}, "retry.multiplier", "0.5 is not 1–100"),
    ({"retry": job_pb2.RetryPolicy(multiplier=100.1)}, "retry.multiplier", "100.1 is not 1–100"),
    ({"retry": job_pb2.RetryPolicy(multiplier=-2)}, "retry.multiplier", "-2.0 is not 1–100"),
    ({"retry": job_pb2.RetryPolicy(multiplier=math.nan)}, "retry.multiplier", "nan is not 1–100"),
    ({"retry": job_pb2.RetryPolicy(multiplier=math.inf)}, "retry.multiplier", "inf is not 1–100"),
    ({"retry": job_pb2.RetryPolicy(jitter=math.nan)}, "retry.jitter", "nan is not 0–1"),
    ({"retry": job_pb2.RetryPolicy(jitter=1.01)}, "retry.jitter", "1.01 is not 0–1"),
    ({"retry": job_pb2.RetryPolicy(jitter=-0.01)}, "retry.jitter", "-0.01 is not 0–1"),
    ({"overlap": 77, "cron": cron()}, "overlap", "77 is not a policy; SKIP, ALLOW, QUEUE and REPLACE are right"),
    ({"catch_up": 77, "cron": cron()}, "catch_up", "77 is not a policy; LATEST, ALL and NONE are right"),
    (
        {"overlap": job_pb2.OVERLAP_POLICY_SKIP},
        "overlap",
        "means nothing for a job with run_at, which has one occurrence; leave it unset",
    ),
    (
        {"catch_up": job_pb2.CATCH_UP_POLICY_ALL},
        "catch_up",
        "means nothing for a job with run_at, which has one occurrence; leave it unset",
    ),
    ({"id": 7}, "id", "set by the server only; leave it unset"),
    ({"state": job_pb2.JOB_STATE_SCHEDULED}, "state", "set by the server only; leave it unset"),
    ({"last_execution_id": 1}, "last_execution_id", "set by the server only; leave it unset"),
    ({"create_time": Timestamp()}, "create_time", "set by the server only; leave it unset"),
    ({"next_run_time": Timestamp()}, "next_run_time", "set by the server only; leave it unset"),
    ({"cancel_time": Timestamp()}, "cancel_time", "set by the server only; leave it unset"),
]


@pytest.mark.parametrize(("fields", "field", "message"), INVALID)
def test_an_invalid_field_is_named_and_told_what_would_be_right(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        create(job(**fields))
    assert (caught.value.field, caught.value.message) == (f"jobs[0].{field}", message)


def test_a_job_without_a_schedule_is_told_what_to_set() -> None:
    with pytest.raises(InvalidField) as caught:
        create(job_pb2.Job(handler="h"))
    assert caught.value.field == "jobs[0].schedule"
    assert caught.value.message == (
        "unset; set run_at for one occurrence, cron or interval for a series, or dependencies"
    )


def test_a_field_of_a_single_create_is_named_after_its_job() -> None:
    with pytest.raises(InvalidField) as caught:
        create_jobs_command([job(priority=10)], "key", NOW_MS, batch=False)
    assert caught.value.field == "job.priority"


def test_a_field_in_a_batch_is_named_with_its_position() -> None:
    jobs = [job(name=f"job-{i}") for i in range(20)]
    jobs[17].name = "\x00"
    with pytest.raises(InvalidField) as caught:
        create(*jobs)
    assert caught.value.field == "jobs[17].name"


def test_a_batch_of_too_many_bytes_names_the_job_that_is_one_too_many() -> None:
    big = job(payload=bytes(limits.PAYLOAD_MAX_BYTES))
    fit = limits.BATCH_MAX_BYTES // limits.PAYLOAD_MAX_BYTES
    create(*[big] * fit)
    with pytest.raises(InvalidField) as caught:
        create(*[big] * fit, job(payload=b"x"))
    assert caught.value.field == f"jobs[{fit}].payload"


@pytest.mark.parametrize(
    ("request_id", "message"),
    [
        ("", "empty; 1–200 characters are right, or leave it unset"),
        ("x" * 201, "201 characters are too many; at most 200 are right"),
        ("a\nb", "control characters are not allowed"),
    ],
)
def test_a_bad_request_id_is_refused(request_id: str, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        create(job(), request_id=request_id)
    assert (caught.value.field, caught.value.message) == ("request_id", message)
