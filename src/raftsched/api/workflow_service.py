"""WorkflowService: registers workflows and shows how far their nodes are."""

import asyncio
import uuid
from collections.abc import Callable

from raftsched.api.core_gate import CoreGate
from raftsched.api.grpc_types import Context
from raftsched.api.job_service import COMMAND_MAX_BYTES, THREAD_FROM_JOBS
from raftsched.api.messages import node_message
from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.api.recurrence import calendars_for, uses_calendars
from raftsched.api.unknown_fields import refuse_unknown_fields
from raftsched.api.validate import check_id
from raftsched.api.workflows import create_workflow_command
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import IdempotencyConflict, InvalidField, RaftschedError, WorkflowNotFound
from raftsched.state.queries_workflows import list_nodes, workflow_size
from raftsched.state.results import JobsCreated, KeyConflict
from raftsched.store import keys
from raftsched.v1 import job_pb2, workflow_pb2, workflow_pb2_grpc


class WorkflowService(workflow_pb2_grpc.WorkflowServiceServicer):
    """One per server. `wall_ms` tells what "now" means in a request."""

    def __init__(self, gate: CoreGate, wall_ms: Callable[[], int]) -> None:
        self._gate = gate
        self._core = gate.core
        self._wall_ms = wall_ms

    async def CreateWorkflow(
        self, request: workflow_pb2.CreateWorkflowRequest, context: Context
    ) -> workflow_pb2.CreateWorkflowResponse:
        # A key of our own makes a command that is proposed twice, because its first answer was late, create once.
        request_id = request.request_id if request.HasField("request_id") else str(uuid.uuid4())

        def convert() -> command_pb2.Command:
            refuse_unknown_fields(request)
            with calendars_for(jobs, self._core.store) as find:
                return create_workflow_command(request.nodes, request_id, self._wall_ms(), find)

        jobs = [node.job for node in request.nodes]
        if uses_calendars(jobs):
            await self._gate.wait_readable(job_pb2.ReadOptions(linearizable=True), context)
        command = await asyncio.to_thread(convert) if len(request.nodes) >= THREAD_FROM_JOBS else convert()
        if command.ByteSize() > COMMAND_MAX_BYTES:
            raise InvalidField(
                f"The request makes a log entry of {command.ByteSize():,} bytes; at most {COMMAND_MAX_BYTES:,} are"
                " right.",
                field="nodes",
                limit=str(COMMAND_MAX_BYTES),
            )
        # A dependency costs about as much as a job.
        ops = sum(1 + len(node.depends_on) for node in request.nodes)
        try:
            result = await self._gate.submit(command, context, ops=ops)
        except RaftschedError as error:
            error.field = _of_node(error.field)
            raise
        if isinstance(result, KeyConflict):
            raise IdempotencyConflict(
                f"That request_id was used before for a request that differs; it created {len(result.job_ids)} jobs.",
                field="request_id",
                first_job_id=str(result.job_ids[0]),
            )
        assert isinstance(result, JobsCreated)
        return workflow_pb2.CreateWorkflowResponse(
            workflow_id=result.job_ids[0],
            job_ids=result.job_ids,
            existed=result.existed,
            index=self._gate.answered_index,
        )

    async def GetWorkflow(
        self, request: workflow_pb2.GetWorkflowRequest, context: Context
    ) -> workflow_pb2.GetWorkflowResponse:
        refuse_unknown_fields(request)
        check_id(request.id)
        limit, scope = page_size(request.page_size), keys.pack_id(request.id)
        position = decode_token(request.page_token, Listing.WORKFLOW, scope)
        await self._gate.wait_readable(request.read, context)
        with self._core.store.read() as view:
            size = workflow_size(view, request.id)
            if size is None:
                raise WorkflowNotFound(workflow_id=str(request.id))
            page = list_nodes(view, request.id, size, first=position[0] if position else 0, limit=limit)
            return workflow_pb2.GetWorkflowResponse(
                id=request.id,
                nodes=map(node_message, page.items),
                next_page_token=encode_token(Listing.WORKFLOW, scope, page.next) if page.next is not None else "",
                index=view.state().applied_index,
            )


def _of_node(field: str) -> str:
    """The state machine knows the nodes as jobs: jobs[3].name is nodes[3].job.name."""
    if not field.startswith("jobs["):
        return field
    number, _, rest = field.removeprefix("jobs[").partition("]")
    return f"nodes[{number}].job{rest}"
