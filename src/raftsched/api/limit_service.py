"""LimitService: how fast, and how many at once, executions of a queue, tenant or handler are leased."""

import math
from typing import cast

from raftsched.api import validate
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.queries_limits import LimitRecord, list_limits
from raftsched.state.results import LimitStored
from raftsched.v1 import limit_pb2, limit_pb2_grpc

_TENANT = limit_pb2.LIMIT_SCOPE_TENANT


class LimitService(limit_pb2_grpc.LimitServiceServicer):
    """One per server."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate

    async def PutLimit(self, request: limit_pb2.PutLimitRequest, context: Context) -> limit_pb2.PutLimitResponse:
        refuse_unknown_fields(request)
        command = _put_command(request.limit)
        _check_request_id(request)
        stored = await self._gate.submit(command_pb2.Command(put_limit=command), context)
        assert isinstance(stored, LimitStored)
        record = LimitRecord(command.scope, command.name, stored.row, stored.leased)
        return limit_pb2.PutLimitResponse(limit=_message(record), index=self._gate.answered_index)

    async def ListLimits(self, request: limit_pb2.ListLimitsRequest, context: Context) -> limit_pb2.ListLimitsResponse:
        refuse_unknown_fields(request)
        limit = page_size(request.page_size)
        after = decode_token(request.page_token, Listing.LIMITS, b"")
        await self._gate.wait_readable(request.read, context)
        with self._gate.core.store.read() as view:
            page = list_limits(view, after=after, limit=limit)
            return limit_pb2.ListLimitsResponse(
                limits=map(_message, page.items),
                next_page_token=encode_token(Listing.LIMITS, b"", *page.next) if page.next is not None else "",
                index=view.state().applied_index,
            )

    async def DeleteLimit(
        self, request: limit_pb2.DeleteLimitRequest, context: Context
    ) -> limit_pb2.DeleteLimitResponse:
        refuse_unknown_fields(request)
        _check_name(request.scope, request.name, "")
        _check_request_id(request)
        command = command_pb2.DeleteLimit(scope=request.scope, name=request.name)
        await self._gate.submit(command_pb2.Command(delete_limit=command), context)
        return limit_pb2.DeleteLimitResponse(index=self._gate.answered_index)


def _put_command(limit: limit_pb2.Limit) -> command_pb2.PutLimit:
    """Raises InvalidField."""
    _check_name(limit.scope, limit.name, "limit.")
    if limit.leased:
        raise InvalidField("set by the server only; leave it unset", field="limit.leased")
    for field, high in (
        ("concurrency", limits.CONCURRENCY_MAX),
        ("burst", limits.BURST_MAX),
        ("weight", limits.WEIGHT_MAX),
    ):
        if getattr(limit, field) > high:
            raise InvalidField(f"{getattr(limit, field):,} is not 1–{high:,}", field=f"limit.{field}")
    if limit.burst and not limit.rate_per_s:
        raise InvalidField("means nothing without a rate_per_s", field="limit.burst")
    if limit.weight and limit.scope != _TENANT:
        raise InvalidField("only tenants are served by weight; leave it unset", field="limit.weight")
    if not (limit.concurrency or limit.rate_per_s or limit.weight):
        raise InvalidField("limits nothing; set concurrency, rate_per_s, or a tenant's weight", field="limit")
    return command_pb2.PutLimit(
        scope=limit.scope,
        name=limit.name,
        concurrency=limit.concurrency,
        rate=_rate(limit.rate_per_s),
        burst=limit.burst,
        weight=limit.weight,
    )


def _rate(per_s: float) -> int:
    """Executions in 1,000 seconds. Raises InvalidField."""
    if per_s == 0:
        return 0
    # Written so that NaN, which is neither less nor greater, is refused.
    if not (math.isfinite(per_s) and limits.RATE_PER_S_MIN <= per_s <= limits.RATE_PER_S_MAX):
        raise InvalidField(
            f"{per_s} is not {limits.RATE_PER_S_MIN}–{limits.RATE_PER_S_MAX:,}", field="limit.rate_per_s"
        )
    rate = round(per_s * 1000)
    if not math.isclose(rate, per_s * 1000, rel_tol=1e-9):
        raise InvalidField(f"{per_s} is not a multiple of {limits.RATE_PER_S_MIN}", field="limit.rate_per_s")
    return rate


def _check_name(scope: int, name: str, prefix: str) -> None:
    if scope == limit_pb2.LIMIT_SCOPE_QUEUE:
        validate.check_queue(name, f"{prefix}name")
    elif scope == limit_pb2.LIMIT_SCOPE_HANDLER:
        validate.check_handler(name, f"{prefix}name")
    elif scope == _TENANT:
        if not name:
            raise InvalidField(f"empty; 1–{limits.TENANT_MAX_LENGTH} characters are right", field=f"{prefix}name")
        validate.check_text(name, limits.TENANT_MAX_LENGTH, f"{prefix}name")
    else:
        raise InvalidField(f"{scope} is not a scope; QUEUE, TENANT and HANDLER are right", field=f"{prefix}scope")


def _check_request_id(request: limit_pb2.PutLimitRequest | limit_pb2.DeleteLimitRequest) -> None:
    if request.HasField("request_id"):
        validate.check_request_id(request.request_id)


def _message(record: LimitRecord) -> limit_pb2.Limit:
    row = record.row
    return limit_pb2.Limit(
        scope=cast("limit_pb2.LimitScope", record.scope),
        name=record.name,
        concurrency=row.concurrency,
        rate_per_s=row.rate / 1000,
        burst=row.burst,
        weight=row.weight if record.scope == _TENANT else 0,
        leased=record.leased,
    )
