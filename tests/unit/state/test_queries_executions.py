"""Histories, skipped occurrences and dead letters as they are read, page by page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.model.errors import UnknownName
from raftsched.model.transitions import ExecutionState
from raftsched.state.queries_executions import (
    DeadLetterPosition,
    get_execution,
    list_dead_letters,
    list_executions,
    list_skipped,
)
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2
from tests.unit.state.queries_support import Rows


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Rows]:
    state = Rows.at(tmp_path)
    yield state
    state.store.close()


def history(state: Rows, job: int, newest: int, *, limit: int = 10) -> tuple[list[int], int | None]:
    with state.store.read() as view:
        page = list_executions(view, job, newest=newest, limit=limit)
    return [record.id for record in page.items], page.next


def add_history(state: Rows, job: int, profile: int, count: int) -> list[int]:
    executions: list[int] = []
    for _ in range(count):
        executions.append(state.add_execution(job, profile, previous=executions[-1] if executions else 0))
    return executions


def test_an_execution_names_the_worker_of_its_newest_lease(state: Rows) -> None:
    profile = state.add_profile()
    state.add_session(5, worker="w-5", queues=("default",), open=False)
    leased = state.add_execution(1, profile, session=5, status=ExecutionState.SUCCEEDED)
    waiting = state.add_execution(1, profile)
    forgotten = state.add_execution(1, profile, session=4)
    with state.store.read() as view:
        records = [get_execution(view, execution) for execution in (leased, waiting, forgotten)]
        assert get_execution(view, 99) is None
    assert [record and record.worker for record in records] == ["w-5", "", ""]


def test_a_history_runs_from_the_newest_execution_back(state: Rows) -> None:
    profile = state.add_profile()
    job = state.add_job(profile)
    executions = add_history(state, job, profile, 25)
    newest_first = executions[::-1]
    assert history(state, job, executions[-1]) == (newest_first[:10], newest_first[10])
    assert history(state, job, newest_first[10]) == (newest_first[10:20], newest_first[20])
    assert history(state, job, newest_first[20]) == (newest_first[20:], None)
    assert history(state, job, executions[-1], limit=25) == (newest_first, None)
    assert history(state, job, 0) == ([], None)


def test_executions_that_began_meanwhile_do_not_move_the_pages(state: Rows) -> None:
    profile = state.add_profile()
    job = state.add_job(profile)
    executions = add_history(state, job, profile, 6)
    first, position = history(state, job, executions[-1], limit=3)
    assert position is not None
    state.add_execution(job, profile, previous=executions[-1])
    second, position = history(state, job, position, limit=3)
    assert first + second == executions[::-1]
    assert position is None


def test_a_history_ends_where_it_was_trimmed(state: Rows) -> None:
    profile = state.add_profile()
    job = state.add_job(profile)
    kept = state.add_execution(job, profile, previous=77)
    assert history(state, job, kept) == ([kept], None)


def test_an_execution_of_another_job_is_not_in_the_history(state: Rows) -> None:
    profile = state.add_profile()
    job, other = state.add_job(profile), state.add_job(profile)
    foreign = state.add_execution(other, profile)
    assert history(state, job, foreign) == ([], None)


def test_long_error_texts_make_a_page_short(state: Rows) -> None:
    profile = state.add_profile()
    job = state.add_job(profile)
    first = state.add_execution(job, profile, error="e" * 1_000)
    second = state.add_execution(job, profile, previous=first, error="e" * 1_000)
    with state.store.read() as view:
        page = list_executions(view, job, newest=second, limit=10, max_bytes=1_500)
    assert ([record.id for record in page.items], page.next) == ([second], first)


def test_skipped_ranges_come_oldest_first_and_of_this_job_only(state: Rows) -> None:
    profile = state.add_profile()
    before, job, after = (state.add_job(profile) for _ in range(3))
    row = rows.SkippedRow(execution_pb2.SKIP_REASON_OVERLAP, 1, 100)
    for at_ms in (30_000, 10_000, 20_000):
        state.add_skipped(job, at_ms, row)
    for other in (before, after):
        state.add_skipped(other, 15_000, row)
    with state.store.read() as view:
        first = list_skipped(view, job, after_ms=None, limit=2)
        assert ([record.scheduled_for_ms for record in first.items], first.next) == ([10_000, 20_000], 20_000)
        last = list_skipped(view, job, after_ms=first.next, limit=2)
        assert ([record.scheduled_for_ms for record in last.items], last.next) == ([30_000], None)
        assert last.items[0].row == row
        assert list_skipped(view, job, after_ms=keys.MAX_ID, limit=2).items == []
        assert list_skipped(view, 99, after_ms=None, limit=2).items == []


def dead_letters(state: Rows, namespace: str, **options: object) -> tuple[list[int], DeadLetterPosition | None]:
    with state.store.read() as view:
        page = list_dead_letters(view, namespace, **{"after": None, "limit": 10, **options})  # type: ignore[arg-type]
    return [record.execution.id for record in page.items], page.next


def test_dead_letters_come_in_the_order_of_their_death(state: Rows) -> None:
    profile = state.add_profile(handler="mail.send")
    job = state.add_job(profile, name="newsletter")
    executions = [
        state.add_execution(job, profile, status=ExecutionState.DEAD_LETTER, error="no such host") for _ in range(4)
    ]
    for execution, dead_ms in zip(executions, (300, 100, 200, 200), strict=True):
        state.add_dead_letter("default", dead_ms, execution)
    assert dead_letters(state, "default") == ([executions[1], executions[2], executions[3], executions[0]], None)
    with state.store.read() as view:
        record = list_dead_letters(view, "default", after=None, limit=1).items[0]
    assert (record.job_name, record.profile.handler, record.dead_ms) == ("newsletter", "mail.send", 100)
    assert record.execution.row.error == "no such host"


def test_pages_of_dead_letters_go_on_after_the_last_even_if_it_was_replayed(state: Rows) -> None:
    profile = state.add_profile()
    job = state.add_job(profile)
    executions = [state.add_execution(job, profile, status=ExecutionState.DEAD_LETTER) for _ in range(5)]
    for execution in executions:
        state.add_dead_letter("default", 100, execution)
    first, position = dead_letters(state, "default", limit=2)
    assert (first, position) == (executions[:2], DeadLetterPosition(100, executions[1]))
    namespace = state.add_name(keys.NAMESPACE, "default")
    state.store.write.delete(keys.dead_letter(namespace, 100, executions[1]), db=state.store.tables.dead_letters)
    state.store.commit()
    assert dead_letters(state, "default", after=position, limit=3) == (executions[2:], None)


def test_dead_letters_stay_in_their_namespace(state: Rows) -> None:
    for namespace in ("a", "b", "c"):
        profile = state.add_profile(namespace=namespace)
        job = state.add_job(profile)
        state.add_dead_letter(namespace, 100, state.add_execution(job, profile, status=ExecutionState.DEAD_LETTER))
    assert dead_letters(state, "b") == ([2], None)
    assert dead_letters(state, "default") == ([], None)
    with pytest.raises(UnknownName) as caught:
        dead_letters(state, "d")
    assert caught.value.field == "namespace"
