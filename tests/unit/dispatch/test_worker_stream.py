"""What each message of a worker does."""

import asyncio
from collections.abc import Callable

import pytest

from raftsched.dispatch import worker_stream
from raftsched.dispatch.lease_pump import LeasePump
from raftsched.dispatch.worker_hub import WorkerHub
from raftsched.dispatch.worker_stream import WorkerSettings, WorkerStream
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import (
    InvalidField,
    OutcomeUnknown,
    ProtocolViolation,
    RaftschedError,
    TooManyRequests,
    WrongCluster,
)
from raftsched.state.results import Done, Leased, LeaseEnded, Rejected, Renewed, Result, SessionOpened, Settled
from raftsched.v1 import worker_pb2
from raftsched.v1.worker_pb2 import ServerMessage, WorkerMessage
from tests.unit.dispatch.support import ManualClock, Submitted, Views

SETTINGS = WorkerSettings(
    node_id=2,
    cluster_id="test",
    session_ttl_ms=10_000,
    heartbeat_interval_ms=2_500,
    grant_timeout_ms=5_000,
    started_after_ms=500,
)


class LoopOnlyCore:
    """A core without its thread: commands wait until the test answers them."""

    def __init__(self) -> None:
        self.views = Views(ready_by_queue={"default": 10})
        self.pump_submitted = Submitted()
        self.lease_pump = LeasePump(machine=self.views, submit=self.pump_submitted, clock=ManualClock())
        self.submitted = Submitted()
        self.sessions = {7}

    def submit_nowait(
        self, command: command_pb2.Command, ops: int, on_result: Callable[[Result], None], timeout_s: float
    ) -> None:
        self.submitted(command, ops, on_result, timeout_s=timeout_s)

    async def submit(self, command: command_pb2.Command, ops: int = 1, timeout_s: float = 10.0) -> Result:
        self.submitted(command, ops, lambda _result: None, timeout_s=timeout_s)
        return SessionOpened(7)

    def post(self, call: Callable[[], None]) -> None:
        call()

    def call_on_loop(self, call: Callable[[], None]) -> None:
        call()

    async def session_exists(self, session: int) -> bool:
        return session in self.sessions

    def profile(self, profile_id: int) -> command_pb2.Profile:
        return command_pb2.Profile(handler=f"handler{profile_id}")


class Setup:
    def __init__(self) -> None:
        self.core, self.hub = LoopOnlyCore(), WorkerHub()
        self.stream = WorkerStream(self.core, self.hub, SETTINGS)

    async def connect(self) -> None:
        await self.stream.hello(hello())
        self.core.submitted.commands.clear()
        self.core.submitted.waiting.clear()
        self.sent()

    def sent(self) -> list[ServerMessage | None]:
        messages = []
        while not self.stream.outbox.empty():
            messages.append(self.stream.outbox.get_nowait())
        return messages

    def answer(self, result: Result) -> list[ServerMessage | None]:
        self.core.submitted.answer(result)
        return self.sent()


@pytest.fixture
async def setup() -> Setup:
    result = Setup()
    await result.connect()
    return result


def hello(session: int = 0) -> WorkerMessage:
    return WorkerMessage(hello=worker_pb2.Hello(worker="w1", session=session, queues=["default"]))


def ack(sequence: int = 1, executions: tuple[int, ...] = (5, 6)) -> WorkerMessage:
    times = [100] * len(executions)
    completed = worker_pb2.Completed(token=9, execution_ids=executions, started_ms=times, ended_ms=times)
    return WorkerMessage(ack=worker_pb2.Ack(sequence=sequence, leases=[completed]))


async def test_hello_opens_a_session_and_says_how_long_it_lasts() -> None:
    setup = Setup()
    assert await setup.stream.hello(hello())
    assert setup.core.submitted.commands[0].open_session.ttl_ms == 10_000
    (message,) = setup.sent()
    assert message is not None
    assert message.welcome == worker_pb2.Welcome(
        session=7,
        node=2,
        session_ttl_ms=10_000,
        heartbeat_interval_ms=2_500,
        started_after_ms=500,
        cluster_id="test",
    )


async def test_hello_joins_a_session_that_another_stream_opened() -> None:
    setup = Setup()
    assert await setup.stream.hello(hello(session=7))
    assert setup.stream.session == 7
    assert setup.core.submitted.commands == []


