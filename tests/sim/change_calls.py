"""What simulated clients change: limits, jobs' settings and times, ranges that are run anew, jobs that are removed."""

from google.protobuf.field_mask_pb2 import FieldMask

from raftsched.model.errors import EtagMismatch, InvalidField, JobNotFound, JobStateForbids
from raftsched.v1 import backfill_pb2, job_pb2, limit_pb2
from tests.sim.handlers import HANDLERS
from tests.sim.ledger import JobRecord
from tests.sim.lifecycle_calls import LifecycleCalls

# How far back a backfill reaches.
BACKFILL_MS = 120_000
BACKFILL_EVERY_MS = 1_000


class ChangeCalls(LifecycleCalls):
    """The part of SimClient that this file is about."""

    async def _put_limit(self) -> None:
        """Wide enough for all to be done in time once nothing is wrong any more."""
        rng = self._rng
        scope, name = rng.choice(
            (
                (limit_pb2.LIMIT_SCOPE_TENANT, rng.choice(("a", "b"))),
                (limit_pb2.LIMIT_SCOPE_HANDLER, rng.choice(HANDLERS)),
                (limit_pb2.LIMIT_SCOPE_QUEUE, "default"),
            )
        )
        if rng.random() < 0.4:
            response = await self._call("delete_limit", limit_pb2.DeleteLimitRequest(scope=scope, name=name))
        else:
            limit = limit_pb2.Limit(scope=scope, name=name)
            if rng.random() < 0.6:
                limit.concurrency = rng.randint(3, 8)
            if not limit.concurrency or rng.random() < 0.5:
                limit.rate_per_s, limit.burst = rng.choice((10, 30)), rng.randint(1, 10)
            if scope == limit_pb2.LIMIT_SCOPE_TENANT:
                limit.weight = rng.randint(1, 5)
            response = await self._call("put_limit", limit_pb2.PutLimitRequest(limit=limit))
        self._answered(response.index, "limits")

    async def _update(self) -> None:
        """Another priority, or the schedule that it has already: neither loses nor repeats a tick."""
        record = self._known()
        if record is None:
            return
        job = job_pb2.Job(id=record.job_id)
        # One that is through begins anew with its schedule.
        if record.is_recurring and not record.settings.max_runs and self._rng.random() < 0.5:
            path = set_schedule(record, job)
        else:
            path, job.priority = "priority", self._rng.randrange(10)
        request = job_pb2.UpdateJobRequest(job=job, update_mask=FieldMask(paths=[path]))
        try:
            response = await self._call("update", request)
        except (JobStateForbids, EtagMismatch) as error:
            self._ledger.count(f"updates refused {type(error).__name__}")
        except JobNotFound:
            self._check_deleted(record)
        else:
            self._answered(response.index, "updates")

    async def _reschedule(self) -> None:
        records = [one for one in self._ledger.jobs.values() if one.job_id and not one.is_recurring]
        if not records:
            return
        record = self._rng.choice(records[-10:])
        due_ms = self._cluster_ms() + self._rng.randint(0, 20_000)
        record.earliest_ms = min(record.earliest_ms or record.due_ms, due_ms)
        request = job_pb2.RescheduleJobRequest(id=record.job_id)
        request.run_at.FromMilliseconds(due_ms)
        try:
            response = await self._call("reschedule", request)
        except JobStateForbids:
            self._ledger.count("reschedules refused")
        except JobNotFound:
            self._check_deleted(record)
        else:
            self._answered(response.index, "reschedules")

    async def _backfill(self) -> None:
        """Of the last minutes, as far as the schedule has left them behind."""
        records = [one for one in self._ledger.jobs.values() if one.job_id and one.is_recurring and not one.is_node]
        if not records:
            return
        record = self._rng.choice(records)
        end_ms = self._cluster_ms() - self._rng.randint(1_000, 30_000)
        start_ms = end_ms - self._rng.randint(10_000, BACKFILL_MS)
        self._requests += 1
        request = backfill_pb2.CreateBackfillRequest(request_id=f"{self.number}-b{self._requests}")
        request.backfill.job_id = record.job_id
        request.backfill.start.FromMilliseconds(start_ms)
        request.backfill.end.FromMilliseconds(end_ms)
        request.backfill.interval.FromMilliseconds(BACKFILL_EVERY_MS)
        record.backfills.append((start_ms, end_ms))
        try:
            response = await self._call("backfill", request)
        except (JobStateForbids, InvalidField, EtagMismatch) as error:
            self._ledger.count(f"backfills refused {type(error).__name__}")
        except JobNotFound:
            self._check_deleted(record)
        else:
            self._answered(response.index, "backfills")

    async def _delete(self) -> None:
        """Not of a workflow: what depends on others is judged by them."""
        record = self._known()
        if record is None or record.is_node or self._rng.random() < 0.5:
            return
        record.is_delete_asked = True
        try:
            response = await self._call("delete", job_pb2.DeleteJobRequest(id=record.job_id))
        except JobStateForbids:
            self._ledger.count("deletes refused")
        except JobNotFound:
            self._check_deleted(record)
        else:
            record.is_deleted = True
            self._answered(response.index, "deletes")


def set_schedule(record: JobRecord, job: job_pb2.Job) -> str:
    """Gives the message the record's schedule; the name of the field."""
    if record.cron_minutes:
        job.cron.expression = "* * * * *" if record.cron_minutes == 1 else f"*/{record.cron_minutes} * * * *"
        return "cron"
    if record.every_ms:
        job.interval.every.FromMilliseconds(record.every_ms)
        job.interval.start.FromMilliseconds(record.due_ms)
        return "interval"
    job.run_at.FromMilliseconds(record.due_ms)
    return "run_at"
