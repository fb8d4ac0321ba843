"""The worker streams connected to this node, by session. Lives on the asyncio loop."""

import asyncio
import itertools
import logging
from collections import defaultdict
from typing import Protocol

from raftsched.state.results import LeaseEnded
from raftsched.v1 import worker_pb2

execution_log = logging.getLogger("raftsched.execution")


class ConnectedStream(Protocol):
    """What the hub needs of a worker's stream; `send` never waits."""

    session: int

    def send(self, message: worker_pb2.ServerMessage) -> None: ...

    def end(self) -> None: ...


class WorkerHub:
    """Finds the streams of a session; asks workers and waits for their answers."""

    def __init__(self) -> None:
        self._streams: dict[int, list[ConnectedStream]] = defaultdict(list)
        # Question -> the session that was asked, and its answer.
        self._questions: dict[int, tuple[int, asyncio.Future[bool]]] = {}
        self._next_question = itertools.count(1)

    def add(self, stream: ConnectedStream) -> None:
        self._streams[stream.session].append(stream)

    def remove(self, stream: ConnectedStream) -> None:
        streams = self._streams.get(stream.session, [])
        if stream in streams:
            streams.remove(stream)
        if not streams:
            self._streams.pop(stream.session, None)

    @property
    def stream_count(self) -> int:
        return sum(len(streams) for streams in self._streams.values())

    def lease_ended(self, ended: LeaseEnded) -> None:
        """Tells the worker, if it is connected here, that these executions are not its own any more."""
        execution_log.info(
            "lease ended",
            extra={
                "session": ended.session,
                "token": ended.token,
                "executions": list(ended.executions),
                "reason": worker_pb2.CancelReason.Name(ended.reason),
            },
        )
        for stream in self._streams.get(ended.session, [])[:1]:
            for execution in ended.executions:
                stream.send(cancel_message(execution, ended.token, ended.reason))

    def session_ended(self, session: int, reason: str) -> None:
        """Ends every stream of a session that is over."""
        for stream in list(self._streams.get(session, [])):
            stream.send(worker_pb2.ServerMessage(session_lost=worker_pb2.SessionLost(reason=reason)))
            stream.end()

    def drain(self) -> None:
        """Tells every worker to expect no more from this node."""
        for streams in self._streams.values():
            for stream in streams:
                stream.send(worker_pb2.ServerMessage(drain=worker_pb2.Drain()))

    async def ask_to_drop(self, session: int, execution: int, token: int, timeout_s: float) -> bool | None:
        """Asks the worker to drop an execution. True: dropped unbegun; False: it has begun; None: no answer."""
        streams = self._streams.get(session)
        if not streams:
            return None
        question = next(self._next_question)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions[question] = (session, answer)
        try:
            streams[0].send(cancel_message(execution, token, worker_pb2.CANCEL_REASON_REQUESTED, question))
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._questions[question]

    def answer(self, session: int, question: int, begun: bool) -> None:
        """A worker's answer. One that comes too late, or from a session that was not asked, changes nothing."""
        asked, answer = self._questions.get(question, (0, None))
        if answer is not None and asked == session and not answer.done():
            answer.set_result(not begun)


def cancel_message(execution: int, token: int, reason: int, question: int = 0) -> worker_pb2.ServerMessage:
    """CancelExecution for one execution; a `question` other than 0 wants an answer."""
    cancel = worker_pb2.CancelExecution(
        execution_id=execution, token=token, question=question, reason=worker_pb2.CancelReason.Name(reason)
    )
    return worker_pb2.ServerMessage(cancel_execution=cancel)
