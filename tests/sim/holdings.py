"""What a simulated worker holds: executions, their results, and the streams they came on."""

from dataclasses import dataclass, field

from raftsched.v1 import worker_pb2
from tests.checker import Run
from tests.sim.network import Connection
from tests.sim.node import SimNode


@dataclass(slots=True, eq=False)
class Held:
    """An execution that a worker holds under a token."""

    token: int
    execution: int
    job_id: int
    scheduled_for_ms: int
    attempt: int
    handler: str
    payload: str
    max_attempts: int
    started_ms: int = 0
    worker_started_ms: int = 0
    has_begun: bool = False
    is_over: bool = False
    # Executions that ran before it, if it depends on some.
    upstreams: list[int] = field(default_factory=list)
    # Of one that was to do something once: whether that is done.
    is_done: bool = False

    @property
    def key(self) -> str:
        """The job's, with which every payload begins."""
        return self.payload.partition("/")[0]

    def run(self, process: int, ended_ms: int | None, *, succeeded: bool, put_off: bool = False) -> Run:
        """The run as its process writes it down."""
        return Run(
            key=self.key,
            started_ms=self.started_ms,
            ended_ms=ended_ms,
            succeeded=succeeded,
            process=process,
            scheduled_for_ms=self.scheduled_for_ms,
            attempt=self.attempt,
            execution=self.execution,
            token=self.token,
            put_off=put_off,
        )


@dataclass(slots=True)
class Result:
    """What became of an execution, until the cluster has confirmed it."""

    held: Held
    succeeded: bool
    ended_ms: int
    # When it ended by the replicated clock.
    cluster_ms: int
    permanent: bool = False
    # Of a failure: to be tried again after so long; or no failure at all, it just wants to.
    retry_after_ms: int = 0
    snoozes: bool = False
    error_class: str = ""
    returned: str = ""
    # Sent beside the same result, and never again.
    is_copy: bool = False


@dataclass(slots=True, eq=False)
class Stream:
    """To one node."""

    node: SimNode
    connection: Connection
    is_ready: bool = False
    credit: int = 0
    # Of the credit, what may come yet or has come and waits for its turn.
    load: int = 0
    sequence: int = 0


def report_message(batch: list[Result], sequence: int) -> worker_pb2.WorkerMessage:
    """Tells of results that are all successes, or all not."""
    message = worker_pb2.WorkerMessage()
    if batch[0].succeeded:
        message.ack.sequence = sequence
        for result in batch:
            held = result.held
            message.ack.leases.add(
                token=held.token,
                execution_ids=[held.execution],
                started_ms=[max(0, held.worker_started_ms)],
                ended_ms=[max(0, result.ended_ms)],
                results=[result.returned.encode()] if result.returned else [],
            )
    else:
        message.fail.sequence = sequence
        for result in batch:
            message.fail.failures.add(
                token=result.held.token,
                execution_id=result.held.execution,
                started_ms=max(0, result.held.worker_started_ms),
                ended_ms=max(0, result.ended_ms),
                error="as told",
                permanent=result.permanent,
                retry_after_ms=result.retry_after_ms,
                snooze=result.snoozes,
                error_class=result.error_class,
            )
    return message


def held_of(batch: worker_pb2.LeaseBatch) -> list[Held]:
    """The executions of a batch."""
    upstreams = {one.execution_id: [up.execution_id for up in one.executions] for one in batch.upstreams}
    found = []
    for at, execution in enumerate(batch.execution_ids):
        kind = batch.kinds[batch.kind_indexes[at] if batch.kind_indexes else 0]
        held = Held(
            batch.token,
            execution,
            batch.job_ids[at],
            batch.scheduled_for_ms[at],
            batch.attempts[at] if batch.attempts else 1,
            kind.handler,
            (batch.payloads[at] if batch.payloads else b"").decode(),
            kind.max_attempts,
            upstreams=upstreams.get(execution, []),
        )
        found.append(held)
    return found
