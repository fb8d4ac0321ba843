"""Which handlers there ever was a job for, so that a mistyped one in a filter is told from one without jobs now."""

from itertools import islice

from raftsched.internal.v1 import command_pb2
from raftsched.store import keys, rows
from raftsched.store.environment import View


class HandlerNames:
    """Names seen in the profiles so far. Profiles are never changed and their ids ascend, so each is read once."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._last_profile = 0

    def __contains__(self, handler: str) -> bool:
        return handler in self._names

    def learn(self, view: View, limit: int) -> bool:
        """Reads up to `limit` profiles that are new since the last call; False when there were fewer."""
        cursor = view.cursor(view.tables.profiles)
        if not cursor.set_range(keys.pack_small_id(self._last_profile + 1)):
            return False
        count = 0
        for key, value in islice(cursor.iternext(), limit):
            self._names.add(command_pb2.Profile.FromString(value[rows.PROFILE.size :]).handler)
            self._last_profile = keys.unpack_small_id(key)
            count += 1
        return count == limit
