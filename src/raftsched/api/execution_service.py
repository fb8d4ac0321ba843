"""ExecutionService: histories of jobs, occurrences that did not run, dead letters and their replay."""

from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.messages import (
    attempt_message,
    dead_letter_message,
    execution_message,
    occurrence_message,
    skipped_message,
)
from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.unstoppable import DROP_TIMEOUT_S, Unstoppable
from raftsched.api.validate import check_id, check_namespace, check_request_id, timestamp_ms
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ExecutionNotFound, InvalidField, JobNotFound
from raftsched.model.limits import REPLAY_MAX_EXECUTIONS
from raftsched.state.queries import DEFAULT_NAME, JobRecord, get_job
from raftsched.state.queries_executions import (
    DeadLetterPosition,
    attempts_of,
    get_execution,
    get_result,
    list_dead_letters,
    list_executions,
    list_skipped,
)
from raftsched.state.queries_occurrences import OccurrencePosition, list_occurrences
from raftsched.state.results import CancelNeedsWorker, Replayed
from raftsched.store import keys
from raftsched.store.environment import View
from raftsched.v1 import execution_pb2, execution_pb2_grpc, job_pb2


class ExecutionService(execution_pb2_grpc.ExecutionServiceServicer):
    """One per server."""

    def __init__(self, gate: CoreGate) -> None:
        self._gate = gate
        self._core = gate.core
        self._cancelling = Unstoppable()

    async def GetExecution(
        self, request: execution_pb2.GetExecutionRequest, context: Context
    ) -> execution_pb2.GetExecutionResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            record = get_execution(view, request.id)
            if record is None:
                raise ExecutionNotFound(execution_id=str(request.id))
            execution = execution_message(record)
            execution.attempts.extend(map(attempt_message, attempts_of(view, record)))
            return execution_pb2.GetExecutionResponse(execution=execution, index=_index(view))

    async def ListExecutions(
        self, request: execution_pb2.ListExecutionsRequest, context: Context
    ) -> execution_pb2.ListExecutionsResponse:
        refuse_unknown_fields(request)
        check_id(request.job_id, "job_id")
        limit, scope = page_size(request.page_size), keys.pack_id(request.job_id)
        position = decode_token(request.page_token, Listing.EXECUTIONS, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            job = _job(view, request.job_id)
            newest = position[0] if position else job.row.last_execution
            page = list_executions(view, request.job_id, newest=newest, limit=limit)
            return execution_pb2.ListExecutionsResponse(
                executions=map(execution_message, page.items),
                next_page_token=encode_token(Listing.EXECUTIONS, scope, page.next) if page.next else "",
                index=_index(view),
            )

    async def ListSkippedOccurrences(
        self, request: execution_pb2.ListSkippedOccurrencesRequest, context: Context
    ) -> execution_pb2.ListSkippedOccurrencesResponse:
        refuse_unknown_fields(request)
        check_id(request.job_id, "job_id")
        limit, scope = page_size(request.page_size), keys.pack_id(request.job_id)
        position = decode_token(request.page_token, Listing.SKIPPED, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            _job(view, request.job_id)
            page = list_skipped(view, request.job_id, after_ms=position[0] if position else None, limit=limit)
            return execution_pb2.ListSkippedOccurrencesResponse(
                occurrences=map(skipped_message, page.items),
                next_page_token=encode_token(Listing.SKIPPED, scope, page.next) if page.next is not None else "",
                index=_index(view),
            )

    async def GetResult(
        self, request: execution_pb2.GetResultRequest, context: Context
    ) -> execution_pb2.GetResultResponse:
        refuse_unknown_fields(request)
        check_id(request.execution_id, "execution_id")
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            result = get_result(view, request.execution_id)
            return execution_pb2.GetResultResponse(result=result, index=_index(view))

    async def ListOccurrences(
        self, request: execution_pb2.ListOccurrencesRequest, context: Context
    ) -> execution_pb2.ListOccurrencesResponse:
        refuse_unknown_fields(request)
        check_id(request.job_id, "job_id")
        start_ms, end_ms = _range_ms(request)
        limit, scope = page_size(request.page_size), keys.pack_ids((request.job_id, start_ms, end_ms))
        position = decode_token(request.page_token, Listing.OCCURRENCES, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            place = position or (end_ms, _job(view, request.job_id).row.last_execution)
            page = list_occurrences(
                view, request.job_id, start_ms=start_ms, position=OccurrencePosition(*place), limit=limit
            )
            token = ""
            if page.next is not None:
                token = encode_token(Listing.OCCURRENCES, scope, page.next.before_ms, page.next.execution)
            return execution_pb2.ListOccurrencesResponse(
                occurrences=map(occurrence_message, page.items), next_page_token=token, index=_index(view)
            )

    async def ListDeadLetters(
        self, request: execution_pb2.ListDeadLettersRequest, context: Context
    ) -> execution_pb2.ListDeadLettersResponse:
        refuse_unknown_fields(request)
        namespace = request.namespace or DEFAULT_NAME
        check_namespace(namespace)
        limit, scope = page_size(request.page_size), namespace.encode()
        position = decode_token(request.page_token, Listing.DEAD_LETTERS, scope)
        after = DeadLetterPosition(*position) if position else None
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            page = list_dead_letters(view, namespace, after=after, limit=limit)
            token = ""
            if page.next is not None:
                token = encode_token(Listing.DEAD_LETTERS, scope, page.next.dead_ms, page.next.execution)
            return execution_pb2.ListDeadLettersResponse(
                dead_letters=map(dead_letter_message, page.items), next_page_token=token, index=_index(view)
            )

    async def CancelExecution(
        self, request: execution_pb2.CancelExecutionRequest, context: Context
    ) -> execution_pb2.CancelExecutionResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        await self._cancelling.run(self._cancel(request.id, context))
        index = self._gate.answered_index
        await self._gate.wait_readable(job_pb2.ReadOptions(), context)
        with self._core.store.read() as view:
            record = get_execution(view, request.id)
            if record is None:
                raise ExecutionNotFound(execution_id=str(request.id))
            return execution_pb2.CancelExecutionResponse(execution=execution_message(record), index=index)

    async def _cancel(self, execution: int, context: Context) -> None:
        command = command_pb2.Command(cancel_execution=command_pb2.CancelExecution(execution=execution))
        while True:
            result = await self._gate.submit(command, context, at_least_s=DROP_TIMEOUT_S)
            if not isinstance(result, CancelNeedsWorker):
                return
            # Each round is about another lease; who does not answer is taken to have begun.
            dropped = await self._core.ask_worker(result.session, result.execution, result.token, DROP_TIMEOUT_S)
            command.cancel_execution.dropped_token = result.token if dropped else 0
            command.cancel_execution.begun_token = 0 if dropped else result.token

    async def ReplayDeadLetters(
        self, request: execution_pb2.ReplayDeadLettersRequest, context: Context
    ) -> execution_pb2.ReplayDeadLettersResponse:
        refuse_unknown_fields(request)
        ids = request.execution_ids
        if not ids:
            raise InvalidField("At least one execution is required.", field="execution_ids")
        if len(ids) > REPLAY_MAX_EXECUTIONS:
            raise InvalidField(
                f"At most {REPLAY_MAX_EXECUTIONS:,} executions at once.",
                field="execution_ids",
                limit=str(REPLAY_MAX_EXECUTIONS),
            )
        if request.HasField("request_id"):
            check_request_id(request.request_id)
        command = command_pb2.Command(replay_dead_letters=command_pb2.ReplayDeadLetters(executions=keys.pack_ids(ids)))
        replayed = await self._gate.submit(command, context, ops=len(ids))
        assert isinstance(replayed, Replayed)
        return execution_pb2.ReplayDeadLettersResponse(
            new_execution_ids=replayed.executions, index=self._gate.answered_index
        )


def _range_ms(request: execution_pb2.ListOccurrencesRequest) -> tuple[int, int]:
    """The first time that is listed, and the first after it that is not. Raises InvalidField."""
    start_ms, end_ms = 0, keys.MAX_MS
    if request.HasField("start"):
        start_ms = min(max(timestamp_ms(request.start, "start"), 0), keys.MAX_MS)
    if request.HasField("end"):
        end_ms = min(max(timestamp_ms(request.end, "end"), 0), keys.MAX_MS)
    if end_ms < start_ms:
        raise InvalidField("before start", field="end")
    return start_ms, end_ms


def _job(view: View, job: int) -> JobRecord:
    record = get_job(view, job)
    if record is None:
        raise JobNotFound(field="job_id", job_id=str(job))
    return record


def _index(view: View) -> int:
    return view.state().applied_index
