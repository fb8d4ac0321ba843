import pytest

from raftsched.model.errors import ImpossibleState
from raftsched.state import leases
from raftsched.state.context import Context
from raftsched.store import keys
from tests.unit.state.support import Node, profile

SESSION = 7


def block(node: Node, *executions: int) -> tuple[Context, bytes]:
    """A context with one lease block in an otherwise empty store, and the block's key."""
    context = Context(node.store, node_id=1)
    context.token = 9
    settings = profile()
    interned = context.catalog.intern_profile(settings.SerializeToString(deterministic=True), settings)
    leases.add(context, SESSION, keys.pack_ids(executions), [keys.pack_small_id(interned.id)] * len(executions))
    return context, keys.lease(SESSION, 9)


def left(context: Context, key: bytes, *gone: int) -> tuple[int, ...]:
    """What the block holds without these."""
    leases.remove(context, key, keys.pack_ids(gone))
    found = leases.find(context, key)
    return keys.unpack_ids(found.executions) if found is not None else ()


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("leases") / "state")


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ((1, 2, 3, 4), ()),
        ((1, 2), (3, 4)),
        ((3, 4), (1, 2)),
        ((2, 3), (1, 4)),
        ((4, 1), (2, 3)),
        ((3, 2, 1, 4), ()),
    ],
)
def test_any_part_can_leave_a_block(node: Node, gone: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert left(*block(node, 1, 2, 3, 4), *gone) == expected


def test_bytes_that_look_like_an_id_across_two_others_are_not_it(node: Node) -> None:
    assert keys.pack_ids([256, 1]).find(keys.pack_id(65_536)) == 1
    assert left(*block(node, 256, 1, 65_536), 65_536) == (256, 1)


def test_what_is_not_in_the_block_cannot_leave_it(node: Node) -> None:
    context, key = block(node, 1, 2)
    with pytest.raises(ImpossibleState):
        leases.remove(context, key, keys.pack_ids([3]))
    with pytest.raises(ImpossibleState):
        leases.remove(context, keys.lease(SESSION, 8), keys.pack_ids([1]))
