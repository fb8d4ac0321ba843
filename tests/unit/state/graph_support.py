"""Graphs of jobs, made and driven through the machine."""

from collections.abc import Mapping, Sequence

from raftsched.internal.v1 import command_pb2
from raftsched.model.dag import Rule
from raftsched.state.results import JobsCreated
from raftsched.store import keys, rows
from raftsched.v1 import job_pb2
from tests.unit.state.support import MINUTE_MS, SUCCEEDED, Node, profile

ALL_SUCCESS, ALL_DONE, ANY_SUCCESS, NONE_FAILED = Rule


def graph_command(
    upstreams: Sequence[Sequence[int]] = (),
    *,
    rules: Mapping[int, Rule] | None = None,
    outside: Mapping[int, Sequence[int]] | None = None,
    every_ms: int = 0,
    names: Sequence[str] = (),
    due_ms: int | None = None,
    node: Node | None = None,
    attempts: int = 1,
) -> command_pb2.CreateJobs:
    """A job for each list of positions it depends on; those of an empty one are due, or recurring with `every_ms`.

    Job `i` has the handler "ni". `outside[i]` holds ids of other jobs that it depends on.
    """
    command = command_pb2.CreateJobs(nodes=names)
    if every_ms:
        command.schedules.add(schedule=command_pb2.Schedule(every_ms=every_ms).SerializeToString())
    known: dict[bytes, int] = {}
    for number, positions in enumerate(upstreams):
        ids = (outside or {}).get(number, ())
        depends = bool(positions or ids)
        rule = (rules or {}).get(number, ALL_SUCCESS) if depends else 0
        settings = profile(max_attempts=attempts, dependency_rule=rule, overlap=job_pb2.OVERLAP_POLICY_ALLOW)
        place = known.setdefault(settings.SerializeToString(deterministic=True), len(known))
        first_ms = due_ms if due_ms is not None else node.now_ms if node is not None else 0
        command.jobs.add(
            profile=place,
            schedule=0 if depends else len(command.schedules),
            due_ms=0 if depends else first_ms,
            upstreams=keys.pack_ids(ids),
            upstream_positions=positions,
        )
    command.profiles.extend(known)
    return command


class Graph:
    """A node, the session that works for it, and the leases that are held."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.session = node.open_session(ttl_ms=10_000_000)
        # Execution -> token.
        self.held: dict[int, int] = {}

    def create(self, upstreams: Sequence[Sequence[int]], **settings: object) -> list[int]:
        command = graph_command(upstreams, node=self.node, **settings)  # type: ignore[arg-type]
        return list(self.node.want(JobsCreated, command).job_ids)

    def take(self) -> dict[int, list[int]]:
        """Fires and leases what is ready; all that is held, by job."""
        self.node.fire()
        leased = self.node.lease(self.session)
        self.held.update(dict.fromkeys(leased.executions, leased.token))
        by_job: dict[int, list[int]] = {}
        for execution in self.held:
            by_job.setdefault(self.node.execution(execution).job, []).append(execution)
        return by_job

    def finish(self, job: int, *, fail: bool = False) -> int:
        """Ends the oldest execution of the job that is held or ready."""
        execution = self.take()[job][0]
        token = self.held.pop(execution)
        assert not (self.node.fail if fail else self.node.ack)(token, [execution])
        return execution

    def drain(self) -> int:
        """Ticks until the work list is empty; how many entries that took."""
        for count in range(10_000):
            if not self.work():
                return count
            self.node.tick()
        raise AssertionError("the work list does not become empty")

    def work(self) -> int:
        """Rows of the work list."""
        return sum(key.startswith(keys.NO_JOB) for key, _ in self.node.table("waits"))

    def state(self, job: int) -> int:
        return self.node.job(job).state

    def fired(self, job: int) -> int:
        """How many executions the job has had."""
        return len(self.node.executions_of(job))

    def times(self, job: int) -> list[int]:
        """Scheduled times of its executions in minutes, oldest first."""
        return [row.scheduled_for_ms // MINUTE_MS for row in reversed(self.node.executions_of(job))]

    def run_all(self) -> None:
        """Runs whatever becomes ready, until nothing does."""
        while True:
            self.drain()
            if not self.take():
                return
            for execution, token in list(self.held.items()):
                if self.node.state_of(execution) != SUCCEEDED:
                    self.node.ack(token, [execution])
            self.held.clear()


BLOCKED, FIRED, UPSTREAM_FAILED = rows.JOB_BLOCKED, rows.JOB_FIRED, rows.JOB_UPSTREAM_FAILED
