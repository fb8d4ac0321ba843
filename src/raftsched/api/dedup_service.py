"""DedupService: keys that handlers claim, so that what may run twice takes effect once."""

from raftsched.api import validate
from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_settings import DEFAULT_NAMESPACE
from raftsched.api.messages import timestamp
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.internal.v1 import command_pb2
from raftsched.model import limits
from raftsched.model.errors import InvalidField
from raftsched.state.results import KeyClaimed
from raftsched.v1 import dedup_pb2, dedup_pb2_grpc


class DedupService(dedup_pb2_grpc.DedupServiceServicer):
    """One per server."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate

    async def Claim(self, request: dedup_pb2.ClaimRequest, context: Context) -> dedup_pb2.ClaimResponse:
        refuse_unknown_fields(request)
        namespace = _checked_namespace(request.namespace)
        _check_key(request.key)
        validate.check_id(request.execution_id, "execution_id")
        validate.check_id(request.token, "token")
        keep_ms = limits.DEDUP_KEEP_DEFAULT_MS
        if request.HasField("keep"):
            keep_ms = validate.duration_ms(
                request.keep, "keep", low_ms=limits.DEDUP_KEEP_MIN_MS, high_ms=limits.DEDUP_KEEP_MAX_MS
            )
        command = command_pb2.ClaimKey(
            namespace=namespace,
            key=request.key,
            execution=request.execution_id,
            token=request.token,
            keep_ms=keep_ms,
        )
        result = await self._gate.submit(command_pb2.Command(claim_key=command), context)
        assert isinstance(result, KeyClaimed)
        return dedup_pb2.ClaimResponse(
            claimed=result.claimed,
            completed=result.completed,
            result=result.result,
            owner_token=result.token,
            expire_time=timestamp(result.expiry_ms),
            index=self._gate.answered_index,
        )

    async def Complete(self, request: dedup_pb2.CompleteRequest, context: Context) -> dedup_pb2.CompleteResponse:
        refuse_unknown_fields(request)
        namespace = _checked_namespace(request.namespace)
        _check_key(request.key)
        validate.check_id(request.token, "token")
        if len(request.result) > limits.RESULT_MAX_BYTES:
            raise InvalidField(
                f"{len(request.result):,} bytes are too many; at most {limits.RESULT_MAX_BYTES:,} are right",
                field="result",
                limit=str(limits.RESULT_MAX_BYTES),
            )
        command = command_pb2.CompleteKey(
            namespace=namespace, key=request.key, token=request.token, result=request.result
        )
        await self._gate.submit(command_pb2.Command(complete_key=command), context)
        return dedup_pb2.CompleteResponse(index=self._gate.answered_index)


def _checked_namespace(given: str) -> str:
    namespace = given or DEFAULT_NAMESPACE
    validate.check_namespace(namespace)
    return namespace


def _check_key(key: str) -> None:
    if not key:
        raise InvalidField(f"empty; 1–{limits.DEDUP_KEY_MAX_LENGTH} characters are right", field="key")
    validate.check_text(key, limits.DEDUP_KEY_MAX_LENGTH, "key")
