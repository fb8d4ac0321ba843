import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField, JobNotFound, JobStateForbids
from raftsched.state.results import JobChanged
from raftsched.store import keys, rows
from raftsched.v1 import execution_pb2, job_pb2
from tests.unit.state.support import ALL_SHARDS, MINUTE_MS, START_MS, SUCCEEDED, Node, minutely

HOUR_MS = 60 * MINUTE_MS


def pause(job: int, note: str = "") -> command_pb2.PauseJob:
    return command_pb2.PauseJob(job=job, note=note)


def resume(job: int) -> command_pb2.ResumeJob:
    return command_pb2.ResumeJob(job=job)


def noted(node: Node, job: int) -> tuple[int, int, str] | None:
    """When it was paused, when resumed, and the note."""
    found = dict(node.table("extras")).get(keys.extra(keys.pack_id(job), keys.EXTRA_PAUSE))
    return (*rows.PAUSE.unpack_from(found), found[rows.PAUSE.size :].decode()) if found is not None else None


def test_nothing_of_a_paused_job_fires(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS + MINUTE_MS)
    assert node.do(pause(job, "why")) == JobChanged(job)
    assert node.job(job).state == rows.JOB_PAUSED
    assert noted(node, job) == (START_MS, 0, "why")
    assert node.machine.next_due_ms(ALL_SHARDS) is None
    node.advance(HOUR_MS)
    node.fire()
    assert node.executions_of(job) == []
    node.check()


def test_pausing_again_changes_nothing_but_the_note(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS)
    node.do(pause(job, "first"))
    node.advance(500)
    before = node.dump()
    for note in ("first", ""):
        assert node.do(pause(job, note)) == JobChanged(job)
        assert node.dump() == before
    assert node.do(pause(job, "second")) == JobChanged(job)
    assert noted(node, job) == (START_MS, 0, "second")
    node.check()


def test_resuming_what_is_not_paused_changes_nothing(node: Node) -> None:
    (job,) = node.create(every_ms=MINUTE_MS)
    before = node.dump()
    assert node.do(resume(job)) == JobChanged(job)
    assert node.dump() == before


def test_what_will_not_run_again_cannot_be_resumed(node: Node) -> None:
    cancelled, finished = (*node.create(every_ms=MINUTE_MS), *node.create(due_ms=START_MS))
    (completed,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS, max_runs=1)
    node.do(command_pb2.CancelJob(job=cancelled))
    node.fire()
    assert node.do(resume(finished)) == JobChanged(finished), "it is under way"
    leased = node.lease(node.open_session())
    node.ack(leased.token, leased.executions)
    for job in (cancelled, finished, completed):
        node.refused(JobStateForbids, resume(job))


def test_a_job_that_is_resumed_in_time_fires_as_if_nothing_had_been(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    node.do(pause(job))
    node.advance(MINUTE_MS // 2)
    node.do(resume(job))
    assert noted(node, job) is None
    assert node.table("extras") == []
    node.check()
    node.advance(MINUTE_MS // 2)
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [START_MS + MINUTE_MS]
    assert node.skipped(job) == []


def test_of_what_was_missed_the_latest_runs(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(10))
    node.do(pause(job))
    node.advance(4 * MINUTE_MS + 1)
    node.do(resume(job))
    assert noted(node, job) == (START_MS, START_MS + 4 * MINUTE_MS + 1, "")
    node.check()
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [START_MS + 4 * MINUTE_MS]
    assert [(first, last, count) for first, last, count, _ in node.skipped(job)] == [
        (START_MS + MINUTE_MS, START_MS + 3 * MINUTE_MS, 3)
    ]


def test_the_jitter_of_a_resumed_job_is_its_own(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5), jitter_ms=30_000)
    before = node.table("due")
    node.do(pause(job))
    node.do(resume(job))
    assert node.table("due") == before


def test_a_one_off_waits_until_it_is_resumed(node: Node) -> None:
    (job,) = node.create(due_ms=START_MS + 1_000)
    node.do(pause(job))
    node.advance(HOUR_MS)
    node.fire()
    assert node.executions_of(job) == []
    node.do(resume(job))
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [START_MS + 1_000]


def test_what_is_under_way_goes_on(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS)
    node.fire()
    leased = node.lease(session)
    node.do(pause(job))
    node.fail(leased.token, leased.executions)
    node.advance(HOUR_MS)
    node.renew(session)
    node.fire()
    again = node.lease(node.open_session())
    assert list(again.executions) == list(leased.executions)
    assert node.ack(again.token, again.executions) == []
    assert node.state_of(1) == SUCCEEDED
    assert node.job(job).state == rows.JOB_PAUSED
    node.check()


def test_what_has_no_occurrence_to_come_cannot_be_paused(node: Node) -> None:
    node.create(2, due_ms=START_MS)
    node.fire()
    node.refused(JobStateForbids, pause(1))
    node.do(command_pb2.CancelJob(job=2))
    node.refused(JobStateForbids, pause(2))
    node.refused(JobNotFound, pause(3))
    node.refused(JobNotFound, resume(3))
    node.refused(InvalidField, pause(1, "x" * 501))


def test_a_paused_job_can_be_cancelled(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(5))
    node.do(pause(job))
    node.do(command_pb2.CancelJob(job=job))
    assert node.job(job).state == rows.JOB_CANCELLED
    node.refused(JobStateForbids, resume(job))
    assert node.job(job).state == rows.JOB_CANCELLED
    node.check()


@pytest.mark.parametrize("schedule", ["cron", "interval"])
def test_what_a_pause_has_passed_is_recorded_when_the_job_is_cancelled(node: Node, schedule: str) -> None:
    if schedule == "cron":
        (job,) = node.create(ticks_ms=minutely(5))
    else:
        (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS + MINUTE_MS)
    node.do(pause(job))
    node.advance(3 * MINUTE_MS + 1)
    node.do(command_pb2.CancelJob(job=job))
    assert node.skipped(job) == [
        (START_MS + MINUTE_MS, START_MS + 3 * MINUTE_MS, 3, execution_pb2.SKIP_REASON_PAUSED),
    ]
    node.check()


def test_a_job_that_waits_for_more_ticks_is_given_them_while_paused(node: Node) -> None:
    (job,) = node.create(ticks_ms=minutely(1))
    node.advance(MINUTE_MS)
    node.fire()
    assert node.job(job).state == rows.JOB_STARVED
    node.do(pause(job))
    node.check()
    node.do(resume(job))
    assert node.job(job).state == rows.JOB_STARVED
    node.do(pause(job))
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=START_MS + MINUTE_MS, ticks_ms=minutely(5, first=2)))
    assert node.job(job).state == rows.JOB_PAUSED
    assert node.table("due") == []
    node.check()
    node.do(resume(job))
    assert node.job(job).scheduled_for_ms == START_MS + 2 * MINUTE_MS
    node.check()


