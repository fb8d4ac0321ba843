"""Bad input over the wire, one case per kind: a typed error that names field and reason.

The fixture calm_cluster requires that after each case the nodes live and hold the same state: nothing half-written.
"""

import math
import random
import uuid
from collections.abc import Callable

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.cluster.api import Node, error_of
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms

INVALID = grpc.StatusCode.INVALID_ARGUMENT
Job = job_pb2.Job


def once(**fields: object) -> Job:
    job = Job(handler="bad-input", run_at=timestamp(now_ms() + 3_600_000))
    job.MergeFrom(Job(**fields))  # type: ignore[arg-type]
    return job


def cron(expression: str, time_zone: str = "") -> Job:
    return Job(handler="bad-input", cron=job_pb2.Cron(expression=expression, time_zone=time_zone))


def retry(**fields: object) -> Job:
    return once(retry=job_pb2.RetryPolicy(**fields))  # type: ignore[arg-type]


BAD_JOBS: list[tuple[str, Callable[[], Job], str]] = [
    ("cron that never comes", lambda: cron("0 0 31 2 *"), "job.cron.expression"),
    ("cron with a field too few", lambda: cron("* * * *"), "job.cron.expression"),
    ("cron with too many fields", lambda: cron("* * * * * * *"), "job.cron.expression"),
    ("cron out of range", lambda: cron("61 * * * *"), "job.cron.expression"),
    ("cron at random", lambda: cron("R R * * *"), "job.cron.expression"),
    ("cron at reboot", lambda: cron("@reboot"), "job.cron.expression"),
    ("cron of nothing", lambda: cron(""), "job.cron.expression"),
    ("cron without an end", lambda: cron("*," * 5_000 + "* * * * *"), "job.cron.expression"),
    ("cron with control characters", lambda: cron("* * * *\x00 *"), "job.cron.expression"),
    ("unknown zone", lambda: cron("0 2 * * *", "Europe/Atlantis"), "job.cron.time_zone"),
    ("zone that is a path", lambda: cron("0 2 * * *", "../../etc/passwd"), "job.cron.time_zone"),
    ("run_at in the far future", lambda: once(run_at=Timestamp(seconds=253_402_300_799)), "job.run_at"),
    ("run_at after the end of time", lambda: once(run_at=Timestamp(seconds=1 << 60)), "job.run_at"),
    ("run_at with broken nanoseconds", lambda: once(run_at=Timestamp(seconds=1, nanos=-5)), "job.run_at"),
    ("no schedule", lambda: Job(handler="bad-input"), "job.schedule"),
    ("interval of nothing", lambda: Job(handler="h", interval=job_pb2.Interval()), "job.interval.every"),
    (
        "negative interval",
        lambda: Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=-5))),
        "job.interval.every",
    ),
    (
        "interval under a second",
        lambda: Job(handler="h", interval=job_pb2.Interval(every=Duration(nanos=999_000_000))),
        "job.interval.every",
    ),
    (
        "interval beyond its range",
        lambda: Job(handler="h", interval=job_pb2.Interval(every=Duration(seconds=1 << 50))),
        "job.interval.every",
    ),
    (
        "depends on nothing",
        lambda: Job(handler="h", dependencies=job_pb2.Dependencies()),
        "job.dependencies.job_ids",
    ),
    ("negative start deadline", lambda: once(start_deadline=Duration(seconds=-60)), "job.start_deadline"),
    (
        "retention of a negative age",
        lambda: once(retention=job_pb2.Retention(max_age=Duration(seconds=-1))),
        "job.retention.max_age",
    ),
    ("no handler", lambda: Job(run_at=timestamp(now_ms())), "job.handler"),
    ("handler with blanks", lambda: once(handler="rm -rf"), "job.handler"),
    ("handler too long", lambda: once(handler="h" * 201), "job.handler"),
    ("name too long", lambda: once(name="n" * 201), "job.name"),
    ("name with control characters", lambda: once(name="a\nb"), "job.name"),
    ("namespace in capitals", lambda: once(namespace="Default"), "job.namespace"),
    ("namespace too long", lambda: once(namespace="n" * 64), "job.namespace"),
    ("queue with a slash", lambda: once(queue="a/b"), "job.queue"),
    ("queue too long", lambda: once(queue="q" * 64), "job.queue"),
    ("payload too large", lambda: once(payload=b"x" * (256 * 1024 + 1)), "job.payload"),
    ("content type without a type", lambda: once(content_type="\r\nSet-Cookie: a"), "job.content_type"),
    ("priority out of range", lambda: once(priority=10), "job.priority"),
    ("tenant too long", lambda: once(tenant="t" * 101), "job.tenant"),
    ("too many labels", lambda: once(labels={f"k{n}": "v" for n in range(33)}), "job.labels"),
    ("label key in capitals", lambda: once(labels={"Team": "v"}), "job.labels"),
    ("label value too long", lambda: once(labels={"team": "v" * 201}), "job.labels"),
    ("jitter too long", lambda: once(jitter=Duration(seconds=3_601)), "job.jitter"),
    ("negative jitter", lambda: once(jitter=Duration(seconds=-1)), "job.jitter"),
    ("negative run timeout", lambda: once(run_timeout=Duration(seconds=-1)), "job.run_timeout"),
    ("run timeout beyond its range", lambda: once(run_timeout=Duration(seconds=1 << 40)), "job.run_timeout"),
    ("too many attempts", lambda: retry(max_attempts=10_001), "job.retry.max_attempts"),
    ("multiplier that is not a number", lambda: retry(multiplier=math.nan), "job.retry.multiplier"),
    ("endless multiplier", lambda: retry(multiplier=math.inf), "job.retry.multiplier"),
    ("negative multiplier", lambda: retry(multiplier=-2.0), "job.retry.multiplier"),
    ("retry jitter that is not a number", lambda: retry(jitter=math.nan), "job.retry.jitter"),
    ("retry jitter above one", lambda: retry(jitter=1.5), "job.retry.jitter"),
    ("negative backoff", lambda: retry(initial_backoff=Duration(seconds=-1)), "job.retry.initial_backoff"),
    ("backoff beyond its range", lambda: retry(max_backoff=Duration(seconds=1 << 40)), "job.retry.max_backoff"),
    ("unknown overlap policy", lambda: once(overlap=77), "job.overlap"),
    ("unknown catch-up policy", lambda: once(catch_up=77), "job.catch_up"),
]


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str, list[str]]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.details(), "no message"
    return error_of(error.value)


