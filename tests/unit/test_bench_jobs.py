"""The benchmarks make the jobs that their options name, and fill stores as a cluster would."""

import os
from pathlib import Path

import numpy as np

from bench.bulk import Registry, _portions
from bench.hot_bucket import name_of, parse
from bench.hot_jobs import BATCH, batches
from bench.measure import environments
from bench.pages import pages_of
from bench.profile import thread_cpu
from bench.registry import drain
from bench.steady import cron_batches, occurrences

DUE_MS = 1_900_000_000_000


def test_batches_hold_every_tenant() -> None:
    requests = batches(parse(["--tenants", "12000"]), DUE_MS)
    jobs = [job for request in requests for job in request.jobs]
    assert len({job.tenant for job in jobs}) == 12_000
    assert max(len(request.jobs) for request in requests) == BATCH
    assert {job.run_at.ToMilliseconds() for job in jobs} == {DUE_MS}


def test_large_payloads_make_smaller_batches() -> None:
    (request,) = batches(parse(["--payload-bytes", "10000"]), DUE_MS)
    assert request.ByteSize() < 16 << 20
    assert {len(job.payload) for job in request.jobs} == {10_000}


def test_recurring_jobs_are_due_once_an_hour() -> None:
    (request,) = batches(parse(["--recurring", "--async-handler-ms", "10"]), DUE_MS)
    assert request.jobs[0].cron.expression == "40 46 * * * *"
    assert request.jobs[0].handler == "wait"


def test_each_variant_has_files_of_its_own() -> None:
    given = [
        [],
        ["--nodes=5"],
        ["--recurring"],
        ["--tenants=10"],
        ["--payload-bytes=9"],
        ["--kill-leader"],
        ["--scattered=500000"],
        ["--async-handler-ms=10"],
    ]
    assert len({name_of(parse(arguments)) for arguments in given}) == len(given)
    assert parse(["--scattered", "500000"]).jobs == 100_000


def test_due_jobs_are_spread_over_the_batches() -> None:
    portions = list(_portions(25_000, 5_001))
    assert [size for size, _ in portions] == [10_000, 10_000, 5_000]
    assert sum(due for _, due in portions) == 5_001
    assert all(abs(due - size / 5) <= 1 for size, due in portions)


def test_a_bulk_loaded_registry_fires_what_is_due_and_nothing_else(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "state")
    due_ms = registry.now_ms + 1_000
    due = registry.add(400, due=50, due_ms=due_ms, later_ms=due_ms + 86_400_000)
    assert len(set(due)) == 50
    costs = drain(registry, 50, due_ms)
    assert set(costs) == {"find", "fire", "lease", "ack", "commit", "find_and_fire"}
    assert registry.machine.counters.executions == 50
    next_ms = registry.machine.next_due_ms(range(32))
    assert next_ms is not None
    assert next_ms >= due_ms + 86_400_000
    registry.close()
    again = Registry(tmp_path / "state")
    assert again.jobs == 400
    again.close()


def test_pages_in_use_and_free_ones_make_up_the_file(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "state")
    registry.add(20_000, later_ms=registry.now_ms + 86_400_000)
    registry.close()
    (environment,) = environments(tmp_path)
    pages = pages_of(environment)
    assert pages.used > 100
    assert pages.page_bytes * (pages.used + pages.free) <= (environment / "data.mdb").stat().st_size


def test_every_second_has_as_many_recurring_jobs() -> None:
    seconds = [0] * 60
    for request in cron_batches(6_000, 10):
        for second in request.jobs[0].cron.expression.split()[0].split(","):
            seconds[int(second)] += len(request.jobs)
    assert seconds == [6_000] * 60


def test_an_occurrence_without_a_start_is_missed() -> None:
    scheduled_ms = np.array([1_000, 1_000, 2_000, 3_000, 2_500])
    assert occurrences(scheduled_ms, 1_000, 3_000, 2, [2_500]) == 1


def test_the_time_of_this_process_is_its_threads() -> None:
    end = sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < end:
        pass
    assert sum(cpu.user_s + cpu.system_s for cpu in thread_cpu(os.getpid()).values()) > 0
