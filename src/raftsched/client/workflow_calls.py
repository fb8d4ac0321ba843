"""The client's calls about workflows and results."""

from collections.abc import AsyncIterator, Iterable

from raftsched.client import convert
from raftsched.client.fields import build, within
from raftsched.client.part import ClientPart
from raftsched.client.values import Node, NodeState, Workflow
from raftsched.v1 import execution_pb2, workflow_pb2


def _node(number: int, node: Node, namespace: str) -> workflow_pb2.WorkflowNode:
    with within(f"nodes[{number}]"):
        return convert.node_message(node, namespace)


class WorkflowCalls(ClientPart):
    """A part of Client."""

    async def create_workflow(self, nodes: Iterable[Node], *, request_id: str | None = None) -> Workflow:
        """Registers a job for each node, all or none: up to 10,000, with up to 50,000 dependencies together.

        `request_id` is an idempotency key, as in create. Raises DependencyCycle and UnknownNode, which name the path,
        InvalidField, NameTaken and IdempotencyConflict.
        """
        request = build(
            workflow_pb2.CreateWorkflowRequest,
            nodes=[_node(number, node, self.namespace) for number, node in enumerate(nodes)],
            request_id=convert.request_id(request_id),
        )
        answer: workflow_pb2.CreateWorkflowResponse = await self._mutate(
            lambda stubs: stubs.workflows.CreateWorkflow, request
        )
        jobs = dict(zip((node.name for node in request.nodes), answer.job_ids, strict=True))
        return Workflow(id=answer.workflow_id, job_ids=jobs, existed=answer.existed)

    def workflow(self, workflow_id: int, *, page_size: int = 0, linearizable: bool = False) -> AsyncIterator[NodeState]:
        """The nodes of a workflow with their jobs, in the order of the request. Raises WorkflowNotFound."""
        request = build(workflow_pb2.GetWorkflowRequest, id=workflow_id, page_size=page_size)
        return self._pages(
            lambda stubs: stubs.workflows.GetWorkflow,
            request,
            linearizable,
            lambda page: page.nodes,
            convert.node_value,
        )

    async def get_result(self, execution_id: int, *, linearizable: bool = False) -> bytes:
        """What the handler of an execution returned; empty when it returned nothing.

        Raises ExecutionNotFound, and NoResult while it has not succeeded.
        """
        request = build(execution_pb2.GetResultRequest, execution_id=execution_id, read=self._read(linearizable))
        answer: execution_pb2.GetResultResponse = await self._call(lambda stubs: stubs.executions.GetResult, request)
        return answer.result
