"""A workflow goes on, each of its jobs once, though the leader is killed while its upstreams end."""

import json
import random
import uuid

from raftsched.v1 import execution_pb2, job_pb2, workflow_pb2
from tests.cluster.harness import Cluster
from tests.cluster.ledger import timestamp
from tests.cluster.processes import now_ms, until

UPSTREAMS = 500
FAILING = 10
OVER_MS = 6_000


def node(
    name: str, *, fails: bool = False, run_at_ms: int = 0, depends_on: list[str] | None = None
) -> workflow_pb2.WorkflowNode:
    order = {"key": name, "sleep_ms": 50, "failures": int(fails)}
    job = job_pb2.Job(handler="record", payload=json.dumps(order).encode(), retry=job_pb2.RetryPolicy(max_attempts=1))
    if not depends_on:
        job.run_at.CopyFrom(timestamp(run_at_ms))
    return workflow_pb2.WorkflowNode(name=name, job=job, depends_on=depends_on)


def test_a_join_of_500_with_ten_failures_runs_once_though_two_leaders_are_killed(cluster: Cluster) -> None:
    rng = random.Random(12)
    names = [f"up-{number}" for number in range(UPSTREAMS)]
    failing = set(rng.sample(names, FAILING))
    begin_ms = now_ms() + 500
    nodes = [node(name, fails=name in failing, run_at_ms=begin_ms + rng.randrange(OVER_MS)) for name in names]
    join, strict, below = (node(name, depends_on=names) for name in ("join", "strict", "below"))
    join.rule = job_pb2.DEPENDENCY_RULE_ALL_DONE
    below.depends_on[:] = ["strict"]
    request = workflow_pb2.CreateWorkflowRequest(nodes=[*nodes, join, strict, below], request_id=uuid.uuid4().hex)
    created = cluster.api.call(lambda n: n.workflows.CreateWorkflow(request, timeout=10))
    for worker in ("worker-1", "worker-2"):
        cluster.start_worker(worker)

    def ran() -> int:
        return len({run.key for run in cluster.runs()})

    for enough in (UPSTREAMS // 5, UPSTREAMS // 2):
        until(lambda enough=enough: ran() >= enough, f"{enough} upstreams ran")
        leader = cluster.leader()
        cluster.nodes[leader].kill()
        cluster.wait_serving([number for number in cluster.nodes if number != leader])
        cluster.nodes[leader].start()
        cluster.wait_serving()

    join_id, strict_id, below_id = created.job_ids[-3:]

    def state(job_id: int) -> job_pb2.JobState:
        asked = job_pb2.GetJobRequest(id=job_id, read=job_pb2.ReadOptions(linearizable=True))
        return cluster.api.call(lambda n: n.jobs.GetJob(asked, timeout=5)).job.state

    until(lambda: state(join_id) == job_pb2.JOB_STATE_SUCCEEDED, "the join has run")
    until(lambda: state(below_id) == job_pb2.JOB_STATE_UPSTREAM_FAILED, "the failures went down")
    assert state(strict_id) == job_pb2.JOB_STATE_UPSTREAM_FAILED
    (execution,) = cluster.api.executions(join_id)
    assert execution.cause == execution_pb2.EXECUTION_CAUSE_DEPENDENCY
    assert not cluster.api.executions(strict_id)
    ends = [run.started_ms for run in cluster.runs() if run.key in names]
    joins = [run.started_ms for run in cluster.runs() if run.key == "join"]
    # A handler may be begun again when its worker's lease was lost; the join's execution is one all the same.
    assert joins
    assert min(joins) >= max(ends)
