"""A worker stream driven message by message, for what a well-behaved worker never does."""

import queue
import threading
import time
from collections.abc import Iterator

import grpc

from raftsched.v1 import worker_pb2, worker_pb2_grpc
from tests.cluster.api import Node
from tests.cluster.processes import PATIENCE

Message = worker_pb2.WorkerMessage


class StreamEnded(AssertionError):
    """The stream ended while a message was waited for; `error` is its status, None when it ended well."""

    def __init__(self, error: grpc.RpcError | None) -> None:
        super().__init__(f"the stream ended: {error!r}")
        self.error = error


class RawWorker:
    """One stream to one node. Messages of the server are kept until `receive` asks for their kind."""

    def __init__(self, node: Node) -> None:
        self._outgoing: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[worker_pb2.ServerMessage | StreamEnded] = queue.SimpleQueue()
        self._kept: list[worker_pb2.ServerMessage] = []
        self._ended: StreamEnded | None = None
        self._sequence = 0
        self.session = 0
        self._call = worker_pb2_grpc.WorkerServiceStub(node.channel).Connect(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "RawWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._call.cancel()
        self._reader.join()

    def _read(self) -> None:
        try:
            for message in self._call:
                self._incoming.put(message)
            self._incoming.put(StreamEnded(None))
        except grpc.RpcError as error:
            self._incoming.put(StreamEnded(error))

    def send(self, message: Message) -> None:
        self._outgoing.put(message)

    def hello(self, name: str, queue_name: str, session: int = 0) -> worker_pb2.Welcome:
        self.send(Message(hello=worker_pb2.Hello(worker=name, session=session, queues=[queue_name])))
        welcome = self.receive("welcome").welcome
        self.session = welcome.session
        return welcome

    def credit(self, total: int) -> None:
        self.send(Message(credit=worker_pb2.Credit(total=total)))

    def heartbeat(self, *held_tokens: int) -> worker_pb2.Renewed:
        self._sequence += 1
        self.send(Message(heartbeat=worker_pb2.Heartbeat(sequence=self._sequence, held_tokens=held_tokens)))
        return self.receive("renewed").renewed

    def lease(self) -> worker_pb2.LeaseBatch:
        return self.receive("lease_batch").lease_batch

    def ack(self, token: int, *execution_ids: int) -> worker_pb2.Confirm:
        """Completes them and waits for the answer; a `retry` is sent again."""
        while True:
            self.send_ack(token, *execution_ids)
            confirm = self.receive("confirm").confirm
            assert confirm.sequence == self._sequence
            if not confirm.retry:
                return confirm

    def send_ack(self, token: int, *execution_ids: int) -> None:
        """Completes them, whatever the answer will be."""
        self._sequence += 1
        now = time.time_ns() // 1_000_000
        count = len(execution_ids)
        completed = worker_pb2.Completed(
            token=token, execution_ids=execution_ids, started_ms=[now] * count, ended_ms=[now] * count
        )
        self.send(Message(ack=worker_pb2.Ack(sequence=self._sequence, leases=[completed])))

    def fail(self, token: int, execution_id: int, error: str) -> worker_pb2.Confirm:
        self._sequence += 1
        now = time.time_ns() // 1_000_000
        failure = worker_pb2.Failure(token=token, execution_id=execution_id, started_ms=now, ended_ms=now, error=error)
        self.send(Message(fail=worker_pb2.Fail(sequence=self._sequence, failures=[failure])))
        return self.receive("confirm").confirm

    def receive(self, kind: str, deadline_s: float = 15.0) -> worker_pb2.ServerMessage:
        """The next message of this kind. Raises StreamEnded, or AssertionError after the deadline."""
        for position, message in enumerate(self._kept):
            if message.WhichOneof("message") == kind:
                return self._kept.pop(position)
        for message in self._arriving(deadline_s):
            if message.WhichOneof("message") == kind:
                return message
            self._kept.append(message)
        raise AssertionError(f"no {kind} within {deadline_s} s; came: {self._kept}")

    def end(self, deadline_s: float) -> grpc.RpcError | None:
        """The error the server ends the stream with; None when it ended well or still stands at the deadline."""
        try:
            self._kept.extend(self._arriving(deadline_s))
        except StreamEnded as ended:
            return ended.error
        return None

    def refusal(self) -> grpc.RpcError:
        """The error the server ends the stream with. Raises AssertionError when it does not."""
        error = self.end(15.0)
        assert error is not None, f"the stream was not refused; it ended: {self._ended is not None}"
        return error

    def _arriving(self, deadline_s: float) -> Iterator[worker_pb2.ServerMessage]:
        deadline = time.monotonic() + deadline_s * PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            if self._ended is not None:
                raise self._ended
            try:
                item = self._incoming.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(item, StreamEnded):
                self._ended = item
            else:
                yield item
