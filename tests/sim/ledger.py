"""What clients asked for, what workers did, and what the cluster confirmed: the material that is judged at the end."""

from dataclasses import dataclass, field

from tests.checker import Completion, Run


@dataclass(slots=True)
class JobRecord:
    """A job that a client asked for; its payload is `key`. Times are of the replicated clock."""

    key: str
    # How its handler behaves, see worker.py.
    handler: str
    request_id: str
    asked_ms: int
    # A one-off's time; an interval's start.
    due_ms: int = 0
    every_ms: int = 0
    # Cron: every so many minutes, UTC.
    cron_minutes: int = 0
    name: str = ""
    # A value of raftsched.v1.OverlapPolicy; 0 for what runs once.
    overlap: int = 0
    fires_latest_only: bool = False
    # Once confirmed.
    job_id: int = 0
    confirmed_ms: int | None = None
    cancel_asked_ms: int | None = None
    cancel_confirmed_ms: int | None = None

    @property
    def is_recurring(self) -> bool:
        return bool(self.every_ms or self.cron_minutes)


@dataclass(slots=True)
class RunRecord:
    """A run under way or over."""

    run: Run
    job_id: int


@dataclass(slots=True)
class Ledger:
    """Filled by clients and workers."""

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
    # (token, execution) that some worker was given, ever.
    granted: set[tuple[int, int]] = field(default_factory=set)
    calls: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1
