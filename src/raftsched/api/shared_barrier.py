"""One question to the quorum for all linearizable reads that wait at the same time."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedBarrier:
    """Asks through `ask`, which must end by itself. At most one question is under way and one waits for it to end.

    A read may not use the answer to a question that was asked before it came: it joins the one that waits.
    """

    def __init__(self, ask: Callable[[], Awaitable[int]]) -> None:
        self._ask = ask
        self._under_way: asyncio.Task[int] | None = None
        self._waiting: asyncio.Task[int] | None = None

    async def index(self) -> int:
        """An index at which everything that was confirmed before this call is applied. Raises what `ask` raises."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._ask_after(self._under_way))
            self._waiting.add_done_callback(_note_failure)
        # A caller that gives up leaves the answer to the others.
        return await asyncio.shield(self._waiting)

    async def _ask_after(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._waiting = self._waiting, None
        return await self._ask()


def _note_failure(question: asyncio.Task[int]) -> None:
    """Callers get the error; when all of them have given up, nobody has to."""
    if not question.cancelled():
        question.exception()
