"""Workflows, dependencies and results, through the client and a worker, against a real node."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from raftsched.cli.local_cluster import LocalCluster
from raftsched.cli.processes import free_ports
from raftsched.client import (
    Client,
    Context,
    DependencyCycle,
    DependencyRule,
    ExecutionCause,
    InvalidField,
    Job,
    JobSpec,
    JobState,
    Node,
    NoResult,
    RetryPolicy,
    SyncClient,
    UnknownNode,
    Worker,
    WorkflowNotFound,
)
from raftsched.client.results import MAX_RESULT_BYTES

from . import handlers_for_processes
from .scripted_cluster import ScriptedCluster, serving

README = Path(__file__).resolve().parents[3] / "README.md"
DEADLINE_S = 30.0
ONCE = RetryPolicy(max_attempts=1)
ENDED = (JobState.SUCCEEDED, JobState.DEAD_LETTER, JobState.UPSTREAM_FAILED, JobState.CANCELLED)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that serves."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), free_ports(1), "workflow-tests") as cluster:
        cluster.start_nodes()
        cluster.wait_for(cluster.serving, DEADLINE_S, "the start of the node")
        yield cluster.addresses[1]


@asynccontextmanager
async def running(address: str, worker: Worker) -> AsyncIterator[Client]:
    async with Client([address]) as client, serving(worker):
        yield client


async def ended(client: Client, job_id: int) -> Job:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            job = await client.get(job_id)
            if job.state in ENDED:
                return job
            await asyncio.sleep(0.02)


async def result_of(client: Client, job_id: int) -> bytes:
    job = await ended(client, job_id)
    assert job.last_execution_id is not None
    return await client.get_result(job.last_execution_id)


def spec(handler: str, *, roots: bool = False, **fields: Any) -> JobSpec:
    return JobSpec(handler, run_at=datetime.now(UTC) if roots else None, retry=ONCE, **fields)


async def test_results_go_down_a_workflow(node: str) -> None:
    worker = Worker([node], queues=["flow"], processes=1)
    seen: dict[str, Any] = {}

    @worker.handler("extract")
    async def extract(_context: Context, _payload: bytes) -> dict[str, int]:
        return {"rows": 3}

    @worker.handler("double")
    def double(context: Context, _payload: bytes) -> str:
        rows = json.loads(context.upstream_result_sync("extract"))["rows"]
        return str(rows * 2)

    @worker.handler("sum")
    async def total(context: Context, _payload: bytes) -> bytes:
        seen["upstreams"] = [upstream.node for upstream in context.upstreams]
        by_job = context.upstreams[1].job_id
        parts = [await context.upstream_result("double"), await context.upstream_result(by_job)]
        return b"+".join(parts)

    worker.handler("process", process=True)(handlers_for_processes.return_upstreams)
    async with running(node, worker) as client:
        workflow = await client.create_workflow(
            [
                Node("sum", spec("sum", queue="flow"), depends_on=["double", "extract"]),
                Node("extract", spec("extract", roots=True, queue="flow")),
                Node("double", spec("double", queue="flow"), depends_on=["extract"]),
                Node("apart", spec("process", queue="flow"), depends_on=["double"]),
            ]
        )
        assert await result_of(client, workflow.job_ids["sum"]) == b'6+{"rows": 3}'
        assert seen["upstreams"] == ["double", "extract"]
        apart = json.loads(await result_of(client, workflow.job_ids["apart"]))
        assert apart["of"] == ["double"]
        assert apart["pid"] != os.getpid()
        nodes = [found async for found in client.workflow(workflow.id)]
        assert [found.name for found in nodes] == ["sum", "extract", "double", "apart"]
        assert nodes[0].depends_on == ("double", "extract")
        assert nodes[0].rule is DependencyRule.ALL_SUCCESS
        assert {found.job.state for found in nodes if found.job} == {JobState.SUCCEEDED}
        job = nodes[0].job
        assert job is not None
        assert (job.id, job.workflow_id) == (workflow.job_ids["sum"], workflow.id)
        assert job.depends_on == (workflow.job_ids["double"], workflow.job_ids["extract"])
        (execution,) = [found async for found in client.executions(job.id)]
        assert execution.cause is ExecutionCause.DEPENDENCY


async def test_the_readme_tells_what_works(node: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (create,) = [block for block in blocks if "create_workflow" in block]
    (handlers,) = [block for block in blocks if "upstream_result" in block]
    # On a queue of its own, and now rather than at two in the morning.
    create = create.replace('cron="0 2 * * *", time_zone="Europe/Berlin"', 'run_at=now, queue="readme"')
    create = create.replace('"etl.load"', '"etl.load", queue="readme"').replace('"mail.send"', '"m", queue="readme"')
    names = {"Node": Node, "JobSpec": JobSpec, "DependencyRule": DependencyRule, "json": json}
    worker = Worker([node], queues=["readme"])
    exec(handlers.replace("    file =", "    return"), {**names, "app": worker})
    worker.handler("m", inline=True)(lambda _context, _payload: None)
    async with running(node, worker) as client:
        scope: dict[str, Any] = {**names, "client": client, "now": datetime.now(UTC)}
        exec(f"async def run():\n{indent(create, '    ')}\n    return workflow", scope)
        workflow = await scope["run"]()
        assert await result_of(client, workflow.job_ids["load"]) == b"orders.csv"
        assert (await ended(client, workflow.job_ids["mail"])).state is JobState.SUCCEEDED


async def test_what_is_too_large_or_cannot_be_told_fails_for_good(node: str) -> None:
    worker = Worker([node], queues=["large"])

    @worker.handler("large")
    async def large(_context: Context, payload: bytes) -> bytes:
        return bytes(int(payload))

    @worker.handler("strange")
    def strange(_context: Context, _payload: bytes) -> object:
        return object()

    async with running(node, worker) as client:
        fits = await client.create("large", run_at=datetime.now(UTC), queue="large", payload=str(MAX_RESULT_BYTES))
        over = await client.create("large", run_at=datetime.now(UTC), queue="large", payload=str(MAX_RESULT_BYTES + 1))
        other = await client.create("strange", run_at=datetime.now(UTC), queue="large")
        assert len(await result_of(client, fits.id)) == MAX_RESULT_BYTES
        for job, told in (
            (over, "the handler returned 65,537 bytes; a result has at most 65,536: store it elsewhere"),
            (other, "the handler returned a object that is not JSON"),
        ):
            dead = await ended(client, job.id)
            assert dead.state is JobState.DEAD_LETTER
            assert dead.last_execution_id is not None
            execution = await client.get_execution(dead.last_execution_id)
            assert told in execution.error
            assert execution.attempt == 1
            with pytest.raises(NoResult):
                await client.get_result(dead.last_execution_id)


async def test_a_handler_is_told_which_upstreams_there_are(node: str) -> None:
    worker = Worker([node], queues=["asks"])

    @worker.handler("asks")
    async def asks(context: Context, payload: bytes) -> bytes:
        return await context.upstream_result(payload.decode())

    async with running(node, worker) as client:
        alone = await client.create("asks", run_at=datetime.now(UTC), queue="asks", payload="extract", retry=ONCE)
        dead = await ended(client, alone.id)
        assert dead.last_execution_id is not None
        execution = await client.get_execution(dead.last_execution_id)
        assert "'extract' is no upstream of this execution; it has: none" in execution.error


async def test_a_rule_says_what_a_failure_means(node: str) -> None:
    worker = Worker([node], queues=["rules"])

    @worker.handler("fail")
    async def fail(_context: Context, _payload: bytes) -> None:
        raise RuntimeError("no")

    @worker.handler("go")
    async def go(_context: Context, _payload: bytes) -> None:
        return None

    async with running(node, worker) as client:
        top = await client.create("fail", run_at=datetime.now(UTC) + timedelta(seconds=1), queue="rules", retry=ONCE)
        jobs = {
            rule: await client.create("go", depends_on=[top.id], rule=rule, queue="rules")
            for rule in (DependencyRule.ALL_SUCCESS, DependencyRule.ALL_DONE)
        }
        assert {job.state for job in jobs.values()} == {JobState.BLOCKED}
        assert (await ended(client, jobs[DependencyRule.ALL_DONE].id)).state is JobState.SUCCEEDED
        lost = await ended(client, jobs[DependencyRule.ALL_SUCCESS].id)
        assert (lost.state, lost.depends_on, lost.rule) == (
            JobState.UPSTREAM_FAILED,
            (top.id,),
            DependencyRule.ALL_SUCCESS,
        )


def test_a_script_creates_and_reads_workflows(node: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    def nodes(*upstreams: Sequence[str]) -> list[Node]:
        return [
            Node(name, JobSpec("h", run_at=None if of_node else later), depends_on=of_node)
            for name, of_node in zip("abc", upstreams, strict=False)
        ]

    with SyncClient([node]) as client:
        created = client.create_workflow(nodes([], ["a"], ["a", "b"]), request_id="w1")
        assert list(created.job_ids) == ["a", "b", "c"]
        assert client.create_workflow(nodes([], ["a"], ["a", "b"]), request_id="w1").existed
        states = [found.job.state for found in client.workflow(created.id) if found.job]
        assert states == [JobState.SCHEDULED, JobState.BLOCKED, JobState.BLOCKED]
        with pytest.raises(DependencyCycle) as cycle:
            client.create_workflow(nodes([], ["c"], ["b"]))
        assert cycle.value.metadata["path"] == "b -> c -> b"
        with pytest.raises(UnknownNode) as unknown:
            client.create_workflow(nodes([], ["x"]))
        assert unknown.value.field == "nodes[1].depends_on[0]"
        with pytest.raises(WorkflowNotFound):
            list(client.workflow(created.id + 1))
        with pytest.raises(InvalidField, match="exactly one of run_at, cron, every and depends_on"):
            client.create("h", run_at=later, depends_on=[1])
        with pytest.raises(InvalidField, match="only a job with depends_on has a rule"):
            client.create("h", run_at=later, rule=DependencyRule.ALL_DONE)
        with pytest.raises(InvalidField) as rootless:
            client.create_workflow([Node("a", JobSpec("h"))])
        assert rootless.value.field == "nodes[0].job.schedule"


async def test_results_are_a_column_only_where_something_was_returned() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("quiet")
        async def quiet(_context: Context, _payload: bytes) -> None:
            return None

        @worker.handler("some")
        async def some(context: Context, _payload: bytes) -> str | None:
            return f"r{context.execution_id}" if context.execution_id % 3 == 0 else None

        @worker.handler("much")
        async def much(_context: Context, _payload: bytes) -> bytes:
            return bytes(MAX_RESULT_BYTES)

        async with serving(worker):
            without = cluster.add("quiet", 10)
            await cluster.until(lambda: cluster.states(without) == {"SUCCEEDED"})
            assert not any(lease.results for ack in cluster.all_messages("ack") for lease in ack.leases)
            entries = cluster.add("some", 100)
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
            told = {
                execution: result
                for ack in cluster.all_messages("ack")
                for lease in ack.leases
                if lease.results
                for execution, result in zip(lease.execution_ids, lease.results, strict=True)
            }
            assert {execution for execution, result in told.items() if result} == {
                entry.id for entry in entries if entry.id % 3 == 0
            }
            assert all(result in (b"", f"r{execution}".encode()) for execution, result in told.items())
            large = cluster.add("much", 100)
            await cluster.until(lambda: cluster.states(large) == {"SUCCEEDED"})
            sizes = [ack.ByteSize() for ack in cluster.all_messages("ack")]
            assert max(sizes) < 1.2 * 1024 * 1024
