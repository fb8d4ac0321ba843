import grpc
import pytest

from raftsched.model.errors import MemberExists, MembershipChangeInProgress, QuorumAtRisk, RaftschedError
from raftsched.v1 import cluster_pb2
from tests.unit.api.support import Api, refused


async def test_a_node_is_added_and_removed_and_the_answer_names_all(api: Api) -> None:
    added = await api.cluster.AddNode(cluster_pb2.AddNodeRequest(id=2, address="node-2.example.org:7100"))
    assert [(node.id, node.address, node.role) for node in added.nodes] == [
        (1, "127.0.0.1:7001", cluster_pb2.NODE_ROLE_VOTER),
        (2, "node-2.example.org:7100", cluster_pb2.NODE_ROLE_LEARNER),
    ]
    status = await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert list(status.nodes) == list(added.nodes)
    left = await api.cluster.RemoveNode(cluster_pb2.RemoveNodeRequest(id=2))
    assert [node.id for node in left.nodes] == [1]


async def test_leadership_goes_to_one_node_or_to_any(api: Api) -> None:
    answer = await api.cluster.TransferLeadership(cluster_pb2.TransferLeadershipRequest(to=3))
    assert answer.leader == 1, "as this node knows"
    await api.cluster.TransferLeadership(cluster_pb2.TransferLeadershipRequest())
    assert api.core.transfers == [3, None]


@pytest.mark.parametrize("node_id", [0, 65_536])
async def test_a_node_id_must_be_one(api: Api, node_id: int) -> None:
    for call in (
        api.cluster.AddNode(cluster_pb2.AddNodeRequest(id=node_id, address="h:1")),
        api.cluster.RemoveNode(cluster_pb2.RemoveNodeRequest(id=node_id)),
    ):
        async with refused() as told:
            await call
        assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "id")


@pytest.mark.parametrize(
    "address", ["", "h", "h:", "h:0", "h:65536", "h:x", ":1", "h:1:2", "a b:1", "0.0.0.0:1", "[::]:1", "::1:1", "h:１"]
)
async def test_an_address_must_be_one_that_others_can_connect_to(api: Api, address: str) -> None:
    async with refused() as told:
        await api.cluster.AddNode(cluster_pb2.AddNodeRequest(id=2, address=address))
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, "address")


@pytest.mark.parametrize("address", ["10.0.0.2:7100", "[2001:db8::1]:7100", "node_2.example.org:65535"])
async def test_names_and_addresses_of_both_kinds_are_taken(api: Api, address: str) -> None:
    await api.cluster.AddNode(cluster_pb2.AddNodeRequest(id=2, address=address))
    assert api.core.members[2] == address


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemberExists("Node 2 has another address."), grpc.StatusCode.ALREADY_EXISTS),
        (MembershipChangeInProgress(), grpc.StatusCode.FAILED_PRECONDITION),
        (QuorumAtRisk(), grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
async def test_what_the_leader_refuses_reaches_the_caller(
    api: Api, error: RaftschedError, code: grpc.StatusCode
) -> None:
    api.core.refusal = error
    for call in (
        api.cluster.AddNode(cluster_pb2.AddNodeRequest(id=2, address="h:1")),
        api.cluster.RemoveNode(cluster_pb2.RemoveNodeRequest(id=2)),
        api.cluster.TransferLeadership(cluster_pb2.TransferLeadershipRequest(to=2)),
    ):
        async with refused() as told:
            await call
        assert (told.code, told.reason, told.message) == (code, error.reason, error.message)


async def test_a_node_that_has_diverged_changes_nothing(api: Api) -> None:
    api.core.health = cluster_pb2.NODE_HEALTH_DIVERGED
    async with refused() as told:
        await api.cluster.RemoveNode(cluster_pb2.RemoveNodeRequest(id=2))
    assert told.reason == "NODE_DIVERGED"
