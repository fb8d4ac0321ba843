"""What takes effect once though its handler runs twice: against a real node, and in a database of the handler's own."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.local_cluster import LocalCluster
from raftsched.cli.processes import free_ports
from raftsched.client import (
    AttemptOutcome,
    Client,
    Context,
    Execution,
    ExecutionState,
    KeyBusy,
    KeyNotOwned,
    LeaseOver,
    RetryPolicy,
    SyncClient,
    Worker,
)

from .scripted_cluster import serving

README = Path(__file__).resolve().parents[3] / "README.md"
DEADLINE_S = 30.0
AT_ONCE = RetryPolicy(max_attempts=5, initial_backoff=timedelta(milliseconds=1))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that serves."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), free_ports(1), "dedup-tests") as cluster:
        cluster.start_nodes()
        cluster.wait_for(cluster.serving, DEADLINE_S, "the start of the node")
        yield cluster.addresses[1]


@asynccontextmanager
async def running(node: str, queue: str, **handlers: Callable[..., Any]) -> AsyncIterator[Client]:
    """A worker with these handlers on a queue of their own, and a client."""
    worker = Worker([node], queues=[queue])
    for name, function in handlers.items():
        worker.handler(name)(function)
    async with Client([node]) as client, serving(worker):
        yield client


async def finished(client: Client, job_id: int, *states: ExecutionState) -> Execution:
    """The job's execution, once it is in one of these states, or has ended."""
    states = states or (ExecutionState.SUCCEEDED, ExecutionState.DEAD_LETTER)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async for execution in client.executions(job_id):
                if execution.state in states:
                    return await client.get_execution(execution.id)
            await asyncio.sleep(0.02)


async def start(client: Client, handler: str, queue: str, payload: Any = None) -> int:
    return (await client.create(handler, run_at=datetime.now(UTC), queue=queue, payload=payload, retry=AT_ONCE)).id


async def test_a_run_after_one_that_completed_finds_its_result(node: str) -> None:
    charged: list[str] = []
    found: list[bytes] = []

    async def charge(context: Context, _payload: bytes) -> None:
        async with context.dedup() as once:
            if once.done:
                found.append(once.result)
                return
            charged.append(context.idempotency_key)
            once.result = b"receipt 7"
        # It dies after all was done.
        raise ConnectionError

    async with running(node, "completed", charge=charge) as client:
        done = await finished(client, await start(client, "charge", "completed"))
    assert (done.state, done.attempt) == (ExecutionState.SUCCEEDED, 2)
    assert [attempt.error_class for attempt in done.attempts] == ["ConnectionError", ""]
    assert (len(charged), found) == (1, [b"receipt 7"])


async def test_an_error_inside_leaves_the_key_to_the_next_run(node: str) -> None:
    attempts: list[int] = []

    def charge(context: Context, _payload: bytes) -> None:
        with context.dedup(f"order-{context.job_id}", keep=timedelta(hours=1)) as once:
            assert not once.done
            attempts.append(context.attempt)
            if context.attempt == 1:
                raise ConnectionError

    async with running(node, "threads", charge=charge) as client:
        done = await finished(client, await start(client, "charge", "threads"))
    assert (done.state, attempts) == (ExecutionState.SUCCEEDED, [1, 2])


async def test_a_run_that_finds_another_at_work_is_put_off(node: str) -> None:
    busy: list[str] = []
    meet = asyncio.Event()

    async def charge(context: Context, payload: bytes) -> None:
        if payload == b"second":
            try:
                async with context.dedup("shared"):
                    raise AssertionError("two at once")
            except KeyBusy as error:
                busy.append(error.key)
                meet.set()
                raise
        async with context.dedup("shared"):
            await start(client, "charge", "busy", "second")
            await meet.wait()

    async with running(node, "busy", charge=charge) as client:
        first = await start(client, "charge", "busy", "first")
        await finished(client, first)
        second = [job async for job in client.list(handler="charge", queue="busy")][-1]
        put_off = await finished(client, second.id, ExecutionState.SNOOZED)
    assert busy == ["shared"]
    assert put_off.attempts[0].outcome is AttemptOutcome.SNOOZED
    assert "another run is at work on 'shared'" in put_off.attempts[0].error


async def test_keys_are_claimed_by_hand_too_and_only_under_a_lease(node: str) -> None:
    seen: list[Context] = []

    def charge(context: Context, _payload: bytes) -> None:
        with SyncClient([node]) as client:
            mine: dict[str, Any] = {"execution_id": context.execution_id, "token": context.token}
            assert client.claim_key("by-hand", **mine).claimed
            client.complete_key("by-hand", token=context.token, result=b"r")
            claim = client.claim_key("by-hand", **mine)
            assert (claim.claimed, claim.completed, claim.result) == (False, True, b"r")
            with pytest.raises(KeyNotOwned):
                client.complete_key("by-hand", token=context.token + 1)
        seen.append(context)

    async with running(node, "by-hand", charge=charge) as client:
        assert (await finished(client, await start(client, "charge", "by-hand"))).state is ExecutionState.SUCCEEDED
        with pytest.raises(LeaseOver):
            await client.claim_key("late", execution_id=seen[0].execution_id, token=seen[0].token)


async def test_a_handler_on_the_event_loop_is_told_not_to_wait_there(node: str) -> None:
    async def charge(context: Context, _payload: bytes) -> None:
        with context.dedup():
            pass

    async with running(node, "loop", charge=charge) as client:
        done = await finished(client, await start(client, "charge", "loop"))
    assert done.state is ExecutionState.DEAD_LETTER
    assert "use `async with`" in done.error


async def test_the_recipe_with_a_transaction_books_once_however_often_it_runs(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the README, as it is printed there."""
    (recipe,) = [block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "sqlite3" in block]
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("books.db") as books:
        books.execute("CREATE TABLE done (key TEXT PRIMARY KEY)")
        books.execute("CREATE TABLE account (total INTEGER)")
        books.execute("INSERT INTO account VALUES (0)")
    shown: dict[str, Any] = {"app": Worker([node])}
    exec(recipe, shown)
    runs: list[int] = []

    def book_and_die(context: Context, payload: bytes) -> None:
        runs.append(context.attempt)
        if context.attempt == 2:
            # Before the end of the transaction.
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(shown, "int", fail)
                shown["book"](context, payload)
        shown["book"](context, payload)
        if context.attempt < 4:
            raise ConnectionError

    def fail(_text: bytes) -> int:
        raise OSError("the machine is gone")

    async with running(node, "recipe", book=book_and_die) as client:
        jobs = [await start(client, "book", "recipe", b"100") for _ in range(3)]
        ended = [await finished(client, job) for job in jobs]
    assert {execution.state for execution in ended} == {ExecutionState.SUCCEEDED}
    assert sorted(runs) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    with sqlite3.connect("books.db") as books:
        assert books.execute("SELECT total FROM account").fetchone() == (300,)
