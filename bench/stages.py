"""Which stage of an execution's way a sampled stack belongs to, what kind of work it was at that moment, and what that
makes in microseconds: a table of stages by kinds.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# From the innermost frame outwards, the first that is found here says the stage. Files that several stages share
# (ready.py, writer.py) are not listed: they count to whoever called them, and so does native code.
_STAGES: Sequence[tuple[str, str]] = (
    (r"take_digest \(raftsched/store/writer\.py", "digest"),
    (r"\(raftsched/state/(fire|due|due_row|occurrences|overlap|overlap_queue|catch_up|skipped|spawn)\.py", "fire"),
    (r"\(raftsched/state/(lease|lanes|turns|limits)\.py", "lease"),
    (r"\(raftsched/state/(settle|completion|endings|failures|retention|unfinished)\.py", "ack"),
    (r"\(raftsched/state/create\.py", "create"),
    (r"commit \(raftsched/(state/machine|store/environment)\.py", "state commit"),
    (r"\(raftsched/state/", "apply, other"),
    (r"\(raftsched/raft/log", "log"),
    (r"\(raftsched/raft/(grpc_peers|peer_link)\.py", "peer streams"),
    (r"\(raftsched/raft/", "Raft"),
    (r"\(raftsched/dispatch/(lease_encoding|worker_\w+)\.py", "worker streams"),
    (r"\(raftsched/dispatch/", "pumps"),
    (r"\(raftsched/(api|node)/", "core thread and API"),
    (r"\(raftsched/client/", "SDK"),
    (r"\(bench/", "handler"),
    (r"\(grpc/", "gRPC"),
    (r"\((asyncio/|selectors\.py)", "event loop"),
)
OTHER = "other"
NATIVE_THREADS = "gRPC's own threads"

# Of the native frames inside the innermost Python frame, the first that is found here says the kind.
_KINDS: Sequence[tuple[str, str]] = (
    (r"^(fdatasync|fsync|msync) ", "flush"),
    (r"^pwrite\w* |mdb_page_flush|mdb_env_write_meta", "page writes"),
    (r"\((mdb\.c|midl\.c|cpython\.c:)|\(lmdb/|mdb_", "LMDB"),
    (r"upb|_message\.", "protobuf"),
    (r"cygrpc|^(sendmsg|recvmsg|sendto|recv) ", "gRPC"),
    (r"blake2|hashlib", "hashing"),
)
PYTHON = "Python"
KINDS = (PYTHON, "LMDB", "page writes", "flush", "protobuf", "gRPC", "hashing")

# Frames of a thread that waits: for the network, for other threads, or for Python's lock.
_WAITING = re.compile(
    r"^(epoll_wait|poll|select|pthread_cond_\w*wait|sem_\w*wait|PyThread_acquire_lock\w*|\w*nanosleep) "
)
# Innermost frames of a thread that is in the kernel.
_IN_KERNEL = re.compile(r"^(fdatasync|fsync|msync|p?writev?\w*|p?readv?\w*|sendmsg|recvmsg|sendto|recv) ")
_PYTHON_FRAME = re.compile(r"\.py:\d+\)$|\(<")
_THREAD = re.compile(r"^thread \((\d+)\)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One stack, outermost frame first, and how often it was met."""

    thread: int
    frames: tuple[str, ...]
    count: int


def parse_samples(text: str) -> Iterator[Sample]:
    """The lines "thread (ID): name;frame;frame… COUNT" of py-spy's raw format with threads."""
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        found = _THREAD.match(thread)
        if found and frames:
            yield Sample(int(found[1]), tuple(frames), int(count))


def native_frames(frames: Sequence[str]) -> list[str]:
    """Those called by the innermost Python frame, innermost first."""
    native = []
    for frame in reversed(frames):
        if _PYTHON_FRAME.search(frame):
            break
        native.append(frame)
    return native


def is_waiting(frames: Sequence[str]) -> bool:
    """Whether the thread waited then for something else than the disk, which is a kind of its own."""
    return any(_WAITING.match(frame) for frame in native_frames(frames)[:6])


def stage_of(frames: Sequence[str]) -> str:
    for frame in reversed(frames):
        for pattern, stage in _STAGES:
            if re.search(pattern, frame):
                return stage
    return OTHER


def kind_of(frames: Sequence[str]) -> str:
    for frame in native_frames(frames):
        for pattern, kind in _KINDS:
            if re.search(pattern, frame):
                return kind
    return PYTHON


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of processor time of a thread, outside of the kernel and in it."""

    user_s: float
    system_s: float


def cost_us(samples: Sequence[Sample], threads: Mapping[int, Cpu], executions: int) -> dict[str, dict[str, float]]:
    """Microseconds for one execution, by stage and kind.

    The processor time of each thread is exact, and divided among its samples: the kernel's part among those in a
    system call, so that a thread that waits for a disk costs what it used, not how long it waited. Threads that never
    ran Python are gRPC's.
    """
    by_thread: dict[int, list[Counter[tuple[str, str]]]] = {}
    for sample in samples:
        if not is_waiting(sample.frames):
            counts = by_thread.setdefault(sample.thread, [Counter(), Counter()])
            in_kernel = bool(_IN_KERNEL.match(sample.frames[-1]))
            counts[in_kernel][stage_of(sample.frames), kind_of(sample.frames)] += sample.count
    costs: dict[str, dict[str, float]] = {}
    for thread, cpu in threads.items():
        user, system = by_thread.get(thread) or [Counter({(NATIVE_THREADS, "gRPC"): 1}), Counter()]
        for cpu_s, counts in ((cpu.user_s, user or system), (cpu.system_s, system or user)):
            for (stage, kind), count in counts.items():
                kinds = costs.setdefault(stage, {})
                kinds[kind] = kinds.get(kind, 0.0) + cpu_s * 1e6 / executions * count / counts.total()
    return costs


def flush_wait_us(samples: Sequence[Sample], samples_per_s: float, executions: int) -> float:
    """How long threads waited for the disk to flush, for one execution. No processor time, but time that passes."""
    count = sum(sample.count for sample in samples if kind_of(sample.frames) == "flush")
    return count / samples_per_s * 1e6 / executions


def table(costs: Mapping[str, Mapping[str, float]]) -> str:
    """Markdown: stages by cost, kinds as columns, the sum below."""
    columns = [kind for kind in KINDS if any(kind in kinds for kinds in costs.values())]
    lines = [_row(["stage", "µs an execution", *columns]), _row(["---"] * (len(columns) + 2))]
    stages = sorted(costs, key=lambda stage: -sum(costs[stage].values()))
    for stage in stages:
        lines.append(_row([stage, *_cells([sum(costs[stage].values()), *(costs[stage].get(c, 0.0) for c in columns)])]))
    sums = [sum(kinds.get(column, 0.0) for kinds in costs.values()) for column in columns]
    lines.append(_row(["all", *_cells([sum(sums), *sums])]))
    return "\n".join(lines) + "\n"


def _cells(values: Sequence[float]) -> list[str]:
    return [f"{value:.2f}" if value >= 0.005 else "" for value in values]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
