"""The judgement at the end of a simulation, when all faults are over and everything should have drained."""

from collections import Counter, defaultdict
from collections.abc import Container
from dataclasses import replace

from raftsched.model.transitions import ExecutionState
from raftsched.state.machine import Machine
from raftsched.store import keys, rows
from raftsched.store.environment import Store
from raftsched.v1 import job_pb2
from tests.checker import Report, Run, check
from tests.sim import graphs
from tests.sim.accounting import OVER, Account
from tests.sim.history import History
from tests.sim.ledger import Ledger
from tests.sim.timeline import Violation
from tests.sim.witness import TRIGGERED_AHEAD_MS
from tests.unit.state.support import Node

_ONE_AT_A_TIME = (
    job_pb2.OVERLAP_POLICY_SKIP,
    job_pb2.OVERLAP_POLICY_QUEUE,
    job_pb2.OVERLAP_POLICY_REPLACE,
)
_GOES_ON = (rows.JOB_WAITING, rows.JOB_STARVED, rows.JOB_PAUSED)
_UNFIRED = {rows.JOB_WAITING, rows.JOB_STARVED}


class StateView(Node):
    """A node's state, read and checked as the tests of the state machine do."""

    def __init__(self, machine: Machine, store: Store, history: History | None = None) -> None:
        self.machine = machine
        self.store = store
        self._changed: Container[int] = history.changed if history is not None else ()

    def jobs(self) -> dict[int, rows.JobRow]:
        return {keys.unpack_id(key): rows.JobRow.unpack(value) for key, value in self.table("jobs")}

    def executions(self) -> dict[int, rows.ExecutionRow]:
        return {keys.unpack_id(key): rows.ExecutionRow.unpack(value) for key, value in self.table("executions")}

    def skips(self) -> list[tuple[int, int, rows.SkippedRow]]:
        """(job, first, row)."""
        return [(*keys.unpack_pair(key), rows.SkippedRow.unpack(value)) for key, value in self.table("skipped")]

    def waiting(self) -> list[tuple[int, int]]:
        """(job, scheduled time) of what is in overlap queues."""
        return [
            (keys.unpack_id(key[: keys.ID_BYTES]), rows.WAITING.unpack_from(value)[0])
            for key, value in self.table("extras")
            if key[keys.ID_BYTES] == keys.EXTRA_WAITING
        ]

    def check_indexes(self) -> None:
        """Raises Violation unless every index holds exactly what the rows say."""
        try:
            self.check()
        except AssertionError as error:
            raise Violation(f"the indexes and the rows differ: {error}") from error
        jobs = self.jobs()
        self._check_unfinished(jobs)
        self._check_overlap(jobs)
        self._check_calendars(jobs)
        astray = {keys.unpack_id(key[: keys.ID_BYTES]) for key, _ in self.table("extras")} - jobs.keys()
        if astray:
            raise Violation(f"extras of jobs that are not there: {sorted(astray)[:5]}")
        names = Counter(
            row.name for row in jobs.values() if row.name and row.state in (rows.JOB_WAITING, rows.JOB_STARVED)
        )
        if names and max(names.values()) > 1:
            raise Violation(f"two live jobs have the same name: {names}")

    def _check_calendars(self, jobs: dict[int, rows.JobRow]) -> None:
        """Those that a schedule uses are there."""
        there = {key for key, _ in self.table("calendars")}
        catalog = self.machine._context.catalog
        for number in {row.schedule for row in jobs.values() if row.schedule and row.state in _GOES_ON}:
            for use in catalog.schedule(keys.pack_small_id(number)).message.calendars:
                if keys.calendar(use.namespace, use.calendar) not in there:
                    raise Violation(f"schedule {number} uses calendar {use.calendar}, which is not there")

    def _check_overlap(self, jobs: dict[int, rows.JobRow]) -> None:
        """Of a job whose occurrences must not overlap, one of its schedule at most is not finished."""
        under_way = Counter(row.job for row in self.executions().values() if not row.cause and row.status not in OVER)
        for number, count in under_way.items():
            row = jobs.get(number)
            # From before its policy was changed several may be left.
            is_bound = row is not None and number not in self._changed
            if (
                count > 1
                and is_bound
                and row is not None
                and self.machine.profile(row.profile).overlap in _ONE_AT_A_TIME
            ):
                raise Violation(f"{count} occurrences of job {number} are under way at once")

    def _check_unfinished(self, jobs: dict[int, rows.JobRow]) -> None:
        """Of the jobs of which it has to be known, and of no others, it is noted what is not finished."""
        context = self.machine._context
        kept = {
            number
            for number, row in jobs.items()
            if keys.pack_id(number) in context.tracked
            or context.catalog.profile(keys.pack_small_id(row.profile)).tracks_unfinished
        }
        noted = {keys.unpack_pair(key) for key, _ in self.table("unfinished")}
        found = {
            (row.job, number) for number, row in self.executions().items() if row.status not in OVER and row.job in kept
        }
        if noted != found:
            raise Violation(f"noted as unfinished {sorted(noted - found)[:5]}, and not {sorted(found - noted)[:5]}")


