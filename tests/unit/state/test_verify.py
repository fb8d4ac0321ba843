from raftsched.internal.v1 import command_pb2
from raftsched.state.results import VerificationStarted
from tests.unit.state.support import Node, wrapped


def test_a_verification_is_as_of_its_entry_and_writes_nothing(node: Node) -> None:
    node.create(3)
    before = node.dump()
    assert node.do(command_pb2.Verify()) == VerificationStarted(node.machine.applied_index)
    assert node.dump() == before


def test_every_node_learns_of_it_and_only_of_it(node: Node) -> None:
    def effects(*operations: object) -> bool:
        commands = [wrapped(operation).SerializeToString() for operation in operations]
        return node.apply(command_pb2.Entry(now_ms=node.now_ms, commands=commands).SerializeToString()).verify

    assert effects(command_pb2.Tick(), command_pb2.Verify())
    assert not effects(command_pb2.Tick())
