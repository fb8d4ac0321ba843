"""What the parts of Client, each a file of its own, ask of the whole."""

from collections.abc import AsyncIterator
from typing import Any


class ClientPart:
    """Client itself makes the calls."""

    namespace: str

    def _read(self, linearizable: bool) -> Any:
        raise NotImplementedError

    async def _call(self, method: Any, request: Any) -> Any:
        raise NotImplementedError

    async def _mutate(self, method: Any, request: Any) -> Any:
        raise NotImplementedError

    def _pages(self, method: Any, request: Any, linearizable: bool, items: Any, value: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
