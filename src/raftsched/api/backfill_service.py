"""BackfillService: runs of a recurring job for scheduled times that are past."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import cast

from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_lifecycle import found
from raftsched.api.messages import duration, timestamp
from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.validate import check_id, check_request_id, duration_ms, timestamp_ms
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import BackfillNotFound, EtagMismatch, InvalidField, JobStateForbids
from raftsched.model.schedule import ticks_after
from raftsched.state.calendars import cron_schedule, found_by
from raftsched.state.queries import JobRecord, get_job
from raftsched.state.queries_backfills import BackfillRecord, get_backfill, list_backfills, times_that_ran
from raftsched.state.results import BackfillChanged
from raftsched.store import keys, rows
from raftsched.store.environment import View
from raftsched.v1 import backfill_pb2, backfill_pb2_grpc, job_pb2

# A job may be changed between the evaluation of its schedule and the backfill; so often it is evaluated anew.
ROUNDS = 3
# Executions that a preview looks at to say how many times have run.
PREVIEW_EXECUTIONS = 200_000


class BackfillService(backfill_pb2_grpc.BackfillServiceServicer):
    """One per server. `wall_ms` tells what "now" means in a request."""

    def __init__(self, gate: CoreGate, wall_ms: Callable[[], int]) -> None:
        self._gate = gate
        self._core = gate.core
        self._wall_ms = wall_ms

    async def PreviewBackfill(
        self, request: backfill_pb2.PreviewBackfillRequest, context: Context
    ) -> backfill_pb2.PreviewBackfillResponse:
        refuse_unknown_fields(request)
        check_id(request.job_id, "job_id")
        start_ms, end_ms = self._range(request, "")
        await self._gate.wait_readable(request.read, context)

        def look() -> backfill_pb2.PreviewBackfillResponse:
            with self._core.store.read() as view:
                job = found(get_job(view, request.job_id), field="job_id", job_id=str(request.job_id))
                ticks_ms = _ticks(view, job, start_ms, end_ms, self._wall_ms())
                ran, until_ms = times_that_ran(view, job.id, job.row.last_execution, start_ms, PREVIEW_EXECUTIONS)
                return backfill_pb2.PreviewBackfillResponse(
                    total=len(ticks_ms),
                    passed_over=sum(tick_ms <= until_ms or tick_ms in ran for tick_ms in ticks_ms),
                    index=view.state().applied_index,
                )

        return await asyncio.to_thread(look)

    async def CreateBackfill(
        self, request: backfill_pb2.CreateBackfillRequest, context: Context
    ) -> backfill_pb2.CreateBackfillResponse:
        refuse_unknown_fields(request)
        asked = request.backfill
        _refuse_output(asked)
        check_id(asked.job_id, "backfill.job_id")
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        if asked.priority > limits.PRIORITY_MAX:
            raise InvalidField(f"{asked.priority} is not 0–{limits.PRIORITY_MAX}", field="backfill.priority")
        start_ms, end_ms = self._range(asked, "backfill.")
        interval_ms = limits.SECOND_MS
        if asked.HasField("interval"):
            interval_ms = duration_ms(
                asked.interval,
                "backfill.interval",
                low_ms=limits.BACKFILL_INTERVAL_MIN_MS,
                high_ms=limits.BACKFILL_INTERVAL_MAX_MS,
            )
        # A key of our own makes a command that is proposed twice, because its first answer was late, count once.
        key = request.request_id if request.HasField("request_id") else str(uuid.uuid4())
        for last in (*[False] * (ROUNDS - 1), True):
            await self._gate.wait_readable(job_pb2.ReadOptions(linearizable=True), context)
            command = await asyncio.to_thread(self._command, asked, start_ms, end_ms)
            command.interval_ms, command.key = interval_ms, key
            try:
                created = await self._gate.submit(
                    command_pb2.Command(create_backfill=command), context, ops=1 + len(command.ticks_ms) // 1_000
                )
            except EtagMismatch:
                if last:
                    raise
                continue
            break
        assert isinstance(created, BackfillChanged)
        return backfill_pb2.CreateBackfillResponse(
            backfill=await self._read_back(created.backfill, context), index=self._gate.answered_index
        )

    async def GetBackfill(
        self, request: backfill_pb2.GetBackfillRequest, context: Context
    ) -> backfill_pb2.GetBackfillResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            return backfill_pb2.GetBackfillResponse(
                backfill=_message(_found(view, request.id)), index=view.state().applied_index
            )

    async def ListBackfills(
        self, request: backfill_pb2.ListBackfillsRequest, context: Context
    ) -> backfill_pb2.ListBackfillsResponse:
        refuse_unknown_fields(request)
        check_id(request.job_id, "job_id")
        limit, scope = page_size(request.page_size), keys.pack_id(request.job_id)
        position = decode_token(request.page_token, Listing.BACKFILLS, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            found(get_job(view, request.job_id), field="job_id", job_id=str(request.job_id))
            page = list_backfills(view, request.job_id, before=position[0] if position else None, limit=limit)
            return backfill_pb2.ListBackfillsResponse(
                backfills=map(_message, page.items),
                next_page_token=encode_token(Listing.BACKFILLS, scope, page.next) if page.next is not None else "",
                index=view.state().applied_index,
            )

    async def CancelBackfill(
        self, request: backfill_pb2.CancelBackfillRequest, context: Context
    ) -> backfill_pb2.CancelBackfillResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        cancel = command_pb2.CancelBackfill(backfill=request.id)
        await self._gate.submit(command_pb2.Command(cancel_backfill=cancel), context)
        index = self._gate.answered_index
        return backfill_pb2.CancelBackfillResponse(backfill=await self._read_back(request.id, context), index=index)

    async def _read_back(self, backfill: int, context: Context) -> backfill_pb2.Backfill:
        await self._gate.wait_readable(job_pb2.ReadOptions(), context)
        with self._core.store.read() as view:
            return _message(_found(view, backfill))

    def _range(
        self, asked: backfill_pb2.Backfill | backfill_pb2.PreviewBackfillRequest, prefix: str
    ) -> tuple[int, int]:
        """Raises InvalidField."""
        for field in ("start", "end"):
            if not asked.HasField(field):
                raise InvalidField("unset; a time is right", field=f"{prefix}{field}")
        start_ms = max(0, timestamp_ms(asked.start, f"{prefix}start"))
        end_ms = timestamp_ms(asked.end, f"{prefix}end")
        if end_ms <= start_ms:
            raise InvalidField("not later than the start", field=f"{prefix}end")
        if end_ms > self._wall_ms() + limits.MINUTE_MS:
            raise InvalidField("later than now: what is to come is the schedule's to run", field=f"{prefix}end")
        return start_ms, end_ms

    def _command(self, asked: backfill_pb2.Backfill, start_ms: int, end_ms: int) -> command_pb2.CreateBackfill:
        with self._core.store.read() as view:
            job = found(get_job(view, asked.job_id), field="backfill.job_id", job_id=str(asked.job_id))
            ticks_ms = _ticks(view, job, start_ms, end_ms, self._wall_ms())
        if not ticks_ms:
            raise InvalidField(
                "there is no scheduled time of the job in this range, or none that its schedule is past",
                field="backfill.start",
            )
        profile = command_pb2.Profile()
        profile.CopyFrom(job.profile)
        profile.priority = asked.priority
        return command_pb2.CreateBackfill(
            job=job.id,
            start_ms=start_ms,
            end_ms=end_ms,
            profile=profile.SerializeToString(deterministic=True),
            job_profile=job.row.profile,
            job_schedule=job.row.schedule,
            ticks_ms=keys.pack_ids(ticks_ms),
        )


def _ticks(view: View, job: JobRecord, start_ms: int, end_ms: int, now_ms: int) -> Sequence[int]:
    """The scheduled times of the range that the job's schedule is past. Raises JobStateForbids and InvalidField."""
    if job.schedule is None:
        raise JobStateForbids("only a recurring job has a past to fill", job_id=str(job.id))
    scheduled_for_ms = job.row.scheduled_for_ms
    past_ms = {
        rows.JOB_WAITING: scheduled_for_ms,
        rows.JOB_PAUSED: scheduled_for_ms,
        rows.JOB_STARVED: scheduled_for_ms + 1,
    }.get(job.row.state, now_ms)
    until_ms = min(end_ms, past_ms) - 1
    wanted = limits.BACKFILL_MAX_TICKS + 1
    if job.schedule.every_ms:
        every_ms = job.schedule.every_ms
        first_ms = start_ms + (scheduled_for_ms - start_ms) % every_ms
        series = takewhile(lambda tick_ms: tick_ms <= until_ms, count(first_ms, every_ms))
        ticks_ms = [tick_ms for tick_ms, _ in zip(series, range(wanted), strict=False)]
    else:
        value, _ = cron_schedule(job.schedule, found_by(view))
        ticks_ms = ticks_after(value, start_ms - 1, count=wanted, until_ms=until_ms)
    if len(ticks_ms) == wanted:
        raise InvalidField(
            f"the range holds more than {limits.BACKFILL_MAX_TICKS:,} scheduled times, which are reached at"
            f" {timestamp(ticks_ms[-1]).ToJsonString()}; make several backfills of it",
            field="end",
            limit=str(limits.BACKFILL_MAX_TICKS),
        )
    return ticks_ms


def _refuse_output(asked: backfill_pb2.Backfill) -> None:
    for field in ("id", "state", "total", "fired", "passed_over"):
        if getattr(asked, field):
            raise InvalidField("set by the server only; leave it unset", field=f"backfill.{field}")
    if asked.HasField("create_time"):
        raise InvalidField("set by the server only; leave it unset", field="backfill.create_time")


def _found(view: View, backfill: int) -> BackfillRecord:
    record = get_backfill(view, backfill)
    if record is None:
        raise BackfillNotFound(backfill_id=str(backfill))
    return record


def _message(record: BackfillRecord) -> backfill_pb2.Backfill:
    row = record.row
    return backfill_pb2.Backfill(
        id=record.id,
        job_id=row.job,
        start=timestamp(row.start_ms),
        end=timestamp(row.end_ms),
        interval=duration(row.interval_ms),
        priority=row.priority,
        state=cast("backfill_pb2.BackfillState", row.state),
        total=row.total,
        fired=row.fired,
        passed_over=row.passed_over,
        create_time=timestamp(row.created_ms),
    )
