from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import EtagMismatch, InvalidField, JobNotFound, JobStateForbids, NameTaken
from raftsched.state import update as updating
from raftsched.state.etag import etag_of
from raftsched.state.results import JobChanged
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import ALL_SHARDS, MINUTE_MS, PENDING, START_MS, Node, create_command, minutely

HOUR_MS = 60 * MINUTE_MS
ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
ALL = job_pb2.CATCH_UP_POLICY_ALL


def hourly(count: int, first: int = 1) -> list[int]:
    """Ticks half past each hour after START_MS."""
    return [START_MS + HOUR_MS * number + HOUR_MS // 2 for number in range(first - 1, first - 1 + count)]


def etag(node: Node, job: int) -> str:
    stored = {name: dict(node.table(name)) for name in ("jobs", "payloads", "schedules")}
    row = stored["jobs"][keys.pack_id(job)]
    every_ms = 0
    if row[rows.JOB_SCHEDULE] != bytes(4):
        schedule = stored["schedules"][row[rows.JOB_SCHEDULE]][rows.SCHEDULE.size :]
        every_ms = command_pb2.Schedule.FromString(schedule).every_ms
    return etag_of(row, stored["payloads"].get(keys.pack_id(job), b""), every_ms)


def update(
    node: Node,
    job: int,
    *,
    name: str | None = None,
    payload: bytes | None = None,
    reschedule: bool = False,
    **settings: Any,
) -> command_pb2.UpdateJob:
    """The job with these settings; those that are not given are the defaults of `profile`."""
    command = create_command(
        names=[name or ""], payloads=[payload or b""], **settings if reschedule else {"due_ms": 0, **settings}
    )
    return command_pb2.UpdateJob(
        job=job,
        etag=etag(node, job),
        settings=command,
        changes_name=name is not None,
        changes_payload=payload is not None,
        changes_schedule=reschedule,
    )


def times(node: Node, job: int) -> list[int]:
    """Scheduled times of its executions, oldest first."""
    return [row.scheduled_for_ms for row in reversed(node.executions_of(job))]


def test_settings_change_and_the_tick_that_it_waits_for_does_not(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5), payloads=[b"p"], names=["n"])
    before = node.table("due")
    assert node.do(update(node, job, priority=7, labels={"a": "b"})) == JobChanged(job)
    row = node.job(job)
    assert (row.name, row.labels, row.payload_bytes) == ("n", {"a": "b"}, 1)
    assert node.machine.profile(row.profile).priority == 7
    assert node.table("due") == before
    node.check()


