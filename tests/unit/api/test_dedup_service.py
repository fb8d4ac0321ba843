"""DedupService over a real channel."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import dedup_pb2, dedup_pb2_grpc, job_pb2
from tests.unit.api.support import START_MS, Api, refused


@pytest.fixture
def stub(api: Api) -> Any:
    return dedup_pb2_grpc.DedupServiceStub(api.channel)


async def run_one(api: Api) -> tuple[int, int, int]:
    """An execution that is leased, its token and session."""
    job = job_pb2.Job(handler="h", run_at=Timestamp(seconds=START_MS // 1000))
    await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=job))
    api.core.fire()
    session = api.core.open_session()
    leased = api.core.lease(session)
    return leased.executions[0], leased.token, session


async def test_a_key_is_claimed_completed_and_found_done(api: Api, stub: Any) -> None:
    execution, token, session = await run_one(api)
    claim = dedup_pb2.ClaimRequest(key="k", execution_id=execution, token=token, keep=Duration(seconds=60))
    first = await stub.Claim(claim)
    assert (first.claimed, first.completed, first.owner_token) == (True, False, token)
    assert first.expire_time == Timestamp(seconds=START_MS // 1000 + 60)
    await stub.Complete(dedup_pb2.CompleteRequest(key="k", token=token, result=b"r"))
    again = await stub.Claim(claim)
    assert (again.claimed, again.completed, again.result) == (False, True, b"r")
    assert again.index == api.core.machine.applied_index
    api.core.close_session(session)
    async with refused() as told:
        await stub.Claim(claim)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_OVER")


async def test_who_does_not_own_a_key_cannot_complete_it(stub: Any) -> None:
    async with refused() as told:
        await stub.Complete(dedup_pb2.CompleteRequest(key="never claimed", token=7))
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "KEY_NOT_OWNED")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"key": ""}, "key"),
        ({"key": "x" * 201}, "key"),
        ({"key": "a\nb"}, "key"),
        ({"namespace": "No Such"}, "namespace"),
        ({"execution_id": 0}, "execution_id"),
        ({"token": 0}, "token"),
        ({"keep": Duration(seconds=0)}, "keep"),
        ({"keep": Duration(seconds=366 * 86_400)}, "keep"),
    ],
)
async def test_a_claim_that_cannot_be_is_refused(stub: Any, fields: dict[str, Any], field: str) -> None:
    values = {"key": "k", "execution_id": 1, "token": 1, **fields}
    async with refused() as told:
        await stub.Claim(dedup_pb2.ClaimRequest(**values))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_a_completion_that_cannot_be_is_refused(stub: Any) -> None:
    for fields, field in (
        ({"key": "", "token": 1}, "key"),
        ({"key": "k"}, "token"),
        ({"key": "k", "token": 1, "result": bytes(64 * 1024 + 1)}, "result"),
    ):
        async with refused() as told:
            await stub.Complete(dedup_pb2.CompleteRequest(**fields))
        assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)
