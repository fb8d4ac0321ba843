"""Fixtures of the state machine's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.state.support import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A machine on an empty store; its rules are checked once more at the end."""
    made = Node(tmp_path / "state")
    yield made
    made.check()
    made.machine.close()
