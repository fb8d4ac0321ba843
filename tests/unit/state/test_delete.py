import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import JobNotFound, JobStateForbids
from raftsched.state import delete as deleting
from raftsched.state.results import JobChanged, LeaseEnded
from raftsched.store import keys
from raftsched.store.environment import TABLE_NAMES
from raftsched.v1 import job_pb2, worker_pb2
from tests.unit.state.support import ALL_SHARDS, MINUTE_MS, START_MS, Node, minutely

ALLOW = job_pb2.OVERLAP_POLICY_ALLOW
QUEUE = job_pb2.OVERLAP_POLICY_QUEUE
ALL = job_pb2.CATCH_UP_POLICY_ALL
# What is interned is kept; sessions are no job's.
NOT_OF_JOBS = {"schedules", "schedule_ids", "profiles", "profile_ids", "interned", "ticks", "meta", "sessions"}


def delete(job: int) -> command_pb2.DeleteJob:
    return command_pb2.DeleteJob(job=job)


def left(node: Node) -> dict[str, int]:
    """Rows that belong to jobs, by table."""
    tables = {name: len(node.table(name)) for name in TABLE_NAMES if name not in NOT_OF_JOBS}
    tables["deadlines"] = sum(key[0] == keys.DELETION for key, _ in node.table("deadlines"))
    return {name: count for name, count in tables.items() if count}


def test_nothing_is_left_of_a_job(node: Node) -> None:
    session = node.open_session(ttl_ms=60 * MINUTE_MS)
    (job,) = node.create(ticks_ms=minutely(9), names=["n"], payloads=[b"p"], pause_after_failures=5, overlap=ALLOW)
    for ends in (node.ack, node.fail):
        node.advance(MINUTE_MS)
        node.fire()
        leased = node.lease(session)
        ends(leased.token, leased.executions)
    node.do(command_pb2.TriggerJob(job=job, payload=b"own"))
    leased = node.lease(session)
    node.fail(leased.token, leased.executions, permanent=True)
    node.advance(4 * MINUTE_MS)
    node.fire()
    assert {"dead_letters", "skipped", "extras", "execution_payloads", "due"} <= set(left(node))
    assert node.do(delete(job)) == JobChanged(job)
    node.tick()
    assert left(node) == {}
    assert node.machine.counters.dead_letters == 0
    assert node.machine.next_due_ms(ALL_SHARDS) is None


def test_deleting_again_is_harmless(node: Node) -> None:
    (job,) = node.create(names=["n"])
    node.do(delete(job))
    node.tick()
    before = node.dump()
    assert node.do(delete(job)) == JobChanged(job)
    assert node.dump() == before
    for unknown in (0, job + 1):
        node.refused(JobNotFound, delete(unknown))


def test_its_name_is_free_at_once(node: Node) -> None:
    for number in range(1, 20):
        assert node.create(names=["n"]) == [number]
        node.do(delete(number))
    assert node.table("names") == []


def test_a_name_that_another_has_taken_stays_its_own(node: Node) -> None:
    (job,) = node.create(names=["n"])
    node.do(command_pb2.CancelJob(job=job))
    (other,) = node.create(names=["n"])
    node.do(delete(job))
    assert node.table("names") == [(keys.job_name("default", "n"), keys.pack_id(other))]
    node.do(delete(other))
    assert node.machine.counters.jobs_cancelled == 0


def test_what_is_held_by_a_worker_keeps_its_job(node: Node) -> None:
    session = node.open_session()
    (job,) = node.create(every_ms=MINUTE_MS, overlap=ALLOW)
    node.fire()
    leased = node.lease(session)
    assert node.refused(JobStateForbids, delete(job)).metadata == {"job": str(job), "execution": "1"}
    node.start(leased.token, leased.executions)
    node.refused(JobStateForbids, delete(job))
    # What waits does not.
    node.fail(leased.token, leased.executions)
    node.advance(MINUTE_MS)
    node.fire()
    node.do(delete(job))
    node.tick()
    assert left(node) == {}


