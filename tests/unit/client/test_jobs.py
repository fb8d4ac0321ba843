"""The client registers and reads jobs through any node, repeats what may be repeated, and says what went wrong."""

from datetime import UTC, datetime, timedelta, timezone

import grpc
import pytest

from raftsched.client import (
    Client,
    ClientClosed,
    DeadlineExceeded,
    ExecutionState,
    InvalidField,
    JobRunning,
    JobSpec,
    JobState,
    NameTaken,
    NodeHealth,
    NoQuorum,
    OverlapPolicy,
    RaftschedError,
    Retention,
    RetryPolicy,
    Unavailable,
    channels,
    create_calls,
    jobs,
)

from .scripted_jobs import JobsNode, hang, refusal

NOW = datetime(2026, 7, 12, 2, tzinfo=UTC)
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def test_a_job_arrives_as_it_was_given_and_comes_back_as_values() -> None:
    async with JobsNode() as node, Client([node.address], namespace="acme") as client:
        job = await client.create(
            "reports.nightly",
            cron="0 2 * * *",
            time_zone="Europe/Berlin",
            payload={"year": 2026},
            name="nightly",
            queue="reports",
            priority=5,
            tenant="t1",
            labels={"team": "finance"},
            retry=RetryPolicy(max_attempts=7, initial_backoff=timedelta(milliseconds=1500), jitter=0.25),
            run_timeout=timedelta(minutes=5),
            overlap=OverlapPolicy.ALLOW,
            jitter=timedelta(seconds=30),
        )
        sent = node.requests[0].job
        assert sent.namespace == "acme"
        assert sent.payload == b'{"year":2026}'
        assert sent.content_type == "application/json"
        assert sent.retry.initial_backoff.ToMilliseconds() == 1500
        assert (job.id, job.name, job.cron, job.time_zone) == (1, "nightly", "0 2 * * *", "Europe/Berlin")
        assert (job.run_at, job.every) == (None, None)
        assert job.retry.max_attempts == 7
        assert job.run_timeout == timedelta(minutes=5)
        assert job.overlap is OverlapPolicy.ALLOW
        assert job.labels == {"team": "finance"}


async def test_times_of_any_zone_become_utc_and_payloads_keep_their_kind() -> None:
    async with JobsNode() as node, Client([node.address]) as client:
        berlin = timezone(timedelta(hours=2))
        job = await client.create("h", run_at=datetime(2026, 7, 12, 4, tzinfo=berlin), payload=b"\x00")
        assert job.run_at == NOW
        assert job.run_at.tzinfo is UTC
        assert (job.payload, job.content_type) == (b"\x00", "")
        text = await client.create("h", every=timedelta(minutes=1), start=NOW, payload="é")
        assert (text.payload, text.content_type) == ("é".encode(), "text/plain; charset=utf-8")
        assert (text.every, text.start) == (timedelta(minutes=1), NOW)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("schedule", JobSpec("h")),
        ("schedule", JobSpec("h", run_at=NOW, cron="* * * * *")),
        ("time_zone", JobSpec("h", run_at=NOW, time_zone="UTC")),
        ("start", JobSpec("h", run_at=NOW, start=NOW)),
        ("run_at", JobSpec("h", run_at=datetime(2026, 1, 1))),
        ("every", JobSpec("h", every=5)),  # type: ignore[arg-type]
        ("priority", JobSpec("h", run_at=NOW, priority=-1)),
        ("payload", JobSpec("h", run_at=NOW, payload=object())),
        ("labels[a]", JobSpec("h", run_at=NOW, labels={"a": 1})),  # type: ignore[dict-item]
        ("labels", JobSpec("h", run_at=NOW, labels={1: "a"})),  # type: ignore[dict-item]
        ("cron", JobSpec("h", cron=["@daily"])),  # type: ignore[arg-type]
        ("depends_on[1]", JobSpec("h", depends_on=[1, "x"])),  # type: ignore[list-item]
        ("retry.max_attempts", JobSpec("h", run_at=NOW, retry=RetryPolicy(max_attempts=-1))),
        ("retention.max_executions", JobSpec("h", run_at=NOW, retention=Retention(max_executions=-1))),
        ("overlap", JobSpec("h", run_at=NOW, overlap="SOMETIMES")),  # type: ignore[arg-type]
        ("name", JobSpec("h", run_at=NOW, name="\ud800")),
    ],
)
async def test_what_cannot_be_sent_is_refused_with_its_field(field: str, spec: JobSpec) -> None:
    async with Client(["127.0.0.1:1"]) as client:
        with pytest.raises(InvalidField) as refused:
            await client.create_spec(spec)
        assert refused.value.field == f"job.{field}"
        with pytest.raises(InvalidField) as refused:
            await client.create_many([JobSpec("h", run_at=NOW), spec])
        assert refused.value.field == f"jobs[1].{field}"


