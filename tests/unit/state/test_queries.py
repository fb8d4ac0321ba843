"""Jobs as they are read: derived states, filters, and lists that neither repeat nor miss while jobs come and go."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.model.errors import StoreCorrupt, UnknownName
from raftsched.model.transitions import ExecutionState
from raftsched.state.queries import JobFilter, find_job_by_name, get_job, list_jobs
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.queries_support import Rows


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Rows]:
    state = Rows.at(tmp_path)
    yield state
    state.store.close()


def ids(
    state: Rows, wanted: JobFilter | None = None, *, after_id: int = 0, limit: int = 1_000, max_examined: int = 20_000
) -> list[int]:
    with state.store.read() as view:
        page = list_jobs(view, wanted or JobFilter(), after_id=after_id, limit=limit, max_examined=max_examined)
    return [job.id for job in page.items]


def job_state(state: Rows, job: int) -> int:
    with state.store.read() as view:
        record = get_job(view, job)
    assert record is not None
    return record.state


def test_a_job_is_found_by_id_with_all_it_refers_to(state: Rows) -> None:
    profile = state.add_profile(handler="reports.nightly")
    job = state.add_job(profile, name="nightly", labels={"team": "billing"}, payload=b"\x00data")
    with state.store.read() as view:
        record = get_job(view, job)
    assert record is not None
    assert (record.row.name, record.row.labels, record.payload) == ("nightly", {"team": "billing"}, b"\x00data")
    assert (record.profile.handler, record.schedule, record.waits) == ("reports.nightly", None, True)


@pytest.mark.parametrize("job", [0, 2, keys.MAX_ID])
def test_an_unknown_id_is_no_job(state: Rows, job: int) -> None:
    state.add_job(state.add_profile())
    with state.store.read() as view:
        assert get_job(view, job) is None


def test_a_name_belongs_to_its_namespace(state: Rows) -> None:
    job = state.add_job(state.add_profile(), name="nightly")
    state.store.write.put(keys.job_name("default", "nightly"), keys.pack_id(job), db=state.store.tables.names)
    state.store.commit()
    with state.store.read() as view:
        found = find_job_by_name(view, "default", "nightly")
        assert found is not None
        assert found.id == job
        assert find_job_by_name(view, "other", "nightly") is None
        assert find_job_by_name(view, "default", "x" * 10_000) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (ExecutionState.PENDING, job_pb2.JOB_STATE_ACTIVE),
        (ExecutionState.LEASED, job_pb2.JOB_STATE_ACTIVE),
        (ExecutionState.RUNNING, job_pb2.JOB_STATE_ACTIVE),
        (ExecutionState.FAILED, job_pb2.JOB_STATE_ACTIVE),
        (ExecutionState.SUCCEEDED, job_pb2.JOB_STATE_SUCCEEDED),
        (ExecutionState.DEAD_LETTER, job_pb2.JOB_STATE_DEAD_LETTER),
        (ExecutionState.CANCELLED, job_pb2.JOB_STATE_CANCELLED),
    ],
)
def test_a_fired_one_off_is_what_became_of_its_execution(state: Rows, status: ExecutionState, expected: int) -> None:
    profile = state.add_profile()
    execution = state.add_execution(1, profile, status=status)
    job = state.add_job(profile, state=rows.JOB_FIRED, last_execution=execution)
    assert job_state(state, job) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (rows.JOB_WAITING, job_pb2.JOB_STATE_SCHEDULED),
        (rows.JOB_STARVED, job_pb2.JOB_STATE_SCHEDULED),
        (rows.JOB_CANCELLED, job_pb2.JOB_STATE_CANCELLED),
    ],
)
def test_other_jobs_are_what_their_row_says_whatever_their_execution(state: Rows, stored: int, expected: int) -> None:
    profile = state.add_profile()
    execution = state.add_execution(1, profile, status=ExecutionState.DEAD_LETTER)
    assert job_state(state, state.add_job(profile, state=stored, last_execution=execution)) == expected


def test_a_row_that_refers_to_nothing_is_damage_not_an_empty_answer(state: Rows) -> None:
    job = state.add_job(state.add_profile(), state=rows.JOB_FIRED, last_execution=77)
    with state.store.read() as view, pytest.raises(StoreCorrupt):
        get_job(view, job)


def test_jobs_are_listed_in_order_of_id(state: Rows) -> None:
    profile = state.add_profile()
    jobs = [state.add_job(profile) for _ in range(300)]
    assert ids(state) == jobs
    assert ids(state, after_id=290) == jobs[290:]
    assert ids(state, after_id=300) == []
    assert ids(state, after_id=keys.MAX_ID) == []


def test_every_condition_of_a_filter_must_hold(state: Rows) -> None:
    plain = state.add_profile(namespace="a", queue="q1", handler="x")
    other = state.add_profile(namespace="b", queue="q2", handler="y")
    first = state.add_job(plain, labels={"team": "red", "tier": "1"})
    second = state.add_job(plain, labels={"team": "blue"})
    third = state.add_job(other, labels={"team": "red"}, state=rows.JOB_CANCELLED)
    assert ids(state, JobFilter(namespace="a")) == [first, second]
    assert ids(state, JobFilter(queue="q2")) == [third]
    assert ids(state, JobFilter(handler="x")) == [first, second]
    assert ids(state, JobFilter(labels={"team": "red"})) == [first, third]
    assert ids(state, JobFilter(labels={"team": "red", "tier": "1"})) == [first]
    assert ids(state, JobFilter(labels={"team": "red", "tier": "2"})) == []
    assert ids(state, JobFilter(labels={"tea": "mred"})) == []
    assert ids(state, JobFilter(state=job_pb2.JOB_STATE_CANCELLED)) == [third]
    assert ids(state, JobFilter(state=job_pb2.JOB_STATE_SCHEDULED, namespace="b")) == []
    assert ids(state, JobFilter(namespace="a", queue="q2")) == []


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (JobFilter(namespace="nowhere"), "filter.namespace"),
        (JobFilter(queue="nothing"), "filter.queue"),
        (JobFilter(queue="q" * 2_000), "filter.queue"),
    ],
)
def test_a_name_that_no_job_ever_had_is_an_error(state: Rows, wanted: JobFilter, field: str) -> None:
    state.add_job(state.add_profile())
    with state.store.read() as view, pytest.raises(UnknownName) as caught:
        list_jobs(view, wanted, after_id=0, limit=1, max_examined=1)
    assert caught.value.field == field


def test_the_names_that_every_cluster_has_are_known_before_any_job(state: Rows) -> None:
    assert ids(state, JobFilter(namespace="default", queue="default")) == []


def test_a_page_ends_after_so_many_rows_even_without_a_match(state: Rows) -> None:
    common, rare = state.add_profile(handler="common"), state.add_profile(handler="rare")
    for _ in range(50):
        state.add_job(common)
    job = state.add_job(rare)
    wanted = JobFilter(handler="rare")
    with state.store.read() as view:
        first = list_jobs(view, wanted, after_id=0, limit=10, max_examined=40)
        assert (first.items, first.next, first.examined) == ([], 40, 40)
        assert first.next is not None
        second = list_jobs(view, wanted, after_id=first.next, limit=10, max_examined=40)
    assert ([record.id for record in second.items], second.next) == ([job], None)


def test_a_page_holds_so_many_bytes_but_one_job_at_least(state: Rows) -> None:
    profile = state.add_profile()
    for _ in range(3):
        state.add_job(profile, payload=bytes(1_000))
    with state.store.read() as view:
        pages = [
            list_jobs(view, JobFilter(), after_id=after, limit=10, max_examined=100, max_bytes=size)
            for after, size in ((0, 10), (0, 2_500), (2, 10))
        ]
    assert [([job.id for job in page.items], page.next) for page in pages] == [([1], 1), ([1, 2], 2), ([3], None)]


def test_the_last_full_page_says_that_it_is_the_last(state: Rows) -> None:
    profile = state.add_profile()
    for _ in range(10):
        state.add_job(profile)
    with state.store.read() as view:
        assert list_jobs(view, JobFilter(), after_id=0, limit=10, max_examined=10).next is None
        assert list_jobs(view, JobFilter(), after_id=0, limit=9, max_examined=10).next == 9


def test_jobs_that_stay_are_listed_once_while_others_come_and_go(state: Rows) -> None:
    profile = state.add_profile()
    rng = random.Random(7)
    staying = {state.add_job(profile) for _ in range(200)}
    leaving = {state.add_job(profile) for _ in range(200)}
    seen: list[int] = []
    position: int | None = 0
    while position is not None:
        with state.store.read() as view:
            page = list_jobs(
                view, JobFilter(), after_id=position, limit=rng.randint(1, 20), max_examined=rng.randint(1, 30)
            )
        seen += [job.id for job in page.items]
        position = page.next
        if len(seen) < 300:
            state.add_job(profile)
        for job in rng.sample(sorted(leaving), min(3, len(leaving))):
            leaving.discard(job)
            state.delete_job(job)
    assert len(seen) == len(set(seen))
    assert staying <= set(seen)
    assert seen == sorted(seen)