def is_drained(machine: Machine, store: Store, *, until_ms: int, slack_ms: int) -> bool:
    """Whether nothing that is scheduled for a time before `until_ms` is left to do, and nothing is overdue now."""
    view = StateView(machine, store)
    if any(keys.due_ms_of(key) < machine.now_ms - slack_ms for key, _ in view.table("due")):
        return False
    if not machine._context.graph.is_empty:
        return False
    jobs = view.jobs()
    if any(row.state in _UNFIRED and row.scheduled_for_ms < until_ms for row in jobs.values()):
        return False
    if any(jobs[job].state != rows.JOB_PAUSED and time_ms < until_ms for job, time_ms in view.waiting()):
        return False
    return all(row.status in OVER or row.scheduled_for_ms >= until_ms for row in view.executions().values())


def settle(ledger: Ledger, machine: Machine, store: Store, *, until_ms: int) -> Report:
    """Judges everything that was due before `until_ms` of the replicated clock. Raises Violation."""
    view = StateView(machine, store, ledger.history)
    view.check_indexes()
    archive = ledger.archive
    jobs, executions = archive.jobs | view.jobs(), archive.executions | view.executions()
    payloads = {keys.unpack_id(key): value.decode() for key, value in view.table("payloads")} | archive.payloads
    key_of = {job: payloads.get(job, "").partition("/")[0] for job in jobs}
    _check_confirmed(ledger, jobs, executions, key_of)
    _check_runs(ledger, executions)
    _check_results(ledger, view)
    accounts = _accounts(ledger, view, jobs, executions, key_of, until_ms)
    by_key = {account.record.key: account for account in accounts}
    for account in accounts:
        if account.record.upstreams:
            # They come after their upstreams.
            graphs.expect(account, by_key, all_told=machine._context.graph.is_empty)
        account.finish()
    superseded = set().union(*(account.superseded for account in accounts))
    ran = {(run.key, run.scheduled_for_ms) for run in ledger.runs if run.scheduled_for_ms is not None}
    triggered = {(account.record.key, time_ms) for account in accounts for time_ms in account.beside}
    allowance_ms = 1 << 40
    report = check(
        [account.accepted() for account in accounts],
        [_dated(run, triggered) for run in ledger.runs if run.key in by_key or run.key not in ledger.jobs],
        allowance_ms=allowance_ms,
        read_ms=machine.now_ms + 2 * allowance_ms,
        completions=[done for done in ledger.completions if done.execution not in superseded],
        skips=[skip for account in accounts for skip in account.all_skips(ran)],
        lost_leases={account.record.key: account.lost_leases for account in accounts},
    )
    if report.findings:
        shown = "\n".join(str(finding) for finding in report.findings[:8])
        raise Violation(f"{len(report.findings)} findings of the checker\n{shown}")
    return report


def _dated(run: Run, triggered: set[tuple[str, int]]) -> Run:
    """What is triggered gets a time that no other occurrence has, and may run a moment before it."""
    scheduled_for_ms = run.scheduled_for_ms
    if scheduled_for_ms is None or (run.key, scheduled_for_ms) not in triggered:
        return run
    is_early = scheduled_for_ms - TRIGGERED_AHEAD_MS < run.started_ms < scheduled_for_ms
    return replace(run, started_ms=scheduled_for_ms) if is_early else run


def _accounts(
    ledger: Ledger,
    view: StateView,
    jobs: dict[int, rows.JobRow],
    executions: dict[int, rows.ExecutionRow],
    key_of: dict[int, str],
    until_ms: int,
) -> list[Account]:
    """Of every job that a client asked for."""
    of_job: defaultdict[int, dict[int, rows.ExecutionRow]] = defaultdict(dict)
    for number, row in executions.items():
        of_job[row.job][number] = row
    skips: defaultdict[int, list[tuple[int, rows.SkippedRow]]] = defaultdict(list)
    for job, first, skipped in [*ledger.archive.skips, *view.skips()]:
        skips[job].append((first, skipped))
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    for job, time_ms in view.waiting():
        waiting[job].append(time_ms)
    job_of = {key: job for job, key in key_of.items()}
    found = []
    for record in ledger.jobs.values():
        if record.is_delete_asked:
            # Nothing of it need be there.
            continue
        job = job_of.get(record.key, 0)
        found.append(
            Account(
                record,
                jobs.get(job),
                of_job[job],
                skips[job],
                waiting[job],
                until_ms,
                view.machine.now_ms,
                ledger.cancels_asked,
                ledger.archive,
                ledger.history.eras.get(job, []),
            )
        )
    return found


