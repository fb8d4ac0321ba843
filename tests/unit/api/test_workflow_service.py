"""Workflows and dependencies through the API."""

import grpc
import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.store import keys
from raftsched.v1 import execution_pb2, job_pb2, workflow_pb2
from tests.unit.api.job_requests import cron, job, seconds
from tests.unit.api.support import Api, refused

NOW = job_pb2.ReadOptions(linearizable=True)
BLOCKED = job_pb2.JOB_STATE_BLOCKED
PAST = job_pb2.Job(handler="h", run_at={"seconds": 1}, retry=job_pb2.RetryPolicy(max_attempts=1))


def node(label: str, *depends_on: str, rule: int = 0, **fields: object) -> workflow_pb2.WorkflowNode:
    body = job_pb2.Job(handler="h", retry=job_pb2.RetryPolicy(max_attempts=1), **fields)  # type: ignore[arg-type]
    if not depends_on and body.WhichOneof("schedule") is None:
        body.run_at.seconds = 1
    return workflow_pb2.WorkflowNode(name=label, depends_on=depends_on, job=body, rule=rule)


async def create(
    api: Api, *nodes: workflow_pb2.WorkflowNode, request_id: str | None = None
) -> workflow_pb2.CreateWorkflowResponse:
    return await api.workflows.CreateWorkflow(workflow_pb2.CreateWorkflowRequest(nodes=nodes, request_id=request_id))


async def create_dependent(api: Api, *ids: int, rule: int = 0, **fields: object) -> job_pb2.Job:
    dependencies = job_pb2.Dependencies(job_ids=ids, rule=rule)
    request = job_pb2.CreateJobRequest(job=job(dependencies=dependencies, **fields))
    return (await api.jobs.CreateJob(request)).job


async def states(api: Api, workflow: int) -> dict[str, str]:
    page = await api.workflows.GetWorkflow(workflow_pb2.GetWorkflowRequest(read=NOW, id=workflow))
    return {found.name: job_pb2.JobState.Name(found.job.state).removeprefix("JOB_STATE_") for found in page.nodes}


def run(api: Api, *, fail: bool = False) -> list[int]:
    """Runs what is ready; the jobs that ran."""
    api.core.fire()
    leased = api.core.lease(api.core.open_session())
    (api.core.fail if fail else api.core.succeed)(leased)
    return list(leased.jobs)


async def test_a_job_depends_on_existing_ones(api: Api) -> None:
    first = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))).job
    join = await create_dependent(api, first.id)
    assert join.state == BLOCKED
    assert list(join.dependencies.job_ids) == [first.id]
    assert join.dependencies.rule == job_pb2.DEPENDENCY_RULE_ALL_SUCCESS
    assert not join.HasField("next_run_time")
    assert run(api) == [first.id]
    assert run(api) == [join.id]
    told = (await api.jobs.GetJob(job_pb2.GetJobRequest(read=NOW, id=join.id))).job
    assert told.state == job_pb2.JOB_STATE_SUCCEEDED
    assert told.WhichOneof("schedule") == "dependencies"
    executions = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(read=NOW, job_id=join.id))
    assert [found.cause for found in executions.executions] == [execution_pb2.EXECUTION_CAUSE_DEPENDENCY]


async def test_a_dead_upstream_shows_and_can_be_listed(api: Api) -> None:
    first = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))).job
    join = await create_dependent(api, first.id)
    run(api, fail=True)
    failed = job_pb2.JobFilter(state=job_pb2.JOB_STATE_UPSTREAM_FAILED)
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(read=NOW, filter=failed))
    assert [found.id for found in page.jobs] == [join.id]


