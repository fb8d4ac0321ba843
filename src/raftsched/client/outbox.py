"""Results on their way to the cluster: gathered into columns, sent in batches, and sent again until confirmed."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from raftsched.client.failures import Report
from raftsched.client.leases import HeldBlock
from raftsched.v1 import worker_pb2

logger = logging.getLogger(__name__)

# A message costs some 150 µs, whatever is in it; an execution in it some 50 ns.
_FLUSH_AFTER_S = 0.002
_FLUSH_AT = 1_024
# Results go through the log: a message with many would hold up everything behind it.
_FLUSH_AT_BYTES = 1 << 20
# Each may carry 4 KiB of error.
_FLUSH_FAILURES_AT = 256
# A node says `retry` when the quorum did not answer it for 5 s: only one that is gone is silent for longer.
_CONFIRM_TIMEOUT_S = 6.0
_LONGEST_CONFIRM_TIMEOUT_S = 30.0
_RETRY_AFTER_S = 0.2
_LOGGED_IDS = 20


class Route(Protocol):
    """A stream that messages can be sent on."""

    def send(self, message: worker_pb2.WorkerMessage) -> None:
        """Never waits, and does not keep the message."""


# The stream to use now, another than the given one if possible; None when no node is connected.
ChooseRoute = Callable[[Route | None], Route | None]


@dataclass(slots=True)
class _Sent:
    """An Ack or Fail that is not confirmed. Without a route, it waits for one."""

    message: worker_pb2.WorkerMessage
    blocks: list[tuple[HeldBlock, int]]
    executions: int
    route: Route | None = None
    sent_s: float = 0.0
    overdue_at_s: float = 0.0
    timeout_s: float = _CONFIRM_TIMEOUT_S


@dataclass(slots=True)
class OutboxCounts:
    """Executions, since the outbox began."""

    succeeded: int = 0
    failed: int = 0
    snoozed: int = 0
    confirmed: int = 0
    stale: int = 0


class Outbox:
    """Results under one session. `settled(block, count)` is called for what is confirmed, accepted or stale;
    `on_flush` after results have left, when new work may be asked for."""

    def __init__(
        self,
        *,
        choose_route: ChooseRoute,
        settled: Callable[[HeldBlock, int], None],
        on_flush: Callable[[], None],
        counts: OutboxCounts,
    ) -> None:
        self.counts = counts
        # Results that were not sent yet, and those that were sent and not confirmed.
        self.pending = 0
        self.unconfirmed = 0
        self._choose_route = choose_route
        self._settled = settled
        self._on_flush = on_flush
        self._dirty: list[HeldBlock] = []
        self._result_bytes = 0
        self._failures: list[tuple[HeldBlock, worker_pb2.Failure]] = []
        self._sent: dict[int, _Sent] = {}
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._confirmed: asyncio.Future[None] | None = None
        self._closed = False

    async def wait_confirmed(self) -> None:
        """Sends what has gathered, and returns when everything is confirmed."""
        self.flush()
        while self._sent:
            self._confirmed = asyncio.get_running_loop().create_future()
            await self._confirmed

    def succeeded(
        self, block: HeldBlock, execution_id: int, started_ms: int, ended_ms: int, result: bytes = b""
    ) -> None:
        """Called once per execution, so it does little. `result` is at most 64 KiB."""
        if not block.done_ids:
            self._dirty.append(block)
        block.done_ids.append(execution_id)
        block.done_started_ms.append(started_ms)
        block.done_ended_ms.append(ended_ms)
        if result or block.done_results:
            self._add_result(block, result)
        self.pending += 1
        if self._timer is None:
            self._start_timer()
        elif self.pending >= _FLUSH_AT or self._result_bytes >= _FLUSH_AT_BYTES:
            self.flush()

    def failed(self, block: HeldBlock, execution_id: int, started_ms: int, ended_ms: int, report: Report) -> None:
        """The handler failed, or has put the execution off."""
        failure = worker_pb2.Failure(
            token=block.token,
            execution_id=execution_id,
            started_ms=started_ms,
            ended_ms=ended_ms,
            error=report.error,
            permanent=report.permanent,
            error_class=report.classes[0] if report.classes else "",
            error_bases=report.classes[1:],
            retry_after_ms=report.retry_after_ms,
            snooze=report.snooze,
        )
        self._failures.append((block, failure))
        self.pending += 1
        if self._timer is None:
            self._start_timer()
        elif len(self._failures) >= _FLUSH_FAILURES_AT:
            self.flush()

    def flush(self) -> None:
        """Sends what has gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        if self._dirty:
            self._send_new(self._take_completed())
        if self._failures:
            self._send_new(self._take_failures())
        self.pending = self._result_bytes = 0
        self._on_flush()

    def confirm(self, route: Route, confirm: worker_pb2.Confirm) -> None:
        """Takes a node's answer. One to a message that was sent again since is of no use: its repeat gets one too."""
        sent = self._sent.get(confirm.sequence)
        if sent is None:
            return
        if confirm.retry:
            self._retry_later(confirm.sequence, route)
            return
        del self._sent[confirm.sequence]
        self.unconfirmed -= sent.executions
        stale = len(confirm.stale_execution_ids)
        self.counts.confirmed += sent.executions - stale
        self.counts.stale += stale
        if stale:
            logger.info(
                "%d results came too late: another lease, a timeout or a cancel was first",
                stale,
                extra={"executions": list(confirm.stale_execution_ids[:_LOGGED_IDS])},
            )
        for block, count in sent.blocks:
            self._settled(block, count)
        if self._confirmed is not None and not self._sent and not self._confirmed.done():
            self._confirmed.set_result(None)

    def route_lost(self, route: Route) -> None:
        """Sends again, another way, what was sent on a stream that ended."""
        self._repeat([sequence for sequence, sent in self._sent.items() if sent.route is route], avoid=route)

    def route_gained(self) -> None:
        """Sends what had no stream to go by."""
        self._repeat([sequence for sequence, sent in self._sent.items() if sent.route is None], avoid=None)

    def waits_on(self, route: Route, since_s: float) -> bool:
        """Whether something that was sent on that stream before then is not confirmed."""
        return any(sent.route is route and sent.sent_s < since_s for sent in self._sent.values())

    def repeat_overdue(self) -> None:
        """Sends again, another way, what was not confirmed in time."""
        now_s = time.monotonic()
        for sequence, sent in list(self._sent.items()):
            if sent.route is not None and now_s >= sent.overdue_at_s:
                sent.timeout_s = min(sent.timeout_s * 2, _LONGEST_CONFIRM_TIMEOUT_S)
                self._repeat([sequence], avoid=sent.route)

    def close(self) -> int:
        """Forgets everything: the session is over. Returns how many results were not confirmed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        forgotten = self.pending + self.unconfirmed
        self._dirty.clear()
        self._failures.clear()
        self._sent.clear()
        self.pending = self.unconfirmed = 0
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_result(None)
        return forgotten

    def _add_result(self, block: HeldBlock, result: bytes) -> None:
        """A column only where some handler returned something: those before it returned nothing."""
        if not block.done_results:
            block.done_results = [b""] * (len(block.done_ids) - 1)
        block.done_results.append(result)
        self._result_bytes += len(result)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_FLUSH_AFTER_S, self.flush)

    def _take_completed(self) -> _Sent:
        message = worker_pb2.WorkerMessage()
        blocks: list[tuple[HeldBlock, int]] = []
        executions = 0
        for block in self._dirty:
            count = len(block.done_ids)
            message.ack.leases.add(
                token=block.token,
                execution_ids=block.done_ids,
                started_ms=block.done_started_ms,
                ended_ms=block.done_ended_ms,
                results=block.done_results,
            )
            block.done_ids, block.done_started_ms, block.done_ended_ms, block.done_results = [], [], [], []
            blocks.append((block, count))
            executions += count
        self._dirty.clear()
        self.counts.succeeded += executions
        return _Sent(message, blocks, executions)

    def _take_failures(self) -> _Sent:
        message = worker_pb2.WorkerMessage()
        message.fail.failures.extend(failure for _, failure in self._failures)
        blocks = [(block, 1) for block, _ in self._failures]
        self._failures.clear()
        snoozed = sum(failure.snooze for failure in message.fail.failures)
        self.counts.snoozed += snoozed
        self.counts.failed += len(blocks) - snoozed
        return _Sent(message, blocks, len(blocks))

    def _send_new(self, sent: _Sent) -> None:
        self.unconfirmed += sent.executions
        self._send(sent, avoid=None)

    def _send(self, sent: _Sent, *, avoid: Route | None) -> None:
        """Every sending has a number of its own, so that numbers ascend on each stream."""
        self._sequence += 1
        kind = sent.message.WhichOneof("message")
        (sent.message.ack if kind == "ack" else sent.message.fail).sequence = self._sequence
        self._sent[self._sequence] = sent
        sent.route = self._choose_route(avoid)
        sent.sent_s = time.monotonic()
        sent.overdue_at_s = sent.sent_s + sent.timeout_s
        if sent.route is not None:
            sent.route.send(sent.message)

    def _repeat(self, sequences: list[int], *, avoid: Route | None) -> None:
        for sequence in sequences:
            sent = self._sent.pop(sequence, None)
            if sent is not None:
                self._send(sent, avoid=avoid)

    def _retry_later(self, sequence: int, route: Route) -> None:
        """The node has no quorum to ask: elsewhere there may be one, but not at once."""

        def again() -> None:
            if not self._closed:
                self._repeat([sequence], avoid=route)

        asyncio.get_running_loop().call_later(_RETRY_AFTER_S, again)
