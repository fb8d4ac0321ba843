"""Keeps book of the jobs a test created; the checker compares them with what workers ran and the cluster recorded."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import execution_pb2, job_pb2
from tests.checker import Accepted, Completion, Report, Skip, check
from tests.cluster.harness import Cluster
from tests.cluster.processes import now_ms, until

HANDLER = "record"

# Reads of the final check that are under way at once.
READERS = 16

# A tick that came due so shortly before a cancel, in a cluster that had caught up, may not have fired before it.
CANCEL_RACE_MS = 2_000

REASONS = {
    execution_pb2.SKIP_REASON_OVERLAP: "OVERLAP",
    execution_pb2.SKIP_REASON_CATCH_UP: "CATCH_UP",
    execution_pb2.SKIP_REASON_CANCELLED: "CANCELLED",
}


def timestamp(time_ms: int) -> Timestamp:
    """The instant `time_ms` milliseconds after the epoch."""
    moment = Timestamp()
    moment.FromMilliseconds(time_ms)
    return moment


def recorded_job(key: str, *, sleep_ms: int = 0, failures: int = 0) -> job_pb2.Job:
    """A job without a schedule whose handler writes its runs down, sleeps, and fails its first `failures` attempts."""
    payload = {"key": key, "sleep_ms": sleep_ms, "failures": failures}
    job = job_pb2.Job(handler=HANDLER, payload=json.dumps(payload).encode())
    job.retry.initial_backoff.FromMilliseconds(200)
    return job


@dataclass(slots=True)
class _Entry:
    accepted: Accepted
    job_id: int = 0
    every_ms: int = 0
    asked_ms: int = 0
    confirmed_ms: int = 0


@dataclass(slots=True)
class Ledger:
    """The jobs of one test on one cluster."""

    cluster: Cluster
    entries: dict[str, _Entry] = field(default_factory=dict)

    def once(self, key: str, run_at_ms: int, **how: int) -> int:
        """Creates a one-off; returns its id."""
        return self.batch({key: run_at_ms}, **how)[0]

    def batch(self, run_at_ms: dict[str, int], **how: int) -> Sequence[int]:
        """Creates one-offs at the times given for their keys, all in one call."""
        jobs = []
        for key, time_ms in run_at_ms.items():
            job = recorded_job(key, **how)
            job.run_at.CopyFrom(timestamp(time_ms))
            jobs.append(job)
        # Should the call fail, these may exist or not.
        for key, time_ms in run_at_ms.items():
            self.entries[key] = _Entry(Accepted(key, [time_ms], confirmed=False))
        job_ids = self.cluster.api.create_batch(jobs)
        confirmed_ms = now_ms()
        for key, job_id in zip(run_at_ms, job_ids, strict=True):
            entry = self.entries[key]
            entry.job_id = job_id
            # What was already past when it was accepted is due from then on.
            due_ms = run_at_ms[key] if run_at_ms[key] > confirmed_ms else self._accepted_run_at_ms(job_id)
            assert run_at_ms[key] <= due_ms <= max(confirmed_ms, run_at_ms[key]), f"{key} is due at {due_ms}"
            entry.accepted = replace(entry.accepted, targets_ms=[due_ms], confirmed=True)
        return job_ids

    def _accepted_run_at_ms(self, job_id: int) -> int:
        return self.cluster.api.get(job_id).run_at.ToMilliseconds()

    def recurring(
        self,
        key: str,
        every_s: int,
        *,
        catch_up: job_pb2.CatchUpPolicy = job_pb2.CATCH_UP_POLICY_LATEST,
        overlap: job_pb2.OverlapPolicy = job_pb2.OVERLAP_POLICY_SKIP,
        expected_skips: Sequence[str] = (),
        **how: int,
    ) -> int:
        """Creates a cron job that ticks at every second that `every_s`, a divisor of 60, divides."""
        assert 60 % every_s == 0
        job = recorded_job(key, **how)
        job.cron.expression = f"*/{every_s} * * * * *"
        job.catch_up = catch_up
        job.overlap = overlap
        asked_ms = now_ms()
        entry = _Entry(
            Accepted(key, [], confirmed=False, expected_skips=frozenset(expected_skips)),
            every_ms=every_s * 1_000,
            asked_ms=asked_ms,
        )
        self.entries[key] = entry
        entry.job_id = self.cluster.api.create(job).job.id
        entry.confirmed_ms = now_ms()
        entry.accepted = replace(entry.accepted, confirmed=True)
        return entry.job_id

    def cancel_recurring(self) -> None:
        """Cancels what recurs, however often it is refused because an execution runs just then."""
        for entry in self.entries.values():
            if entry.every_ms and entry.accepted.cancel_requested_ms is None:
                self.cluster.wait_caught_up()
                entry.accepted = replace(entry.accepted, cancel_requested_ms=now_ms())
                until(lambda entry=entry: self._cancelled(entry), f"{entry.accepted.key} is cancelled")  # type: ignore[misc]

    def _cancelled(self, entry: _Entry) -> bool:
        try:
            self.cluster.api.cancel(entry.job_id)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return False
        entry.accepted = replace(entry.accepted, cancel_confirmed_ms=now_ms())
        return True

    def completed(self) -> int:
        """Distinct occurrences that ran to their end."""
        return len({(run.key, run.scheduled_for_ms) for run in self.cluster.runs() if run.completed})

    def one_offs_done(self) -> bool:
        """Whether every one-off has run to its end at least once, by the workers' own account."""
        ended = {run.key for run in self.cluster.runs() if run.completed}
        return all(key in ended for key, entry in self.entries.items() if not entry.every_ms and entry.job_id)

    def _read(self, entry: _Entry) -> tuple[list[execution_pb2.Execution], Sequence[execution_pb2.SkippedOccurrence]]:
        """What the cluster has recorded of a job."""
        skipped = self.cluster.api.skips(entry.job_id) if entry.every_ms else ()
        return self.cluster.api.executions(entry.job_id), skipped

    def check(self, allowance_ms: int, *, bounded_extra_runs: bool = True) -> Report:
        """As `report`, and requires that there are no findings."""
        report = self.report(allowance_ms, bounded_extra_runs=bounded_extra_runs)
        report.require_clean()
        return report

    def report(self, allowance_ms: int, *, bounded_extra_runs: bool = True) -> Report:
        """Reads everything back and looks whether it fits together.

        To be called when nothing is due any more: every target before now is required.
        """
        completions, skips, lost_leases = [], [], {}
        created = [(key, entry) for key, entry in self.entries.items() if entry.job_id]
        with ThreadPoolExecutor(READERS) as pool:
            records = pool.map(lambda item: self._read(item[1]), created)
            for (key, _), (executions, skipped) in zip(created, records, strict=True):
                lost_leases[key] = sum(execution.lost_leases for execution in executions)
                for execution in executions:
                    scheduled_for_ms = execution.scheduled_for.ToMilliseconds()
                    if execution.state == execution_pb2.EXECUTION_STATE_SUCCEEDED:
                        completions.append(Completion(key, scheduled_for_ms, execution.id, execution.token))
                    elif execution.state == execution_pb2.EXECUTION_STATE_CANCELLED:
                        skips.append(Skip(key, scheduled_for_ms, scheduled_for_ms, 1, "CANCELLED"))
                skips += [_skip(key, skip) for skip in skipped]
        return check(
            [_with_targets(entry) for entry in self.entries.values()],
            self.cluster.runs(),
            allowance_ms=allowance_ms,
            read_ms=now_ms() + allowance_ms,
            completions=completions,
            skips=skips,
            lost_leases=lost_leases if bounded_extra_runs else None,
        )


