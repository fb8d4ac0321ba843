"""The client's calls about backfills: runs of a recurring job for scheduled times that are past."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from raftsched.client import convert
from raftsched.client.backfills import Backfill, BackfillPreview, backfill_value
from raftsched.client.fields import assign, build, set_duration, set_time
from raftsched.client.part import ClientPart
from raftsched.v1 import backfill_pb2


class BackfillCalls(ClientPart):
    """A part of Client."""

    async def preview_backfill(
        self, job_id: int, start: datetime, end: datetime, *, linearizable: bool = False
    ) -> BackfillPreview:
        """How many scheduled times a range holds, from start on and before end, and how many have run.

        Changes nothing. Raises InvalidField for a range of more than 100,000 times, JobStateForbids, JobNotFound.
        """
        request = build(backfill_pb2.PreviewBackfillRequest, job_id=job_id, read=self._read(linearizable))
        set_time(request.start, start, "start")
        set_time(request.end, end, "end")
        answer: backfill_pb2.PreviewBackfillResponse = await self._call(
            lambda stubs: stubs.backfills.PreviewBackfill, request
        )
        return BackfillPreview(total=answer.total, passed_over=answer.passed_over)

    async def create_backfill(
        self,
        job_id: int,
        start: datetime,
        end: datetime,
        *,
        interval: timedelta | None = None,
        priority: int = 0,
        request_id: str | None = None,
    ) -> Backfill:
        """Runs what of the range has not run, oldest first, at least `interval` (1 s when None) apart.

        A scheduled time runs once, however many backfills name it. Raises JobStateForbids while another backfill of the
        job is not done, and what preview_backfill raises.
        """
        request = build(backfill_pb2.CreateBackfillRequest, request_id=convert.request_id(request_id))
        assign(request.backfill, "job_id", job_id)
        set_time(request.backfill.start, start, "start")
        set_time(request.backfill.end, end, "end")
        if interval is not None:
            set_duration(request.backfill.interval, interval, "interval")
        assign(request.backfill, "priority", priority)
        answer: backfill_pb2.CreateBackfillResponse = await self._mutate(
            lambda stubs: stubs.backfills.CreateBackfill, request
        )
        return backfill_value(answer.backfill)

    async def get_backfill(self, backfill_id: int, *, linearizable: bool = False) -> Backfill:
        """The backfill with that id. Raises BackfillNotFound."""
        request = build(backfill_pb2.GetBackfillRequest, id=backfill_id, read=self._read(linearizable))
        answer: backfill_pb2.GetBackfillResponse = await self._call(lambda stubs: stubs.backfills.GetBackfill, request)
        return backfill_value(answer.backfill)

    def backfills(self, job_id: int, *, page_size: int = 0, linearizable: bool = False) -> AsyncIterator[Backfill]:
        """The backfills of a job, newest first, page by page as they are consumed."""
        request = build(backfill_pb2.ListBackfillsRequest, job_id=job_id, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.backfills.ListBackfills,
            request,
            linearizable,
            lambda page: page.backfills,
            backfill_value,
        )

    async def cancel_backfill(self, backfill_id: int, *, request_id: str | None = None) -> Backfill:
        """Lets nothing more of it fire; what has fired goes on. Harmless when repeated. Raises BackfillNotFound."""
        request = build(backfill_pb2.CancelBackfillRequest, id=backfill_id, request_id=convert.request_id(request_id))
        answer: backfill_pb2.CancelBackfillResponse = await self._mutate(
            lambda stubs: stubs.backfills.CancelBackfill, request
        )
        return backfill_value(answer.backfill)
