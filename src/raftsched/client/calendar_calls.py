"""The client's calls about calendars: days and windows of time that schedules leave out, or move away from."""

from collections.abc import AsyncIterator

from raftsched.client import convert
from raftsched.client.convert_schedules import calendar_message, calendar_value
from raftsched.client.fields import build
from raftsched.client.part import ClientPart
from raftsched.client.schedules import Calendar
from raftsched.v1 import calendar_pb2


class CalendarCalls(ClientPart):
    """A part of Client."""

    async def put_calendar(self, calendar: Calendar, *, request_id: str | None = None) -> Calendar:
        """Creates or replaces a calendar; ticks of schedules that use it are computed anew. Harmless when repeated."""
        request = build(
            calendar_pb2.PutCalendarRequest,
            calendar=calendar_message(calendar, self.namespace),
            request_id=convert.request_id(request_id),
        )
        answer: calendar_pb2.PutCalendarResponse = await self._mutate(
            lambda stubs: stubs.calendars.PutCalendar, request
        )
        return calendar_value(answer.calendar)

    async def get_calendar(self, name: str, *, namespace: str = "", linearizable: bool = False) -> Calendar:
        """Raises CalendarNotFound."""
        request = build(
            calendar_pb2.GetCalendarRequest,
            namespace=namespace or self.namespace,
            name=name,
            read=self._read(linearizable),
        )
        answer: calendar_pb2.GetCalendarResponse = await self._call(lambda stubs: stubs.calendars.GetCalendar, request)
        return calendar_value(answer.calendar)

    def calendars(
        self, *, namespace: str = "", page_size: int = 0, linearizable: bool = False
    ) -> AsyncIterator[Calendar]:
        """The calendars of a namespace, in order of name, page by page as they are consumed."""
        request = build(calendar_pb2.ListCalendarsRequest, namespace=namespace or self.namespace, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.calendars.ListCalendars,
            request,
            linearizable,
            lambda page: page.calendars,
            calendar_value,
        )

    async def delete_calendar(self, name: str, *, namespace: str = "", request_id: str | None = None) -> None:
        """Raises CalendarInUse while a job's schedule uses it, CalendarNotFound."""
        request = build(
            calendar_pb2.DeleteCalendarRequest,
            namespace=namespace or self.namespace,
            name=name,
            request_id=convert.request_id(request_id),
        )
        await self._mutate(lambda stubs: stubs.calendars.DeleteCalendar, request)
