"""What clients asked for, what workers did, and what the cluster confirmed: the material that is judged at the end."""

from dataclasses import dataclass, field

from raftsched.v1 import job_pb2
from tests.checker import Completion, Run
from tests.sim.archive import Archive
from tests.sim.history import History
from tests.sim.keybook import KeyBook
from tests.sim.specs import Spec


@dataclass(slots=True)
class Trigger:
    """A run that a client asked for beside a job's schedule."""

    # Empty: that of the job.
    payload: str
    # Once confirmed: what it was told.
    is_confirmed: bool = False
    # 0: skipped, or it waits.
    execution: int = 0
    scheduled_for_ms: int = 0
    skipped: bool = False


@dataclass(slots=True)
class JobRecord:
    """A job that a client asked for; its payload is `key`. Times are of the replicated clock."""

    key: str
    # How its handler behaves, see worker.py.
    handler: str
    request_id: str
    asked_ms: int
    # A one-off's time.
    due_ms: int = 0
    # The earliest time that it was given later on, 0: none.
    earliest_ms: int = 0
    # Of a recurring one; later ones that were asked for.
    spec: Spec | None = None
    later_specs: list[Spec] = field(default_factory=list)
    name: str = ""
    # Values of raftsched.v1.OverlapPolicy and CatchUpPolicy; 0 for a one-off.
    overlap: int = 0
    catch_up: int = 0
    # Whatever else it was created with.
    settings: job_pb2.Job = field(default_factory=job_pb2.Job)
    # What it was to have later on, policies included.
    later_settings: list[job_pb2.Job] = field(default_factory=list)
    # In a workflow: keys of the jobs that it depends on, by which rule, and whether it has an instance for each tick.
    is_node: bool = False
    upstreams: list[str] = field(default_factory=list)
    rule: int = 0
    follows_ticks: bool = False
    # Once confirmed.
    job_id: int = 0
    confirmed_ms: int | None = None
    cancel_asked_ms: int | None = None
    cancel_confirmed_ms: int | None = None
    is_pause_asked: bool = False
    is_delete_asked: bool = False
    is_deleted: bool = False
    # From when and before when ticks were to be run that are past.
    backfills: list[tuple[int, int]] = field(default_factory=list)
    # By request id.
    triggers: dict[str, Trigger] = field(default_factory=dict)

    @property
    def is_recurring(self) -> bool:
        return self.spec is not None

    @property
    def all_settings(self) -> list[job_pb2.Job]:
        """All that it may have had at some time, policies included."""
        first = job_pb2.Job()
        first.CopyFrom(self.settings)
        first.overlap, first.catch_up = self.overlap, self.catch_up  # type: ignore[assignment]
        return [first, *self.later_settings]


@dataclass(slots=True)
class RunRecord:
    """A run under way or over."""

    run: Run
    job_id: int


@dataclass(slots=True)
class Ledger:
    """Filled by clients and workers."""

    # What is not there any more, since it was kept for long enough.
    archive: Archive = field(default_factory=Archive)
    history: History = field(default_factory=History)

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    jobs_asked: int = 0
    runs: list[Run] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    # (execution, token) that the cluster has confirmed as failed.
    failures: list[tuple[int, int]] = field(default_factory=list)
    # Dead letters that were replayed, and as what.
    replays: dict[int, int] = field(default_factory=dict)
    # The highest index that any answer to a change was given at.
    answered_index: int = 0
    # Executions whose handlers began, newest last, and with which payload.
    begun: list[int] = field(default_factory=list)
    payloads: dict[int, str] = field(default_factory=dict)
    # Executions that a client wanted cancelled; whether they were at once.
    cancels_asked: set[int] = field(default_factory=set)
    cancels_confirmed: dict[int, bool] = field(default_factory=dict)
    # (execution, token) -> before which time of the replicated clock no later lease of it may begin to run.
    not_before_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    # (token, execution) that some worker was given, ever.
    granted: set[tuple[int, int]] = field(default_factory=set)
    keys: KeyBook = field(default_factory=KeyBook)
    # What executions returned, as was confirmed, and as was read.
    results: dict[int, str] = field(default_factory=dict)
    results_read: dict[int, str] = field(default_factory=dict)
    # Names of those that were ever asked for.
    calendars: set[str] = field(default_factory=set)
    calls: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1
