"""CalendarService: named sets of days and windows of time that schedules leave out, or move away from."""

from collections.abc import Callable

from raftsched.api import validate
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_settings import DEFAULT_NAMESPACE
from raftsched.api.paging import Listing, decode_text_token, encode_text_token, page_size
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.calendars import day_number
from raftsched.model.errors import CalendarChanged, CalendarNotFound, InvalidField
from raftsched.state.calendars import CalendarRecord, get_calendar, list_calendars
from raftsched.v1 import calendar_pb2, calendar_pb2_grpc, job_pb2

# Others may change the calendar between the look at it and the change; so often we look again.
ROUNDS = 4
_LINEARIZABLE = job_pb2.ReadOptions(linearizable=True)


class CalendarService(calendar_pb2_grpc.CalendarServiceServicer):
    """One per server."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate
        self._core = gate.core

    async def PutCalendar(
        self, request: calendar_pb2.PutCalendarRequest, context: Context
    ) -> calendar_pb2.PutCalendarResponse:
        refuse_unknown_fields(request)
        calendar = checked_calendar(request.calendar)
        if request.HasField("request_id"):
            validate.check_request_id(request.request_id)
        serialized = calendar.SerializeToString(deterministic=True)

        def command(stored: CalendarRecord | None) -> command_pb2.Command:
            put = command_pb2.PutCalendar(calendar=serialized, replaced=stored.version if stored is not None else 0)
            return command_pb2.Command(put_calendar=put)

        await self._change(calendar.namespace, calendar.name, command, context)
        return calendar_pb2.PutCalendarResponse(calendar=calendar, index=self._gate.answered_index)

    async def GetCalendar(
        self, request: calendar_pb2.GetCalendarRequest, context: Context
    ) -> calendar_pb2.GetCalendarResponse:
        refuse_unknown_fields(request)
        namespace = _checked_namespace(request.namespace)
        validate.check_namespace(request.name, "name")
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            record = get_calendar(view, namespace, request.name)
            if record is None:
                raise CalendarNotFound(namespace=namespace, calendar=request.name)
            return calendar_pb2.GetCalendarResponse(calendar=record.message, index=view.state().applied_index)

    async def ListCalendars(
        self, request: calendar_pb2.ListCalendarsRequest, context: Context
    ) -> calendar_pb2.ListCalendarsResponse:
        refuse_unknown_fields(request)
        namespace = _checked_namespace(request.namespace)
        limit, scope = page_size(request.page_size), namespace.encode()
        after = decode_text_token(request.page_token, Listing.CALENDARS, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            page = list_calendars(view, namespace, after=after, limit=limit)
            return calendar_pb2.ListCalendarsResponse(
                calendars=[record.message for record in page.items],
                next_page_token=encode_text_token(Listing.CALENDARS, scope, page.next) if page.next else "",
                index=view.state().applied_index,
            )

    async def DeleteCalendar(
        self, request: calendar_pb2.DeleteCalendarRequest, context: Context
    ) -> calendar_pb2.DeleteCalendarResponse:
        refuse_unknown_fields(request)
        namespace = _checked_namespace(request.namespace)
        validate.check_namespace(request.name, "name")
        if request.HasField("request_id"):
            validate.check_request_id(request.request_id)

        def command(stored: CalendarRecord | None) -> command_pb2.Command:
            if stored is None:
                raise CalendarNotFound(namespace=namespace, calendar=request.name)
            delete = command_pb2.DeleteCalendar(namespace=namespace, name=request.name, replaced=stored.version)
            return command_pb2.Command(delete_calendar=delete)

        await self._change(namespace, request.name, command, context)
        return calendar_pb2.DeleteCalendarResponse(index=self._gate.answered_index)

    async def _change(
        self,
        namespace: str,
        name: str,
        command: Callable[[CalendarRecord | None], command_pb2.Command],
        context: Context,
    ) -> None:
        """Carries out a command that is made of what is stored, unless that has changed meanwhile."""
        for left in reversed(range(ROUNDS)):
            await self._gate.wait_readable(_LINEARIZABLE, context)
            with self._core.store.read() as view:
                stored = get_calendar(view, namespace, name)
            try:
                await self._gate.submit(command(stored), context)
            except CalendarChanged:
                if not left:
                    raise
            else:
                return


def checked_calendar(given: calendar_pb2.Calendar) -> calendar_pb2.Calendar:
    """As it is stored: dates and windows in order, each once. Raises InvalidField."""
    calendar = calendar_pb2.Calendar(
        namespace=_checked_namespace(given.namespace, "calendar.namespace"), name=given.name
    )
    validate.check_namespace(given.name, "calendar.name")
    for field, most in (("dates", limits.CALENDAR_DATES_MAX), ("windows", limits.CALENDAR_WINDOWS_MAX)):
        count = len(getattr(given, field))
        if count > most:
            raise InvalidField(
                f"{count:,} are too many; at most {most:,} are right", field=f"calendar.{field}", limit=str(most)
            )
    for number, text in enumerate(given.dates):
        try:
            day_number(text)
        except ValueError:
            raise InvalidField(
                f"`{text[:20]}` is not a day such as 2026-12-25", field=f"calendar.dates[{number}]"
            ) from None
    calendar.dates.extend(sorted(set(given.dates)))
    windows = set()
    for number, window in enumerate(given.windows):
        field = f"calendar.windows[{number}]"
        start_ms = validate.timestamp_ms(window.start, f"{field}.start")
        end_ms = validate.timestamp_ms(window.end, f"{field}.end")
        if not window.HasField("start") or not window.HasField("end") or end_ms <= start_ms:
            raise InvalidField("an end after the start is right", field=f"{field}.end")
        windows.add((start_ms, end_ms))
    for start_ms, end_ms in sorted(windows):
        added = calendar.windows.add()
        added.start.FromMilliseconds(start_ms)
        added.end.FromMilliseconds(end_ms)
    return calendar


def _checked_namespace(namespace: str, field: str = "namespace") -> str:
    if namespace:
        validate.check_namespace(namespace, field)
    return namespace or DEFAULT_NAMESPACE
