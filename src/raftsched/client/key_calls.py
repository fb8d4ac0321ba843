"""The client's calls about keys that handlers claim; see `Context.dedup` for the usual way."""

from datetime import timedelta

from raftsched.client import convert
from raftsched.client.fields import build, set_duration
from raftsched.client.part import ClientPart
from raftsched.client.values import KeyClaim
from raftsched.v1 import dedup_pb2


class KeyCalls(ClientPart):
    """A part of Client."""

    async def claim_key(
        self, key: str, *, execution_id: int, token: int, namespace: str = "", keep: timedelta | None = None
    ) -> KeyClaim:
        """Claims a key for a run of an execution; repeating it is harmless.

        Only the first run to claim it, or the next after one whose lease ended before it completed the key, is told
        `claimed`. The key is kept for `keep` after its last change, 7 days by default. Raises LeaseOver when that run
        was overtaken.
        """
        request = build(
            dedup_pb2.ClaimRequest,
            namespace=namespace or self.namespace,
            key=key,
            execution_id=execution_id,
            token=token,
        )
        if keep is not None:
            set_duration(request.keep, keep, "keep")
        answer: dedup_pb2.ClaimResponse = await self._call(lambda stubs: stubs.dedup.Claim, request)
        return convert.claim_value(answer)

    async def complete_key(self, key: str, *, token: int, result: bytes = b"", namespace: str = "") -> None:
        """Says that what the key stands for is done; later claims are given `result`, up to 64 KiB.

        Repeating it is harmless. Raises KeyNotOwned when another run has claimed the key since.
        """
        request = build(
            dedup_pb2.CompleteRequest, namespace=namespace or self.namespace, key=key, token=token, result=result
        )
        await self._call(lambda stubs: stubs.dedup.Complete, request)
