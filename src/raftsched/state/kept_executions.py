"""The oldest execution of a job that is kept, where its newest ones are kept by number.

Executions of a job know the one before, so finding it means going back from the newest. That is done once in a while,
in bounded steps, and what was found stands with the job: until then up to a fourth more are kept.
"""

import struct

from raftsched.state.context import Context
from raftsched.store import keys

_ROW = struct.Struct(">QQQI")


class OldestKept:
    """For one command, which may look at `steps` executions for this."""

    def __init__(self, context: Context, steps: int) -> None:
        self._context = context
        self._steps = steps
        # By job; 0: all are kept.
        self._known: dict[bytes, int] = {}

    @property
    def is_spent(self) -> bool:
        """No step is left: the search goes on with the next command."""
        return self._steps <= 0

    def of(self, job: bytes, newest: int, keep: int) -> int:
        """The oldest execution of the job that is kept, as far as that is known, 0 for all."""
        known = self._known.get(job)
        if known is None:
            known = self._known[job] = self._look(job, newest, keep)
        return known

    def _look(self, job: bytes, newest: int, keep: int) -> int:
        key = keys.extra(job, keys.EXTRA_RETENTION)
        value = self._context.writer.get(self._context.tables.extras, key)
        oldest, seen, position, counted = _ROW.unpack(value) if value is not None else (0, 0, 0, 0)
        if not position:
            # Ids ascend, so at most so many executions of the job are new.
            if seen and newest - seen <= keep // 4:
                return int(oldest)
            seen, position, counted = newest, newest, 0
        while position and counted < keep - 1 and self._steps > 0:
            self._steps -= 1
            position = self._before(position)
            counted += 1
        if position and counted < keep - 1:
            self._put(key, oldest, seen, position, counted)
            return int(oldest)
        self._put(key, position, seen, 0, 0)
        return int(position)

    def _before(self, execution: int) -> int:
        row = self._context.writer.get(self._context.tables.executions, keys.pack_id(execution))
        return keys.unpack_id(row[8:16]) if row is not None else 0

    def _put(self, key: bytes, oldest: int, seen: int, position: int, counted: int) -> None:
        self._context.writer.put(self._context.tables.extras, key, _ROW.pack(oldest, seen, position, counted))
