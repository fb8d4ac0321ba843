"""Simulated workers: one session over streams to all nodes, as worker.proto asks, and every way to be bad at it.

A worker may crash, stall, report twice, report late, and claim what it never held. What it may not do is what no
cluster can defend against: start a handler after it must know that its session may have ended.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from raftsched.v1 import worker_pb2
from tests.checker import Completion
from tests.sim.claims import Asking, result_of
from tests.sim.handlers import ONCE, duration_us, outcome
from tests.sim.holdings import Held, Result, Stream, held_of, report_message
from tests.sim.ledger import Ledger
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.timeline import MILLISECOND_US, SECOND_US, Timeline, Violation

QUEUE = "default"
# Handlers under way at once, and executions held beyond those.
CONCURRENCY = 6
PREFETCH = 4
# Results of so long go into one message.
GATHER_US = 3 * MILLISECOND_US
RECONNECT_US = (100 * MILLISECOND_US, SECOND_US)
# Without an answer in this time a message is sent again, another way.
CONFIRM_US = 8 * SECOND_US
HELLO_US = 8 * SECOND_US
RELEASE_DROPPED_US = 3 * SECOND_US
# Handlers stop so much before the session may end.
MARGIN_US = SECOND_US


class SimWorker:
    """`wall_offset_ms` is how wrong its clock is: the times it reports are only reported."""

    def __init__(
        self,
        number: int,
        *,
        nodes: list[SimNode],
        timeline: Timeline,
        network: Network,
        rng: random.Random,
        ledger: Ledger,
        cluster_ms: Callable[[], int],
    ) -> None:
        self.number = number
        self.wall_offset_ms = 0
        self.misbehaves = False
        self.is_up = False
        self.is_stalled = False
        self.life = 0
        self._nodes = nodes
        self._timeline = timeline
        self._network = network
        self._rng = rng
        self._ledger = ledger
        self._cluster_ms = cluster_ms
        self._while_stalled: list[Callable[[], None]] = []
        self._asking = Asking(
            number,
            nodes=nodes,
            timeline=timeline,
            network=network,
            rng=rng,
            ledger=ledger,
            cluster_ms=cluster_ms,
            guard=self._guard,
        )
        self._forget()

    def _forget(self) -> None:
        self.session = 0
        self._ttl_us = self._heartbeat_us = self._started_after_us = 0
        self._opening: Stream | None = None
        self._streams: dict[int, Stream] = {}
        self._waiting: list[Held] = []
        self._running: list[Held] = []
        self._unsent: list[Result] = []
        # Sequence of ours -> results, and the stream they went out on.
        self._unconfirmed: dict[tuple[Stream, int], list[Result]] = {}
        self._claims: dict[tuple[Stream, int], list[tuple[int, int]]] = {}
        self._heartbeats: dict[int, int] = {}
        self._heartbeat = 0
        self._renewed_us = 0
        self._refused: set[tuple[int, int]] = set()
        self._is_flush_due = False
        self._past: list[tuple[int, int]] = []

    @property
    def _wall_ms(self) -> int:
        return self._timeline.true_ms + self.wall_offset_ms

    # --- lives ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.life += 1
        self._forget()
        self.is_up = True
        self._timeline.note("worker starts", self.number)
        for node in self._nodes:
            self._soon(self._rng.randint(0, 50 * MILLISECOND_US), partial(self._connect, node))

    def crash(self) -> None:
        self._timeline.note("worker crashes", self.number)
        self.is_up = self.is_stalled = False
        self._while_stalled.clear()
        self.life += 1
        for stream in self._streams.values():
            stream.connection.shut(self.number)
        for held in self._running:
            self._record(held, ended_ms=None, succeeded=False)
        self._streams = {}
        self._running = []

    def stall(self) -> None:
        self._timeline.note("worker stalls", self.number)
        self.is_stalled = True

    def resume(self) -> None:
        self._timeline.note("worker resumes", self.number)
        self.is_stalled = False
        waiting, self._while_stalled = self._while_stalled, []
        for call in waiting:
            call()

    def _guard(self) -> Callable[[Callable[[], None]], None]:
        """What calls in this life only; when it stalls, after that."""
        life = self.life
        return lambda call: self._awake(call) if self.life == life else None

    def _soon(self, delay_us: int, call: Callable[[], None]) -> None:
        """Calls later in this life; when it stalls, after that."""
        guard = self._guard()
        self._timeline.after(delay_us, lambda: guard(call))

    def _awake(self, call: Callable[[], None]) -> None:
        if self.is_stalled:
            life = self.life
            self._while_stalled.append(lambda: call() if self.life == life else None)
        else:
            call()

    # --- streams ----------------------------------------------------------------------------------------------------

    def _connect(self, node: SimNode) -> None:
        if node.number in self._streams:
            return
        again = partial(self._soon, self._rng.randint(*RECONNECT_US), partial(self._connect, node))
        if not node.is_answering or not self._network.can_reach(self.number, node.number):
            again()
            return
        if not self.session and self._opening is not None:
            # Another stream is opening the session.
            again()
            return
        connection = self._network.open(self.number, node.number)
        stream = self._streams[node.number] = Stream(node, connection)
        life = self.life

        def message(data: bytes) -> None:
            if self.life == life:
                self._awake(lambda: self._take(stream, worker_pb2.ServerMessage.FromString(data)))

        def lost() -> None:
            if self.life == life:
                self._awake(lambda: self._lost(stream))

        connection.listen(self.number, message, lost)
        node.take_stream(connection)
        if not self.session:
            self._opening = stream
            self._opened_us = self._timeline.now_us
        hello = worker_pb2.Hello(worker=f"w{self.number}", session=self.session, queues=[QUEUE])
        self._send(stream, worker_pb2.WorkerMessage(hello=hello))

        def no_welcome() -> None:
            if self._streams.get(node.number) is stream and not stream.is_ready:
                connection.shut(self.number)
                self._lost(stream)

        self._soon(HELLO_US, no_welcome)

    def _send(self, stream: Stream, message: worker_pb2.WorkerMessage) -> None:
        stream.connection.send(self.number, message.SerializeToString())

    def _lost(self, stream: Stream) -> None:
        if self._streams.get(stream.node.number) is not stream:
            return
        del self._streams[stream.node.number]
        if self._opening is stream:
            self._opening = None
        for way in [way for way in self._unconfirmed if way[0] is stream]:
            self._send_again(self._unconfirmed.pop(way))
        for way in [way for way in self._claims if way[0] is stream]:
            del self._claims[way]
        self._soon(self._rng.randint(*RECONNECT_US), partial(self._connect, stream.node))

    def _route(self, avoid: Stream | None = None) -> Stream | None:
        ready = [stream for stream in self._streams.values() if stream.is_ready]
        others = [stream for stream in ready if stream is not avoid]
        return self._rng.choice(others or ready) if ready else None

    def _take(self, stream: Stream, message: worker_pb2.ServerMessage) -> None:
        if self._streams.get(stream.node.number) is not stream:
            return
        kind = message.WhichOneof("message")
        if kind == "welcome":
            self._welcome(stream, message.welcome)
        elif kind == "lease_batch":
            self._leased(stream, message.lease_batch)
        elif kind == "confirm":
            self._confirmed(stream, message.confirm)
        elif kind == "renewed":
            sent_us = self._heartbeats.get(message.renewed.sequence)
            if sent_us is not None:
                self._renewed_us = max(self._renewed_us, sent_us)
        elif kind == "cancel_execution":
            self._cancel(stream, message.cancel_execution)
        elif kind == "session_lost":
            self._session_over()

    def _welcome(self, stream: Stream, welcome: worker_pb2.Welcome) -> None:
        if self._opening is stream:
            self._opening = None
            self.session = welcome.session
            self._ttl_us = welcome.session_ttl_ms * MILLISECOND_US
            self._heartbeat_us = welcome.heartbeat_interval_ms * MILLISECOND_US
            self._started_after_us = welcome.started_after_ms * MILLISECOND_US
            self._renewed_us = self._opened_us
            self._beat(welcome.session)
        elif welcome.session != self.session:
            stream.connection.shut(self.number)
            self._lost(stream)
            return
        stream.is_ready = True
        self._grant(stream)
        self._flush_soon()

    def _session_over(self) -> None:
        """Everything held is lost; begins anew."""
        self._timeline.note("session lost", self.number, self.session)
        for stream in list(self._streams.values()):
            stream.connection.shut(self.number)
        streams = list(self._streams.values())
        self._stop_all()
        self._forget()
        for stream in streams:
            self._soon(self._rng.randint(*RECONNECT_US), partial(self._connect, stream.node))

    # --- the session ------------------------------------------------------------------------------------------------

    @property
    def _may_run(self) -> bool:
        return self._timeline.now_us < self._renewed_us + self._ttl_us - min(self._ttl_us // 10, MARGIN_US)

    def _beat(self, session: int) -> None:
        """A heartbeat with all that is held, and the next one later."""
        if self.session != session:
            return
        if not self._may_run:
            self._stop_all()
        stream = self._route()
        if stream is not None:
            self._heartbeat += 1
            self._heartbeats[self._heartbeat] = self._timeline.now_us
            beat = worker_pb2.Heartbeat(sequence=self._heartbeat, held_tokens=self._tokens())
            self._send(stream, worker_pb2.WorkerMessage(heartbeat=beat))
            self._heartbeats.pop(self._heartbeat - 64, None)
        self._soon(self._heartbeat_us, partial(self._beat, session))

    def _tokens(self) -> list[int]:
        results = [result for batch in self._unconfirmed.values() for result in batch] + self._unsent
        held = [*self._waiting, *self._running, *(result.held for result in results)]
        return sorted({item.token for item in held})

    def _stop_all(self) -> None:
        """Handlers end; what is not listed from now on goes to others."""
        self._waiting.clear()
        for held in list(self._running):
            self._end_run(held, succeeded=False)

    def _grant(self, stream: Stream) -> None:
        """Lets the node send so much more that this stream's share is full."""
        share = max(1, (CONCURRENCY + PREFETCH) // len(self._nodes))
        if stream.load < share:
            stream.credit += share - stream.load
            stream.load = share
            self._send(stream, worker_pb2.WorkerMessage(credit=worker_pb2.Credit(total=stream.credit)))

    def _leased(self, stream: Stream, batch: worker_pb2.LeaseBatch) -> None:
        for held in held_of(batch):
            execution = held.execution
            self._ledger.granted.add((batch.token, execution))
            self._past.append((batch.token, execution))
            if (batch.token, execution) not in self._refused and self._may_run:
                self._waiting.append(held)
        self._soon(0, partial(self._settled, stream, len(batch.execution_ids)))
        self._run_more()

    def _settled(self, stream: Stream, count: int) -> None:
        """Room on a stream again, once there is room for handlers."""
        if self._streams.get(stream.node.number) is not stream:
            return
        if len(self._waiting) + len(self._running) > CONCURRENCY + PREFETCH:
            self._soon(20 * MILLISECOND_US, partial(self._settled, stream, count))
            return
        stream.load -= count
        self._grant(stream)

    def _cancel(self, stream: Stream, cancel: worker_pb2.CancelExecution) -> None:
        place = (cancel.token, cancel.execution_id)
        waiting = [held for held in self._waiting if (held.token, held.execution) == place]
        running = [held for held in self._running if (held.token, held.execution) == place]
        over = any(
            (result.held.token, result.held.execution) == place
            for result in [*self._unsent, *(result for batch in self._unconfirmed.values() for result in batch)]
        )
        for held in waiting:
            self._waiting.remove(held)
            # Should nobody cancel it after all, it must not stay with a worker that will not run it.
            self._soon(RELEASE_DROPPED_US if cancel.question else 0, partial(self._release, held))
        if not running and not over:
            self._refused.add(place)
        if cancel.question:
            answer = worker_pb2.CancelAnswer(question=cancel.question, begun=bool(running or over))
            self._send(stream, worker_pb2.WorkerMessage(cancel_answer=answer))
        else:
            for held in running:
                self._end_run(held, succeeded=False)
                if cancel.reason == worker_pb2.CANCEL_REASON_REQUESTED:
                    # It still holds the execution: how it ends is reported.
                    self._report_soon(Result(held, False, self._wall_ms, self._cluster_ms()))

    def _release(self, held: Held) -> None:
        stream = self._route()
        if stream is not None:
            message = worker_pb2.WorkerMessage()
            message.release.leases.add(token=held.token, execution_ids=[held.execution])
            self._send(stream, message)

    # --- handlers ---------------------------------------------------------------------------------------------------

    def _run_more(self) -> None:
        while self._waiting and len(self._running) < CONCURRENCY:
            held = self._waiting.pop(0)
            if self._may_run:
                self._begin(held)

    def _begin(self, held: Held) -> None:
        held.has_begun = True
        held.started_ms = self._cluster_ms()
        held.worker_started_ms = self._wall_ms
        self._running.append(held)
        self._ledger.begun.append(held.execution)
        if self._ledger.payloads.setdefault(held.execution, held.payload) != held.payload:
            raise Violation(f"execution {held.execution} came with the payload {held.payload}, and with another before")
        self._timeline.note("runs", self.number, (held.key, held.execution, held.token), show=False)
        if held.upstreams:
            self._asking.read_upstream(held)
        if held.handler == ONCE:
            self._asking.do_once(held, partial(self._done_once, held))
            return
        takes_us = duration_us(held.handler, self._rng)
        if takes_us > self._started_after_us:
            self._soon(self._started_after_us, partial(self._tell_started, held))
        self._soon(takes_us, partial(self._finish, held))

    def _done_once(self, held: Held, is_done: bool) -> None:
        held.is_done = is_done
        self._finish(held)

    def _tell_started(self, held: Held) -> None:
        stream = self._route()
        if held.is_over or stream is None:
            return
        started = worker_pb2.Started(started_ms=max(0, held.worker_started_ms))
        started.leases.add(token=held.token, execution_ids=[held.execution])
        self._send(stream, worker_pb2.WorkerMessage(started=started))

    def _finish(self, held: Held) -> None:
        """The handler returns or raises."""
        if held.is_over:
            return
        if not self._may_run:
            self._stop_all()
            return
        result = outcome(held, self._rng, ended_ms=self._wall_ms, cluster_ms=self._cluster_ms())
        if result.succeeded:
            result.returned = result_of(held.execution, held.token)
        self._end_run(held, succeeded=result.succeeded, put_off=result.snoozes)
        self._report_soon(result)
        self._run_more()

    def _report_soon(self, result: Result) -> None:
        self._unsent.append(result)
        self._flush_soon()

    def _end_run(self, held: Held, *, succeeded: bool, put_off: bool = False) -> None:
        held.is_over = True
        self._running.remove(held)
        self._soon(0, self._run_more)
        self._record(held, ended_ms=self._cluster_ms(), succeeded=succeeded, put_off=put_off)

    def _record(self, held: Held, *, ended_ms: int | None, succeeded: bool, put_off: bool = False) -> None:
        process = self.number * 1_000 + self.life
        self._ledger.runs.append(held.run(process, ended_ms, succeeded=succeeded, put_off=put_off))

    # --- results ----------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._soon(GATHER_US, self._flush)

    def _flush(self, avoid: Stream | None = None) -> None:
        self._is_flush_due = False
        stream = self._route(avoid)
        if stream is None or not self._unsent:
            # The next stream that is ready flushes.
            return
        results, self._unsent = self._unsent, []
        for succeeded in (True, False):
            batch = [result for result in results if result.succeeded is succeeded]
            if batch:
                self._report(stream, batch)
                if self.misbehaves and self._rng.random() < 0.3:
                    self._report(self._route() or stream, [replace(result, is_copy=True) for result in batch])
        if self.misbehaves and self._rng.random() < 0.3:
            self._lie(stream)

    def _report(self, stream: Stream, batch: list[Result]) -> None:
        stream.sequence += 1
        sequence = stream.sequence
        self._unconfirmed[stream, sequence] = batch
        self._send(stream, report_message(batch, sequence))

        def no_answer() -> None:
            again = self._unconfirmed.pop((stream, sequence), None)
            if again is not None:
                self._send_again(again, avoid=stream)

        self._soon(CONFIRM_US, no_answer)

    def _send_again(self, results: Iterable[Result], avoid: Stream | None = None) -> None:
        self._unsent.extend(result for result in results if not result.is_copy)
        if avoid is None:
            self._flush_soon()
        else:
            self._flush(avoid)

    def _lie(self, stream: Stream) -> None:
        """Claims success under tokens that were never granted for these executions."""
        if not self._past:
            return
        token, execution = self._rng.choice(self._past[-40:])
        claims = [(token + self._rng.choice((-1, 1, 1 << 16)), execution), (token, execution + 1_000_000)]
        claims = [claim for claim in claims if claim not in self._ledger.granted]
        stream.sequence += 1
        message = worker_pb2.WorkerMessage()
        message.ack.sequence = stream.sequence
        for token, execution in claims:
            message.ack.leases.add(token=token, execution_ids=[execution], started_ms=[1], ended_ms=[2])
        self._claims[stream, stream.sequence] = claims
        self._send(stream, message)

    def _confirmed(self, stream: Stream, confirm: worker_pb2.Confirm) -> None:
        stale = set(confirm.stale_execution_ids)
        claims = self._claims.pop((stream, confirm.sequence), None)
        if claims is not None:
            for token, execution in claims:
                if not confirm.retry and execution not in stale:
                    raise Violation(f"an ack of execution {execution} under the made-up token {token} was accepted")
            return
        results = self._unconfirmed.pop((stream, confirm.sequence), None)
        if results is None:
            return
        if confirm.retry:
            self._soon(self._rng.randint(10, 300) * MILLISECOND_US, partial(self._send_again, results))
            return
        for result in results:
            held = result.held
            if held.execution in stale:
                self._ledger.count("stale results")
            elif result.succeeded:
                self._ledger.count("confirmed acks")
                self._ledger.results[held.execution] = result.returned
                self._ledger.completions.append(Completion(held.key, held.scheduled_for_ms, held.execution, held.token))
            else:
                self._ledger.count("confirmed snoozes" if result.snoozes else "confirmed failures")
                if result.retry_after_ms:
                    again_ms = result.cluster_ms + result.retry_after_ms
                    self._ledger.not_before_ms[held.execution, held.token] = again_ms
                if not result.snoozes:
                    self._ledger.failures.append((held.execution, held.token))
