"""Many dead letters, against a real node: none is dropped, and all are replayed in batches."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from raftsched.cli.local_cluster import LocalCluster
from raftsched.cli.processes import free_ports
from raftsched.client import (
    AlarmKind,
    Client,
    ClusterStatus,
    Context,
    JobNotFound,
    JobSpec,
    Retention,
    RetryPolicy,
    Worker,
)
from raftsched.client.jobs import BATCH_REPLAYS

from .scripted_cluster import serving

DEADLINE_S = 60.0
MANY = 2 * BATCH_REPLAYS + 500


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that serves."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), free_ports(1), "letter-tests") as cluster:
        cluster.start_nodes()
        cluster.wait_for(cluster.serving, DEADLINE_S, "the start of the node")
        yield cluster.addresses[1]


async def until(client: Client, question: Callable[[ClusterStatus], bool]) -> ClusterStatus:
    """The cluster's status, once the answer is yes."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            status = await client.status()
            if question(status):
                return status
            await asyncio.sleep(0.05)


async def test_the_leader_removes_what_is_past_its_age(node: str) -> None:
    worker = Worker([node])

    @worker.handler("soon.over")
    async def soon_over(_context: Context, _payload: bytes) -> None: ...

    async with Client([node]) as client, serving(worker):
        retention = Retention(timedelta(seconds=1))
        job = await client.create("soon.over", run_at=datetime.now(UTC), retention=retention)
        await until(client, lambda status: not status.jobs and not status.executions)
        with pytest.raises(JobNotFound):
            await client.get(job.id, linearizable=True)


async def test_all_dead_letters_are_replayed_in_batches_and_repeating_it_starts_nothing_twice(node: str) -> None:
    worker, works = Worker([node]), asyncio.Event()
    done: set[int] = set()

    @worker.handler("mail.send")
    async def send(context: Context, _payload: bytes) -> None:
        if not works.is_set():
            raise ConnectionError
        done.add(context.execution_id)

    spec = JobSpec("mail.send", run_at=datetime.now(UTC), retry=RetryPolicy(max_attempts=1))
    async with Client([node]) as client, serving(worker):
        await client.create_many([spec] * MANY)
        status = await until(client, lambda status: status.dead_letters == MANY)
        assert status.kept.attempts == MANY
        assert AlarmKind.DEAD_LETTERS not in {alarm.kind for alarm in status.alarms}
        letters = [letter.execution.id async for letter in client.dead_letters(linearizable=True)]
        assert len(letters) == MANY
        works.set()
        new = await client.replay(letters)
        assert list(await client.replay(letters)) == list(new)
        assert len(set(new)) == MANY
        await until(client, lambda _status: done.issuperset(new))
        assert [letter async for letter in client.dead_letters(linearizable=True)] == []