@pytest.fixture
def nodes(calm_cluster: Cluster) -> list[Node]:
    return calm_cluster.api.nodes


def create(nodes: list[Node], job: Job, request_id: str | None = None) -> job_pb2.CreateJobResponse:
    """At whichever node, followers and leader alike, once."""
    request = job_pb2.CreateJobRequest(job=job, request_id=uuid.uuid4().hex if request_id is None else request_id)
    return random.choice(nodes).jobs.CreateJob(request, timeout=15)


@pytest.mark.parametrize(("make", "field"), [case[1:] for case in BAD_JOBS], ids=[case[0] for case in BAD_JOBS])
def test_a_bad_field_of_a_job_is_named(nodes: list[Node], make: Callable[[], Job], field: str) -> None:
    code, reason, fields = refused(lambda: create(nodes, make()))
    assert (code, reason) == (INVALID, "INVALID_FIELD")
    assert len(fields) == 1
    assert fields[0] == field or fields[0].startswith(f"{field}["), fields


def test_one_bad_job_undoes_its_whole_batch(calm_cluster: Cluster) -> None:
    handler = f"half-written-{uuid.uuid4().hex[:8]}"
    jobs = [once(handler=handler) for _ in range(100)]
    jobs[99].priority = 99
    request = job_pb2.BatchCreateJobsRequest(jobs=jobs, request_id=uuid.uuid4().hex)
    answer = refused(lambda: calm_cluster.node(1).jobs.BatchCreateJobs(request, timeout=15))
    assert answer == (INVALID, "INVALID_FIELD", ["jobs[99].priority"])
    with pytest.raises(grpc.RpcError) as error:
        calm_cluster.api.list_jobs(handler=handler)
    assert error_of(error.value)[1] == "UNKNOWN_NAME", "a job of the batch was registered"


@pytest.mark.parametrize("count", [0, 10_001])
def test_batches_have_a_size(nodes: list[Node], count: int) -> None:
    request = job_pb2.BatchCreateJobsRequest(jobs=[once()] * count)
    assert refused(lambda: nodes[0].jobs.BatchCreateJobs(request, timeout=30)) == (INVALID, "INVALID_FIELD", ["jobs"])


@pytest.mark.parametrize("key", ["", "k" * 201], ids=["empty", "too long"])
def test_a_bad_request_id_is_named(nodes: list[Node], key: str) -> None:
    assert refused(lambda: create(nodes, once(), key)) == (INVALID, "INVALID_FIELD", ["request_id"])


def test_a_request_without_a_job_is_refused(nodes: list[Node]) -> None:
    answer = refused(lambda: nodes[0].jobs.CreateJob(job_pb2.CreateJobRequest(), timeout=10))
    assert answer == (INVALID, "INVALID_FIELD", ["job"])


def test_names_of_the_greatest_length_in_bytes_are_kept_apart(calm_cluster: Cluster) -> None:
    namespace = f"{uuid.uuid4().hex}{'n' * 31}"
    names = [("\U0001f600" * 199) + last for last in "\U0001f600\U0001f601"]
    ids = [calm_cluster.api.create(once(namespace=namespace, name=name)).job.id for name in names]
    for name, job_id in zip(names, ids, strict=True):
        request = job_pb2.GetJobRequest(name=job_pb2.JobName(namespace=namespace, name=name))
        request.read.linearizable = True
        assert calm_cluster.node(1).jobs.GetJob(request, timeout=10).job.id == job_id


