import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import InvalidField
from raftsched.model.limits import MAX_LOST_LEASES
from raftsched.state.results import Done, LeaseEnded, Renewed
from raftsched.store import keys
from raftsched.v1 import worker_pb2
from tests.unit.state.support import DEAD_LETTER, LEASED, PENDING, START_MS, Node


def test_sessions_have_dense_ids_and_remember_their_worker(node: Node) -> None:
    assert [node.open_session("a", "b", worker="eins"), node.open_session()] == [1, 2]
    row = node.machine.sessions[1]
    assert (row.worker, row.queues, row.expiry_ms) == ("eins", ("a", "b"), START_MS + 10_000)


def test_a_session_that_is_not_renewed_ends_and_its_executions_are_ready_again(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 3)
    node.start(leased.token, [2])
    assert node.machine.next_deadline_ms() == START_MS + 10_000
    node.now_ms = START_MS + 9_999
    node.tick()
    assert session in node.machine.sessions
    node.now_ms = START_MS + 10_000
    node.tick()
    assert node.effects.sessions_ended == [session]
    assert node.effects.ready_queues == {"default"}
    assert session not in node.machine.sessions
    rows = [node.execution(number) for number in leased.executions]
    assert [(row.status, row.lost_leases, row.failures) for row in rows] == [(PENDING, 1, 0)] * 3
    assert node.machine.next_deadline_ms() is None


def test_a_lost_lease_does_not_use_up_an_attempt(node: Node) -> None:
    session = node.open_session()
    node.run(session, max_attempts=1)
    node.do(command_pb2.CloseSession(session=session))
    again = node.lease(node.open_session())
    assert list(again.attempts) == [1]


def test_a_renewed_session_lasts_its_time_from_then_on(node: Node) -> None:
    session = node.open_session()
    node.advance(7_000)
    assert node.renew(session) == Renewed([])
    assert node.machine.next_deadline_ms() == START_MS + 17_000
    node.now_ms = START_MS + 16_999
    node.tick()
    assert session in node.machine.sessions


def test_renewing_what_is_over_or_was_never_there_says_so(node: Node) -> None:
    session = node.open_session()
    node.do(command_pb2.CloseSession(session=session))
    assert node.renew(session) == Renewed([session])
    assert node.renew(77) == Renewed([77])


def test_closing_ends_a_session_at_once_and_only_once(node: Node) -> None:
    session = node.open_session()
    node.run(session)
    assert node.do(command_pb2.CloseSession(session=session)) == Done()
    assert node.effects.sessions_ended == [session]
    before = node.dump()
    assert node.do(command_pb2.CloseSession(session=session)) == Done()
    assert node.effects.sessions_ended == []
    assert node.dump() == before


def test_no_session_ends_before_a_new_leaders_grace_is_over(node: Node) -> None:
    session = node.open_session()
    node.advance(60_000)
    node.do(command_pb2.LeaderStarted(node=2, term=3, session_grace_ms=5_000))
    assert node.machine.next_deadline_ms() == START_MS + 65_000
    node.now_ms = START_MS + 64_999
    node.tick()
    assert session in node.machine.sessions
    node.now_ms = START_MS + 65_000
    node.tick()
    assert session not in node.machine.sessions


def test_the_floor_survives_a_restart_and_never_sinks(node: Node) -> None:
    session = node.open_session()
    node.do(command_pb2.LeaderStarted(session_grace_ms=60_000))
    node.do(command_pb2.LeaderStarted(session_grace_ms=1_000))
    node.machine.commit()
    node.reopen()
    assert node.machine.next_deadline_ms() == START_MS + 60_000
    node.now_ms = START_MS + 59_999
    node.tick()
    assert session in node.machine.sessions


def test_a_lease_that_is_not_listed_long_after_it_was_granted_is_given_back(node: Node) -> None:
    session = node.open_session()
    lost, held = node.run(session, 2), node.run(session, 1)
    node.advance(5_001)
    assert node.renew(session, held.token) == Renewed([])
    assert [node.state_of(number) for number in (1, 2, 3)] == [PENDING, PENDING, LEASED]
    assert node.effects.leases_ended == [LeaseEnded(session, lost.token, (1, 2), worker_pb2.CANCEL_REASON_LEASE_LOST)]
    assert node.ack(lost.token, [1]) == [1]


