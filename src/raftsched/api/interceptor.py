"""What happens around every call, once for all services: admission, errors into statuses, and the access log."""

import asyncio
import inspect
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from time import monotonic
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from raftsched.api.errors import status_of
from raftsched.api.grpc_types import Context, Handler, Interceptor
from raftsched.model.errors import Code, InvalidField, NodeDraining, ProtocolViolation, RaftschedError, TooManyRequests

# One line for each call, under its own name so that operators can turn it up, down or elsewhere.
access_log = logging.getLogger("raftsched.access")
log = logging.getLogger(__name__)

# Unary calls of the public services that may be under way; each may hold a request of MAX_MESSAGE_BYTES at worst.
MAX_CALLS = 2_000
# A batch may be as large as any message (server.py); limits.BATCH_MAX_BYTES then says what of it is too large.
MAX_REQUEST_BYTES = {"/raftsched.v1.JobService/BatchCreateJobs": 64 << 20}
# Any other: a job with its payload and labels.
MAX_OTHER_REQUEST_BYTES = 1 << 20
PUBLIC_PREFIX = "/raftsched.v1."
# What operators want to see without asking: the rest is the caller's business.
SERVER_FAULTS = frozenset({Code.INTERNAL, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED})


class CallInterceptor(Interceptor):
    """Wraps the handlers of all services of one server."""

    def __init__(self, *, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._calls = 0
        # Method -> (its handler, that handler wrapped); filled only for methods that exist, so it cannot grow.
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        method = handler_call_details.method
        cached = self._wrapped.get(method)
        if cached is None or cached[0] is not handler:
            cached = self._wrapped[method] = (handler, self._wrap(handler, method))
        return cached[1]

    def _wrap(self, handler: Handler, method: str) -> Handler:
        make, behaviour = _parts(handler)
        counted = not handler.request_streaming and not handler.response_streaming and method.startswith(PUBLIC_PREFIX)

        if inspect.isasyncgenfunction(behaviour):

            async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
                async with self._guard(context, method):
                    if isinstance(request, DecodeError | RaftschedError):
                        raise request
                    async with aclosing(behaviour(request, context)) as responses:
                        async for response in responses:
                            yield response

            wrapped: Callable[[Any, Context], Any] = stream
        else:

            async def call(request: Any, context: Context) -> Any:
                async with self._guard(context, method):
                    if isinstance(request, DecodeError | RaftschedError):
                        raise request
                    if not counted:
                        return await behaviour(request, context)
                    with _Admission(self):
                        return await behaviour(request, context)

            wrapped = call
        deserializer = handler.request_deserializer
        if not handler.request_streaming:
            deserializer = _deferring(deserializer, MAX_REQUEST_BYTES.get(method, MAX_OTHER_REQUEST_BYTES))
        return make(wrapped, request_deserializer=deserializer, response_serializer=handler.response_serializer)

    @property
    def calls(self) -> int:
        """Counted calls under way."""
        return self._calls

    def enter_call(self) -> None:
        if self._calls >= self._max_calls:
            raise TooManyRequests(limit=str(self._max_calls))
        self._calls += 1

    def leave_call(self) -> None:
        self._calls -= 1

    @asynccontextmanager
    async def _guard(self, context: Context, method: str) -> AsyncIterator[None]:
        began_s = monotonic()
        try:
            yield
        except grpc.aio.AbortError:
            # A service that chose its status itself, such as health for an unknown name.
            _log_failure(context, method, began_s, level=logging.INFO, code=_name(context.code()), reason="ABORTED")
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The caller went away or the server is out of grace: nobody is there to be answered.
                _log_failure(context, method, began_s, level=logging.DEBUG, code="CANCELLED", reason="CALL_CANCELLED")
                raise
            # Something this call waited for was cancelled: that only happens when the node takes its parts down.
            await _refuse(context, method, began_s, NodeDraining())
        except RaftschedError as error:
            await _refuse(context, method, began_s, error)
        except DecodeError:
            await _refuse(context, method, began_s, ProtocolViolation("The bytes are not a message of this method."))
        except Exception as error:
            if isinstance(error, grpc.aio.BaseError) and context.done():
                # Reading from or writing to a stream whose other end is gone.
                _log_failure(context, method, began_s, level=logging.DEBUG, code="CANCELLED", reason="STREAM_BROKEN")
                return
            error_id = uuid.uuid4().hex
            log.exception("unexpected error %s in %s", error_id, method, extra={"error_id": error_id, "method": method})
            await _refuse(context, method, began_s, RaftschedError(f"Internal error {error_id}.", error_id=error_id))
        else:
            if access_log.isEnabledFor(logging.DEBUG):
                access_log.debug("%s", method, extra=_fields(context, method, began_s, code="OK", reason=""))


class _Admission:
    """Counts one call while it runs. Raises TooManyRequests on entry when there are too many."""

    __slots__ = ("_interceptor",)

    def __init__(self, interceptor: CallInterceptor) -> None:
        self._interceptor = interceptor

    def __enter__(self) -> None:
        self._interceptor.enter_call()

    def __exit__(self, *exc_info: object) -> None:
        self._interceptor.leave_call()


def _parts(handler: Handler) -> tuple[Callable[..., Handler], Callable[..., Any]]:
    if handler.unary_unary is not None:
        return grpc.unary_unary_rpc_method_handler, handler.unary_unary
    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler, handler.unary_stream
    if handler.stream_unary is not None:
        return grpc.stream_unary_rpc_method_handler, handler.stream_unary
    assert handler.stream_stream is not None
    return grpc.stream_stream_rpc_method_handler, handler.stream_stream


def _deferring(deserializer: Callable[[bytes], Any] | None, max_bytes: int) -> Callable[[bytes], Any] | None:
    """Hands an error to the handler in place of the request: raised here, gRPC would answer for us, and badly.

    What is too large is not even parsed: a large map costs more than its bytes, and holds up everybody.
    """
    if deserializer is None:
        return None

    def deserialize(data: bytes) -> Any:
        if len(data) > max_bytes:
            return InvalidField(f"{len(data)} bytes are too many; at most {max_bytes} are right", field="request")
        try:
            return deserializer(data)
        except DecodeError as error:
            return error

    return deserialize


async def _refuse(context: Context, method: str, began_s: float, error: RaftschedError) -> None:
    level = logging.WARNING if error.code in SERVER_FAULTS else logging.INFO
    _log_failure(context, method, began_s, level=level, code=error.code.name, reason=error.reason, field=error.field)
    status = rpc_status.to_status(status_of(error))
    await context.abort(status.code, status.details, status.trailing_metadata)


def _log_failure(
    context: Context, method: str, began_s: float, *, level: int, code: str, reason: str, field: str = ""
) -> None:
    extra = _fields(context, method, began_s, code=code, reason=reason)
    if field:
        extra["field"] = field
    access_log.log(level, "%s %s %s", method, code, reason, extra=extra)


def _fields(context: Context, method: str, began_s: float, *, code: str, reason: str) -> dict[str, object]:
    return {
        "method": method,
        "peer": context.peer(),
        "code": code,
        "reason": reason,
        "duration_ms": round((monotonic() - began_s) * 1000, 3),
    }


def _name(code: object) -> str:
    """aio contexts hold the number of a status, or the enum, by how it was set."""
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((status.name for status in grpc.StatusCode if status.value[0] == code), str(code))
