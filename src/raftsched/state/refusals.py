"""Commands that were refused, so that a second copy of one is not carried out after its caller was told no.

Whoever waits for a result proposes its command again when the answer is late, so an entry further on may hold the same
command. What succeeds twice is harmless: commands are made for that. But what a name, a state or a policy forbade the
first time may be possible by the second.
"""

from raftsched.model.errors import InvalidField
from raftsched.state.results import CancelNeedsWorker, Rejected, Result
from raftsched.store import keys
from raftsched.store.writer import Writer

# Longer than any copy can be on its way: a caller proposes for some seconds, a node may be frozen in between.
REMEMBERED_MS = 600_000
# Forgotten with each one that is remembered: more than one, so that their number falls.
FORGOTTEN_AT_ONCE = 2


class Refusals:
    """The commands that were refused in the last ten minutes, by (origin, request)."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known = {keys.refused_request(row) for row in self._oldest(keys.MAX_ID)}

    def __contains__(self, command: tuple[int, int]) -> bool:
        return command in self._known

    def remember(self, now_ms: int, origin: int, request: int) -> None:
        """The command that node `origin` numbered so has been refused."""
        table = self._writer.tables.meta
        self._writer.put(table, keys.meta_refused(now_ms, origin, request), b"")
        self._known.add((origin, request))
        end = keys.meta_refused(max(0, now_ms - REMEMBERED_MS), 0, 0)
        for row in self._oldest(FORGOTTEN_AT_ONCE):
            if row < end:
                self._writer.delete(table, row)
                self._known.discard(keys.refused_request(row))

    def _oldest(self, limit: int) -> list[bytes]:
        """Up to so many keys of the store, oldest first."""
        found: list[bytes] = []
        cursor = self._writer.cursor(self._writer.tables.meta)
        if cursor.set_range(keys.META_REFUSED):
            for key in cursor.iternext(values=False):
                if not key.startswith(keys.META_REFUSED) or len(found) == limit:
                    break
                found.append(key)
        return found


def is_refusal(result: Result) -> bool:
    """Whether the same command might be carried out later: bad input stays bad."""
    if isinstance(result, Rejected):
        return not isinstance(result.error, InvalidField)
    return isinstance(result, CancelNeedsWorker)
