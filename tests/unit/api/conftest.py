"""A node of its own for each test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.api.support import Api, running_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running_api(tmp_path) as api:
        yield api
