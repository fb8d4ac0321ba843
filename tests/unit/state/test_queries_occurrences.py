"""The occurrence record: everything that happened to a job's scheduled times, once each, newest first."""

import random

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.state import overlap, queries_occurrences
from raftsched.state.queries_occurrences import OccurrencePosition, OccurrenceRecord, list_occurrences
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import CANCELLED, MINUTE_MS, START_MS, SUCCEEDED, Node

OVERLAP = execution_pb2.SKIP_REASON_OVERLAP
CATCH_UP = execution_pb2.SKIP_REASON_CATCH_UP
DEADLINE = execution_pb2.SKIP_REASON_START_DEADLINE
BACKFILL = execution_pb2.EXECUTION_CAUSE_BACKFILL
TRIGGER = execution_pb2.EXECUTION_CAUSE_TRIGGER


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def listed(
    node: Node, job: int, *, start_ms: int = 0, end_ms: int = keys.MAX_MS, limit: int = 1_000, pages: int = 100_000
) -> list[OccurrenceRecord]:
    """All pages, joined."""
    node.machine.commit()
    position: OccurrencePosition | None = OccurrencePosition(end_ms, node.job(job).last_execution)
    found: list[OccurrenceRecord] = []
    while position is not None:
        pages -= 1
        assert pages, "it does not come to an end"
        with node.store.read() as view:
            page = list_occurrences(view, job, start_ms=start_ms, position=position, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        position = page.next
    return found


def told(record: OccurrenceRecord) -> tuple[int, object]:
    """Minute, and what happened."""
    at = (record.scheduled_for_ms - START_MS) // MINUTE_MS
    if record.execution is not None:
        return at, record.execution.id
    return at, "queued" if record.queued else (record.skipped, record.count)


def start(node: Node, job: int, scheduled_for_ms: int, cause: int, **settings: object) -> int:
    context = node.machine._context
    key = keys.pack_id(job)
    row = context.writer.get_all(context.tables.jobs, [key])[0]
    started = overlap.start(context, key, row, scheduled_for_ms, cause, **settings)  # type: ignore[arg-type]
    return keys.unpack_id(started.execution) if started.execution else 0


def busy_history(node: Node) -> int:
    """Six ticks: 0 ran, 1 and 2 skipped, 3 ran, 4 and 5 missed, 6 ran."""
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS)
    session = node.open_session(ttl_ms=3_600_000)
    node.fire()
    for number in (1, 2):
        node.now_ms = minute(number)
        node.fire()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    node.now_ms = minute(3)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    node.now_ms = minute(6) + 10_000
    node.fire()
    return job


HISTORY = [(6, 3), (4, (CATCH_UP, 2)), (3, 2), (1, (OVERLAP, 2)), (0, 1)]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_executions_and_skips_are_merged_by_time_whatever_the_page_size(node: Node, limit: int) -> None:
    job = busy_history(node)
    node.create(5)
    node.fire()
    assert list(map(told, listed(node, job, limit=limit))) == HISTORY


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_time_range_begins_at_its_start_and_ends_before_its_end(node: Node, limit: int) -> None:
    job = busy_history(node)
    found = listed(node, job, start_ms=minute(3), end_ms=minute(6), limit=limit)
    assert list(map(told, found)) == [(4, (CATCH_UP, 2)), (3, 2)]
    found = listed(node, job, start_ms=minute(2), end_ms=minute(3), limit=limit)
    assert list(map(told, found)) == [(1, (OVERLAP, 2))], "a range that reaches into it"
    assert listed(node, job, start_ms=minute(7), limit=limit) == []


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_what_was_started_beside_the_schedule_stands_at_its_own_time(node: Node, limit: int) -> None:
    job = busy_history(node)
    backfill = start(node, job, minute(-5), BACKFILL, ignore_overlap=True)
    again = start(node, job, minute(3), execution_pb2.EXECUTION_CAUSE_REPLAY, ignore_overlap=True)
    trigger = start(node, job, minute(6) + 20_000, TRIGGER, ignore_overlap=True)
    expected = [(6, trigger), *HISTORY, (-5, backfill)]
    expected[expected.index((3, 2))] = (3, again)
    assert list(map(told, listed(node, job, limit=limit))) == expected


def test_a_page_goes_on_where_the_one_before_it_ended(node: Node) -> None:
    job = busy_history(node)
    node.machine.commit()
    with node.store.read() as view:
        position = OccurrencePosition(keys.MAX_MS, node.job(job).last_execution)
        page = list_occurrences(view, job, start_ms=0, position=position, limit=3)
    assert page.next == OccurrencePosition(minute(3), 1), "not with the executions that were told"


