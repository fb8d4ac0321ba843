"""The client's calls about limits: how fast, and how many at once, executions are leased."""

from collections.abc import AsyncIterator

from raftsched.client import convert
from raftsched.client.fields import build
from raftsched.client.part import ClientPart
from raftsched.client.values import Limit, LimitScope
from raftsched.v1 import limit_pb2


class LimitCalls(ClientPart):
    """A part of Client."""

    async def put_limit(
        self,
        scope: LimitScope,
        name: str,
        *,
        concurrency: int = 0,
        rate_per_s: float = 0.0,
        burst: int = 0,
        weight: int = 0,
        request_id: str | None = None,
    ) -> Limit:
        """Creates or replaces the limit of a queue, tenant or handler; see limit.proto for the arguments.

        0 for concurrency and rate: any number. It counts from the next lease on; repeating it changes nothing.
        """
        request = build(limit_pb2.PutLimitRequest, request_id=convert.request_id(request_id))
        request.limit.SetInParent()
        convert.fill_limit(
            request.limit,
            scope,
            {"name": name, "concurrency": concurrency, "rate_per_s": rate_per_s, "burst": burst, "weight": weight},
        )
        answer: limit_pb2.PutLimitResponse = await self._mutate(lambda stubs: stubs.limits.PutLimit, request)
        return convert.limit_value(answer.limit)

    def limits(self, *, page_size: int = 0, linearizable: bool = False) -> AsyncIterator[Limit]:
        """All limits in order of scope and name, with what is leased under each, page by page as they are consumed."""
        request = build(limit_pb2.ListLimitsRequest, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.limits.ListLimits,
            request,
            linearizable,
            lambda page: page.limits,
            convert.limit_value,
        )

    async def delete_limit(self, scope: LimitScope, name: str, *, request_id: str | None = None) -> None:
        """Deletes a limit; harmless when there is none."""
        request = build(limit_pb2.DeleteLimitRequest, request_id=convert.request_id(request_id))
        convert.fill_limit(request, scope, {"name": name})
        await self._mutate(lambda stubs: stubs.limits.DeleteLimit, request)
