"""The judgement at the end of a simulation, when all faults are over and everything should have drained."""

from collections import Counter

from raftsched.model.transitions import ExecutionState
from raftsched.state.machine import Machine
from raftsched.store import keys, rows
from raftsched.store.environment import Store
from raftsched.v1 import execution_pb2, job_pb2
from tests.checker import Accepted, Report, Skip, check
from tests.sim.ledger import JobRecord, Ledger
from tests.sim.timeline import Violation
from tests.unit.state.support import Node

MINUTE_MS = 60_000
_OVER = {ExecutionState.SUCCEEDED, ExecutionState.DEAD_LETTER, ExecutionState.CANCELLED}
_UNFIRED = {rows.JOB_WAITING, rows.JOB_STARVED}
_REASONS = {
    execution_pb2.SKIP_REASON_CATCH_UP: "CATCH_UP",
    execution_pb2.SKIP_REASON_OVERLAP: "OVERLAP",
    execution_pb2.SKIP_REASON_CANCELLED: "CANCELLED",
}


class StateView(Node):
    """A node's state, read and checked as the tests of the state machine do."""

    def __init__(self, machine: Machine, store: Store) -> None:
        self.machine = machine
        self.store = store

    def jobs(self) -> dict[int, rows.JobRow]:
        return {keys.unpack_id(key): rows.JobRow.unpack(value) for key, value in self.table("jobs")}

    def executions(self) -> dict[int, rows.ExecutionRow]:
        return {keys.unpack_id(key): rows.ExecutionRow.unpack(value) for key, value in self.table("executions")}

    def skips(self) -> list[tuple[int, int, rows.SkippedRow]]:
        """(job, first, row)."""
        return [(*keys.unpack_pair(key), rows.SkippedRow.unpack(value)) for key, value in self.table("skipped")]

    def check_indexes(self) -> None:
        """Raises Violation unless every index holds exactly what the rows say."""
        try:
            self.check()
        except AssertionError as error:
            raise Violation(f"the indexes and the rows differ: {error}") from error
        names = Counter(
            row.name for row in self.jobs().values() if row.name and row.state in (rows.JOB_WAITING, rows.JOB_STARVED)
        )
        if names and max(names.values()) > 1:
            raise Violation(f"two live jobs have the same name: {names}")


def is_drained(machine: Machine, store: Store, *, until_ms: int, slack_ms: int) -> bool:
    """Whether nothing that is scheduled for a time before `until_ms` is left to do, and nothing is overdue now."""
    view = StateView(machine, store)
    if any(keys.due_ms_of(key) < machine.now_ms - slack_ms for key, _ in view.table("due")):
        return False
    waiting = [value for key, value in view.table("extras") if key[8] == keys.EXTRA_WAITING]
    if any(rows.WAITING.unpack_from(value)[0] < until_ms for value in waiting):
        return False
    if any(row.state in _UNFIRED and row.scheduled_for_ms < until_ms for row in view.jobs().values()):
        return False
    return all(row.status in _OVER or row.scheduled_for_ms >= until_ms for row in view.executions().values())


def settle(ledger: Ledger, machine: Machine, store: Store, *, until_ms: int) -> Report:
    """Judges everything that was due before `until_ms` of the replicated clock. Raises Violation."""
    view = StateView(machine, store)
    view.check_indexes()
    jobs, executions = view.jobs(), view.executions()
    payloads = {keys.unpack_id(key): value.decode() for key, value in view.table("payloads")}
    key_of = {job: payloads.get(job, "") for job in jobs}
    _check_confirmed(ledger, jobs, executions, key_of)
    by_job: dict[int, list[tuple[int, rows.ExecutionRow]]] = {}
    for number, row in executions.items():
        by_job.setdefault(row.job, []).append((number, row))
    ran = {(run.key, run.scheduled_for_ms) for run in ledger.runs}
    skips = [
        Skip(key_of[job], first, row.last_scheduled_for_ms, row.count, _REASONS.get(row.reason, str(row.reason)))
        for job, first, row in view.skips()
    ]
    accepted, lost = [], {}
    job_of = {key: job for job, key in key_of.items()}
    for record in ledger.jobs.values():
        job = job_of.get(record.key, 0)
        of_job = by_job.get(job, [])
        skips += [
            Skip(record.key, row.scheduled_for_ms, row.scheduled_for_ms, 1, "CANCELLED")
            for _, row in of_job
            if row.status == ExecutionState.CANCELLED and (record.key, row.scheduled_for_ms) not in ran
        ]
        accepted.append(_accepted(record, jobs.get(job), [row for _, row in of_job], until_ms, machine.now_ms))
        # A run beyond the first of an attempt has a lost lease before it; a replay begins to count anew.
        replays = sum(1 for _, row in of_job if row.replayed_as)
        lost[record.key] = sum(row.lost_leases for _, row in of_job) + 8 * replays
    allowance_ms = 1 << 40
    report = check(
        accepted,
        ledger.runs,
        allowance_ms=allowance_ms,
        read_ms=machine.now_ms + 2 * allowance_ms,
        completions=ledger.completions,
        skips=skips,
        lost_leases=lost,
    )
    if report.findings:
        shown = "\n".join(str(finding) for finding in report.findings[:8])
        raise Violation(f"{len(report.findings)} findings of the checker\n{shown}")
    return report