def test_what_waits_in_the_overlap_queue_is_queued(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, overlap=job_pb2.OVERLAP_POLICY_QUEUE)
    for number in range(3):
        node.now_ms = minute(number)
        node.fire()
    for limit in (1, 100):
        assert list(map(told, listed(node, job, limit=limit))) == [(2, "queued"), (1, "queued"), (0, 1)]


def test_a_missed_start_deadline_is_told_once_and_a_backfill_of_it_instead(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, start_deadline_ms=10_000)
    node.fire()
    node.advance(10_000)
    node.tick()
    assert node.state_of(1) == CANCELLED
    assert list(map(told, listed(node, job))) == [(0, (DEADLINE, 1))]
    backfill = start(node, job, START_MS, BACKFILL)
    assert list(map(told, listed(node, job))) == [(0, backfill)]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_missed_start_deadlines_of_neighbours_are_told_once(node: Node, limit: int) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, start_deadline_ms=10_000)
    for number in range(3):
        node.now_ms = minute(number)
        node.fire()
        node.advance(10_000)
        node.tick()
    node.now_ms = minute(3)
    node.fire()
    assert start(node, job, minute(1) + 20_000, TRIGGER) == 0, "the policy forbids it"
    assert [node.state_of(number) for number in (1, 2, 3)] == [CANCELLED] * 3
    expected = [(3, 4), (1, (OVERLAP, 1)), (0, (DEADLINE, 3))]
    assert list(map(told, listed(node, job, limit=limit))) == expected
    assert list(map(told, listed(node, job, start_ms=minute(1), end_ms=minute(3), limit=limit))) == expected[1:]


def test_pages_are_bounded_by_rows_looked_at_and_still_come_to_an_end(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries_occurrences, "MAX_EXAMINED", 3)
    job = busy_history(node)
    for number in range(20):
        start(node, job, minute(-100 + number), BACKFILL, ignore_overlap=True)
    assert list(map(told, listed(node, job)))[:5] == HISTORY
    old = listed(node, job, start_ms=minute(0), end_ms=minute(1))
    assert list(map(told, old)) == [(0, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_every_occurrence_is_told_exactly_once_in_any_history(
    node: Node, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    policy = chance.choice(list(job_pb2.OverlapPolicy.values())[1:])
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, overlap=policy, max_attempts=1)
    session = node.open_session(ttl_ms=86_400_000)
    ticks = 0
    for _ in range(60):
        action = chance.choice(("tick", "tick", "late", "run", "fail", "backfill", "replay"))
        if action in ("tick", "late"):
            ticks += 1 if action == "tick" else 3
            node.now_ms = minute(ticks) + (0 if action == "tick" else 5_000)
            node.fire()
        elif action in ("run", "fail"):
            leased = node.lease(session, limit=1)
            if leased.executions:
                (node.ack if action == "run" else node.fail)(leased.token, leased.executions)
        elif action == "backfill":
            start(node, job, minute(-chance.randrange(1, 1_000)), BACKFILL)
        else:
            dead = [keys.unpack_dead_letter(key)[2] for key, _ in node.table("dead_letters")]
            node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids(dead)))
    node.check()
    monkeypatch.setattr(queries_occurrences, "MAX_EXAMINED", chance.choice((2, 5, 1_000)))
    whole = listed(node, job, limit=1_000)
    times = [record.scheduled_for_ms for record in whole]
    assert times == sorted(set(times), reverse=True)
    assert listed(node, job, limit=chance.randrange(1, 5)) == whole
    of_schedule = {record.scheduled_for_ms: record for record in whole if record.scheduled_for_ms >= START_MS}
    at_ms = START_MS
    while at_ms <= minute(ticks):
        at_ms = of_schedule.pop(at_ms).last_ms + MINUTE_MS
    assert not of_schedule
    known = {record.execution.id for record in whole if record.execution is not None}
    newest = {row.scheduled_for_ms: number for number, row in all_executions(node, job)}
    assert known == set(newest.values())
    assert sum(record.execution is not None and record.execution.row.status == SUCCEEDED for record in whole) > 0


def all_executions(node: Node, job: int) -> list[tuple[int, rows.ExecutionRow]]:
    """(id, row), oldest first."""
    found = []
    number = node.job(job).last_execution
    while number:
        found.append((number, node.execution(number)))
        number = found[-1][1].previous
    return found[::-1]
