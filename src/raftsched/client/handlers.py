"""The functions a worker can run, by name, and how each is called."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from raftsched.client.failures import PlainFailure


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
        """Raises ValueError for a name that is taken or a function that cannot run that way."""
        if name in self._handlers:
            raise ValueError(f"there is a handler {name!r} already")
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
        raise ValueError("a handler is either inline or runs in a process")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError("a handler must not be a generator: nobody would run it")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        if process:
            raise ValueError("a handler that runs in a process is a plain function, not async")
        return Mode.ASYNC
    if process:
        if "<locals>" in getattr(function, "__qualname__", "<locals>"):
            raise ValueError("a handler that runs in a process must be a function at the top level of its module")
        return Mode.PROCESS
    return Mode.INLINE if inline else Mode.THREAD
