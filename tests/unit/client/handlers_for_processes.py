"""Handlers that the tests run in processes: they must be found by the name of their module."""

import os
import signal
import time
from pathlib import Path

from raftsched.client import Context, PermanentError, Snooze


def write_pid(context: Context, payload: bytes) -> None:
    Path(payload.decode(), f"{context.execution_id}-{context.attempt}").write_text(str(os.getpid()))


def write_pid_and_hang(context: Context, payload: bytes) -> None:
    write_pid(context, payload)
    time.sleep(60)


def fail(_context: Context, payload: bytes) -> None:
    raise PermanentError(payload.decode())


def die(_context: Context, _payload: bytes) -> None:
    os._exit(3)


def fork_and_die(_context: Context, _payload: bytes) -> None:
    """Its child holds the pipe to the worker open for a while."""
    if os.fork() == 0:
        signal.alarm(8)
        signal.pause()
    os._exit(4)


def snooze(_context: Context, _payload: bytes) -> None:
    raise Snooze(60)


def return_upstreams(context: Context, _payload: bytes) -> dict[str, object]:
    return {"of": [upstream.node for upstream in context.upstreams], "pid": os.getpid()}
