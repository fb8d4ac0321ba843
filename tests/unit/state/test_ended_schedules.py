"""Schedules that end: their jobs are completed."""

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, JobFinished
from raftsched.state.results import Done, JobChanged
from raftsched.state.schedules import STAMP_AT_ONCE
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, create_command, minutely
from tests.unit.state.test_update import etag

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def final(count: int = 1, ticks: int = 2, **settings: object) -> command_pb2.CreateJobs:
    """Jobs whose schedule has so many ticks and no more."""
    command = create_command(count, ticks_ms=minutely(ticks), **{"overlap": ALLOW, **settings})
    command.schedules[0].final = True
    return command


def fire_at(node: Node, *numbers: int) -> None:
    for number in numbers:
        node.now_ms = minute(number)
        node.fire(limit=10_000)


def users(node: Node) -> list[int]:
    return [rows.SCHEDULE.unpack_from(value)[0] for _, value in node.table("schedules")]


def test_a_job_whose_table_is_final_is_completed_after_its_last_tick(node: Node) -> None:
    (job,) = node.do(final(names=["nightly"])).job_ids
    fire_at(node, 1, 2)
    assert node.machine.next_deadline_ms() == node.now_ms
    node.tick()
    assert node.job(job).state == rows.JOB_COMPLETED
    assert [one.scheduled_for_ms for one in node.executions_of(job)] == [minute(2), minute(1)]
    assert node.table("starved") == []
    assert users(node) == [0]
    assert node.machine.next_deadline_ms() is None
    # The name is free.
    node.create(names=["nightly"])


def test_a_final_table_needs_no_more_ticks(node: Node) -> None:
    node.do(final())
    assert node.machine.schedules_to_extend(minute(1_000)) == []
    node.machine.commit()
    node.reopen()
    assert node.machine.schedules_to_extend(minute(1_000)) == []


def test_a_table_becomes_final_with_or_without_more_ticks(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(2), overlap=ALLOW)
    fire_at(node, 1, 2)
    node.tick()
    assert node.job(job).state == rows.JOB_STARVED
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(2), final=True))
    assert node.job(job).state == rows.JOB_COMPLETED
    (other,) = node.create(ticks_ms=minutely(2, first=3), expression="*/2 * * * *", overlap=ALLOW)
    node.do(command_pb2.ExtendTicks(schedule=2, after_ms=minute(4), ticks_ms=[minute(5)], final=True))
    fire_at(node, 3, 4, 5)
    node.tick()
    assert node.job(other).state == rows.JOB_COMPLETED
    assert len(node.executions_of(other)) == 3


def test_nothing_is_appended_to_a_final_table(node: Node) -> None:
    node.do(final())
    before = node.dump()
    assert node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(2), ticks_ms=[minute(3)])) == Done()
    assert node.dump() == before


def test_many_jobs_are_completed_in_steps(node: Node) -> None:
    count = STAMP_AT_ONCE + 500
    node.do(final(count, ticks=1))
    fire_at(node, 1)
    node.tick(limit=700)
    assert len(node.table("starved")) == count - 700
    node.machine.commit()
    node.reopen()
    assert node.machine.next_deadline_ms() == node.now_ms
    node.tick(limit=10_000)
    assert {node.job(job).state for job in range(1, count + 1)} == {rows.JOB_COMPLETED}
    assert node.machine.next_deadline_ms() is None


def test_a_job_created_when_its_schedule_has_just_ended_is_completed(node: Node) -> None:
    node.do(final())
    node.now_ms = minute(3)
    (late,) = node.do(final()).job_ids
    node.tick()
    assert node.job(late).state == rows.JOB_COMPLETED


def interval(end_ms: int, count: int = 1, **settings: object) -> command_pb2.CreateJobs:
    command = create_command(count, every_ms=MINUTE_MS, due_ms=minute(1), **{"overlap": ALLOW, **settings})
    schedule = command_pb2.Schedule(every_ms=MINUTE_MS, end_ms=end_ms)
    command.schedules[0].schedule = schedule.SerializeToString()
    return command


