"""Cancelling what a worker may hold: begun once, it comes to its end even if the caller goes away.

For a worker that was asked to drop an execution, and did, has to see it cancelled.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

# How long a worker may take to say whether it has begun an execution.
DROP_TIMEOUT_S = 2.0


class Unstoppable:
    """One per service."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns when the work has ended, or the caller is cancelled; raises what it raises."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at, so that it is not reported as lost when the caller has gone away.
            task.exception()