async def test_hello_with_a_session_that_is_over_is_told_so_and_the_stream_ends() -> None:
    setup = Setup()
    assert not await setup.stream.hello(hello(session=8))
    lost, end = setup.sent()
    assert lost is not None
    assert lost.WhichOneof("message") == "session_lost"
    assert end is None


async def test_another_first_message_is_a_violation_that_names_hello() -> None:
    with pytest.raises(ProtocolViolation, match="first message"):
        await Setup().stream.hello(ack())


async def test_a_second_hello_is_a_violation(setup: Setup) -> None:
    with pytest.raises(ProtocolViolation, match="once"):
        await setup.stream.handle(hello())


async def test_an_empty_message_is_a_violation(setup: Setup) -> None:
    with pytest.raises(ProtocolViolation, match="empty"):
        await setup.stream.handle(WorkerMessage())


async def test_an_ack_is_confirmed_only_when_the_quorum_has_it(setup: Setup) -> None:
    await setup.stream.handle(ack(sequence=3))
    (block,) = setup.core.submitted.commands[0].ack.blocks
    assert block.executions == bytes(7) + b"\x05" + bytes(7) + b"\x06"
    assert setup.sent() == []
    assert setup.answer(Settled([])) == [ServerMessage(confirm=worker_pb2.Confirm(sequence=3))]


async def test_a_stale_ack_is_told_which_executions_were_refused(setup: Setup) -> None:
    await setup.stream.handle(ack(sequence=3))
    confirm = worker_pb2.Confirm(sequence=3, stale_execution_ids=[6])
    assert setup.answer(Settled([6])) == [ServerMessage(confirm=confirm)]


async def test_an_ack_without_an_answer_in_time_is_to_be_sent_again(setup: Setup) -> None:
    await setup.stream.handle(ack(sequence=3))
    confirm = worker_pb2.Confirm(sequence=3, retry=True)
    assert setup.answer(Rejected(OutcomeUnknown())) == [ServerMessage(confirm=confirm)]


async def test_a_message_that_the_state_machine_refuses_ends_the_stream_with_its_error(setup: Setup) -> None:
    await setup.stream.handle(ack())
    error = InvalidField("is broken", field="ack")
    assert setup.answer(Rejected(error)) == [None]
    assert setup.stream.refusal is error


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (
            worker_pb2.Ack(leases=[worker_pb2.Completed(execution_ids=[1], started_ms=[1], ended_ms=[])]),
            "ack.leases[0].ended_ms",
        ),
        (
            worker_pb2.Ack(leases=[worker_pb2.Completed(execution_ids=[1], started_ms=[-1], ended_ms=[1])]),
            "ack.leases[0].started_ms",
        ),
        (
            worker_pb2.Ack(
                leases=[
                    worker_pb2.Completed(execution_ids=range(10_001), started_ms=[1] * 10_001, ended_ms=[1] * 10_001)
                ]
            ),
            "ack.leases",
        ),
        (worker_pb2.Fail(failures=[worker_pb2.Failure(started_ms=-1)]), "fail.failures[0].started_ms/ended_ms"),
        (worker_pb2.Started(started_ms=-1), "started.started_ms"),
        (worker_pb2.Heartbeat(held_tokens=range(100_001)), "heartbeat.held_tokens"),
    ],
)
async def test_malformed_columns_are_violations_that_name_the_field(setup: Setup, message: object, field: str) -> None:
    name = type(message).__name__.lower()
    with pytest.raises(ProtocolViolation) as caught:
        await setup.stream.handle(WorkerMessage(**{name: message}))
    assert caught.value.field == field


async def test_long_error_texts_are_cut_at_a_character(setup: Setup) -> None:
    failure = worker_pb2.Failure(token=9, execution_id=5, error="ü" * 5_000)
    await setup.stream.handle(WorkerMessage(fail=worker_pb2.Fail(sequence=1, failures=[failure])))
    assert setup.core.submitted.commands[0].fail.failures[0].error == "ü" * 2_048


async def test_a_heartbeat_is_answered_when_the_renewal_is_through(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(heartbeat=worker_pb2.Heartbeat(sequence=4, held_tokens=[9])))
    renew = setup.core.submitted.commands[0].renew
    assert (renew.sessions[0].session, renew.grant_timeout_ms) == (7, 5_000)
    assert setup.answer(Renewed(lost=[])) == [ServerMessage(renewed=worker_pb2.Renewed(sequence=4))]