def _check_confirmed(
    ledger: Ledger,
    jobs: dict[int, rows.JobRow],
    executions: dict[int, rows.ExecutionRow],
    key_of: dict[int, str],
) -> None:
    """What was confirmed is there."""
    for record in ledger.jobs.values():
        if record.job_id and key_of.get(record.job_id) != record.key:
            raise Violation(f"job {record.job_id} ({record.key}) was confirmed and is not there")
        if record.cancel_confirmed_ms is not None and jobs[record.job_id].state != rows.JOB_CANCELLED:
            raise Violation(f"the cancel of job {record.job_id} was confirmed and is not there")
    counts = Counter(key for key in key_of.values())
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        raise Violation(f"created twice: {twice[:5]}")
    for done in ledger.completions:
        row = executions.get(done.execution)
        if row is None or row.status != ExecutionState.SUCCEEDED or row.token != done.token:
            raise Violation(f"the completion of execution {done.execution} was confirmed and is not there: {row}")
    for execution, _ in ledger.failures:
        row = executions.get(execution)
        if row is None or not row.failures:
            raise Violation(f"the failure of execution {execution} was confirmed and is not there: {row}")
    for old, new in ledger.replays.items():
        if executions[old].replayed_as != new or new not in executions:
            raise Violation(f"dead letter {old} was replayed as {new}, and is not")


def _accepted(
    record: JobRecord, row: rows.JobRow | None, executions: list[rows.ExecutionRow], until_ms: int, now_ms: int
) -> Accepted:
    """The record as the checker wants it."""
    cancelled = row is not None and row.state == rows.JOB_CANCELLED
    required, optional = _targets(record, row, until_ms, now_ms)
    # What was cancelled between two attempts, or after its lease was lost, may have runs, and no completed one.
    cut_off = {one.scheduled_for_ms for one in executions if one.status == ExecutionState.CANCELLED}
    if cut_off and record.cancel_asked_ms is None and record.overlap != job_pb2.OVERLAP_POLICY_REPLACE:
        raise Violation(f"executions of {record.key} are cancelled, which nobody asked for")
    optional += [target for target in required if target in cut_off]
    required = [target for target in required if target not in cut_off]
    # What was given up after all its leases were lost, or its time was over, has none either.
    given_up = {one.scheduled_for_ms for one in executions if one.status == ExecutionState.DEAD_LETTER}
    if record.handler == "timed" or any(one.lost_leases for one in executions):
        optional += [target for target in required if target in given_up]
        required = [target for target in required if target not in given_up]
    expected = set()
    if record.overlap in (job_pb2.OVERLAP_POLICY_SKIP, job_pb2.OVERLAP_POLICY_QUEUE):
        expected.add("OVERLAP")
    if record.overlap == job_pb2.OVERLAP_POLICY_REPLACE:
        # The occurrence after it takes its place.
        expected.add("CANCELLED")
    if record.is_recurring and record.fires_latest_only:
        expected.add("CATCH_UP")
    if record.cancel_asked_ms is not None:
        expected.add("CANCELLED")
    lost_any = any(one.lost_leases for one in executions)
    return Accepted(
        key=record.key,
        targets_ms=required,
        optional_targets_ms=optional,
        confirmed=record.confirmed_ms is not None,
        cancel_requested_ms=record.cancel_asked_ms if cancelled else None,
        # A worker that has lost its lease may not know that yet.
        cancel_confirmed_ms=None if lost_any or not cancelled else record.cancel_confirmed_ms,
        expected_skips=frozenset(expected),
        fails=record.handler in ("broken", "timed"),
    )


def _targets(record: JobRecord, row: rows.JobRow | None, until_ms: int, now_ms: int) -> tuple[list[int], list[int]]:
    """The times at which the job must run, and those at which it may."""
    if not record.is_recurring:
        # One that was due when it was asked for is due at the time of the node that took it.
        due_ms = row.scheduled_for_ms if row is not None else record.due_ms
        if due_ms < record.due_ms:
            raise Violation(f"{record.key} was asked for at {record.due_ms} and is scheduled for {due_ms}")
        return ([due_ms], []) if due_ms < until_ms else ([], [due_ms])
    if record.cron_minutes:
        step_ms = record.cron_minutes * MINUTE_MS
        first_ms = record.asked_ms // step_ms * step_ms
    else:
        step_ms, first_ms = record.every_ms, record.due_ms
    targets = list(range(first_ms, now_ms + step_ms, step_ms))
    # Ticks that raced with the create are optional: it names the first later than its own time.
    sure_from_ms = record.confirmed_ms if record.confirmed_ms is not None else now_ms
    if row is not None and row.created_ms < sure_from_ms:
        sure_from_ms = row.created_ms
    # Nodes' clocks differ by a little from the replicated one.
    sure_from_ms += 5_000
    required = [target for target in targets if sure_from_ms < target < until_ms]
    return required, [target for target in targets if not sure_from_ms < target < until_ms]
