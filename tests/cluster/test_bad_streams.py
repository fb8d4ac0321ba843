"""Worker streams that break the protocol or flood: they end with a typed error, and others are served.

That the nodes live after each case and hold the same state, the fixture calm_cluster requires.
"""

from collections.abc import Callable, Iterator

import grpc
import pytest

from raftsched.v1 import worker_pb2
from tests.cluster.api import error_of
from tests.cluster.harness import Cluster
from tests.cluster.processes import until
from tests.cluster.raw_worker import Message, RawWorker

INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED

QUEUE = "bad-streams"


@pytest.fixture
def stream(calm_cluster: Cluster) -> Iterator[RawWorker]:
    """A new stream to some node that has not said hello."""
    with RawWorker(calm_cluster.node(2)) as worker:
        yield worker


def require_still_of_use(cluster: Cluster) -> None:
    with RawWorker(cluster.node(2)) as worker:
        worker.hello("good", QUEUE)
        worker.heartbeat()


BAD_FIRST_MESSAGES: list[tuple[str, Message, str]] = [
    ("empty", Message(), "hello"),
    ("not hello", Message(credit=worker_pb2.Credit(total=1)), "hello"),
    ("no worker name", Message(hello=worker_pb2.Hello(queues=[QUEUE])), "hello.worker"),
    ("long worker name", Message(hello=worker_pb2.Hello(worker="w" * 201, queues=[QUEUE])), "hello.worker"),
    ("no queue", Message(hello=worker_pb2.Hello(worker="w")), "hello.queues"),
    (
        "too many queues",
        Message(hello=worker_pb2.Hello(worker="w", queues=[f"q{n}" for n in range(65)])),
        "hello.queues",
    ),
    ("bad queue", Message(hello=worker_pb2.Hello(worker="w", queues=["A B"])), "hello.queues"),
]


@pytest.mark.parametrize(
    ("message", "field"), [case[1:] for case in BAD_FIRST_MESSAGES], ids=[case[0] for case in BAD_FIRST_MESSAGES]
)
def test_a_bad_first_message_ends_the_stream_with_its_field(
    calm_cluster: Cluster, stream: RawWorker, message: Message, field: str
) -> None:
    stream.send(message)
    code, reason, fields = error_of(stream.refusal())
    assert code is INVALID
    assert reason in {"PROTOCOL_VIOLATION", "INVALID_FIELD"}
    assert [name.split("[")[0] for name in fields] == [field]
    require_still_of_use(calm_cluster)


def completed(**columns: list[int]) -> Message:
    return Message(ack=worker_pb2.Ack(sequence=1, leases=[worker_pb2.Completed(token=1, **columns)]))


BAD_MESSAGES: list[tuple[str, Message, str]] = [
    ("empty", Message(), "message"),
    ("hello again", Message(hello=worker_pb2.Hello(worker="w", queues=[QUEUE])), "hello"),
    (
        "columns of unequal length",
        completed(execution_ids=[1, 2], started_ms=[1], ended_ms=[1, 2]),
        "ack.leases[0].started_ms",
    ),
    ("negative times", completed(execution_ids=[1], started_ms=[-1], ended_ms=[1]), "ack.leases[0].started_ms"),
    (
        "more executions than a message may hold",
        completed(execution_ids=[1] * 10_001, started_ms=[1] * 10_001, ended_ms=[1] * 10_001),
        "ack.leases",
    ),
    (
        "negative start",
        Message(started=worker_pb2.Started(started_ms=-5, leases=[worker_pb2.LeasedExecutions(token=1)])),
        "started.started_ms",
    ),
]


@pytest.mark.parametrize(
    ("message", "field"), [case[1:] for case in BAD_MESSAGES], ids=[case[0] for case in BAD_MESSAGES]
)
def test_a_message_the_protocol_does_not_allow_ends_the_stream_with_its_field(
    calm_cluster: Cluster, stream: RawWorker, message: Message, field: str
) -> None:
    stream.hello("bad", QUEUE)
    stream.send(message)
    code, _, fields = error_of(stream.refusal())
    assert code is INVALID
    assert fields == [field]
    require_still_of_use(calm_cluster)


def test_a_session_nobody_opened_is_lost_at_once(stream: RawWorker) -> None:
    stream.send(Message(hello=worker_pb2.Hello(worker="w", session=1 << 50, queues=[QUEUE])))
    assert stream.receive("session_lost").session_lost.reason


@pytest.mark.parametrize(
    "message",
    [
        Message(release=worker_pb2.Release(leases=[worker_pb2.LeasedExecutions(token=9, execution_ids=[1 << 60])])),
        Message(cancel_answer=worker_pb2.CancelAnswer(question=1 << 40, begun=True)),
        Message(credit=worker_pb2.Credit(total=0)),
        completed(),
    ],
    ids=["release of nothing held", "answer nobody asked for", "no credit", "ack of nothing"],
)
def test_messages_without_meaning_do_nothing(stream: RawWorker, message: Message) -> None:
    stream.hello("odd", QUEUE)
    stream.send(message)
    stream.heartbeat()


def test_bytes_that_are_no_message_end_the_stream(calm_cluster: Cluster) -> None:
    connect = calm_cluster.node(2).channel.stream_stream("/raftsched.v1.WorkerService/Connect")
    call = connect(iter([b"\xff" * 100]), timeout=15)
    with pytest.raises(grpc.RpcError):
        list(call)
    require_still_of_use(calm_cluster)


FLOODS: list[tuple[str, Callable[[int], Message]]] = [
    ("credits", lambda n: Message(credit=worker_pb2.Credit(total=n))),
    ("heartbeats", lambda n: Message(heartbeat=worker_pb2.Heartbeat(sequence=n, held_tokens=range(100)))),
    (
        "acks of nothing held",
        lambda n: Message(
            ack=worker_pb2.Ack(
                sequence=n,
                leases=[worker_pb2.Completed(token=n, execution_ids=[n], started_ms=[1], ended_ms=[1])],
            )
        ),
    ),
]


@pytest.mark.parametrize("make", [flood[1] for flood in FLOODS], ids=[flood[0] for flood in FLOODS])
def test_a_stream_that_floods_is_slowed_or_ended_and_the_node_serves_the_others(
    calm_cluster: Cluster, stream: RawWorker, make: Callable[[int], Message]
) -> None:
    stream.hello("flood", QUEUE)
    for number in range(1, 20_001):
        stream.send(make(number))
    # While the flood is in the pipes.
    require_still_of_use(calm_cluster)
    # It may be read to its end, slowly; if it is ended, then for this reason.
    error = stream.end(5.0)
    if error is not None:
        assert error_of(error)[:2] == (EXHAUSTED, "OVERLOADED")
    until(lambda: calm_cluster.node(2).status() is not None, "the node answers")
    require_still_of_use(calm_cluster)


def test_many_streams_that_never_say_hello_do_not_keep_others_out(calm_cluster: Cluster) -> None:
    silent = [RawWorker(calm_cluster.node(2)) for _ in range(200)]
    require_still_of_use(calm_cluster)
    for worker in silent:
        worker.__exit__()
