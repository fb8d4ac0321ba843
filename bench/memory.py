"""How much memory processes have of their own: what is left of their RSS without the pages of files.

A node maps its store and its log, so its RSS counts pages of the page cache that the system takes back when it needs
them. What it has beyond them is anonymous: Python's objects, and LMDB's pages that are not committed yet.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

MIB = 1 << 20


def parse_kb(text: str) -> dict[str, int]:
    """Bytes by name, of the lines "Name:  123 kB" of a file in /proc."""
    fields = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1_024 for words in fields if len(words) == 3 and words[2] == "kB"}


def own_bytes(pid: int) -> int:
    """Cheap at any size: the kernel keeps these sums. Raises ProcessLookupError or FileNotFoundError."""
    sizes = parse_kb(Path(f"/proc/{pid}/status").read_text())
    return sizes.get("RssAnon", 0) + sizes.get("RssShmem", 0)


def memory_of(pid: int) -> dict[str, float]:
    """MiB in all, of files, and beyond them. Walks over every mapped page: milliseconds for each GiB."""
    sizes = parse_kb(Path(f"/proc/{pid}/smaps_rollup").read_text())
    own = sizes["Anonymous"] + sizes.get("Pss_Shmem", 0)
    return {
        "rss_mib": round(sizes["Rss"] / MIB, 1),
        "file_pages_mib": round((sizes["Rss"] - own) / MIB, 1),
        "own_mib": round(own / MIB, 1),
    }


class PeakWatch:
    """The most memory of their own that processes had, looked at again and again."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._ended = threading.Event()
        self.peak_bytes: dict[str, int] = {}

    def look(self) -> None:
        for name, pid in self._pids().items():
            # It may have been killed a moment ago.
            with suppress(ProcessLookupError, FileNotFoundError):
                self.peak_bytes[name] = max(self.peak_bytes.get(name, 0), own_bytes(pid))

    @contextmanager
    def watching(self, every_s: float = 0.25) -> Iterator["PeakWatch"]:
        def run() -> None:
            while not self._ended.wait(every_s):
                self.look()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()
            self.look()

    def peaks_mib(self) -> dict[str, float]:
        return {name: round(size / MIB, 1) for name, size in self.peak_bytes.items()}
