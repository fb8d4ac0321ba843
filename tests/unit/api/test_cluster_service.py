"""GetStatus over a real channel."""

from google.protobuf.timestamp_pb2 import Timestamp

from raftsched.v1 import cluster_pb2, job_pb2
from tests.unit.api.support import SESSION_TTL_MS, START_MS, Api


async def status(api: Api) -> cluster_pb2.GetStatusResponse:
    return await api.cluster.GetStatus(cluster_pb2.GetStatusRequest(read=job_pb2.ReadOptions(linearizable=True)))


async def create(api: Api, count: int, queue: str, delay_s: int) -> None:
    due = Timestamp(seconds=START_MS // 1000 + delay_s)
    job = job_pb2.Job(handler="h", queue=queue, run_at=due)
    await api.jobs.BatchCreateJobs(job_pb2.BatchCreateJobsRequest(jobs=[job] * count))


async def test_a_new_node_tells_who_it_is(api: Api) -> None:
    told = await status(api)
    assert (told.node, told.leader, told.has_quorum, told.term) == (1, 1, True, 1)
    assert (told.cluster_id, told.version) == ("test", "0.0")
    assert told.health == cluster_pb2.NODE_HEALTH_SERVING
    assert told.time_zone_database
    (node,) = told.nodes
    assert (node.id, node.address, node.connected) == (1, "127.0.0.1:7001", True)
    assert len(told.shard_owners) == 32
    assert (told.jobs, told.executions, told.dead_letters) == (0, 0, 0)
    assert not told.HasField("oldest_due_time")
    assert (list(told.queues), list(told.workers)) == ([], [])


async def test_a_node_without_a_leader_says_so(api: Api) -> None:
    api.core.has_quorum = False
    told = await api.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert (told.leader, told.has_quorum) == (0, False)


async def test_queues_workers_and_counts_follow_the_work(api: Api) -> None:
    await create(api, 3, "mail", 30)
    await create(api, 2, "default", 20)
    await create(api, 1, "default", 600)
    assert (await status(api)).oldest_due_time.ToMilliseconds() == START_MS + 20_000
    api.core.now_ms += 60_000
    api.core.fire()
    session = api.core.open_session("w-mail", ("mail", "idle"))
    leased = api.core.lease(session, ("mail",), limit=2)
    assert len(leased.executions) == 2
    told = await status(api)
    assert told.oldest_due_time.ToMilliseconds() == START_MS + 600_000
    assert (told.jobs, told.executions, told.dead_letters) == (6, 5, 0)
    assert [(queue.name, queue.ready, queue.workers) for queue in told.queues] == [
        ("default", 2, 0),
        ("idle", 0, 1),
        ("mail", 1, 1),
    ]
    (worker,) = told.workers
    assert (worker.session, worker.name, list(worker.queues)) == (session, "w-mail", ["mail", "idle"])
    assert worker.leased == 2
    assert worker.expire_time.ToMilliseconds() == api.core.now_ms + SESSION_TTL_MS
    api.core.fail(leased)
    told = await status(api)
    assert (told.dead_letters, told.workers[0].leased) == (2, 0)
    api.core.close_session(session)
    told = await status(api)
    assert list(told.workers) == []
    assert told.state_digest == api.core.machine.digest.hex()
    assert told.replicated_clock.ToMilliseconds() == api.core.now_ms
