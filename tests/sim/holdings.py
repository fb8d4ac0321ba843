"""What a simulated worker holds: executions, their results, and the streams they came on."""

from dataclasses import dataclass

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
    key: str
    max_attempts: int
    started_ms: int = 0
    worker_started_ms: int = 0
    has_begun: bool = False
    is_over: bool = False

    def run(self, process: int, ended_ms: int | None, *, succeeded: bool) -> Run:
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
        )


@dataclass(slots=True)
class Result:
    """What became of an execution, until the cluster has confirmed it."""

    held: Held
    succeeded: bool
    ended_ms: int
    permanent: bool = False
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