def _skip(key: str, skip: execution_pb2.SkippedOccurrence) -> Skip:
    first_ms, last_ms = skip.scheduled_for.ToMilliseconds(), skip.last_scheduled_for.ToMilliseconds()
    return Skip(key, first_ms, last_ms, skip.count, REASONS[skip.reason])


def _with_targets(entry: _Entry) -> Accepted:
    """The job with its ticks.

    The first comes after the create was applied, some time between call and answer; the last before its cancel was,
    or, since executions that were under way go on, shortly after.
    """
    if not entry.every_ms:
        return entry.accepted
    every_ms, accepted = entry.every_ms, entry.accepted
    assert accepted.cancel_requested_ms is not None, f"{accepted.key} still recurs"
    assert accepted.cancel_confirmed_ms is not None
    first_ms = entry.asked_ms // every_ms * every_ms + every_ms
    possible = range(first_ms, accepted.cancel_confirmed_ms + every_ms, every_ms)
    sure = range(entry.confirmed_ms, accepted.cancel_requested_ms - CANCEL_RACE_MS)
    return replace(
        accepted,
        targets_ms=[tick for tick in possible if tick in sure],
        optional_targets_ms=[tick for tick in possible if tick not in sure],
        expected_skips=accepted.expected_skips | {"CANCELLED"},
    )