async def test_the_same_dependencies_twice_are_one_job_and_others_are_a_conflict(api: Api) -> None:
    ids = [(await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))).job.id for _ in range(2)]

    async def ask(*upstreams: int, rule: int = 0) -> job_pb2.CreateJobResponse:
        dependencies = job_pb2.Dependencies(job_ids=upstreams, rule=rule)
        request = job_pb2.CreateJobRequest(job=job(dependencies=dependencies), request_id="k")
        return await api.jobs.CreateJob(request)

    created = await ask(*ids)
    assert (await ask(*ids)).job.id == created.job.id
    # Two ways to say the same.
    assert (await ask(*ids, rule=job_pb2.DEPENDENCY_RULE_ALL_SUCCESS)).existed
    for upstreams, rule, differs in ((ids[:1], 0, "dependencies"), (ids, 2, "dependencies.rule")):
        async with refused() as told:
            await ask(*upstreams, rule=rule)
        assert (told.code, told.metadata["differs"]) == (grpc.StatusCode.ALREADY_EXISTS, differs)


@pytest.mark.parametrize(
    ("ids", "rule", "field"),
    [
        ([], 0, "job.dependencies.job_ids"),
        ([1, 0], 0, "job.dependencies.job_ids[1]"),
        ([1, 1], 0, "job.dependencies.job_ids[1]"),
        ([1], 9, "job.dependencies.rule"),
        (list(range(1, 502)), 0, "job.dependencies.job_ids"),
    ],
)
async def test_bad_dependencies_are_refused_by_name(api: Api, ids: list[int], rule: int, field: str) -> None:
    async with refused() as told:
        await create_dependent(api, *ids, rule=rule)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


@pytest.mark.parametrize(
    "fields",
    [
        {"jitter": seconds(5)},
        {"overlap": job_pb2.OVERLAP_POLICY_SKIP},
        {"catch_up": job_pb2.CATCH_UP_POLICY_ALL},
        {"pause_after_failures": 2},
        {"start_deadline": seconds(5)},
        {"max_runs": 3},
        {"overlap_limit": 3},
        {"catch_up_window": seconds(5)},
        {"catch_up_limit": 3},
        {"catch_up_interval": seconds(5)},
    ],
)
async def test_what_means_nothing_for_a_job_that_waits_is_refused(api: Api, fields: dict[str, object]) -> None:
    async with refused() as told:
        await create_dependent(api, 1, **fields)
    assert (told.code, told.field) == (grpc.StatusCode.INVALID_ARGUMENT, f"job.{next(iter(fields))}")


async def test_a_job_that_waits_is_changed_but_not_in_what_it_waits_for(api: Api) -> None:
    first = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))).job
    join = await create_dependent(api, first.id, payload=b"old")

    async def change(*names: str, **fields: object) -> job_pb2.Job:
        request = job_pb2.UpdateJobRequest(job=job_pb2.Job(id=join.id, **fields))  # type: ignore[arg-type]
        request.update_mask.paths.extend(names)
        return (await api.jobs.UpdateJob(request)).job

    changed = await change("priority", "payload", priority=7, payload=b"new")
    assert (changed.priority, changed.payload, changed.state) == (7, b"new", BLOCKED)
    assert list(changed.dependencies.job_ids) == [first.id]
    assert changed.dependencies.rule == job_pb2.DEPENDENCY_RULE_ALL_SUCCESS
    for name, fields in (
        ("dependencies", {"dependencies": job_pb2.Dependencies(job_ids=[join.id])}),
        ("run_at", {"run_at": {"seconds": 1}}),
        ("cron", {"cron": cron()}),
    ):
        async with refused() as told:
            await change(name, **fields)
        assert told.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
    assert run(api) == [first.id]
    api.core.fire()
    leased = api.core.lease(api.core.open_session())
    assert (list(leased.jobs), list(leased.payloads)) == ([join.id], [b"new"])


async def test_a_job_that_waits_can_be_cancelled_and_deleted_but_not_paused_or_triggered(api: Api) -> None:
    first = (await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))).job
    join = await create_dependent(api, first.id)
    for call, request in (
        (api.jobs.PauseJob, job_pb2.PauseJobRequest(id=join.id)),
        (api.jobs.TriggerJob, job_pb2.TriggerJobRequest(id=join.id)),
        (api.jobs.RescheduleJob, job_pb2.RescheduleJobRequest(id=join.id, run_at={"seconds": 1})),
    ):
        async with refused() as told:
            await call(request)
        assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_FORBIDS")
    below = await create_dependent(api, join.id, rule=job_pb2.DEPENDENCY_RULE_NONE_FAILED)
    cancelled = await api.jobs.CancelJob(job_pb2.CancelJobRequest(id=join.id))
    assert cancelled.job.state == job_pb2.JOB_STATE_CANCELLED
    assert list(cancelled.job.dependencies.job_ids) == [first.id]
    await api.jobs.DeleteJob(job_pb2.DeleteJobRequest(id=join.id))
    assert sorted(run(api)) == [first.id, below.id]