def _check_confirmed(
    ledger: Ledger,
    jobs: dict[int, rows.JobRow],
    executions: dict[int, rows.ExecutionRow],
    key_of: dict[int, str],
) -> None:
    """What was confirmed is there."""
    deleted = {record.key for record in ledger.jobs.values() if record.is_delete_asked}
    for record in ledger.jobs.values():
        if record.is_deleted and record.job_id in jobs.keys() - ledger.archive.jobs.keys():
            raise Violation(f"job {record.job_id} was deleted and is there")
        if record.is_delete_asked:
            continue
        if record.job_id and key_of.get(record.job_id) != record.key:
            raise Violation(f"job {record.job_id} ({record.key}) was confirmed and is not there")
        if record.cancel_confirmed_ms is not None and jobs[record.job_id].state != rows.JOB_CANCELLED:
            raise Violation(f"the cancel of job {record.job_id} was confirmed and is not there")
    counts = Counter(key for key in key_of.values())
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        raise Violation(f"created twice: {twice[:5]}")
    for done in ledger.completions:
        if done.key in deleted:
            continue
        row = executions.get(done.execution)
        if row is None or row.status != ExecutionState.SUCCEEDED or row.token != done.token:
            raise Violation(f"the completion of execution {done.execution} was confirmed and is not there: {row}")
    removed = {run.execution for run in ledger.runs if run.key in deleted}
    for execution, _ in ledger.failures:
        if execution in removed:
            continue
        row = executions.get(execution)
        # Of one that was to be cancelled it is no matter how it ended, unless it succeeded.
        is_cancelled = row is not None and row.status == ExecutionState.CANCELLED and execution in ledger.cancels_asked
        if row is None or not (row.failures or is_cancelled):
            raise Violation(f"the failure of execution {execution} was confirmed and is not there: {row}")
    for old, new in ledger.replays.items():
        if old in removed:
            continue
        if executions[old].replayed_as != new or new not in executions:
            raise Violation(f"dead letter {old} was replayed as {new}, and is not")
    for execution, at_once in ledger.cancels_confirmed.items():
        if execution in removed:
            continue
        status = executions[execution].status
        if status != ExecutionState.CANCELLED and (at_once or status != ExecutionState.SUCCEEDED):
            raise Violation(f"the cancel of execution {execution} was confirmed, and it is {status}")


def _check_results(ledger: Ledger, view: StateView) -> None:
    """What handlers returned is there as long as their executions are, and is what was read of them."""
    kept = {keys.unpack_id(key): value.decode() for key, value in view.table("results")}
    for execution in view.executions():
        told = ledger.results.get(execution)
        if told is not None and kept.get(execution, "") != told:
            raise Violation(f"execution {execution} has the result {kept.get(execution)!r}, not {told!r}")
    for execution, read in ledger.results_read.items():
        if ledger.results.get(execution, read) != read:
            raise Violation(f"execution {execution} was read as {read!r}, not {ledger.results[execution]!r}")


def _check_runs(ledger: Ledger, executions: dict[int, rows.ExecutionRow]) -> None:
    """What workers ran is what they were to run, when they were to."""
    expected = {
        trigger.execution: trigger.payload
        for record in ledger.jobs.values()
        for trigger in record.triggers.values()
        if trigger.execution and trigger.payload
    }
    # Those that waited in a queue before they ran were not told of.
    own = {trigger.payload for record in ledger.jobs.values() for trigger in record.triggers.values()}
    for execution, payload in ledger.history.payloads.items():
        if ledger.payloads.get(execution) not in own:
            expected.setdefault(execution, payload)
    for execution, payload in ledger.payloads.items():
        # A replay runs with the payload of the dead letter.
        if expected.get(execution, payload) != payload:
            raise Violation(f"execution {execution} ran with the payload {payload}, not {expected[execution]}")
    runs_of: defaultdict[int, list[Run]] = defaultdict(list)
    for run in ledger.runs:
        if run.execution is not None:
            runs_of[run.execution].append(run)
        handler = ledger.jobs[run.key].handler if run.key in ledger.jobs else ""
        if (
            handler == "fussy"
            and run.attempt is not None
            and run.attempt > 1
            and run.execution in executions
            and not executions[run.execution].lost_leases
        ):
            raise Violation(f"{run.key} was tried again after an error that is not retried: attempt {run.attempt}")
    for (execution, token), not_before_ms in ledger.not_before_ms.items():
        for run in runs_of[execution]:
            if run.token is not None and run.token > token and run.started_ms < not_before_ms:
                raise Violation(f"execution {execution} was to rest until {not_before_ms}, and ran at {run.started_ms}")