def test_a_run_at_in_the_past_means_now(calm_cluster: Cluster) -> None:
    job = Job(handler="late", queue=f"q-{uuid.uuid4().hex[:8]}", run_at=timestamp(1))
    created = calm_cluster.api.create(job).job
    assert created.state in (job_pb2.JOB_STATE_SCHEDULED, job_pb2.JOB_STATE_ACTIVE)


def test_fields_that_the_server_does_not_know_are_refused(nodes: list[Node]) -> None:
    # Field 500, a varint: as a newer client would send it.
    newer_filter = job_pb2.JobFilter.FromString(b"\xa0\x1f\x01")
    request = job_pb2.ListJobsRequest(filter=newer_filter)
    assert refused(lambda: nodes[1].jobs.ListJobs(request, timeout=10)) == (INVALID, "INVALID_FIELD", ["filter"])
    newer_job = once()
    newer_job.MergeFromString(b"\xa0\x1f\x01")
    assert refused(lambda: create(nodes, newer_job))[0] == INVALID


def test_an_unknown_state_in_a_filter_is_refused(nodes: list[Node]) -> None:
    request = job_pb2.ListJobsRequest(filter=job_pb2.JobFilter(state=99))  # type: ignore[arg-type]
    assert refused(lambda: nodes[1].jobs.ListJobs(request, timeout=10)) == (INVALID, "INVALID_FIELD", ["filter.state"])


@pytest.mark.parametrize("name", ["queue", "handler"])
def test_a_queue_or_handler_that_no_job_ever_had_is_not_found(nodes: list[Node], name: str) -> None:
    request = job_pb2.ListJobsRequest(filter=job_pb2.JobFilter(**{name: "nobody"}))
    answer = refused(lambda: nodes[0].jobs.ListJobs(request, timeout=10))
    assert answer == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_NAME", [f"filter.{name}"])


@pytest.mark.parametrize("token", ["x", "AAAA", "ü", "A" * 100_000, "=" * 10, "\x00"])
def test_broken_page_tokens_are_refused_by_every_list(nodes: list[Node], token: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: nodes[0].jobs.ListJobs(job_pb2.ListJobsRequest(page_token=token), timeout=10),
        lambda: nodes[1].executions.ListDeadLetters(execution_pb2.ListDeadLettersRequest(page_token=token), timeout=10),
        lambda: nodes[2].executions.ListExecutions(
            execution_pb2.ListExecutionsRequest(job_id=1, page_token=token), timeout=10
        ),
    ]
    for call in calls:
        assert refused(call) == (INVALID, "INVALID_FIELD", ["page_token"])


def test_a_page_token_of_another_list_is_refused(calm_cluster: Cluster) -> None:
    calm_cluster.api.create_batch([once() for _ in range(3)])
    jobs = calm_cluster.node(1).jobs
    token = jobs.ListJobs(job_pb2.ListJobsRequest(page_size=1), timeout=10).next_page_token
    assert token
    request = job_pb2.ListJobsRequest(filter=job_pb2.JobFilter(handler="other"), page_size=1, page_token=token)
    assert refused(lambda: jobs.ListJobs(request, timeout=10)) == (INVALID, "INVALID_FIELD", ["page_token"])


def test_page_sizes_have_a_limit(nodes: list[Node]) -> None:
    request = job_pb2.ListJobsRequest(page_size=1_001)
    assert refused(lambda: nodes[2].jobs.ListJobs(request, timeout=10)) == (INVALID, "INVALID_FIELD", ["page_size"])


def test_what_does_not_exist_is_not_found(nodes: list[Node]) -> None:
    nowhere = 1 << 63
    not_found = grpc.StatusCode.NOT_FOUND
    get = job_pb2.GetJobRequest(id=nowhere)
    assert refused(lambda: nodes[0].jobs.GetJob(get, timeout=10))[:2] == (not_found, "JOB_NOT_FOUND")
    cancel = job_pb2.CancelJobRequest(id=nowhere)
    assert refused(lambda: nodes[1].jobs.CancelJob(cancel, timeout=10))[:2] == (not_found, "JOB_NOT_FOUND")
    execution = execution_pb2.GetExecutionRequest(id=nowhere)
    answer = refused(lambda: nodes[2].executions.GetExecution(execution, timeout=10))
    assert answer[:2] == (not_found, "EXECUTION_NOT_FOUND")
    replay = execution_pb2.ReplayDeadLettersRequest(execution_ids=[nowhere])
    answer = refused(lambda: nodes[0].executions.ReplayDeadLetters(replay, timeout=10))
    assert answer[0] in (not_found, grpc.StatusCode.FAILED_PRECONDITION)


def test_bytes_that_are_no_message_do_no_harm(calm_cluster: Cluster) -> None:
    for number in calm_cluster.nodes:
        call = calm_cluster.node(number).channel.unary_unary("/raftsched.v1.JobService/CreateJob")
        with pytest.raises(grpc.RpcError):
            call(b"\xff" * 1_000, timeout=10)
        call = calm_cluster.node(number).channel.unary_unary("/raftsched.v1.JobService/NoSuchMethod")
        with pytest.raises(grpc.RpcError) as error:
            call(b"", timeout=10)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