@pytest.mark.parametrize("how", ["paused", "cancelled", "finished", "queued", "starved"])
def test_a_job_is_deleted_whatever_its_state(node: Node, how: str) -> None:
    session = node.open_session()
    if how == "finished":
        leased = node.run(session)
        node.ack(leased.token, leased.executions)
    elif how == "queued":
        node.create(every_ms=MINUTE_MS, overlap=QUEUE, overlap_limit=5)
        for _ in range(3):
            node.fire()
            node.advance(MINUTE_MS)
    else:
        node.create(ticks_ms=minutely(1))
        if how == "starved":
            node.advance(MINUTE_MS)
            node.fire()
        elif how == "paused":
            node.do(command_pb2.PauseJob(job=1, note="n"))
        else:
            node.do(command_pb2.CancelJob(job=1))
    node.do(delete(1))
    node.tick()
    assert left(node) == {}
    for key, value in node.table("schedules"):
        assert value[:8] == bytes(8), key
    assert node.machine.counters.jobs_cancelled == 0


def test_a_long_history_goes_in_bounded_steps_while_the_job_is_gone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleting, "STEP", 3)
    session = node.open_session(ttl_ms=60 * MINUTE_MS)
    (job,) = node.create(every_ms=MINUTE_MS, names=["n"])
    for _ in range(10):
        node.fire()
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
        node.advance(MINUTE_MS)
    node.do(delete(job))
    assert (node.table("jobs"), node.table("names")) == ([], [])
    assert len(node.table("executions")) == 7
    steps = 0
    while left(node):
        assert node.machine.next_deadline_ms() == node.now_ms
        before = len(node.table("executions"))
        node.tick()
        assert before - len(node.table("executions")) <= 3
        steps += 1
    assert steps == 3


def test_what_runs_behind_a_long_history_is_revoked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.state.cancel.MAX_EXECUTIONS", 2)
    session = node.open_session(ttl_ms=60 * MINUTE_MS)
    (job,) = node.create(every_ms=MINUTE_MS, overlap=ALLOW)
    node.fire()
    first = node.lease(session)
    for _ in range(3):
        node.advance(MINUTE_MS)
        node.fire()
        leased = node.lease(session)
        node.ack(leased.token, leased.executions)
    node.do(delete(job))
    reason = worker_pb2.CANCEL_REASON_REQUESTED
    assert node.effects.leases_ended == [LeaseEnded(session, first.token, list(first.executions), reason)]
    node.tick()
    assert left(node) == {}
    assert node.ack(first.token, first.executions) == list(first.executions)


def test_what_still_runs_may_end_in_any_way(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.state.cancel.MAX_EXECUTIONS", 1)
    monkeypatch.setattr(deleting, "STEP", 1)
    session = node.open_session(ttl_ms=60 * MINUTE_MS)
    (job,) = node.create(every_ms=MINUTE_MS, overlap=ALLOW, pause_after_failures=1)
    for _ in range(3):
        node.fire()
        node.advance(MINUTE_MS)
    leased = node.lease(session)
    node.ack(leased.token, leased.executions[2:])
    node.do(delete(job))
    node.fail(leased.token, leased.executions[:1], permanent=True)
    node.ack(leased.token, leased.executions[1:2])
    while left(node):
        node.tick()
    assert node.machine.counters.dead_letters == 0


def test_a_replay_of_a_deleted_jobs_dead_letter_starts_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "STEP", 0)
    session = node.open_session()
    leased = node.run(session)
    node.fail(leased.token, leased.executions, permanent=True)
    node.do(delete(1))
    assert len(node.table("executions")) == 1
    before = node.dump()
    node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_id(1)))
    assert node.dump() == before
    monkeypatch.setattr(deleting, "STEP", 500)
    node.tick()
    node.tick()
    assert left(node) == {}
    assert node.now_ms == START_MS
