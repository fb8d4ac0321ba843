"""Counts, the earliest due time, queues and workers, and the handlers that ever were, from a real store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.state.queries_cluster import Counts, counts, list_workers, oldest_due_ms, queue_names
from raftsched.state.queries_handlers import HandlerNames
from tests.unit.state.queries_support import Rows


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Rows]:
    state = Rows.at(tmp_path)
    yield state
    state.store.close()


def test_an_empty_store_has_nothing(state: Rows) -> None:
    with state.store.read() as view:
        assert counts(view) == Counts(0, 0, 0)
        assert oldest_due_ms(view) is None
        assert queue_names(view) == []
        assert list_workers(view) == []
        assert not HandlerNames().learn(view, 10)


def test_rows_are_counted(state: Rows) -> None:
    profile = state.add_profile()
    for _ in range(3):
        job = state.add_job(profile)
    for _ in range(2):
        execution = state.add_execution(job, profile)
    state.add_dead_letter("default", 1, execution)
    with state.store.read() as view:
        assert counts(view) == Counts(jobs=3, executions=2, dead_letters=1)


@pytest.mark.parametrize("jobs", [[(1, 500)], [(1, 900), (64, 500), (64 * 31, 700)], [(64 * 31, 500)]])
def test_the_earliest_due_time_is_that_of_all_shards(state: Rows, jobs: list[tuple[int, int]]) -> None:
    for job, due_ms in jobs:
        state.add_due(job, due_ms)
    with state.store.read() as view:
        assert oldest_due_ms(view) == 500


def test_queues_are_those_that_jobs_used(state: Rows) -> None:
    for queue in ("mail", "default", "mail"):
        state.add_profile(queue=queue, namespace="n")
    with state.store.read() as view:
        assert queue_names(view) == ["default", "mail"]


def test_workers_are_the_open_sessions_with_what_they_hold(state: Rows) -> None:
    state.add_session(1, worker="gone", queues=("default",), open=False)
    state.add_session(2, worker="busy", queues=("default", "mail"))
    state.add_session(3, worker="idle", queues=("mail",))
    state.add_lease(1, 70, [1, 2, 3])
    state.add_lease(2, 71, [4, 5])
    state.add_lease(2, 72, [6])
    with state.store.read() as view:
        workers = list_workers(view)
    assert [(worker.session, worker.row.worker, worker.leased) for worker in workers] == [
        (2, "busy", 3),
        (3, "idle", 0),
    ]


def test_handlers_are_learnt_a_few_profiles_at_a_time(state: Rows) -> None:
    for number in range(5):
        state.add_profile(handler=f"h{number}")
    names = HandlerNames()
    with state.store.read() as view:
        assert names.learn(view, 3)
        assert "h2" in names
        assert "h3" not in names
        assert not names.learn(view, 3)
        assert "h4" in names
    state.add_profile(handler="new")
    with state.store.read() as view:
        assert "new" not in names
        names.learn(view, 3)
        assert "new" in names