async def test_a_value_of_another_kind_is_named_with_what_would_be_right() -> None:
    async with Client(["127.0.0.1:1"]) as client:
        for call, field in (
            (client.get("foo"), "id"),  # type: ignore[arg-type]
            (client.cancel_execution(-1), "id"),
            (client.pause(1, note=5), "note"),  # type: ignore[arg-type]
            (client.replay([1, "x"]), "execution_ids[1]"),  # type: ignore[list-item]
            (client.update(1, priority=-1), "job.priority"),
            (client.trigger(1, request_id=5), "request_id"),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidField) as refused:
                await call
            assert refused.value.field == field
    with pytest.raises(InvalidField, match="-1 is not a whole number from 0 to 4,294,967,295"):
        await client.create("h", run_at=NOW, priority=-1)


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(InvalidField) as refused:
        Client(["127.0.0.1:1", "foo"])
    assert refused.value.field == "addresses[1]"


async def test_a_mutation_is_repeated_with_the_same_request_id_until_a_node_carries_it_out() -> None:
    async with JobsNode() as first, JobsNode() as second:
        for node in (first, second):
            node.script.extend(
                [
                    refusal(UNAVAILABLE, "NO_QUORUM"),
                    refusal(UNAVAILABLE, "OUTCOME_UNKNOWN"),
                    refusal(UNAVAILABLE, "NODE_DRAINING"),
                    refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED"),
                ]
            )
        async with Client([first.address, second.address, "127.0.0.1:1"]) as client:
            job = await client.create("h", run_at=NOW)
        assert job.handler == "h"
        requests = [*first.requests, *second.requests]
        assert 5 <= len(requests) <= 9
        assert len({request.request_id for request in requests}) == 1
        assert len(requests[0].request_id) == 32


async def test_a_node_that_hangs_costs_one_attempt_not_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_FIRST_ATTEMPT_S", 0.1)
    async with JobsNode() as first, JobsNode() as second:
        first.script.append(hang)
        second.script.append(hang)
        async with Client([first.address, second.address]) as client:
            await client.create("h", run_at=NOW, request_id="mine")
        assert {request.request_id for request in (*first.requests, *second.requests)} == {"mine"}
        assert len(first.requests) + len(second.requests) == 3


async def test_a_node_that_goes_on_hanging_is_asked_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_FIRST_ATTEMPT_S", 0.1)
    async with JobsNode() as hanging, JobsNode() as well:
        hanging.script.extend([hang] * 100)
        async with Client([hanging.address, well.address]) as client:
            for _ in range(50):
                await client.status()
        assert len(hanging.requests) == 1
        assert len(well.requests) == 50


async def test_when_the_time_is_over_the_last_error_is_raised_with_the_request_id() -> None:
    async with JobsNode() as node, Client([node.address], timeout_s=0.3) as client:
        node.script.extend([refusal(UNAVAILABLE, "NO_QUORUM", message="no leader")] * 50)
        with pytest.raises(NoQuorum, match="no leader") as failed:
            await client.create("h", run_at=NOW)
        assert failed.value.retryable
        assert failed.value.request_id == node.requests[0].request_id
        node.script.clear()
        node.script.append(hang)
        with pytest.raises(DeadlineExceeded):
            await client.get(1)


async def test_no_node_at_all_is_unavailable() -> None:
    async with Client(["127.0.0.1:1"], timeout_s=0.2) as client:
        with pytest.raises(Unavailable):
            await client.get(1)


