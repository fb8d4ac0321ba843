from pathlib import Path

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.state.results import Done, Fired
from raftsched.state.schedules import STAMP_AT_ONCE
from raftsched.state.ticks import EXTEND_BEFORE_MS
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, minutely, replayed

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def extend(after: int, *numbers: int) -> command_pb2.ExtendTicks:
    return command_pb2.ExtendTicks(schedule=1, after_ms=minute(after), ticks_ms=map(minute, numbers))


def ticks(node: Node) -> list[int]:
    return [(keys.unpack_tick(key)[1] - START_MS) // MINUTE_MS for key, _ in node.table("ticks")]


def test_ticks_are_appended_after_the_last_one(node: Node) -> None:
    node.create(ticks_ms=minutely(2))
    assert node.do(extend(2, 3, 4)) == Done()
    assert ticks(node) == [1, 2, 3, 4]


def test_extending_the_same_table_twice_does_it_once(node: Node) -> None:
    node.create(ticks_ms=minutely(2))
    node.do(extend(2, 3, 4))
    before = node.dump()
    assert node.do(extend(2, 3, 4)) == Done()
    assert node.do(extend(3, 4, 5)) == Done()
    assert node.dump() == before


def test_an_unknown_schedule_an_interval_and_no_ticks_are_void(node: Node) -> None:
    node.create(every_ms=1_000)
    before = node.dump()
    assert node.do(extend(0, 1)) == Done()
    assert node.do(command_pb2.ExtendTicks(schedule=4_000_000_000, ticks_ms=[5])) == Done()
    assert node.do(command_pb2.ExtendTicks(schedule=1)) == Done()
    assert node.dump() == before


def test_a_job_whose_table_has_run_out_waits_and_is_never_lost(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(2), overlap=ALLOW)
    for number in (1, 2):
        node.now_ms = minute(number)
        node.fire()
    row = node.job(job)
    assert (row.state, row.scheduled_for_ms) == (rows.JOB_STARVED, minute(2))
    assert node.table("due") == []
    node.now_ms = minute(4)
    node.do(extend(2, 3, 4, 5, 6))
    row = node.job(job)
    assert (row.state, row.scheduled_for_ms) == (rows.JOB_WAITING, minute(3))
    assert node.fire() == Fired(1, more=False)
    assert node.executions_of(job)[0].scheduled_for_ms == minute(4)
    assert node.job(job).scheduled_for_ms == minute(5)
    assert [first for first, *_ in node.skipped(job)] == [minute(3)]


def test_a_job_that_was_skipped_at_the_last_tick_waits_for_more_too(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(2))
    for number in (1, 2):
        node.now_ms = minute(number)
        node.fire()
    assert node.job(job).state == rows.JOB_STARVED
    assert len(node.skipped(job)) == 1
    node.do(extend(2, 3))
    assert node.job(job).scheduled_for_ms == minute(3)


def test_stamped_jobs_keep_their_jitter(node: Node) -> None:
    node.create(5, ticks_ms=minutely(1), jitter_ms=30_000, overlap=ALLOW)
    node.now_ms = minute(2)
    node.fire()
    assert len(node.table("starved")) == 5
    node.do(extend(1, 5))
    node.check()
    assert len({keys.due_ms_of(key) for key, _ in node.table("due")}) > 1


def test_ticks_that_are_not_new_enough_leave_a_job_starved(node: Node) -> None:
    node.create(ticks_ms=minutely(1))
    node.now_ms = minute(5)
    (job,) = node.create(ticks_ms=minutely(1, first=6))
    assert node.job(job).state == rows.JOB_STARVED
    node.do(extend(1, 2, 3))
    assert node.job(job).state == rows.JOB_STARVED
    assert node.machine.next_deadline_ms() is None
    node.do(extend(3, 6))
    assert node.job(job).scheduled_for_ms == minute(6)


def test_many_starved_jobs_are_stamped_in_steps(node: Node) -> None:
    count = STAMP_AT_ONCE * 2 + 100
    node.create(count, ticks_ms=minutely(1), overlap=ALLOW)
    node.now_ms = minute(1)
    node.fire(limit=5_000)
    node.do(extend(1, 2, 3, 4))
    assert len(node.table("starved")) == count - STAMP_AT_ONCE
    assert node.machine.next_deadline_ms() == node.now_ms
    node.tick(limit=600)
    node.machine.commit()
    node.reopen()
    assert node.machine.next_deadline_ms() == node.now_ms
    node.tick(limit=10_000)
    assert node.table("starved") == []
    assert node.machine.next_deadline_ms() is None
    assert {node.job(job).scheduled_for_ms for job in range(1, count + 1)} == {minute(2)}


def test_a_starved_job_that_is_cancelled_is_not_stamped(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(1))
    node.create(ticks_ms=minutely(1))
    session = node.open_session(ttl_ms=1_000_000)
    node.now_ms = minute(1)
    node.fire()
    leased = node.lease(session)
    node.ack(leased.token, leased.executions)
    node.do(command_pb2.CancelJob(job=job))
    node.do(extend(1, 2))
    assert node.job(job).state == rows.JOB_CANCELLED


# --- which need more ---


def test_a_schedule_asks_for_ticks_when_its_table_ends_soon(node: Node) -> None:
    node.create(ticks_ms=minutely(60))
    (need,) = node.machine.schedules_to_extend(minute(60) - EXTEND_BEFORE_MS)
    assert (need.schedule_id, need.schedule.expression, need.last_tick_ms) == (1, "* * * * *", minute(60))
    assert node.machine.schedules_to_extend(minute(60) - EXTEND_BEFORE_MS - 1) == []
    node.do(extend(60, *range(61, 121)))
    assert node.machine.schedules_to_extend(minute(60)) == []
    assert len(node.machine.schedules_to_extend(minute(110))) == 1


def test_a_rare_schedule_asks_while_one_tick_is_left(node: Node) -> None:
    day = 24 * 60
    node.create(ticks_ms=[minute(day), minute(2 * day), minute(3 * day)])
    assert node.machine.schedules_to_extend(minute(2 * day) - 1) == []
    assert len(node.machine.schedules_to_extend(minute(2 * day))) == 1


def test_asking_twice_gives_the_same_answer(node: Node) -> None:
    node.create(ticks_ms=minutely(2))
    node.create(ticks_ms=minutely(3), expression="*/2 * * * *")
    node.do(extend(2, 3))
    first = node.machine.schedules_to_extend(minute(9))
    assert [need.schedule_id for need in first] == [1, 2]
    assert node.machine.schedules_to_extend(minute(9)) == first


def test_intervals_and_schedules_that_nothing_uses_need_no_ticks(node: Node) -> None:
    node.create(every_ms=1_000)
    (job,) = node.create(ticks_ms=minutely(2))
    node.do(command_pb2.CancelJob(job=job))
    assert node.machine.schedules_to_extend(minute(1_000)) == []
    node.create(ticks_ms=minutely(2))
    assert len(node.machine.schedules_to_extend(minute(1_000))) == 1


def test_needs_are_known_after_a_restart(node: Node) -> None:
    node.create(ticks_ms=minutely(2))
    (job,) = node.create(ticks_ms=minutely(3), expression="*/2 * * * *")
    node.do(command_pb2.CancelJob(job=job))
    before = node.machine.schedules_to_extend(minute(9))
    node.machine.commit()
    node.reopen()
    assert node.machine.schedules_to_extend(minute(9)) == before


# --- trimming ---


def test_ticks_that_no_job_can_need_are_dropped(node: Node) -> None:
    node.create(ticks_ms=minutely(200), overlap=ALLOW)
    node.now_ms = minute(180)
    node.fire()
    node.do(extend(200, 201))
    assert ticks(node)[0] == 120
    assert ticks(node)[-1] == 201


def test_ticks_that_a_late_job_still_needs_are_kept(node: Node) -> None:
    node.create(ticks_ms=minutely(200), overlap=ALLOW)
    node.now_ms = minute(180)
    node.do(extend(200, 201))
    assert ticks(node)[0] == 1
    node.fire()
    assert node.skipped(1)[0][2] == 179


def test_ticks_that_starved_jobs_still_need_are_kept(node: Node) -> None:
    node.create(STAMP_AT_ONCE + 1, ticks_ms=minutely(1), overlap=ALLOW)
    node.now_ms = minute(1)
    node.fire(limit=5_000)
    node.now_ms = minute(300)
    node.do(extend(1, *range(2, 302)))
    node.fire(limit=5_000)
    (key,) = [key for key, _ in node.table("starved")]
    node.do(extend(301, 302))
    last = keys.unpack_starved(key)[1]
    assert node.job(last).scheduled_for_ms == minute(2)
    assert ticks(node)[0] <= 2


def test_the_last_tick_always_stays(node: Node) -> None:
    node.create(ticks_ms=minutely(2), overlap=ALLOW)
    node.now_ms = minute(2)
    node.fire()
    node.now_ms = minute(500)
    node.do(extend(2, 3))
    node.do(extend(3, 4))
    assert ticks(node)[-1] == 4


@pytest.mark.parametrize("ticks_ms", [[5, 5], [6, 5], [-1], [1 << 60], [minute(2)]])
def test_ticks_that_do_not_ascend_from_there_are_refused(node: Node, ticks_ms: list[int]) -> None:
    node.create(ticks_ms=minutely(2))
    node.refused(InvalidField, command_pb2.ExtendTicks(schedule=1, after_ms=minute(2), ticks_ms=ticks_ms))


def test_a_one_off_of_long_ago_is_no_obstacle_to_more_ticks(node: Node) -> None:
    """Whoever sets a time to nothing at all means the epoch."""
    node.create(1, ticks_ms=minutely(2))
    node.create(1, due_ms=0)
    assert node.do(extend(2, 3)) == Done()
    assert ticks(node) == [1, 2, 3]


def test_ticks_for_a_schedule_that_nothing_uses_any_more_are_void(node: Node, tmp_path: Path) -> None:
    """They were evaluated while it was in use. A node that has started since knows as much of it as the others."""
    (job,) = node.create(1, ticks_ms=minutely(2))
    node.do(command_pb2.CancelJob(job=job))
    late = extend(2, 3)
    late.final = True
    node.do(late)
    node.machine.commit()
    other = replayed(node, tmp_path / "other", [len(node.entries)])
    other.reopen()
    changed = command_pb2.ReplaceTicks(schedule=1, after_ms=minute(1), ticks_ms=[minute(5)])
    for machine in (node, other):
        machine.do(changed)
        assert ticks(machine) == [1, 2]
    assert other.machine.digest == node.machine.digest
    other.machine.close()
