"""The coming ticks of a schedule become others: no job loses or repeats one."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.state.results import Done
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import MINUTE_MS, START_MS, Node, create_command, replayed

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
ALL = job_pb2.CATCH_UP_POLICY_ALL
OLD = command_pb2.TickRules(time_zone_database="2026a")
NEW = command_pb2.TickRules(time_zone_database="2026b")


def minute(number: int) -> int:
    return START_MS + number * MINUTE_MS


def jobs(node: Node, ticks: Iterable[int], count: int = 1, **settings: object) -> list[int]:
    command = create_command(
        count, ticks_ms=[minute(number) for number in ticks], **{"overlap": ALLOW, "catch_up": ALL, **settings}
    )
    command.schedules[0].rules.CopyFrom(OLD)
    return list(node.do(command).job_ids)


def replace(
    after: int, ticks: Iterable[int], *, final: bool = False, replaced: command_pb2.TickRules = OLD
) -> command_pb2.ReplaceTicks:
    return command_pb2.ReplaceTicks(
        schedule=1,
        replaced=replaced,
        rules=NEW,
        after_ms=minute(after),
        ticks_ms=[minute(number) for number in ticks],
        final=final,
    )


def ticks(node: Node) -> list[int]:
    return [(keys.unpack_tick(key)[1] - START_MS) // MINUTE_MS for key, _ in node.table("ticks")]


def ran(node: Node, job: int) -> list[int]:
    """The minutes of a job's executions, in order."""
    return [(one.scheduled_for_ms - START_MS) // MINUTE_MS for one in reversed(node.executions_of(job))]


def run_until(node: Node, last: int) -> None:
    while node.now_ms < minute(last):
        node.advance(MINUTE_MS)
        node.tick()
        node.fire(limit=10_000)


def test_ticks_after_the_boundary_are_others(node: Node) -> None:
    (job,) = jobs(node, [10, 20, 30, 40])
    assert node.do(replace(25, [26, 36])) == Done()
    assert ticks(node) == [10, 20, 26, 36]
    run_until(node, 50)
    assert ran(node, job) == [10, 20, 26, 36]
    assert node.machine.schedules_to_replace("2026b", 10) == []


def test_a_job_waits_for_a_tick_that_is_there(node: Node) -> None:
    (job,) = jobs(node, [10, 20])
    node.do(replace(5, [12, 22]))
    assert node.machine.next_deadline_ms() == node.now_ms
    node.tick()
    assert node.job(job).scheduled_for_ms == minute(12)
    assert node.machine.next_deadline_ms() is None
    node.check()
    run_until(node, 30)
    assert ran(node, job) == [12, 22]


def test_an_earlier_tick_that_is_new_is_not_missed(node: Node) -> None:
    (job,) = jobs(node, [10, 20])
    node.do(replace(5, [7, 10, 20]))
    run_until(node, 30)
    assert ran(node, job) == [7, 10, 20]


def test_what_is_due_already_stays_due(node: Node) -> None:
    (job,) = jobs(node, [10, 20])
    node.now_ms = minute(12)
    # The boundary is past by now: the tick that nobody has fired yet is kept.
    node.do(replace(5, [11, 15]))
    node.tick()
    assert ticks(node) == [10, 15]
    run_until(node, 30)
    assert ran(node, job) == [10, 15]


def test_a_jittered_run_keeps_its_delay_and_is_not_skipped(node: Node) -> None:
    many = jobs(node, [10, 20], 50, jitter_ms=10 * MINUTE_MS)
    delays = {job: node.job(job).scheduled_for_ms for job in many}
    assert set(delays.values()) == {minute(10)}
    # Tick 10 is before the boundary, though most of its runs are due after it.
    node.do(replace(11, [14, 24], final=True))
    node.tick()
    node.check()
    run_until(node, 60)
    assert {tuple(ran(node, job)) for job in many} == {(10, 14, 24)}


def test_jobs_are_found_a_bounded_number_at_a_time(node: Node) -> None:
    many = jobs(node, [10, 20], 250)
    node.do(replace(5, [12]))
    for left in (150, 50, 0):
        node.tick(limit=100)
        assert sum(node.job(job).scheduled_for_ms == minute(10) for job in many) == left
        node.machine.commit()
        node.reopen()
    assert node.machine.next_deadline_ms() is None
    node.check()


def test_a_search_that_is_late_loses_and_repeats_nothing(node: Node) -> None:
    (early,) = jobs(node, [10, 20, 30])
    node.do(replace(5, [7, 20, 25]))
    # No Tick came: the job has fired at a tick of before, then another one is created.
    node.now_ms = minute(22)
    (late,) = jobs(node, [10, 20, 30])
    node.tick()
    node.check()
    assert node.job(early).scheduled_for_ms == minute(7)
    assert node.job(late).scheduled_for_ms == minute(25)
    run_until(node, 40)
    assert ran(node, early) == [7, 20, 25]
    assert ran(node, late) == [25]


def test_jobs_without_a_tick_left_starve_or_are_completed(node: Node) -> None:
    (job,) = jobs(node, [10, 20])
    node.do(replace(5, [], final=True))
    node.tick()
    node.tick()
    assert node.job(job).state == rows.JOB_COMPLETED
    assert node.table("due") == []


def test_a_final_table_may_get_ticks_again(node: Node) -> None:
    (job,) = jobs(node, [10])
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(10), final=True, rules=OLD))
    node.do(replace(5, [10, 20]))
    run_until(node, 30)
    assert ran(node, job) == [10, 20]
    assert node.job(job).state == rows.JOB_STARVED