@pytest.mark.parametrize("policy", [job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_ALLOW])
def test_dead_letters_in_a_row_pause_the_job(node: Node, policy: int) -> None:
    session = node.open_session(ttl_ms=HOUR_MS)
    (job,) = node.create(ticks_ms=minutely(20), pause_after_failures=3, overlap=policy)

    def run(*, succeeds: bool) -> None:
        node.advance(MINUTE_MS)
        node.fire()
        leased = node.lease(session)
        if succeeds:
            node.ack(leased.token, leased.executions)
        else:
            node.fail(leased.token, leased.executions, permanent=True)

    for succeeds in (False, False, True, False, False):
        run(succeeds=succeeds)
        assert node.job(job).state == rows.JOB_WAITING
    run(succeeds=False)
    assert node.job(job).state == rows.JOB_PAUSED
    assert noted(node, job) == (node.now_ms, 0, "3 executions in a row became dead letters")
    node.check()
    # It begins to count anew.
    node.do(resume(job))
    run(succeeds=False)
    assert node.job(job).state == rows.JOB_WAITING


def test_dead_letters_of_other_jobs_pause_nothing(node: Node) -> None:
    session = node.open_session(ttl_ms=HOUR_MS)
    (job,) = node.create(ticks_ms=minutely(20))
    for _ in range(5):
        node.advance(MINUTE_MS)
        node.fire()
        leased = node.lease(session)
        node.fail(leased.token, leased.executions, permanent=True)
    assert node.job(job).state == rows.JOB_WAITING
    assert node.table("extras") == []


TEN_YEARS = 10 * 365 * 24 * 60  # in minutes
NONE = job_pb2.CATCH_UP_POLICY_NONE
PAUSED = execution_pb2.SKIP_REASON_PAUSED


@pytest.mark.parametrize("kind", ["cron", "interval"])
def test_after_ten_years_of_minutes_the_next_one_fires_and_one_range_is_recorded(node: Node, kind: str) -> None:
    if kind == "cron":
        (job,) = node.create(ticks_ms=minutely(64), catch_up=NONE)
    else:
        (job,) = node.create(every_ms=MINUTE_MS, due_ms=START_MS + MINUTE_MS, catch_up=NONE)
    node.do(pause(job))
    node.advance(TEN_YEARS * MINUTE_MS)
    if kind == "cron":
        # As the leader has it: the ticks of the last hour, and of the next.
        first = TEN_YEARS - 60
        extend = command_pb2.ExtendTicks(
            schedule=1, after_ms=minutely(64)[-1], ticks_ms=minutely(120, first=first), omitted=first - 65
        )
        node.do(extend)
    node.do(resume(job))
    node.fire()
    assert node.executions_of(job) == []
    assert node.skipped(job) == [(START_MS + MINUTE_MS, node.now_ms, TEN_YEARS, PAUSED)]
    node.check()
    node.advance(MINUTE_MS)
    node.fire()
    assert [row.scheduled_for_ms for row in node.executions_of(job)] == [node.now_ms]
    assert len(node.skipped(job)) == 1
    # Tables are as small as before.
    assert len(node.table("ticks")) < 200
