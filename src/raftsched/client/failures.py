"""What is told of a handler that raised: its exception and where, in at most 4 KiB."""

import traceback
from types import TracebackType

MAX_ERROR_BYTES = 4096
# Innermost frames are told; they say most.
_MAX_FRAMES = 8
_MAX_CAUSES = 3


class PlainFailure(Exception):
    """A failure that is told by its message alone."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        self.permanent = permanent
        super().__init__(message)


def describe(error: BaseException) -> str:
    """The exception's type and message first, then its traceback without the worker's own frames, then its causes."""
    if isinstance(error, PlainFailure):
        return cut(str(error))
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(parts) <= _MAX_CAUSES:
        seen.add(id(current))
        lines = "".join(traceback.format_exception_only(current)).rstrip()
        frames = "".join(traceback.format_list(_frames(current.__traceback__))).rstrip()
        parts.append(f"{lines}\n{frames}" if frames else lines)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return cut("\ncaused by: ".join(parts))


def cut(text: str) -> str:
    """The text's first 4 KiB in UTF-8."""
    # Through bytes in any case: what came from a file name, say, may hold what no UTF-8 text can.
    return text.encode(errors="replace")[:MAX_ERROR_BYTES].decode(errors="ignore")


def _frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    own = __file__.rpartition("/")[0]
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(own)]
    return frames[-_MAX_FRAMES:]