def test_what_was_read_before_another_change_is_refused(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    first, second = update(node, job, priority=1), update(node, job, priority=2)
    node.do(first)
    node.refused(EtagMismatch, second)
    node.refused(EtagMismatch, first)
    node.refused(JobNotFound, command_pb2.UpdateJob(job=9))


def test_what_cannot_be_changed_is_refused(node: Node) -> None:
    (job, other) = node.create(2, due_ms=START_MS, names=["a", "b"])
    node.refused(InvalidField, update(node, job, namespace="other"))
    node.refused(InvalidField, update(node, job, priority=77))
    node.refused(NameTaken, update(node, job, name="b"))
    node.refused(InvalidField, command_pb2.UpdateJob(job=job, etag=etag(node, job)))
    node.fire()
    node.refused(JobStateForbids, update(node, job, reschedule=True, due_ms=START_MS + 1))
    node.do(command_pb2.CancelJob(job=other))
    node.refused(JobStateForbids, update(node, other, priority=1))


def test_a_name_moves(node: Node) -> None:
    (job, other) = node.create(2, due_ms=START_MS + 1, names=["a", "b"])
    node.do(update(node, job, name="c"))
    node.do(update(node, other, name="a"))
    named = {key: keys.unpack_id(value) for key, value in node.table("names")}
    assert named == {keys.job_name("default", "c"): job, keys.job_name("default", "a"): other}
    node.do(update(node, other, name=""))
    assert len(node.table("names")) == 1
    node.check()


@pytest.mark.parametrize(("before_ms", "after_ms"), [(0, 40_000), (40_000, 0), (10_000, 50_000)])
@pytest.mark.parametrize("at_ms", [MINUTE_MS // 2, MINUTE_MS + 1, 2 * MINUTE_MS - 1])
def test_a_changed_jitter_neither_skips_nor_repeats_a_run(
    node: Node, before_ms: int, after_ms: int, at_ms: int
) -> None:
    (job,) = node.create(ticks_ms=minutely(10), jitter_ms=before_ms, overlap=ALLOW)
    for now_ms in sorted({*range(0, 5 * MINUTE_MS, 10_000), at_ms}):
        node.now_ms = START_MS + now_ms
        node.fire()
        if now_ms == at_ms:
            node.do(update(node, job, jitter_ms=after_ms, overlap=ALLOW))
            node.check()
    ran = times(node, job)
    assert ran == minutely(len(ran))
    assert len(ran) >= 3
    assert node.skipped(job) == []


def test_the_same_expression_between_a_tick_and_its_jitter_fires_once(node: Node) -> None:
    (job,) = node.create(ticks_ms=hourly(5), jitter_ms=HOUR_MS // 2)
    before = node.table("due")
    node.now_ms = hourly(1)[0] + 1
    same = update(node, job, ticks_ms=hourly(5), jitter_ms=HOUR_MS // 2, priority=3, reschedule=True)
    node.do(same)
    assert node.table("due") == before
    node.now_ms = hourly(1)[0] + HOUR_MS // 2
    node.fire()
    assert times(node, job) == hourly(1)
    node.check()


def test_before_a_tick_has_come_the_new_schedule_takes_its_place(node: Node) -> None:
    (job,) = node.create(ticks_ms=hourly(5))
    node.do(update(node, job, reschedule=True, ticks_ms=minutely(90), expression="*/1 * * * *"))
    node.check()
    assert node.machine.next_due_ms(ALL_SHARDS) == START_MS + MINUTE_MS
    node.now_ms = START_MS + MINUTE_MS
    node.fire()
    assert times(node, job) == minutely(1)
    assert node.skipped(job) == []


@pytest.mark.parametrize("jitter_ms", [0, HOUR_MS])
def test_a_tick_that_has_come_fires_and_then_the_new_schedule(node: Node, jitter_ms: int) -> None:
    (job,) = node.create(ticks_ms=hourly(5), jitter_ms=jitter_ms)
    node.now_ms = hourly(1)[0] + 1
    changed = update(
        node, job, reschedule=True, ticks_ms=minutely(90), expression="*/1 * * * *", jitter_ms=0, overlap=ALLOW
    )
    node.do(changed)
    assert times(node, job) == hourly(1)
    node.check()
    node.advance(MINUTE_MS)
    node.fire()
    assert times(node, job) == [*hourly(1), START_MS + 31 * MINUTE_MS]
    # The same command once more is of a job that is not there any more.
    node.refused(EtagMismatch, changed)


def test_of_what_was_missed_the_catch_up_policy_decides_as_it_was(node: Node) -> None:
    (job,) = node.create(ticks_ms=hourly(9))
    node.now_ms = hourly(4)[-1] + 1
    node.do(update(node, job, reschedule=True, every_ms=HOUR_MS, due_ms=node.now_ms + 7, catch_up=ALL))
    assert times(node, job) == [hourly(4)[-1]]
    assert [entry[:3] for entry in node.skipped(job)] == [(hourly(1)[0], hourly(3)[-1], 3)]
    assert node.job(job).scheduled_for_ms == node.now_ms + 7
    node.check()


def test_each_of_many_missed_ticks_runs_or_is_recorded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "FIRE_AT_ONCE", 3)
    (job,) = node.create(ticks_ms=hourly(20), catch_up=ALL, overlap=ALLOW)
    node.now_ms = hourly(8)[-1] + 1
    node.do(update(node, job, reschedule=True, every_ms=HOUR_MS, due_ms=node.now_ms + 1))
    assert times(node, job) == hourly(3)
    updated = execution_pb2.SKIP_REASON_UPDATED
    assert node.skipped(job) == [(hourly(4)[-1], hourly(8)[-1], 5, updated)]
    node.check()


def test_what_a_paused_job_missed_is_recorded_and_it_stays_paused(node: Node) -> None:
    (job,) = node.create(ticks_ms=hourly(20))
    node.do(command_pb2.PauseJob(job=job))
    node.now_ms = hourly(3)[-1] + 1
    node.do(update(node, job, reschedule=True, ticks_ms=minutely(900), expression="*/1 * * * *"))
    assert node.skipped(job) == [(hourly(1)[0], hourly(3)[-1], 3, execution_pb2.SKIP_REASON_PAUSED)]
    assert node.job(job).state == rows.JOB_PAUSED
    node.check()
    node.do(command_pb2.ResumeJob(job=job))
    assert node.machine.next_due_ms(ALL_SHARDS) == (node.now_ms // MINUTE_MS + 1) * MINUTE_MS
    node.check()


def test_kinds_of_schedules_give_way_to_each_other(node: Node) -> None:
    (job,) = node.create(ticks_ms=hourly(5))
    for settings in (
        {"due_ms": START_MS + HOUR_MS},
        {"every_ms": MINUTE_MS, "due_ms": START_MS + 9},
        {"every_ms": HOUR_MS, "due_ms": START_MS + 9},
        {"ticks_ms": hourly(5)},
        {"ticks_ms": minutely(5), "expression": "*/1 * * * *"},
        {"due_ms": START_MS},
    ):
        node.do(update(node, job, reschedule=True, **settings))
        node.check()
        expected = settings.get("due_ms") or settings["ticks_ms"][0]
        assert node.job(job).scheduled_for_ms == expected
    node.fire()
    assert times(node, job) == [START_MS]


def test_an_interval_never_begins_with_a_tick_that_is_over(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS)
    node.fire()
    node.do(update(node, job, reschedule=True, every_ms=HOUR_MS, due_ms=START_MS))
    node.fire()
    assert times(node, job) == [START_MS]
    assert node.job(job).scheduled_for_ms == START_MS + HOUR_MS


def test_a_job_without_known_ticks_waits_for_those_of_its_new_schedule(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(1))
    node.now_ms = START_MS + MINUTE_MS
    node.fire()
    assert node.job(job).state == rows.JOB_STARVED
    node.do(update(node, job, reschedule=True, ticks_ms=hourly(3), expression="30 * * * *"))
    assert (node.job(job).state, node.table("starved")) == (rows.JOB_WAITING, [])
    node.check()
    node.do(update(node, job, reschedule=True, ticks_ms=minutely(1), expression="1 * * * *"))
    assert node.job(job).state == rows.JOB_STARVED
    node.check()


def test_what_is_under_way_keeps_its_payload(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(ticks_ms=minutely(9), payloads=[b"old"], overlap=ALLOW)
    node.now_ms = START_MS + MINUTE_MS
    node.fire()
    first = node.lease(session)
    node.now_ms = START_MS + 2 * MINUTE_MS
    node.renew(session)
    node.fire()
    node.do(update(node, job, payload=b"newer", overlap=ALLOW))
    node.check()
    node.now_ms = START_MS + 3 * MINUTE_MS
    node.fire()
    node.release(first.token, first.executions)
    leased = node.lease(node.open_session())
    assert dict(zip(leased.executions, leased.payloads, strict=True)) == {1: b"old", 2: b"old", 3: b"newer"}
    node.do(update(node, job, payload=b"", overlap=ALLOW))
    assert node.table("payloads") == []
    node.check()


def test_too_many_payloads_are_not_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "KEEP_PAYLOADS", 1)
    (job,) = node.create(every_ms=MINUTE_MS, payloads=[b"old"], overlap=ALLOW, catch_up=ALL)
    node.advance(2 * MINUTE_MS)
    for _ in range(2):
        node.fire()
    node.refused(JobStateForbids, update(node, job, payload=b"new"))
    node.want(JobChanged, update(node, job, priority=1))


def test_a_new_overlap_policy_counts_what_runs_already(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, overlap=ALLOW)
    node.fire()
    leased = node.lease(session)
    node.do(update(node, job, overlap=QUEUE, overlap_limit=5))
    node.check()
    node.advance(MINUTE_MS)
    node.renew(session)
    node.fire()
    assert len(node.executions_of(job)) == 1
    node.ack(leased.token, leased.executions)
    assert node.executions_of(job)[0].status == PENDING
    node.check()


def test_a_one_off_that_has_not_fired_is_rescheduled(node: Node) -> None:
    node.create(3, due_ms=START_MS + 5)
    node.do(command_pb2.PauseJob(job=2))
    for job in (1, 2):
        assert node.do(command_pb2.RescheduleJob(job=job, due_ms=START_MS + 50)) == JobChanged(job)
        assert node.job(job).scheduled_for_ms == START_MS + 50
        node.check()
    node.advance(10)
    node.fire()
    assert [len(node.executions_of(job)) for job in (1, 2, 3)] == [0, 0, 1]
    node.refused(JobStateForbids, command_pb2.RescheduleJob(job=3, due_ms=START_MS + 50))
    node.create(every_ms=MINUTE_MS)
    node.refused(JobStateForbids, command_pb2.RescheduleJob(job=4, due_ms=START_MS + 50))
    node.refused(InvalidField, command_pb2.RescheduleJob(job=1, due_ms=-1))


@pytest.mark.parametrize("jitter_ms", [0, 20_000])
def test_a_job_that_catches_up_at_a_pace_may_be_told_not_to(node: Node, jitter_ms: int) -> None:
    paced = {"catch_up": ALL, "catch_up_interval_ms": 4_000, "overlap": ALLOW}
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, **paced)
    node.advance(5 * MINUTE_MS + 30_000)
    node.fire()
    assert node.table("extras"), "the next one is paced"
    node.do(update(node, job, **{**paced, "priority": 3}))
    node.check()
    assert node.machine.next_due_ms(ALL_SHARDS) == node.now_ms + 4_000
    node.do(update(node, job, jitter_ms=jitter_ms))
    assert node.table("extras") == []
    node.check()
    for _ in range(4):
        node.fire()
        node.check()
        node.advance(MINUTE_MS)
    node.do(command_pb2.CancelJob(job=job))
    node.check()


def test_a_one_off_that_was_triggered_still_has_its_own_time(node: Node) -> None:
    node.create(due_ms=START_MS + 1_000, overlap=job_pb2.OVERLAP_POLICY_SKIP, start_deadline_ms=HOUR_MS)
    node.do(command_pb2.TriggerJob(job=1))
    node.advance(1_000)
    node.fire()
    assert times(node, 1) == [START_MS, START_MS + 1_000]
    node.check()


def test_a_tick_that_its_jitter_delays_is_not_too_late_when_the_interval_changes(node: Node) -> None:
    """However few missed ticks the job catches up with: this one is not missed."""
    every_ms, window_ms = 18 * MINUTE_MS, HOUR_MS
    never_late = {"catch_up": job_pb2.CATCH_UP_POLICY_NONE, "jitter_ms": window_ms}
    jobs = node.create(20, every_ms=every_ms, due_ms=START_MS + MINUTE_MS, **never_late)
    node.now_ms = START_MS + MINUTE_MS + 1_000
    for job in jobs:
        node.want(JobChanged, update(node, job, reschedule=True, every_ms=HOUR_MS, due_ms=node.now_ms + HOUR_MS))
        assert times(node, job) == [START_MS + MINUTE_MS]
        assert node.skipped(job) == []
