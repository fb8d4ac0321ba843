"""What a worker process writes down of each handler call, in a form that survives kill -9: one file per process,
one line before the call does anything and one after it, each written with a single append.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.checker import Run

FOLDER_VARIABLE = "RAFTSCHED_TEST_RUNS"


class RunLog:
    """The file of this process, in the folder that FOLDER_VARIABLE names."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"{os.getpid()}.runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._calls = 0

    @classmethod
    def from_environment(cls) -> "RunLog":
        return cls(Path(os.environ[FOLDER_VARIABLE]))

    def started(self, **fields: Any) -> int:
        """Returns the number of the call, for `ended`."""
        self._calls += 1
        self._write(call=self._calls, process=os.getpid(), **fields)
        return self._calls

    def ended(self, call: int, ended_ms: int, succeeded: bool) -> None:
        self._write(call=call, ended_ms=ended_ms, succeeded=succeeded)

    def _write(self, **line: Any) -> None:
        # The file is in the page cache once write returns: only a crash of the machine could lose it.
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_runs(folder: Path) -> Iterator[Run]:
    """Every run that the processes of this folder wrote down, those that never ended included."""
    for path in sorted(folder.glob("*.runs")):
        calls: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            calls.setdefault(fields.pop("call"), {"ended_ms": None, "succeeded": False}).update(fields)
        for fields in calls.values():
            yield Run(**fields)