async def test_a_heartbeat_of_an_expired_session_ends_all_its_streams(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(heartbeat=worker_pb2.Heartbeat(sequence=4)))
    lost, end = setup.answer(Renewed(lost=[7]))
    assert lost is not None
    assert lost.WhichOneof("message") == "session_lost"
    assert end is None


async def test_a_renewal_that_is_lost_is_not_answered(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(heartbeat=worker_pb2.Heartbeat(sequence=4)))
    assert setup.answer(Rejected(OutcomeUnknown())) == []


async def test_credit_is_leased_and_the_block_is_sent_in_columns(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(credit=worker_pb2.Credit(total=2)))
    setup.core.lease_pump.step()
    setup.core.pump_submitted.answer(Leased(7, 9, [5, 6], [1, 2], [10, 20], [1, 2], [1, 3], [b"", b"x"]))
    (message,) = setup.sent()
    assert message is not None
    batch = message.lease_batch
    assert (batch.token, list(batch.execution_ids), list(batch.attempts)) == (9, [5, 6], [1, 2])
    assert [batch.kinds[i].handler for i in batch.kind_indexes] == ["handler1", "handler3"]
    assert list(batch.payloads) == [b"", b"x"]


async def test_columns_that_say_nothing_stay_empty(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(credit=worker_pb2.Credit(total=2)))
    setup.core.lease_pump.step()
    setup.core.pump_submitted.answer(Leased(7, 9, [5, 6], [1, 2], [10, 20], [1, 1], [3, 3]))
    (message,) = setup.sent()
    assert message is not None
    batch = message.lease_batch
    assert not batch.attempts
    assert not batch.kind_indexes
    assert not batch.payloads
    assert [kind.handler for kind in batch.kinds] == ["handler3"]


async def test_a_started_execution_that_is_not_the_workers_any_more_is_cancelled(setup: Setup) -> None:
    leases = [worker_pb2.LeasedExecutions(token=9, execution_ids=[5])]
    await setup.stream.handle(WorkerMessage(started=worker_pb2.Started(leases=leases, started_ms=1)))
    (message,) = setup.answer(Settled([5]))
    assert message is not None
    assert message.cancel_execution == worker_pb2.CancelExecution(
        execution_id=5, token=9, reason="CANCEL_REASON_LEASE_LOST"
    )


async def test_goodbye_closes_the_session_and_then_the_stream(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(goodbye=worker_pb2.Goodbye()))
    assert setup.core.submitted.commands[0].close_session.session == 7
    assert setup.answer(Done()) == [None]


async def test_a_worker_is_told_of_leases_that_were_ended_for_it(setup: Setup) -> None:
    setup.hub.lease_ended(LeaseEnded(7, 9, [5], worker_pb2.CANCEL_REASON_RUN_TIMEOUT))
    (message,) = setup.sent()
    assert message is not None
    assert message.cancel_execution.reason == worker_pb2.CANCEL_REASON_RUN_TIMEOUT


@pytest.mark.parametrize("begun", [True, False])
async def test_a_worker_is_asked_whether_it_has_begun(setup: Setup, begun: bool) -> None:
    asked = asyncio.create_task(setup.hub.ask_to_drop(7, 5, 9, timeout_s=5))
    message = await setup.stream.outbox.get()
    assert message is not None
    answer = worker_pb2.CancelAnswer(question=message.cancel_execution.question, begun=begun)
    await setup.stream.handle(WorkerMessage(cancel_answer=answer))
    assert await asked is (not begun)


async def test_a_worker_that_does_not_answer_or_is_not_here_gives_none(setup: Setup) -> None:
    assert await setup.hub.ask_to_drop(7, 5, 9, timeout_s=0.01) is None
    assert await setup.hub.ask_to_drop(8, 5, 9, timeout_s=5) is None


async def test_a_stream_that_floods_is_refused_with_a_typed_error(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_stream, "MAX_MESSAGES_PER_S", 10)

    async def flood() -> None:
        for total in range(11):
            await setup.stream.handle(WorkerMessage(credit=worker_pb2.Credit(total=total)))

    with pytest.raises(TooManyRequests) as caught:
        await flood()
    assert caught.value.field == "stream"