async def test_an_unknown_upstream_is_not_found(api: Api) -> None:
    async with refused() as told:
        await create_dependent(api, 77)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    assert (told.field, told.metadata["job_id"]) == ("job.dependencies.job_ids[0]", "77")


async def test_a_workflow_is_created_whole_and_runs_in_order(api: Api) -> None:
    created = await create(
        api,
        node("report", "load", "extract"),
        node("extract"),
        node("load", "extract"),
        node("clean-up", "load", rule=job_pb2.DEPENDENCY_RULE_ALL_DONE),
    )
    report, extract, load, clean_up = created.job_ids
    assert created.workflow_id == report
    assert await states(api, report) == {
        "report": "BLOCKED",
        "extract": "SCHEDULED",
        "load": "BLOCKED",
        "clean-up": "BLOCKED",
    }
    assert run(api) == [extract]
    assert run(api, fail=True) == [load]
    assert run(api) == [clean_up]
    assert await states(api, report) == {
        "report": "UPSTREAM_FAILED",
        "extract": "SUCCEEDED",
        "load": "DEAD_LETTER",
        "clean-up": "SUCCEEDED",
    }
    told = (await api.jobs.GetJob(job_pb2.GetJobRequest(read=NOW, id=load))).job
    assert told.workflow_id == created.workflow_id
    assert list(told.dependencies.job_ids) == [extract]


async def test_a_workflow_is_read_in_pages(api: Api) -> None:
    names = [f"n{number}" for number in range(7)]
    created = await create(api, *(node(name, *names[max(0, at - 2) : at]) for at, name in enumerate(names)))
    request = workflow_pb2.GetWorkflowRequest(read=NOW, id=created.workflow_id, page_size=3)
    found = []
    while True:
        page = await api.workflows.GetWorkflow(request)
        assert len(page.nodes) <= 3
        found += page.nodes
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert [item.name for item in found] == names
    assert [item.job.id for item in found] == list(created.job_ids)
    assert [list(item.depends_on) for item in found] == [names[max(0, at - 2) : at] for at in range(7)]
    assert {item.rule for item in found[1:]} == {job_pb2.DEPENDENCY_RULE_ALL_SUCCESS}
    async with refused() as told:
        await api.workflows.GetWorkflow(workflow_pb2.GetWorkflowRequest(read=NOW, id=created.workflow_id + 1))
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "WORKFLOW_NOT_FOUND")


async def test_a_repeated_request_creates_one_workflow(api: Api) -> None:
    first = await create(api, node("a"), node("b", "a"), request_id="once")
    again = await create(api, node("a"), node("b", "a"), request_id="once")
    assert (again.workflow_id, list(again.job_ids), again.existed) == (first.workflow_id, list(first.job_ids), True)
    for changed in ([node("a"), node("c", "a")], [node("a"), node("b", "a", rule=2)], [node("b", "a"), node("a")]):
        async with refused() as told:
            await create(api, *changed, request_id="once")
        assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")


async def test_10_000_nodes_are_created_at_once(api: Api) -> None:
    nodes = [node("top"), *(node(f"n{number}", "top") for number in range(1, 10_000))]
    created = await create(api, *nodes)
    assert len(created.job_ids) == 10_000
    async with refused() as told:
        await create(api, *nodes, node("more"))
    assert (told.field, told.metadata["limit"]) == ("nodes", "10000")


