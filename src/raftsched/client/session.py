"""What a worker and the cluster know of each other under one session: leases held, results due, how long it lasts."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from raftsched.client.context import StopReason
from raftsched.client.dedup import HandlerCalls
from raftsched.client.handlers import HandlerRegistry
from raftsched.client.leases import HeldBlock, LeaseBook, Released, release_message
from raftsched.client.outbox import ChooseRoute, Outbox, OutboxCounts, Route
from raftsched.client.runners import RunnerPool, Running
from raftsched.v1 import worker_pb2

logger = logging.getLogger(__name__)

# Handlers are stopped this much before the session may end: long enough to kill a process or cancel a task.
_MARGIN_SHARE = 0.1
_LONGEST_MARGIN_S = 1.0
# A heartbeat that is not answered within this share of the interval is repeated through another node.
_PATIENCE_SHARE = 1 / 3
# Handlers that began within this share a message. Their results carry the exact times.
_STARTED_TOGETHER_MS = 50
# Leases of which executions were cancelled before they arrived: they may still come, on another stream.
_MOST_REFUSED = 1_000

# How long a cancel may take after its worker has dropped the execution.
_RELEASE_DROPPED_AFTER_S = 5.0
_STOP_REASONS = {
    worker_pb2.CANCEL_REASON_RUN_TIMEOUT: StopReason.RUN_TIMEOUT,
    worker_pb2.CANCEL_REASON_LEASE_LOST: StopReason.LEASE_LOST,
    worker_pb2.CANCEL_REASON_REPLACED: StopReason.REPLACED,
}


class Session:
    """Begins with the Hello that was sent at `opened_s`, by the monotonic clock."""

    def __init__(
        self,
        welcome: worker_pb2.Welcome,
        *,
        opened_s: float,
        handlers: HandlerRegistry,
        pool: RunnerPool,
        choose_route: ChooseRoute,
        on_flush: Callable[[], None],
        counts: OutboxCounts,
        calls: HandlerCalls,
    ) -> None:
        self.id = welcome.session
        self._calls = calls
        self.started_after_s = welcome.started_after_ms / 1000
        self.heartbeat_interval_s = welcome.heartbeat_interval_ms / 1000
        self.patience_s = self.heartbeat_interval_s * _PATIENCE_SHARE
        self._ttl_s = welcome.session_ttl_ms / 1000
        # When the newest heartbeat that is known to have renewed the session was sent.
        self.renewed_s = opened_s
        # Whether handlers were stopped because the session may have ended.
        self.lapsed = False
        self._handlers = handlers
        self._pool = pool
        self._choose_route = choose_route
        self._heartbeat_sequence = 0
        # When the newest heartbeat was sent, and those that are not answered, by sequence.
        self._heartbeat_s = opened_s
        self._heartbeats: dict[int, float] = {}
        # By token.
        self._refused: dict[int, set[int]] = {}
        # Given back on a stream, after which heartbeat; a later one that is answered there proves it arrived.
        self._released: list[tuple[Route, int, Released]] = []
        self._book = LeaseBook()
        self.outbox = Outbox(choose_route=choose_route, settled=self._book.settle, on_flush=on_flush, counts=counts)

    @property
    def stop_at_s(self) -> float:
        """When handlers have to stop unless the session is renewed before."""
        return self.renewed_s + self._ttl_s - min(self._ttl_s * _MARGIN_SHARE, _LONGEST_MARGIN_S)

    def heartbeat_due_s(self) -> float:
        """When to send the next heartbeat."""
        wait_s = self.patience_s if self._heartbeats else self.heartbeat_interval_s
        return self._heartbeat_s + wait_s

    def heartbeat(self, route: Route) -> None:
        """Sends one, with all that is held."""
        now_s = time.monotonic()
        # The answer to one that is older than the session lasts would renew nothing.
        for number in [number for number, sent_s in self._heartbeats.items() if sent_s < now_s - self._ttl_s]:
            del self._heartbeats[number]
        self._heartbeat_sequence += 1
        self._heartbeat_s = self._heartbeats[self._heartbeat_sequence] = now_s
        message = worker_pb2.WorkerMessage()
        message.heartbeat.sequence = self._heartbeat_sequence
        message.heartbeat.held_tokens.extend(self._book.tokens())
        route.send(message)

    def renewed(self, route: Route, sequence: int) -> None:
        """The cluster has taken that heartbeat."""
        sent_s = self._heartbeats.get(sequence)
        if sent_s is None:
            return
        for older in [number for number in self._heartbeats if number <= sequence]:
            del self._heartbeats[older]
        self.renewed_s = max(self.renewed_s, sent_s)
        self._released = [entry for entry in self._released if entry[0] is not route or entry[1] >= sequence]
        if self.lapsed and time.monotonic() < self.stop_at_s:
            self.lapsed = False
            logger.info("session %d is renewed again", self.id, extra={"session": self.id})

    def lapse(self) -> None:
        """The session may end before it is renewed: stops all handlers. Results that are ready are still reported.

        What is not listed by the next heartbeat that gets through is leased to others.
        """
        if self.lapsed:
            return
        self.lapsed = True
        logger.error("session %d cannot be renewed: stopping its handlers", self.id, extra={"session": self.id})
        self._stop_everything()

    def end(self) -> None:
        """The session is over: stops all handlers and forgets all results."""
        self._stop_everything()
        self._released.clear()
        forgotten = self.outbox.close()
        if forgotten:
            logger.warning("%d results were not confirmed: these executions run again", forgotten)

    def take(self, batch: worker_pb2.LeaseBatch) -> None:
        """Begins what was leased."""
        if self.lapsed or not batch.execution_ids:
            # Not held, so the next heartbeat gives it back.
            return
        block = HeldBlock(
            batch,
            handlers=self._handlers.all_for([kind.handler for kind in batch.kinds]),
            outbox=self.outbox,
            received_ms=int(time.time() * 1000),
            received_s=time.monotonic(),
            calls=self._calls,
        )
        unwanted = self._book.ids_under(block.token) | self._refused.get(block.token, set())
        self._book.add(block)
        if unwanted:
            block.dropped.update(index for index, execution_id in enumerate(block.ids) if execution_id in unwanted)
            self._book.settle(block, len(block.dropped))
        self._pool.add(block)

    def give_back_batch(self, batch: worker_pb2.LeaseBatch, route: Route) -> None:
        """Returns what was leased, unrun."""
        message = worker_pb2.WorkerMessage()
        message.release.leases.add(token=batch.token, execution_ids=batch.execution_ids)
        route.send(message)

    def give_back_unbegun(self) -> int:
        """Returns what has not begun. How much that was."""
        released = self._pool.drop_unbegun()
        for block, indexes in released:
            self._book.settle(block, len(indexes))
        self._release(released)
        return sum(len(indexes) for _, indexes in released)

    def cancel(self, route: Route, cancel: worker_pb2.CancelExecution) -> None:
        """Drops or stops an execution; answers if that is a question."""
        found = self._book.find(cancel.token, cancel.execution_id)
        if found is None:
            self._refuse(cancel.token, cancel.execution_id)
            begun = False
        else:
            block, index = found
            begun = index not in block.dropped
            if begun and self._pool.drop(block, index):
                begun = False
                self._book.settle(block, 1)
                if not cancel.question and cancel.reason == worker_pb2.CANCEL_REASON_REQUESTED:
                    self._release_dropped(cancel.token, cancel.execution_id)
            elif begun and not cancel.question:
                reason = _STOP_REASONS.get(cancel.reason, StopReason.CANCELLED)
                # A handler that was asked to stop still holds the execution: how it ends is reported.
                if self._pool.stop(block, index, reason) and reason is not StopReason.CANCELLED:
                    self._book.settle(block, 1)
        if cancel.question:
            message = worker_pb2.WorkerMessage()
            message.cancel_answer.question = cancel.question
            message.cancel_answer.begun = begun
            route.send(message)
            if not begun:
                # Should nobody cancel it after all, it must not stay with a worker that will not run it.
                asyncio.get_running_loop().call_later(
                    _RELEASE_DROPPED_AFTER_S, self._release_dropped, cancel.token, cancel.execution_id
                )

    def _release_dropped(self, token: int, execution_id: int) -> None:
        """Gives back what was dropped for a cancel; if it was cancelled, this changes nothing."""
        route = self._choose_route(None)
        if route is not None:
            message = worker_pb2.WorkerMessage()
            message.release.leases.add(token=token, execution_ids=[execution_id])
            route.send(message)

    def report_started(self, running: Sequence[Running]) -> bool:
        """Tells of handlers that run for long. False when there is no node to tell."""
        route = self._choose_route(None)
        if route is None:
            return False
        by_start: dict[int, list[Running]] = {}
        for item in running:
            by_start.setdefault(item.started_ms // _STARTED_TOGETHER_MS, []).append(item)
        for items in by_start.values():
            message = worker_pb2.WorkerMessage()
            message.started.started_ms = min(item.started_ms for item in items)
            for item in items:
                message.started.leases.add(token=item.block.token, execution_ids=[item.block.ids[item.index]])
            route.send(message)
        return True

    def route_lost(self, route: Route) -> None:
        """A stream ended: what may not have arrived goes another way."""
        self.outbox.route_lost(route)
        again = [entry for entry in self._released if entry[0] is route]
        self._released = [entry for entry in self._released if entry[0] is not route]
        for _, _, released in again:
            self._release(released)
        self._pool.report_again()

    def route_gained(self) -> None:
        """A stream is ready: what waited for one is sent."""
        self.outbox.route_gained()

    def _release(self, released: Released) -> None:
        route = self._choose_route(None)
        # Without any stream the heartbeats that come later give it back, block by block.
        if released and route is not None:
            route.send(release_message(released))
            self._released.append((route, self._heartbeat_sequence, released))

    def _refuse(self, token: int, execution_id: int) -> None:
        self._refused.setdefault(token, set()).add(execution_id)
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def _stop_everything(self) -> None:
        for block, indexes in (*self._pool.drop_unbegun(), *self._pool.stop_all(StopReason.LEASE_LOST)):
            self._book.settle(block, len(indexes))
