"""What handlers ask for while they run: keys, so that something is done once, and results of what ran before them."""

import random
from collections.abc import Callable

from google.protobuf.message import Message

from raftsched.model.errors import ExecutionNotFound, KeyNotOwned, LeaseOver, NoResult, RaftschedError
from raftsched.v1 import dedup_pb2, execution_pb2, job_pb2
from tests.sim.calls import Answer
from tests.sim.holdings import Held
from tests.sim.keybook import Done
from tests.sim.ledger import Ledger
from tests.sim.network import Network
from tests.sim.node import SimNode
from tests.sim.timeline import MILLISECOND_US, SECOND_US, Timeline, Violation

CALL_TIMEOUT_US = 4 * SECOND_US
SHARED_KEYS = 2
KEEP_MS = (2_000, 60_000)


class Asking:
    """Of one worker. `guard()` gives what runs a call while the worker lives on, and is not stalled."""

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
        guard: Callable[[], Callable[[Callable[[], None]], None]],
    ) -> None:
        self._number = number
        self._nodes = nodes
        self._timeline = timeline
        self._network = network
        self._rng = rng
        self._ledger = ledger
        self._cluster_ms = cluster_ms
        self._guard = guard

    def _soon(self, delay_us: int, call: Callable[[], None]) -> None:
        run = self._guard()
        self._timeline.after(delay_us, lambda: run(call))

    def _call(self, method: str, request: Message, then: Callable[[Answer], None]) -> None:
        """Asks any node; without an answer in time, `then` gets an empty one. Nobody is told in another life."""
        number, node, run = self._number, self._rng.choice(self._nodes), self._guard()
        waiting = [then]

        def answered(found: Answer) -> None:
            run(lambda: waiting.pop()(found) if waiting else None)

        def back(found: Answer) -> None:
            if self._network.can_reach(node.number, number):
                self._timeline.after(self._network.delay_us(node.number, number), lambda: answered(found))

        def arrive() -> None:
            if node.is_answering:
                node.serve(method, request, node.loop.time() + CALL_TIMEOUT_US / SECOND_US, back)

        if self._network.can_reach(number, node.number):
            self._timeline.after(self._network.delay_us(number, node.number), arrive)
        self._timeline.after(CALL_TIMEOUT_US, lambda: answered(Answer()))

    # --- keys -------------------------------------------------------------------------------------------------------

    def do_once(self, held: Held, then: Callable[[bool], None]) -> None:
        """Claims a key, does what takes a moment, and completes it. `then(whether it is done)`."""
        rng = self._rng
        key = f"{held.key}/{held.scheduled_for_ms}" if rng.random() < 0.5 else f"shared-{rng.randrange(SHARED_KEYS)}"
        keep_ms = rng.choice(KEEP_MS)
        known = self._ledger.keys.done.get(key)
        request = dedup_pb2.ClaimRequest(key=key, token=held.token, execution_id=held.execution)
        request.keep.FromMilliseconds(keep_ms)

        def answered(found: Answer) -> None:
            if found.response is None:
                if found.error is not None:
                    self._refused(found.error, LeaseOver)
                then(False)
                return
            self._check_claim(known, held, key, found.response)
            if found.response.claimed:
                takes_us = rng.randint(MILLISECOND_US, 2 * SECOND_US)
                self._soon(takes_us, lambda: self._complete(held, key, keep_ms, then))
            else:
                self._ledger.count("keys done before" if found.response.completed else "keys of others")
                then(found.response.completed)

        self._call("claim", request, answered)

    def _check_claim(self, known: Done | None, held: Held, key: str, response: dedup_pb2.ClaimResponse) -> None:
        if known is None or known.until_ms <= self._cluster_ms():
            return
        if response.claimed or not response.completed or response.result != known.result:
            raise Violation(f"key {key} was done by {known.token}, and {held.token} was told {response}")

    def _complete(self, held: Held, key: str, keep_ms: int, then: Callable[[bool], None]) -> None:
        result = f"{key} by {held.token}".encode()
        until_ms = self._cluster_ms() + keep_ms

        def answered(found: Answer) -> None:
            if found.response is not None:
                self._ledger.count("keys done")
                before = self._ledger.keys.done.get(key)
                if before is not None and before.token != held.token and before.until_ms > self._cluster_ms():
                    raise Violation(f"key {key} was done by {before.token}, and done again by {held.token}")
                self._ledger.keys.done[key] = Done(held.token, result, until_ms)
            elif found.error is not None:
                self._refused(found.error, KeyNotOwned)
            then(found.response is not None)

        request = dedup_pb2.CompleteRequest(key=key, token=held.token, result=result)
        self._call("complete", request, answered)

    def _refused(self, error: RaftschedError, expected: type[RaftschedError]) -> None:
        if isinstance(error, expected):
            self._ledger.count(f"keys refused {error.reason}")
        elif error.code.name not in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"):
            raise Violation(f"a key was refused: {error!r}")

    # --- results ----------------------------------------------------------------------------------------------------

    def read_upstream(self, held: Held) -> None:
        """The result of one that ran before it, which must be what that one returned."""
        execution = self._rng.choice(held.upstreams)
        request = execution_pb2.GetResultRequest(execution_id=execution, read=job_pb2.ReadOptions(linearizable=True))

        def answered(found: Answer) -> None:
            if isinstance(found.error, ExecutionNotFound):
                is_deleted = any(record.is_delete_asked for record in self._ledger.jobs.values())
                if execution not in self._ledger.archive.executions and not is_deleted:
                    raise Violation(f"execution {execution}, upstream of {held.execution}, is not there")
            elif isinstance(found.error, NoResult):
                self._ledger.count("upstreams without a result")
            elif found.response is not None:
                self._ledger.count("results read")
                result = found.response.result.decode()
                if not is_result_of(result, execution):
                    raise Violation(f"execution {execution} has the result {result!r}")
                self._ledger.results_read[execution] = result

        self._call("result", request, answered)


def result_of(execution: int, token: int) -> str:
    """What a run returns: every second execution something."""
    return f"{execution} under {token}" if execution % 2 else ""


def is_result_of(result: str, execution: int) -> bool:
    """Whether some run of the execution may have returned it."""
    return result.startswith(f"{execution} under ") if execution % 2 else not result
