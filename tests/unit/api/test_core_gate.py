"""How recent a read is, how long it waits for that, and what it says when it waits in vain."""

import asyncio

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.api import core_gate
from raftsched.v1 import cluster_pb2, execution_pb2, job_pb2
from tests.unit.api.support import START_MS, Api, Refused, refused

FAR = job_pb2.ReadOptions(min_index=2**64 - 1)
LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


async def create(api: Api, count: int = 1) -> job_pb2.BatchCreateJobsResponse:
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000 + 60))
    return await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count))


async def listed(api: Api, read: job_pb2.ReadOptions | None = None) -> job_pb2.ListJobsResponse:
    return await api.jobs.ListJobs(job_pb2.ListJobsRequest(read=read))


async def test_a_node_reads_what_it_has_answered_even_before_it_is_committed(api: Api) -> None:
    created = await create(api)
    assert api.core.machine.committed_index < created.index
    page = await listed(api)
    assert [job.id for job in page.jobs] == list(created.job_ids)
    assert page.index >= created.index


async def test_a_plain_read_does_not_wait_for_what_others_did(api: Api) -> None:
    await create(api)
    await listed(api)
    committed = api.core.machine.committed_index
    await api.core.apply_nothing()
    assert (await listed(api)).index == committed


async def test_a_linearizable_read_sees_all_that_was_applied(api: Api) -> None:
    await listed(api)
    await api.core.apply_nothing()
    assert (await listed(api, LINEARIZABLE)).index == api.core.machine.applied_index == 1


async def test_a_linearizable_read_without_a_quorum_is_refused_and_a_plain_one_answered(api: Api) -> None:
    await create(api)
    api.core.has_quorum = False
    async with refused() as told:
        await listed(api, LINEARIZABLE)
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_QUORUM")
    assert len((await listed(api)).jobs) == 1


async def test_a_read_waits_for_its_index(api: Api) -> None:
    read = asyncio.ensure_future(listed(api, job_pb2.ReadOptions(min_index=3)))
    await api.core.until_waiting(1)
    for _ in range(3):
        assert not read.done()
        await api.core.apply_nothing()
    assert (await read).index == 3


@pytest.mark.parametrize("service", ["jobs", "job", "execution", "history", "skipped", "dead letters", "status"])
async def test_every_read_that_waits_in_vain_says_so_within_its_deadline(
    api: Api, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ample: a busy machine must not let gRPC's own answer come first.
    monkeypatch.setattr(core_gate, "ANSWER_MARGIN_S", 5.0)
    calls = {
        "jobs": (api.jobs.ListJobs, job_pb2.ListJobsRequest(read=FAR)),
        "job": (api.jobs.GetJob, job_pb2.GetJobRequest(id=1, read=FAR)),
        "execution": (api.executions.GetExecution, execution_pb2.GetExecutionRequest(id=1, read=FAR)),
        "history": (api.executions.ListExecutions, execution_pb2.ListExecutionsRequest(job_id=1, read=FAR)),
        "skipped": (
            api.executions.ListSkippedOccurrences,
            execution_pb2.ListSkippedOccurrencesRequest(job_id=1, read=FAR),
        ),
        "dead letters": (api.executions.ListDeadLetters, execution_pb2.ListDeadLettersRequest(read=FAR)),
        "status": (api.cluster.GetStatus, cluster_pb2.GetStatusRequest(read=FAR)),
    }
    call, request = calls[service]
    async with refused() as told:
        await call(request, timeout=5.2)
    assert (told.code, told.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "READ_TIMEOUT")
    assert told.metadata["min_index"] == str(2**64 - 1)
    assert "another node" in told.message


async def test_without_a_quorum_nothing_is_changed(api: Api) -> None:
    api.core.has_quorum = False
    async with refused() as told:
        await create(api)
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "NO_QUORUM")
    assert api.core.machine.applied_index == 0


async def diverged(api: Api) -> Refused:
    api.core.health = cluster_pb2.NODE_HEALTH_DIVERGED
    async with refused() as told:
        await listed(api)
    return told


async def test_a_diverged_node_answers_nothing_but_its_status(api: Api) -> None:
    await create(api)
    told = await diverged(api)
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "NODE_DIVERGED")
    async with refused() as told:
        await create(api)
    assert told.reason == "NODE_DIVERGED"
    status = await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert status.health == cluster_pb2.NODE_HEALTH_DIVERGED
