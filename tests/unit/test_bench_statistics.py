"""What the benchmarks say of starts, rates, growth and stacks is what was in them."""

import math

import numpy as np
import pytest

from bench.drain_statistics import first_starts, flatness, spread, start_order
from bench.memory import parse_kb
from bench.stages import (
    NATIVE_THREADS,
    Cpu,
    cost_us,
    flush_wait_us,
    is_waiting,
    kind_of,
    parse_samples,
    stage_of,
    table,
)
from bench.trend import growth_per_minute

CORE = "Core._run (raftsched/node/core.py:229)"
SETTLE = "apply_ack (raftsched/state/settle.py:55)"
GET_MANY = "Writer.get_many (raftsched/store/writer.py:47)"


def test_a_spread_is_of_values_that_occurred() -> None:
    assert spread(np.arange(100, 0, -1)) == {"p50": 50.0, "p99": 99.0, "max": 100.0}
    assert math.isnan(spread(np.empty(0))["p50"])


def test_of_an_execution_that_ran_twice_the_first_start_counts() -> None:
    ids, starts = first_starts(np.array([7, 3, 7]), np.array([5.0, 2.0, 1.0]))
    assert (ids.tolist(), starts.tolist()) == ([3, 7], [2.0, 1.0])


def test_starts_in_the_order_of_their_ids_are_not_displaced() -> None:
    order = start_order(np.array([3, 1, 2]), np.array([30.0, 10.0, 20.0]))
    assert order["displacement"]["max"] == 0.0
    assert order["overtaken_by_ms"]["max"] == 0.0


def test_the_oldest_started_last_is_displaced_by_all_others() -> None:
    order = start_order(np.array([1, 2, 3, 4]), np.array([40.0, 10.0, 20.0, 30.0]))
    assert order["displacement"]["max"] == 3.0
    assert order["overtaken_by_ms"]["max"] == 30.0
    assert order["of"] == 4


def test_an_even_drain_is_flat_and_a_slow_end_is_seen() -> None:
    even = flatness([(second / 10, second * 10) for second in range(1, 101)], 1_000)
    assert even["per_s_by_tenth"] == [100] * 10
    assert (even["slowest_to_median"], even["last_to_median"]) == (1.0, 1.0)
    slow_end = flatness([(9.0, 900), (19.0, 1_000)], 1_000)
    assert slow_end["last_to_median"] == 0.1
    assert flatness([], 1_000)["per_s_by_tenth"] == []


def test_growth_is_not_fooled_by_one_outlier() -> None:
    seconds = [float(second) for second in range(0, 60, 5)]
    flat = [100.0] * len(seconds)
    flat[6] = 500.0
    assert growth_per_minute(seconds, flat) == 0.0
    assert growth_per_minute(seconds, [second * 2 for second in seconds]) == pytest.approx(120.0)
    assert growth_per_minute([1.0], [5.0]) == 0.0


def test_sizes_in_kb_are_read_from_proc() -> None:
    text = "55d0-7ffc ---p 00000000 [rollup]\nRss:   1024 kB\nAnonymous:  8 kB\nThreads: 4\n"
    assert parse_kb(text) == {"Rss": 1_048_576, "Anonymous": 8_192}


def test_samples_are_read_with_their_threads() -> None:
    text = "thread (42): raftsched-core;a (x.py:1);b (y.py:2) 17\nprocess 7;c (z.py:3) 1\n"
    (sample,) = parse_samples(text)
    assert (sample.thread, sample.frames, sample.count) == (42, ("a (x.py:1)", "b (y.py:2)"), 17)


@pytest.mark.parametrize(
    ("frames", "stage", "kind"),
    [
        ([CORE, SETTLE, GET_MANY, "cursor_get_multi (cpython.c:3434)", "mdb_cursor_get (mdb.c:9)"], "ack", "LMDB"),
        ([CORE, SETTLE], "ack", "Python"),
        ([CORE, SETTLE, GET_MANY, "_PyEval_EvalFrameDefault (libpython3.11.so)"], "ack", "Python"),
        (
            [CORE, "Writer.take_digest (raftsched/store/writer.py:9)", "update (blake2b.c:1)"],
            "digest",
            "hashing",
        ),
        ([CORE, "Machine.commit (raftsched/state/machine.py:1)", "fdatasync (libc.so.6)"], "state commit", "flush"),
        ([CORE, "write (raftsched/raft/log_records.py:1)", "pwrite64 (libc.so.6)"], "log", "page writes"),
        (["_run (raftsched/raft/peer_link.py:1)", "write (grpc/aio/_call.py:1)", "0x1 (cygrpc.so)"], "gRPC", "gRPC"),
        (["loop (asyncio/base_events.py:1)"], "event loop", "Python"),
        (["elsewhere (site.py:1)"], "other", "Python"),
    ],
)
def test_a_stack_counts_to_its_innermost_known_stage(frames: list[str], stage: str, kind: str) -> None:
    assert (stage_of(frames), kind_of(frames)) == (stage, kind)


def test_a_thread_that_waits_for_a_lock_or_the_network_is_not_at_work() -> None:
    assert is_waiting(["select (selectors.py:468)", "epoll_wait (libc.so.6)"])
    assert is_waiting([CORE, "get (queue.py:1)", "PyThread_acquire_lock_timed (libpython3.11.so)", "0x7f (libc.so.6)"])
    assert not is_waiting([CORE, SETTLE])
    assert not is_waiting([CORE, "Store.commit (raftsched/store/environment.py:1)", "fdatasync (libc.so.6)"])


def test_the_time_of_a_thread_is_divided_among_its_samples() -> None:
    samples = list(
        parse_samples(
            f"thread (1): x;{CORE};{SETTLE} 3\n"
            f"thread (1): x;{CORE};apply_fire (raftsched/state/fire.py:1) 1\n"
            f"thread (1): x;{CORE};Machine.commit (raftsched/state/machine.py:1);fdatasync (libc.so.6) 50\n"
            "thread (1): x;select (selectors.py:1);epoll_wait (libc.so.6) 900\n"
        )
    )
    costs = cost_us(samples, {1: Cpu(user_s=4.0, system_s=0.5), 2: Cpu(user_s=1.0, system_s=0.0)}, 1_000_000)
    assert costs == {
        "ack": {"Python": 3.0},
        "fire": {"Python": 1.0},
        "state commit": {"flush": 0.5},
        NATIVE_THREADS: {"gRPC": 1.0},
    }
    assert flush_wait_us(samples, 100.0, 1_000_000) == 0.5
    shown = table(costs).splitlines()
    assert shown[0] == "| stage | µs an execution | Python | flush | gRPC |"
    assert shown[2] == "| ack | 3.00 | 3.00 |  |  |"
    assert shown[-1] == "| all | 5.50 | 4.00 | 0.50 | 1.00 |"
