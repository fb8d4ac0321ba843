"""The functions a worker can run, by name, and how each is called."""

import inspect
import re
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from raftsched.client.errors import InvalidField
from raftsched.client.failures import PlainFailure

# As the cluster takes it for jobs; see job.proto.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")


class Mode(Enum):
    """Where a handler runs."""

    # `async def`: on the event loop.
    ASYNC = auto()
    # A plain function that returns at once: on the event loop.
    INLINE = auto()
    THREAD = auto()
    PROCESS = auto()


@dataclass(frozen=True, slots=True)
class Handler:
    """A function (context, payload) and how to call it."""

    name: str
    function: Callable[..., Any]
    mode: Mode


class HandlerMissing(PlainFailure):
    """The worker took an execution that it has no handler for."""


class HandlerRegistry:
    """Handlers by name. One that is asked for and missing fails whatever it is called for."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def __len__(self) -> int:
        return len(self._handlers)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._handlers))

    def add(self, name: str, function: Callable[..., Any], *, process: bool, inline: bool) -> None:
        """Raises InvalidField for a name that is taken or none, or a function that cannot run that way."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            right = "1–200 characters of A–Z, a–z, 0–9, _ . : / and - are right"
            raise InvalidField(f"{reprlib.repr(name)} is no name of a handler; {right}", field="name")
        if name in self._handlers:
            raise InvalidField(f"there is a handler {name!r} already", field="name")
        self._handlers[name] = Handler(name, function, _mode(function, process=process, inline=inline))

    def all_for(self, names: Iterable[str]) -> list[Handler]:
        """The handlers of these names, in order."""
        return [self._handlers.get(name) or self._missing(name) for name in names]

    def _missing(self, name: str) -> Handler:
        known = ", ".join(self.names) or "none"

        def fail(_context: object, _payload: bytes) -> None:
            raise HandlerMissing(f"worker has no handler {name!r}; it has: {known}")

        return Handler(name, fail, Mode.INLINE)


def _mode(function: Callable[..., Any], *, process: bool, inline: bool) -> Mode:
    if process and inline:
        raise InvalidField("a handler is either inline or runs in a process", field="process")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidField("a handler must not be a generator: nobody would run it", field="function")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        if process:
            raise InvalidField("a handler that runs in a process is a plain function, not async", field="process")
        return Mode.ASYNC
    if process:
        # <locals> and <lambda>: another process could not import it.
        if "<" in getattr(function, "__qualname__", "<"):
            raise InvalidField(
                "a handler that runs in a process must be a function at the top level of its module", field="process"
            )
        return Mode.PROCESS
    return Mode.INLINE if inline else Mode.THREAD
