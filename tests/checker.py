"""Decides whether what workers ran is what the cluster had accepted: runs against schedules, after the fact.

The checker knows neither the cluster nor the workers. It is given what was accepted (Accepted), what workers wrote down
as they ran it (Run), and what the cluster says became of it (Completion, Skip), and it yields findings.

A target is a time at which a job must run. It needs a completed run of its own that started within
[target, target + allowance], or a recorded skip whose reason the test expects. Runs that name their occurrence
can serve that occurrence alone. The others are matched greedily in order of time: all windows of one job are equally
long, hence ordered by their start and by their end alike, so the earliest run that fits a target can be given to it
without loss, and greedy is exact.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job that a test created, with the times at which it must and may run.

    `key` is the test's own name for the job, which its payload carries: known even when the create was never confirmed.
    """

    key: str
    targets_ms: Sequence[int]
    # May run, need not: ticks that raced with the create or the cancel.
    optional_targets_ms: Sequence[int] = ()
    # Of both, those that are no ticks of its schedule, so that no range of skipped ticks holds them.
    beside_schedule_ms: frozenset[int] = frozenset()
    # These may have been skipped first and run later, since somebody asked for it.
    backfilled_ms: frozenset[int] = frozenset()
    # False: the create's outcome is unknown, so that every target is optional.
    confirmed: bool = True
    # When a cancel was asked for and when it was confirmed, by the clock of the test. Targets from the first on are
    # optional; those shortly before it that may have raced with it belong to the optional ones.
    cancel_requested_ms: int | None = None
    cancel_confirmed_ms: int | None = None
    # Reasons for which an occurrence may have been skipped instead.
    expected_skips: frozenset[str] = frozenset()
    # True: the handler is meant to fail, so that a failed run fulfils a target too.
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a handler, as the worker process itself wrote it down.

    `ended_ms` is None when the process died or was cancelled first. The four after `process` are None where a handler
    cannot know them. `put_off`: it asked to be run again later, which uses no attempt.
    """

    key: str
    started_ms: int
    ended_ms: int | None
    succeeded: bool = True
    process: int = 0
    scheduled_for_ms: int | None = None
    attempt: int | None = None
    execution: int | None = None
    token: int | None = None
    put_off: bool = False

    @property
    def completed(self) -> bool:
        return self.ended_ms is not None and self.succeeded


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion that the cluster accepted. Confirming the same one twice makes equal objects, hence one."""

    key: str
    scheduled_for_ms: int
    execution: int
    token: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Occurrences that the cluster recorded as not run: `count` of them, from the first to the last."""

    key: str
    first_ms: int
    last_ms: int
    count: int
    reason: str


class Kind(Enum):
    """What can be wrong."""

    UNMATCHED_TARGET = "no completed run and no expected skip for a target"
    EARLY_RUN = "a run before its time"
    OFF_SCHEDULE = "a run of an occurrence that the schedule does not have"
    UNKNOWN_JOB = "a run of a job that nobody created"
    RUN_AFTER_CANCEL = "a run that started after a confirmed cancel"
    DOUBLE_COMPLETION = "two accepted completions of one occurrence"
    SHARED_LEASE = "two runs under one execution and fencing token"
    UNEXPECTED_SKIP = "a skip whose reason was not expected, or of no occurrence"
    SKIPPED_AND_RAN = "a run of an occurrence that was recorded as skipped"
    TOO_MANY_EXTRA_RUNS = "more extra runs than leases were lost"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    key: str
    detail: str

    def __str__(self) -> str:
        return f"{self.key}: {self.kind.value}: {self.detail}"


@dataclass(slots=True)
class Report:
    """What the checker found; counts are over all jobs."""

    findings: list[Finding] = field(default_factory=list)
    targets: int = 0
    matched_by_run: int = 0
    matched_by_skip: int = 0
    runs: int = 0
    extra_runs: int = 0

    @property
    def kinds(self) -> set[Kind]:
        return {finding.kind for finding in self.findings}

    def require_clean(self) -> None:
        """Raises AssertionError with the findings, if there are any."""
        if self.findings:
            shown = "\n".join(str(finding) for finding in self.findings[:12])
            counts = Counter(finding.kind.name for finding in self.findings)
            raise AssertionError(f"{dict(counts)}\n{shown}\n{self.summary()}")

    def summary(self) -> str:
        return (
            f"{self.targets} targets: {self.matched_by_run} ran, {self.matched_by_skip} skipped as expected; "
            f"{self.runs} runs, {self.extra_runs} of them extra"
        )


def match(targets_ms: Iterable[int], starts_ms: Iterable[int], allowance_ms: int) -> list[int]:
    """Gives each target a distinct start within [target, target + allowance_ms]; returns the targets that got none.

    As few as possible are left over.
    """
    starts = sorted(starts_ms)
    unmatched = []
    position = 0
    for target in sorted(targets_ms):
        while position < len(starts) and starts[position] < target:
            position += 1
        if position < len(starts) and starts[position] <= target + allowance_ms:
            position += 1
        else:
            unmatched.append(target)
    return unmatched


def check(
    jobs: Iterable[Accepted],
    runs: Iterable[Run],
    *,
    allowance_ms: int,
    read_ms: int,
    completions: Iterable[Completion] = (),
    skips: Iterable[Skip] = (),
    lost_leases: Mapping[str, int] | None = None,
) -> Report:
    """Checks runs against what was accepted.

    `read_ms` is when the runs were collected: a target whose allowance was not over then is optional.
    `lost_leases` counts the leases of each job that ended without an answer of their worker; None: extra runs are
    counted, not bounded.
    """
    accepted = {job.key: job for job in jobs}
    runs_of: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        runs_of[run.key].append(run)
    skips_of: defaultdict[str, list[Skip]] = defaultdict(list)
    for skip in skips:
        skips_of[skip.key].append(skip)

    report = Report()
    for key in sorted(runs_of.keys() - accepted.keys()):
        report.findings += [Finding(Kind.UNKNOWN_JOB, key, _describe(run)) for run in runs_of[key]]
        report.runs += len(runs_of[key])
    for job in accepted.values():
        _JobCheck(job, runs_of[job.key], skips_of[job.key], allowance_ms, read_ms, report).check(
            None if lost_leases is None else lost_leases.get(job.key, 0)
        )
    _check_completions(completions, report)
    return report


def _check_completions(completions: Iterable[Completion], report: Report) -> None:
    of_occurrence: defaultdict[tuple[str, int], set[Completion]] = defaultdict(set)
    for completion in completions:
        of_occurrence[completion.key, completion.scheduled_for_ms].add(completion)
    for (key, scheduled_for_ms), found in of_occurrence.items():
        if len(found) > 1:
            which = ", ".join(
                f"execution {one.execution} token {one.token}" for one in sorted(found, key=lambda one: one.token)
            )
            report.findings.append(Finding(Kind.DOUBLE_COMPLETION, key, f"scheduled for {scheduled_for_ms}: {which}"))


class _JobCheck:
    """The check of one job."""

    def __init__(
        self, job: Accepted, runs: list[Run], skips: list[Skip], allowance_ms: int, read_ms: int, report: Report
    ) -> None:
        self.job = job
        self.runs = sorted(runs, key=lambda run: run.started_ms)
        self.skips = skips
        self.allowance_ms = allowance_ms
        self.report = report
        self.possible = sorted({*job.targets_ms, *job.optional_targets_ms})
        cancelled_ms = read_ms if job.cancel_requested_ms is None else job.cancel_requested_ms
        self.occurrences = frozenset(self.possible)
        self.required = [
            target
            for target in sorted(set(job.targets_ms))
            if job.confirmed and target + allowance_ms < read_ms and target < cancelled_ms
        ]

    def check(self, lost_leases: int | None) -> None:
        self.report.runs += len(self.runs)
        self.report.targets += len(self.required)
        skipped = self._check_skips()
        for run in self.runs:
            self._check_run(run)
            if run.scheduled_for_ms in skipped and run.scheduled_for_ms not in self.job.backfilled_ms:
                self._found(Kind.SKIPPED_AND_RAN, _describe(run))
        self._check_leases()
        self._check_targets(skipped)
        extra = self._extra_runs()
        self.report.extra_runs += extra
        if lost_leases is not None and extra > lost_leases:
            self._found(Kind.TOO_MANY_EXTRA_RUNS, f"{extra} extra runs, {lost_leases} lost leases")

    def _found(self, kind: Kind, detail: str) -> None:
        self.report.findings.append(Finding(kind, self.job.key, detail))

    def _check_run(self, run: Run) -> None:
        if run.scheduled_for_ms is None:
            if not self.possible or run.started_ms < self.possible[0]:
                self._found(Kind.EARLY_RUN, _describe(run))
        elif run.scheduled_for_ms not in self.occurrences:
            self._found(Kind.OFF_SCHEDULE, _describe(run))
        elif run.started_ms < run.scheduled_for_ms:
            self._found(Kind.EARLY_RUN, _describe(run))
        cancelled_ms = self.job.cancel_confirmed_ms
        if cancelled_ms is not None and run.started_ms > cancelled_ms:
            self._found(Kind.RUN_AFTER_CANCEL, f"{_describe(run)}, cancelled at {cancelled_ms}")

    def _check_leases(self) -> None:
        """A fencing token belongs to one lease, and one lease is one run."""
        leases = Counter((run.execution, run.token) for run in self.runs if run.token is not None)
        for (execution, token), count in leases.items():
            if count > 1:
                processes = sorted(
                    {run.process for run in self.runs if (run.execution, run.token) == (execution, token)}
                )
                self._found(
                    Kind.SHARED_LEASE,
                    f"execution {execution} token {token} ran {count} times, in processes {processes}",
                )

    def _check_skips(self) -> set[int]:
        """Returns the targets that expected skips account for."""
        skipped: set[int] = set()
        for skip in self.skips:
            within = [target for target in self.possible if skip.first_ms <= target <= skip.last_ms]
            if skip.first_ms < skip.last_ms:
                within = [target for target in within if target not in self.job.beside_schedule_ms]
            if skip.reason not in self.job.expected_skips:
                self._found(Kind.UNEXPECTED_SKIP, f"{skip.count} from {skip.first_ms} to {skip.last_ms}: {skip.reason}")
            elif len(within) != skip.count:
                self._found(
                    Kind.UNEXPECTED_SKIP,
                    f"{skip.count} from {skip.first_ms} to {skip.last_ms}: the schedule has {len(within)} there",
                )
            else:
                skipped.update(within)
        return skipped

    def _check_targets(self, skipped: set[int]) -> None:
        starts_of, anonymous = self._usable_starts()
        open_targets = []
        for target in self.required:
            if match([target], starts_of.get(target, ()), self.allowance_ms):
                open_targets.append(target)
            else:
                self.report.matched_by_run += 1
        unmatched = []
        for target in open_targets:
            if target in skipped:
                self.report.matched_by_skip += 1
            else:
                unmatched.append(target)
        lost = match(unmatched, anonymous, self.allowance_ms)
        self.report.matched_by_run += len(unmatched) - len(lost)
        for target in lost:
            near = [_describe(run) for run in self.runs if self._is_near(run, target)]
            self._found(Kind.UNMATCHED_TARGET, f"{target}; near it: {'; '.join(near[:5]) or 'nothing'}")

    def _usable_starts(self) -> tuple[dict[int, list[int]], list[int]]:
        """Starts of the runs that may fulfil a target: by the occurrence they name, and those that name none."""
        named: defaultdict[int, list[int]] = defaultdict(list)
        anonymous = []
        for run in self.runs:
            if not (run.completed or (self.job.fails and run.ended_ms is not None)):
                continue
            if run.scheduled_for_ms is None:
                anonymous.append(run.started_ms)
            else:
                named[run.scheduled_for_ms].append(run.started_ms)
        return named, anonymous

    def _is_near(self, run: Run, target: int) -> bool:
        return run.scheduled_for_ms == target or 0 <= run.started_ms - target <= 2 * self.allowance_ms

    def _extra_runs(self) -> int:
        """Runs beyond one for each occurrence and attempt."""
        # Those that were put off are not beyond anything.
        counted = [run for run in self.runs if not run.put_off]
        named = Counter((run.scheduled_for_ms, run.attempt) for run in counted if run.scheduled_for_ms is not None)
        extra = sum(count - 1 for count in named.values())
        anonymous = [run.started_ms for run in counted if run.scheduled_for_ms is None]
        if anonymous:
            taken = {occurrence for occurrence, _ in named}
            free = [target for target in self.possible if target not in taken]
            extra += len(anonymous) - (len(free) - len(match(free, anonymous, self.allowance_ms)))
        return extra


def _describe(run: Run) -> str:
    parts = [f"started {run.started_ms}"]
    parts.append("never ended" if run.ended_ms is None else f"{'ended' if run.succeeded else 'failed'} {run.ended_ms}")
    parts += [
        f"{name} {value}"
        for name, value in (
            ("scheduled for", run.scheduled_for_ms),
            ("attempt", run.attempt),
            ("execution", run.execution),
            ("token", run.token),
            ("process", run.process or None),
        )
        if value is not None
    ]
    return ", ".join(parts)
