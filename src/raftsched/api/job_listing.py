"""One page of ListJobs, gathered in slices between which the event loop gets its turn: a scan for a rare job must not
delay heartbeats.
"""

import asyncio
from dataclasses import dataclass

from raftsched.model.errors import UnknownName
from raftsched.state.queries import PAGE_MAX_BYTES, JobFilter, JobRecord, list_jobs
from raftsched.state.queries_handlers import HandlerNames
from raftsched.store.environment import Store

# Rows that one page may look at, and how many of them in one go: about 2 ms.
PAGE_MAX_EXAMINED = 20_000
SLICE_ROWS = 500


@dataclass(frozen=True, slots=True)
class JobsPage:
    """`next` is the id to go on after, None after the last page. Every item is as of `index` or later."""

    items: list[JobRecord]
    next: int | None
    index: int


async def list_page(store: Store, handlers: HandlerNames, wanted: JobFilter, *, after_id: int, limit: int) -> JobsPage:
    """Jobs above `after_id` that match. Raises UnknownName for a name in the filter that no job ever used."""
    items: list[JobRecord] = []
    position: int | None = after_id
    index: int | None = None
    examined = size_bytes = 0
    while position is not None and len(items) < limit and examined < PAGE_MAX_EXAMINED:
        if examined:
            await asyncio.sleep(0)
        with store.read() as view:
            if index is None:
                index = view.state().applied_index
            page = list_jobs(
                view,
                wanted,
                after_id=position,
                limit=limit - len(items),
                max_examined=SLICE_ROWS,
                max_bytes=PAGE_MAX_BYTES - size_bytes,
            )
        items += page.items
        position = page.next
        examined += page.examined
        size_bytes += page.size_bytes
        if page.examined < SLICE_ROWS:
            # Neither the rows nor the slice came to their end before the page was full of bytes or items.
            break
    if not items and wanted.handler:
        await _require_handler(store, handlers, wanted.handler)
    assert index is not None, "the first slice is always read"
    return JobsPage(items, position, index)


async def _require_handler(store: Store, handlers: HandlerNames, name: str) -> None:
    more = True
    while name not in handlers:
        if not more:
            raise UnknownName(field="filter.handler", name=name)
        await asyncio.sleep(0)
        with store.read() as view:
            more = handlers.learn(view, SLICE_ROWS)
