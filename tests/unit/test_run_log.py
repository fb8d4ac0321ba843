"""Runs are read as workers wrote them, also those whose process died in between."""

import os
import subprocess
import sys
from pathlib import Path

from tests.checker import Run
from tests.cluster.run_log import RunLog, read_runs

FIELDS = {"key": "a", "scheduled_for_ms": 5, "attempt": 1, "execution": 7, "token": 9}


def test_a_run_has_its_start_and_its_end(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    first = log.started(**FIELDS, started_ms=10)
    second = log.started(**{**FIELDS, "execution": 8}, started_ms=11)
    log.ended(second, 12, succeeded=False)
    log.ended(first, 20, succeeded=True)
    runs = list(read_runs(tmp_path))
    assert runs[0] == Run(**FIELDS, started_ms=10, ended_ms=20, succeeded=True, process=os.getpid())
    assert (runs[1].ended_ms, runs[1].succeeded) == (12, False)


def test_a_run_whose_process_was_killed_has_no_end(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from tests.cluster.run_log import RunLog; "
        "RunLog(pathlib.Path(sys.argv[1])).started(key='a', started_ms=1); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    (run,) = read_runs(tmp_path)
    assert (run.key, run.ended_ms, run.completed) == ("a", None, False)