def test_a_lease_that_was_granted_just_now_may_still_be_on_its_way(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session)
    node.advance(5_000)
    node.renew(session)
    assert node.state_of(1) == LEASED
    assert node.ack(leased.token, [1]) == []


def test_too_many_lost_leases_end_in_the_dead_letters(node: Node) -> None:
    node.create()
    node.fire()
    for _ in range(MAX_LOST_LEASES):
        session = node.open_session()
        assert len(node.lease(session).executions) == 1
        node.do(command_pb2.CloseSession(session=session))
    row = node.execution(1)
    assert (row.status, row.lost_leases, row.failures) == (DEAD_LETTER, MAX_LOST_LEASES, 0)
    assert f"lost its lease {MAX_LOST_LEASES} times" in row.error
    assert node.machine.ready_by_queue == {"default": 0}


def test_a_tick_ends_at_most_as_many_as_it_may(node: Node) -> None:
    for _ in range(5):
        node.open_session()
    node.advance(20_000)
    node.tick(limit=2)
    assert len(node.machine.sessions) == 3
    deadline_ms = node.machine.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms <= node.now_ms


def test_open_sessions_are_known_after_a_restart(node: Node) -> None:
    first, second = node.open_session(), node.open_session()
    node.do(command_pb2.CloseSession(session=first))
    node.machine.commit()
    node.reopen()
    assert list(node.machine.sessions) == [second]
    assert node.renew(second) == Renewed([])


@pytest.mark.parametrize(
    "command",
    [
        command_pb2.OpenSession(worker="", queues=["q"], ttl_ms=1_000),
        command_pb2.OpenSession(worker="w" * 201, queues=["q"], ttl_ms=1_000),
        command_pb2.OpenSession(worker="w", ttl_ms=1_000),
        command_pb2.OpenSession(worker="w", queues=["q"] * 65, ttl_ms=1_000),
        command_pb2.OpenSession(worker="w", queues=["q", ""], ttl_ms=1_000),
        command_pb2.OpenSession(worker="w", queues=["q" * 64], ttl_ms=1_000),
        command_pb2.OpenSession(worker="w", queues=["q"], ttl_ms=0),
        command_pb2.OpenSession(worker="w", queues=["q"], ttl_ms=-1),
        command_pb2.OpenSession(worker="w", queues=["q"], ttl_ms=1 << 60),
        command_pb2.Renew(sessions=[command_pb2.RenewSession(session=1, held_tokens=b"123")]),
        command_pb2.Renew(grant_timeout_ms=-1),
        command_pb2.Renew(grant_timeout_ms=1 << 60),
        command_pb2.LeaderStarted(session_grace_ms=-1),
        command_pb2.LeaderStarted(session_grace_ms=1 << 60),
    ],
)
def test_a_malformed_session_command_is_refused_whole(node: Node, command: object) -> None:
    node.open_session()
    node.refused(InvalidField, command)


def test_a_renewal_of_many_sessions_answers_for_each(node: Node) -> None:
    sessions = [node.open_session() for _ in range(3)]
    node.do(command_pb2.CloseSession(session=sessions[1]))
    node.advance(1_000)
    command = command_pb2.Renew(grant_timeout_ms=1_000)
    for session in sessions:
        command.sessions.add(session=session, held_tokens=keys.pack_ids([1, 2]))
    assert node.do(command) == Renewed([sessions[1]])


def test_a_heartbeat_that_was_held_up_renews_but_takes_nothing_back(node: Node) -> None:
    session = node.open_session()
    leased = node.run(session, 1)
    node.advance(6_000)
    renewal = command_pb2.RenewSession(session=session, sequence=2, held_tokens=keys.pack_ids([leased.token]))
    node.do(command_pb2.Renew(sessions=[renewal], grant_timeout_ms=5_000))
    late = command_pb2.RenewSession(session=session, sequence=1)
    node.do(command_pb2.Renew(sessions=[late], grant_timeout_ms=5_000))
    assert node.state_of(1) == LEASED
    newer = command_pb2.RenewSession(session=session, sequence=3)
    node.do(command_pb2.Renew(sessions=[newer], grant_timeout_ms=5_000))
    assert node.state_of(1) == PENDING
