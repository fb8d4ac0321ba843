"""Commands that wait for their entry on the leader, or for their way to it on a follower."""

from collections import deque

from raftsched.model.errors import TooManyRequests


class CommandQueue:
    """First in, first out; bounded by operations and by bytes."""

    def __init__(self, *, max_ops: int, max_bytes: int) -> None:
        self._max_ops = max_ops
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[bytes, int, float]] = deque()
        self._ops = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def ops(self) -> int:
        return self._ops

    def put(self, command: bytes, ops: int, now_s: float) -> None:
        """Raises TooManyRequests when it is full."""
        if self._ops + ops > self._max_ops or self._bytes + len(command) > self._max_bytes:
            raise TooManyRequests()
        self._waiting.append((command, ops, now_s))
        self._ops += ops
        self._bytes += len(command)

    def take(self, max_ops: int, max_bytes: int) -> list[tuple[bytes, int]]:
        """The oldest commands: at least one if there is one, else as many as fit into both bounds."""
        taken: list[tuple[bytes, int]] = []
        ops_left, bytes_left = max_ops, max_bytes
        while self._waiting:
            command, ops, _ = self._waiting[0]
            ops_left -= ops
            bytes_left -= len(command)
            if taken and (ops_left < 0 or bytes_left < 0):
                break
            self._drop_first()
            taken.append((command, ops))
        return taken

    def drop_older(self, than_s: float) -> int:
        """Drops what was put in before `than_s`; how many."""
        dropped = 0
        while self._waiting and self._waiting[0][2] < than_s:
            self._drop_first()
            dropped += 1
        return dropped

    def _drop_first(self) -> None:
        command, ops, _ = self._waiting.popleft()
        self._ops -= ops
        self._bytes -= len(command)
