"""The demo's own account of what ran: its handlers append a line for each run to one file, before they answer."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

# Where the workers write; set by the demo for its worker processes.
RECORD_VARIABLE = "RAFTSCHED_DEMO_RECORD"


@dataclass(frozen=True)
class Run:
    """One call of a handler."""

    handler: str
    job_id: int
    execution_id: int
    scheduled_for_ms: int
    attempt: int
    token: int
    pid: int


def append(path: Path, run: Run) -> None:
    """One write to a file opened for appending: lines of several processes never mix."""
    line = json.dumps(asdict(run)).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Run]:
    """All runs so far, in the order they were written."""
    if not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()]