def test_a_paused_job_waits_for_the_new_tick_too(node: Node) -> None:
    (job,) = jobs(node, [10, 20])
    node.do(command_pb2.PauseJob(job=job))
    node.do(replace(5, [12, 22]))
    node.tick()
    assert node.job(job).scheduled_for_ms == minute(12)
    assert node.table("due") == []
    node.do(command_pb2.ResumeJob(job=job))
    run_until(node, 30)
    assert ran(node, job) == [12, 22]


def test_jobs_of_other_schedules_are_left_alone(node: Node) -> None:
    jobs(node, [10, 20])
    (other,) = node.create(ticks_ms=[minute(10)], expression="*/10 * * * *")
    (once,) = node.create(due_ms=minute(9))
    before = [node.job(other), node.job(once)]
    node.do(replace(5, [12]))
    node.tick()
    assert [node.job(other), node.job(once)] == before


def test_a_replacement_of_other_rules_is_void(node: Node) -> None:
    jobs(node, [10, 20])
    node.do(replace(5, [12]))
    before = node.dump()
    assert node.do(replace(5, [13])) == Done()
    assert node.do(replace(5, [13], replaced=command_pb2.TickRules())) == Done()
    assert node.do(command_pb2.ReplaceTicks(schedule=77, final=True)) == Done()
    # So are more ticks that were evaluated by the rules of before.
    assert node.do(command_pb2.ExtendTicks(schedule=1, after_ms=minute(12), ticks_ms=[minute(13)], rules=OLD)) == Done()
    assert node.dump() == before


def test_a_schedule_that_nothing_uses_is_left_alone(node: Node) -> None:
    (job,) = jobs(node, [10])
    node.do(command_pb2.CancelJob(job=job))
    assert node.machine.schedules_to_replace("2026b", 10) == []
    before = node.dump()
    node.do(replace(5, [12]))
    assert node.dump() == before


@pytest.mark.parametrize("numbers", [[5], [7, 6], [6, 6]])
def test_ticks_that_do_not_ascend_from_the_boundary_are_refused(node: Node, numbers: list[int]) -> None:
    jobs(node, [10])
    node.refused(InvalidField, replace(5, numbers))


def test_which_tables_are_out_of_date_is_known_after_a_restart(node: Node) -> None:
    jobs(node, [10])
    (need,) = node.machine.schedules_to_replace("2026b", 10)
    assert (need.schedule_id, need.rules.time_zone_database) == (1, "2026a")
    assert node.machine.schedules_to_replace("2026a", 10) == []
    node.machine.commit()
    node.reopen()
    assert node.machine.schedules_to_replace("2026b", 10) == [need]


@settings(max_examples=30, deadline=None)
@given(
    old=st.sets(st.integers(1, 40), min_size=1),
    new=st.sets(st.integers(1, 40)),
    boundary=st.integers(0, 40),
    at=st.integers(0, 40),
    limit=st.sampled_from([1, 2, 1_000]),
    jitter=st.sampled_from([0, 5 * MINUTE_MS]),
)
def test_each_tick_up_to_the_boundary_by_the_old_rules_and_after_it_by_the_new_ones(
    tmp_path_factory: pytest.TempPathFactory,
    old: set[int],
    new: set[int],
    boundary: int,
    at: int,
    limit: int,
    jitter: int,
) -> None:
    node = Node(tmp_path_factory.mktemp("restamp"))
    many = jobs(node, sorted(old), 3, jitter_ms=jitter)
    run_until(node, at)
    after = max(boundary, min(at, max(old)))
    node.do(replace(boundary, sorted(number for number in new if number > boundary), final=True))
    for _ in range(12 // limit + 1):
        node.tick(limit=limit)
    run_until(node, 80)
    node.tick()
    node.check()
    expected = sorted(number for number in old if number <= after) + sorted(number for number in new if number > after)
    for job in many:
        assert ran(node, job) == expected
    other = replayed(node, tmp_path_factory.mktemp("replayed"), commit_after=range(0, len(node.entries), 3))
    assert other.machine.digest == node.machine.digest
    for one in (node, other):
        one.machine.close()
