"""What a result has to say of where it was measured: the commit, the processor, the disk's flush."""

import os
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import spread_ms
from tests.cluster.processes import ROOT

FLUSHES = 50


def flush_ms(folder: Path) -> dict[str, float]:
    """How long the disk under this folder takes to make 4 KiB durable."""
    durations = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(FLUSHES):
            file.write(os.urandom(4_096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            durations.append((time.perf_counter() - began) * 1_000)
    return spread_ms(durations)


def commit() -> str:
    """Of the working tree; "+" when it has changes. Empty outside of git."""
    asked = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe_machine(folder: Path | None = None) -> dict[str, Any]:
    """For the head of a result. `folder`: on the disk that was used, the temporary folder's by default."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "flush_ms": flush_ms(folder or Path(tempfile.gettempdir())),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
    }