async def test_each_tick_of_recurring_roots_runs_the_whole_graph(api: Api) -> None:
    every = job_pb2.Interval(every=seconds(60))
    created = await create(
        api, node("left", interval=every), node("right", interval=every), node("join", "left", "right")
    )
    for _ in range(3):
        api.core.now_ms += 60_000
        assert sorted(run(api)) == list(created.job_ids[:2])
        assert run(api) == [created.job_ids[2]]
    times = []
    for job_id in created.job_ids:
        page = await api.executions.ListExecutions(execution_pb2.ListExecutionsRequest(read=NOW, job_id=job_id))
        times.append([found.scheduled_for.ToMilliseconds() for found in page.executions])
    assert len(times[0]) == 3
    assert times[0] == times[1] == times[2]


@pytest.mark.parametrize(
    ("nodes", "field", "path"),
    [
        ([], "nodes", ""),
        ([node("a"), node("b", "c"), node("c", "b")], "nodes[1].depends_on", "b -> c -> b"),
        ([node("a"), node("b", "x")], "nodes[1].depends_on[0]", "b -> x"),
        ([node("a", "a", run_at=None)], "nodes[0].depends_on", "a -> a"),
        ([node("a"), node("a")], "nodes[1].name", ""),
        ([node("")], "nodes[0].name", ""),
        ([node("a b")], "nodes[0].name", ""),
        ([node("x" * 101)], "nodes[0].name", ""),
        ([node("a"), node("b", "a", "a")], "nodes[1].depends_on", ""),
        ([node("a"), node("b", "a", rule=9)], "nodes[1].rule", ""),
        ([node("a", rule=2)], "nodes[0].rule", ""),
        ([workflow_pb2.WorkflowNode(name="a", job=job_pb2.Job(handler="h"))], "nodes[0].job.schedule", ""),
        ([node("a"), node("b", "a", cron=cron())], "nodes[1].job.cron", ""),
        ([node("a", cron=cron()), node("b")], "nodes[1].job.run_at", ""),
        ([node("a", cron=cron()), node("b", cron=cron("0 3 * * *"))], "nodes[1].job.cron", ""),
        ([node("a"), node("b", interval=job_pb2.Interval(every=seconds(60)))], "nodes[1].job.interval", ""),
        ([node("a", dependencies=job_pb2.Dependencies(job_ids=[1]))], "nodes[0].job.dependencies", ""),
        ([node("a"), node("b", "a", priority=10)], "nodes[1].job.priority", ""),
        ([node("a"), node("b", "a", jitter=seconds(1))], "nodes[1].job.jitter", ""),
        ([node("a", name="n"), node("b", "a", name="n")], "nodes[1].job.name", ""),
    ],
)
async def test_a_bad_workflow_is_refused_and_nothing_is_written(
    api: Api, nodes: list[workflow_pb2.WorkflowNode], field: str, path: str
) -> None:
    async with refused() as told:
        await create(api, *nodes)
    assert (told.field, told.metadata.get("path", "")) == (field, path)
    assert told.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS)
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(read=NOW))
    assert not page.jobs


async def test_a_result_is_read_from_an_execution_that_has_succeeded(api: Api) -> None:
    for _ in range(3):
        await api.jobs.CreateJob(job_pb2.CreateJobRequest(job=PAST))
    api.core.fire()
    leased = api.core.lease(api.core.open_session())
    with_result, without, unfinished = leased.executions
    times = keys.pack_ids([5, 5])
    block = command_pb2.CompletedBlock(
        token=leased.token,
        executions=keys.pack_ids([with_result, without]),
        started_ms=times,
        ended_ms=times,
        results=[b"42", b""],
    )
    api.core.apply(command_pb2.Command(ack=command_pb2.Ack(blocks=[block])))

    async def result(execution: int) -> bytes:
        return (await api.executions.GetResult(execution_pb2.GetResultRequest(read=NOW, execution_id=execution))).result

    assert [await result(with_result), await result(without)] == [b"42", b""]
    async with refused() as told:
        await result(unfinished)
    assert (told.code, told.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_RESULT")
    async with refused() as told:
        await result(99)
    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "EXECUTION_NOT_FOUND")
