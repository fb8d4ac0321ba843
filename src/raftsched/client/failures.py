"""What is told of a handler that raised: its exception and where, in at most 4 KiB, and what that means for a retry."""

import traceback
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from raftsched.client.outcomes import PermanentError, RetryAfter, Snooze

MAX_ERROR_BYTES = 4096
# What a worker may name; see Failure in worker.proto.
MAX_CLASSES = 16
MAX_CLASS_LENGTH = 200
RUN_TIMEOUT_CLASS = "raftsched.RunTimeout"
# Innermost frames are told; they say most.
_MAX_FRAMES = 8
_MAX_CAUSES = 3


@dataclass(frozen=True, slots=True)
class Report:
    """How a handler ended that did not return. `classes` are the names of its error's class and of those that it
    derives from; with `snooze` it was no failure."""

    error: str
    permanent: bool = False
    classes: tuple[str, ...] = ()
    retry_after_ms: int = 0
    snooze: bool = False


class PlainFailure(Exception):
    """A failure that is told by its message alone."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        self.permanent = permanent
        super().__init__(message)


class ReportedFailure(PlainFailure):
    """What another process has reported."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(report.error, permanent=report.permanent)


def report_of(error: BaseException) -> Report:
    """What the cluster is told of a handler that raised this."""
    if isinstance(error, ReportedFailure):
        return error.report
    if isinstance(error, Snooze):
        return Report(cut(str(error)), retry_after_ms=_ms(error.delay), snooze=True)
    text = describe(error)
    if isinstance(error, RetryAfter):
        # What made the handler wait is what happened.
        return Report(text, classes=class_names(error.__cause__ or error), retry_after_ms=_ms(error.delay))
    permanent = isinstance(error, PermanentError) or (isinstance(error, PlainFailure) and error.permanent)
    return Report(text, permanent=permanent, classes=class_names(error))


def class_names(error: BaseException) -> tuple[str, ...]:
    """The error's class and those that it derives from: "module.Class", and "ValueError" for what is built in."""
    names = []
    for kind in type(error).__mro__[:-1][:MAX_CLASSES]:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        names.append(name.encode(errors="replace").decode()[:MAX_CLASS_LENGTH])
    return tuple(names)


def _ms(delay: timedelta) -> int:
    return max(1, round(delay / timedelta(milliseconds=1)))


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
