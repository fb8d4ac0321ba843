"""What simulated clients change: limits, jobs' settings and times, ranges that are run anew, jobs that are removed."""

import random

from google.protobuf.field_mask_pb2 import FieldMask

from raftsched.model.errors import (
    CalendarChanged,
    CalendarInUse,
    CalendarNotFound,
    EtagMismatch,
    InvalidField,
    JobNotFound,
    JobStateForbids,
)
from raftsched.v1 import backfill_pb2, calendar_pb2, job_pb2, limit_pb2
from tests.sim.handlers import HANDLERS
from tests.sim.ledger import JobRecord
from tests.sim.lifecycle_calls import LifecycleCalls
from tests.sim.specs import Spec, calendar_of
from tests.sim.timeline import Violation

# How far back a backfill reaches.
BACKFILL_MS = 120_000
BACKFILL_EVERY_MS = 1_000
# Of recurring jobs, each with the policies for missed occurrences that go with it.
_LATEST, _ALL, _NONE = (
    job_pb2.CATCH_UP_POLICY_LATEST,
    job_pb2.CATCH_UP_POLICY_ALL,
    job_pb2.CATCH_UP_POLICY_NONE,
)
_POLICIES = (
    (job_pb2.OVERLAP_POLICY_SKIP, (_LATEST, _LATEST, _ALL, _NONE)),
    (job_pb2.OVERLAP_POLICY_SKIP, (_LATEST, _LATEST, _ALL, _NONE)),
    (job_pb2.OVERLAP_POLICY_ALLOW, (_LATEST, _ALL, _NONE)),
    (job_pb2.OVERLAP_POLICY_QUEUE, (_LATEST, _ALL)),
    (job_pb2.OVERLAP_POLICY_REPLACE, (_LATEST, _NONE)),
)
_POLICY_FIELDS = ("overlap", "overlap_limit", "catch_up", "catch_up_limit", "catch_up_interval", "catch_up_window")


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

    async def _put_calendar(self, name: str) -> None:
        """It always is the same one, whoever puts it."""
        self._ledger.calendars.add(name)
        try:
            response = await self._call("put_calendar", calendar_pb2.PutCalendarRequest(calendar=calendar_of(name)))
        except CalendarChanged:
            # Several times in a row.
            self._ledger.count("calendars refused")
        else:
            self._answered(response.index, "calendars")

    async def _delete_calendar(self) -> None:
        """Refused while a schedule uses it, which StateView checks."""
        if not self._ledger.calendars:
            return
        name = self._rng.choice(sorted(self._ledger.calendars))
        try:
            response = await self._call("delete_calendar", calendar_pb2.DeleteCalendarRequest(name=name))
        except (CalendarNotFound, CalendarInUse, CalendarChanged) as error:
            self._ledger.count(f"calendar deletes refused {type(error).__name__}")
        else:
            self._answered(response.index, "calendar deletes")

    async def _update(self) -> None:
        """Another priority or payload, other policies, another schedule, or the one that it has already."""
        record = self._known()
        if record is None:
            return
        job = job_pb2.Job(id=record.job_id)
        specs = len(record.later_specs)
        paths = self._draw_update(record, job)
        spec = record.later_specs[-1] if len(record.later_specs) > specs else None
        for name in spec.calendars if spec is not None else ():
            await self._put_calendar(name)
        request = job_pb2.UpdateJobRequest(job=job, update_mask=FieldMask(paths=paths))
        try:
            response = await self._call("update", request)
        except (JobStateForbids, EtagMismatch, InvalidField) as error:
            if isinstance(error, InvalidField):
                check_calendar_gone(error)
            self._ledger.count(f"updates refused {type(error).__name__}")
        except JobNotFound:
            self._check_deleted(record)
        else:
            self._answered(response.index, f"updates of {paths[0]}")
            eras = self._ledger.history.eras.get(record.job_id, [])
            known = [record.spec, *(era.spec for era in eras)]
            if spec is not None and not any(one is not None and spec.has_times_of(one) for one in known):
                raise Violation(f"job {record.job_id} was given the schedule {spec}, and never had it")

    def _draw_update(self, record: JobRecord, job: job_pb2.Job) -> list[str]:
        """Fills the message; the fields that it sets."""
        rng = self._rng
        kind = rng.random()
        # One that is through begins anew with its schedule.
        if record.is_recurring and not record.settings.max_runs and not record.is_node and kind < 0.35:
            if rng.random() < 0.3:
                return [set_schedule(record, job)]
            spec = Spec.drawn(rng, self._cluster_ms())
            record.later_specs.append(spec)
            return [spec.put_into(job)]
        if record.is_recurring and kind < 0.6:
            job.overlap, job.catch_up = draw_policies(job, rng)  # type: ignore[assignment]
            record.later_settings.append(job)
            return list(_POLICY_FIELDS)
        if kind < 0.8:
            self._requests += 1
            job.payload = f"{record.key}/{self.number}-u{self._requests}".encode()
            return ["payload"]
        job.priority = rng.randrange(10)
        return ["priority"]

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


def check_calendar_gone(error: InvalidField) -> None:
    """Whether somebody has deleted a calendar meanwhile: all else that simulated clients ask for is valid."""
    if "calendars[" not in error.field:
        raise Violation(f"refused as not valid: {error.field} {error}") from error


def set_schedule(record: JobRecord, job: job_pb2.Job) -> str:
    """Gives the message the record's schedule; the name of the field."""
    if record.spec is not None:
        return record.spec.put_into(job)
    job.run_at.FromMilliseconds(record.due_ms)
    return "run_at"


def draw_policies(settings: job_pb2.Job, rng: random.Random) -> tuple[int, int]:
    """For overlaps and for missed occurrences, which go together; gives `settings` the bounds that go with them."""
    overlap, catch_ups = rng.choice(_POLICIES)
    catch_up = rng.choice(catch_ups)
    if overlap in (job_pb2.OVERLAP_POLICY_QUEUE, job_pb2.OVERLAP_POLICY_ALLOW) and rng.random() < 0.5:
        settings.overlap_limit = rng.randint(1, 4)
    if catch_up == job_pb2.CATCH_UP_POLICY_ALL:
        if rng.random() < 0.3:
            settings.catch_up_limit = rng.randint(1, 4)
        if rng.random() < 0.3:
            settings.catch_up_interval.FromMilliseconds(rng.choice((1_000, 3_000)))
    if rng.random() < 0.1:
        settings.catch_up_window.FromMilliseconds(30_000)
    return overlap, catch_up