async def test_an_error_that_repeating_cannot_cure_is_raised_at_once_with_all_it_says() -> None:
    async with JobsNode() as node, Client([node.address]) as client:
        node.script.append(
            refusal(grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN", message="taken", field="job.name", job_id="7")
        )
        with pytest.raises(NameTaken) as refused:
            await client.create("h", run_at=NOW, name="x")
        error = refused.value
        assert (error.reason, error.field, error.metadata) == ("NAME_TAKEN", "job.name", {"job_id": "7"})
        assert error.code is grpc.StatusCode.ALREADY_EXISTS
        assert str(error) == "job.name: taken"
        assert not error.retryable
        assert len(node.requests) == 1
        node.script.append(refusal(grpc.StatusCode.FAILED_PRECONDITION, "JOB_RUNNING"))
        with pytest.raises(JobRunning):
            await client.cancel(1)
        node.script.append(refusal(grpc.StatusCode.FAILED_PRECONDITION, "SOMETHING_NEW"))
        with pytest.raises(RaftschedError) as unknown:
            await client.cancel(1)
        assert unknown.value.reason == "SOMETHING_NEW"


async def test_reads_ask_for_what_this_client_has_written() -> None:
    async with JobsNode() as node, Client([node.address]) as client:
        node.index = 41
        job = await client.create("h", run_at=NOW)
        await client.get(job.id)
        assert node.requests[-1].read.min_index == 42
        node.index = 7
        await client.get(job.id, linearizable=True)
        assert node.requests[-1].read.min_index == 42
        assert node.requests[-1].read.linearizable


async def test_a_listing_goes_through_all_pages_even_empty_ones() -> None:
    async with JobsNode() as node, Client([node.address]) as client:
        listed = [job.id async for job in client.list(state=JobState.ACTIVE, labels={"a": "b"}, page_size=2)]
        assert listed == [1, 2, 5, 6, 7, 8]
        assert [request.page_token for request in node.requests] == ["", "1", "2", "3"]
        assert node.requests[0].filter.state == 2
        assert node.requests[0].filter.namespace == "default"
        executions = [execution async for execution in client.executions(3)]
        assert [(execution.id, execution.state) for execution in executions] == [(7, ExecutionState.RUNNING)]


async def test_many_jobs_go_in_batches_bounded_by_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_calls, "BATCH_JOBS", 10)
    monkeypatch.setattr(create_calls, "BATCH_BYTES", 5_000)
    async with JobsNode() as node, Client([node.address]) as client:
        small = [JobSpec("h", run_at=NOW) for _ in range(25)]
        large = [JobSpec("h", run_at=NOW, payload=b"x" * 2_000) for _ in range(5)]
        ids = await client.create_many([*small, *large], request_id="key")
        assert ids == list(range(1, 31))
        assert [len(request.jobs) for request in node.requests] == [10, 10, 7, 2, 1]
        assert [request.request_id for request in node.requests] == [f"key/{number}" for number in range(5)]


async def test_a_refused_batch_says_where_in_the_whole_list_and_what_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(create_calls, "BATCH_JOBS", 10)
    async with JobsNode() as node, Client([node.address]) as client:

        async def accept(_context: object) -> None: ...

        bad = refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", field="jobs[3].handler")
        node.script.extend([accept, bad])
        with pytest.raises(InvalidField) as refused:
            await client.create_many(JobSpec("h", run_at=NOW) for _ in range(20))
        assert refused.value.field == "jobs[13].handler"
        assert refused.value.created_ids == tuple(range(1, 11))


async def test_dead_letters_are_replayed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BATCH_REPLAYS", 2)
    async with JobsNode() as node, Client([node.address]) as client:
        assert await client.replay([1, 2, 3]) == [10_001, 10_002, 10_003]
        assert len(node.requests) == 2


async def test_status_comes_from_any_node_or_from_the_one_that_is_named() -> None:
    async with JobsNode() as first, JobsNode() as second:
        second.node = 2
        async with Client([first.address, second.address]) as client:
            for address, number in ((first.address, 1), (second.address, 2)):
                status = await client.status(address)
                assert (status.node, status.leader, status.health) == (number, 3, NodeHealth.SERVING)
            assert (await client.status()).node in (1, 2)
            with pytest.raises(ValueError, match="not one of"):
                await client.status("127.0.0.1:1")


async def test_calls_go_to_the_nodes_in_turn() -> None:
    async with JobsNode() as first, JobsNode() as second:
        async with Client([first.address, second.address]) as client:
            for _ in range(6):
                await client.status()
        assert len(first.requests) == len(second.requests) == 3


async def test_a_closed_client_says_so() -> None:
    async with JobsNode() as node:
        client = Client([node.address])
        await client.close()
        with pytest.raises(ClientClosed):
            await client.get(1)


def test_addresses_must_be_a_sequence() -> None:
    for bad in ("127.0.0.1:7101", []):
        with pytest.raises(ValueError, match="addresses"):
            Client(bad)


async def test_an_empty_request_id_is_refused_since_it_would_protect_nothing() -> None:
    async with Client(["127.0.0.1:1"]) as client:
        with pytest.raises(ValueError, match="request_id"):
            await client.create("h", run_at=datetime.now(UTC), request_id="")
