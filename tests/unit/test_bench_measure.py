"""The benchmarks' instruments measure what they say."""

import math
import os
import time
from array import array
from pathlib import Path

import lmdb

from bench import worker_log
from bench.drain_curve import draw
from bench.measure import bytes_on_disk, commits_of, environments, percentile, read_process, spread_ms
from tests.cluster.run_log import FOLDER_VARIABLE


def test_percentiles_are_values_that_occurred() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert (percentile(hundred, 0.5), percentile(hundred, 0.99), percentile(hundred, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))
    assert spread_ms(reversed(hundred)) == {"p50": 50.0, "p99": 99.0, "max": 100.0}


def test_commits_are_counted_beside_the_process_that_makes_them(tmp_path: Path) -> None:
    folder = tmp_path / "node" / "log"
    folder.mkdir(parents=True)
    with lmdb.open(str(folder), lib_version=0) as environment:
        for number in range(5):
            with environment.begin(write=True) as transaction:
                transaction.put(b"key", b"%d" % number)
    assert list(environments(tmp_path)) == [folder]
    assert commits_of(folder) == 5
    assert bytes_on_disk(folder) > 0


def test_processor_time_of_this_process_is_seen() -> None:
    before = read_process(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert 0.05 < read_process(os.getpid()).cpu_s - before.cpu_s < 5.0


def test_starts_are_read_as_they_were_noted(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    for execution in (3, 1, 2):
        worker_log.note_start(execution)
    worker_log._write()
    starts = list(worker_log.read_starts(tmp_path))
    assert [execution for execution, _ in starts] == [3, 1, 2]
    assert all(abs(start - time.time() * 1_000) < 10_000 for _, start in starts)


def test_confirmations_of_several_workers_are_added_up_in_order_of_time(tmp_path: Path) -> None:
    for name, counts, times_us in (("a", [10, 30], [1_000, 3_000]), ("b", [5, 6], [2_000, 4_000])):
        worker_log._write_columns(tmp_path / f"{name}.confirmed", array("q", counts), array("q", times_us))
    assert worker_log.read_confirmations(tmp_path) == [(1.0, 10), (2.0, 15), (3.0, 35), (4.0, 36)]


def test_a_drain_curve_is_a_picture(tmp_path: Path) -> None:
    draw(tmp_path / "curve.png", "title", {"started": [(0.1, 1), (0.5, 2)], "nothing": []})
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