@pytest.mark.parametrize(("end_ms", "last"), [(minute(3), 2), (minute(3) + 1, 3)])
def test_an_interval_ends_before_its_end(node: Node, end_ms: int, last: int) -> None:
    (job,) = node.do(interval(end_ms)).job_ids
    fire_at(node, *range(1, last + 1))
    node.tick()
    assert node.job(job).state == rows.JOB_COMPLETED
    assert node.executions_of(job)[0].scheduled_for_ms == minute(last)
    assert users(node) == [0]


def test_what_an_interval_missed_is_counted_up_to_its_end(node: Node) -> None:
    (job,) = node.do(interval(minute(5))).job_ids
    fire_at(node, 100)
    node.tick()
    assert [one.scheduled_for_ms for one in node.executions_of(job)] == [minute(4)]
    assert [row[:3] for row in node.skipped(job)] == [(minute(1), minute(3), 3)]
    assert node.job(job).state == rows.JOB_COMPLETED


def test_a_completed_job_cannot_be_cancelled(node: Node) -> None:
    (job,) = node.do(final(overlap=job_pb2.OVERLAP_POLICY_SKIP)).job_ids
    session = node.open_session(ttl_ms=1_000_000)
    for number in (1, 2):
        fire_at(node, number)
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
    node.tick()
    node.refused(JobFinished, command_pb2.CancelJob(job=job))


def test_what_is_under_way_of_a_completed_job_can_be_cancelled(node: Node) -> None:
    (job,) = node.do(final()).job_ids
    fire_at(node, 1, 2)
    node.tick()
    node.do(command_pb2.CancelJob(job=job))
    assert node.job(job).state == rows.JOB_CANCELLED
    assert users(node) == [0]
    assert node.machine.ready_by_queue.get("default", 0) == 0


def test_a_paused_job_is_completed_once_it_is_resumed(node: Node) -> None:
    (job,) = node.do(final()).job_ids
    fire_at(node, 1, 2)
    node.do(command_pb2.PauseJob(job=job))
    node.tick()
    assert node.job(job).state == rows.JOB_PAUSED
    assert node.machine.next_deadline_ms() is None
    node.do(command_pb2.ResumeJob(job=job))
    node.tick()
    assert node.job(job).state == rows.JOB_COMPLETED
    assert not [key for key, _ in node.table("starved") if keys.unpack_starved(key)[1] == job]


def between(first: int, end: int) -> command_pb2.CreateJobs:
    """A job that is to run each minute from the first on, before the end."""
    command = create_command(due_ms=minute(first))
    schedule = command_pb2.Schedule(every_ms=MINUTE_MS, end_ms=minute(end))
    command.schedules.add(schedule=schedule.SerializeToString())
    command.jobs[0].schedule = 1
    return command


def test_an_interval_that_would_begin_at_its_end_is_refused(node: Node) -> None:
    assert node.refused(InvalidField, between(2, 2)).field == "jobs[0].due_ms"


@pytest.mark.parametrize("pause", [False, True])
def test_an_update_that_comes_after_the_end_of_its_interval_completes_the_job(node: Node, pause: bool) -> None:
    """It was on its way while leaders changed, or for longer."""
    (job,) = node.create(due_ms=minute(60))
    if pause:
        node.do(command_pb2.PauseJob(job=job))
    node.now_ms = minute(5)
    settings = between(2, 4)
    update = command_pb2.UpdateJob(job=job, etag=etag(node, job), settings=settings, changes_schedule=True)
    node.want(JobChanged, update)
    node.do(command_pb2.ResumeJob(job=job))
    node.tick()
    assert (node.job(job).state, node.executions_of(job)) == (rows.JOB_COMPLETED, [])
    assert users(node) == [0]