async def test_a_stream_with_too_much_unanswered_is_not_read_until_there_is_room(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_stream, "MAX_UNANSWERED", 2)
    for sequence in (1, 2):
        await setup.stream.handle(ack(sequence))
    third = asyncio.create_task(setup.stream.handle(ack(3)))
    await asyncio.sleep(0)
    assert not third.done()
    setup.answer(Settled([]))
    await third
    assert len(setup.core.submitted.commands) == 3


async def test_a_worker_that_does_not_read_is_refused(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_stream, "MAX_UNREAD", 3)
    monkeypatch.setattr(worker_stream, "UNREAD_TIMEOUT_S", 0.0)
    for _ in range(4):
        setup.stream.send(ServerMessage())
    with pytest.raises(TooManyRequests, match="unread"):
        await setup.stream.handle(ack())


async def test_a_closed_stream_gets_no_more_leases_and_is_not_found_any_more(setup: Setup) -> None:
    await setup.stream.handle(WorkerMessage(credit=worker_pb2.Credit(total=2)))
    setup.stream.closed()
    setup.core.lease_pump.step()
    assert setup.core.pump_submitted.commands == []
    assert setup.hub.stream_count == 0


async def test_all_answered_waits_for_the_quorum(setup: Setup) -> None:
    await setup.stream.handle(ack())
    waiting = asyncio.create_task(setup.stream.all_answered())
    await asyncio.sleep(0)
    assert not waiting.done()
    setup.core.submitted.answer(Settled([]))
    await waiting


def test_every_error_that_asks_for_a_retry_is_one_that_may_pass() -> None:
    assert worker_stream._may_be_repeated(OutcomeUnknown())
    assert worker_stream._may_be_repeated(TooManyRequests())
    assert not worker_stream._may_be_repeated(RaftschedError())


async def test_a_worker_that_reads_is_not_refused_however_much_it_is_told_at_once(setup: Setup) -> None:
    setup.hub.lease_ended(LeaseEnded(7, 9, list(range(5_000)), worker_pb2.CANCEL_REASON_RUN_TIMEOUT))
    await setup.stream.handle(ack())
    assert len(setup.core.submitted.commands) == 1


async def test_credit_waits_while_much_is_unread_and_counts_once_it_is_read(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_stream, "MAX_UNREAD", 1)
    for _ in range(2):
        setup.stream.send(ServerMessage())
    await setup.stream.handle(WorkerMessage(credit=worker_pb2.Credit(total=2)))
    setup.core.lease_pump.step()
    assert setup.core.pump_submitted.commands == []
    setup.stream.outbox.get_nowait()
    setup.stream.written()
    setup.core.lease_pump.step()
    assert setup.core.pump_submitted.commands[0].lease.limit == 2


async def test_only_the_session_that_was_asked_may_answer(setup: Setup) -> None:
    asked = asyncio.create_task(setup.hub.ask_to_drop(7, 5, 9, timeout_s=5))
    message = await setup.stream.outbox.get()
    assert message is not None
    setup.hub.answer(8, message.cancel_execution.question, begun=False)
    await asyncio.sleep(0)
    assert not asked.done()
    setup.hub.answer(7, message.cancel_execution.question, begun=True)
    assert await asked is False


async def test_a_session_of_another_cluster_is_refused() -> None:
    stranger = WorkerMessage(hello=worker_pb2.Hello(worker="w", session=7, queues=["q"], cluster_id="staging"))
    with pytest.raises(WrongCluster) as caught:
        await Setup().stream.hello(stranger)
    assert caught.value.metadata == {"this_cluster": "test"}


@pytest.mark.parametrize(
    "message",
    [
        worker_pb2.Ack(leases=[worker_pb2.Completed()] * 10_001),
        worker_pb2.Started(leases=[worker_pb2.LeasedExecutions()] * 10_001),
        worker_pb2.Release(leases=[worker_pb2.LeasedExecutions()] * 10_001),
    ],
)
async def test_empty_blocks_are_bounded_too(setup: Setup, message: object) -> None:
    name = type(message).__name__.lower()
    with pytest.raises(ProtocolViolation) as caught:
        await setup.stream.handle(WorkerMessage(**{name: message}))
    assert caught.value.field == f"{name}.leases"
