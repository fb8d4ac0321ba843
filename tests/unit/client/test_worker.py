"""A worker runs what it is given, within its bounds, and reports it in batches."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from raftsched.client import Context, InvalidField, PermanentError, StopReason, Worker, link
from raftsched.v1 import worker_pb2

from .scripted_cluster import ScriptedCluster, serving


async def test_a_batch_is_acknowledged_in_columns_with_few_messages() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=200)
        seen: list[int] = []

        @worker.handler("count")
        async def count(context: Context, _payload: bytes) -> None:
            seen.append(context.execution_id)

        async with serving(worker):
            entries = cluster.add("count", 5_000)
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
            await cluster.until(lambda: worker.stats.confirmed == 5_000)
        assert seen == [entry.id for entry in entries]
        acks = cluster.all_messages("ack")
        assert sum(len(lease.execution_ids) for ack in acks for lease in ack.leases) == 5_000
        assert all(
            len(lease.execution_ids) == len(lease.started_ms) == len(lease.ended_ms)
            for ack in acks
            for lease in ack.leases
        )
        assert len(acks) < 100
        sequences = [ack.sequence for ack in acks]
        assert sequences == sorted(sequences)


async def test_a_handler_sees_its_execution() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        contexts: list[Context] = []

        @worker.handler("report")
        async def report(context: Context, payload: bytes) -> None:
            assert payload == b'{"year": 2026}'
            contexts.append(context)

        async with serving(worker):
            (entry,) = cluster.add(
                "report",
                payload=b'{"year": 2026}',
                content_type="application/json",
                tenant="acme",
                run_timeout_ms=60_000,
                max_attempts=7,
            )
            await cluster.until(lambda: entry.state == "SUCCEEDED")
        (context,) = contexts
        assert context.json() == {"year": 2026}
        assert (context.execution_id, context.job_id, context.token) == (1, 1_000_001, entry.token)
        assert (context.attempt, context.max_attempts) == (1, 7)
        assert (context.namespace, context.queue, context.tenant) == ("default", "default", "acme")
        assert context.content_type == "application/json"
        assert context.scheduled_for == datetime.fromtimestamp(1_700_000_000.001, UTC)
        assert context.idempotency_key == "1000001@1700000000001"
        assert context.deadline is not None
        assert 50 < (context.deadline - datetime.now(UTC)).total_seconds() <= 60
        assert not context.cancelled.is_set()


async def test_a_failure_carries_type_message_and_place_and_is_retried_unless_permanent() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("flaky")
        async def flaky(_context: Context, _payload: bytes) -> None:
            raise ValueError("no such file: " + "é" * 5_000)

        @worker.handler("broken", inline=True)
        def broken(_context: Context, _payload: bytes) -> None:
            raise PermanentError("the account is closed")

        async with serving(worker):
            (retried,) = cluster.add("flaky")
            (dead,) = cluster.add("broken")
            await cluster.until(lambda: retried.state == "FAILED" and dead.state == "DEAD_LETTER")
        assert retried.errors[0].startswith("ValueError: no such file: é")
        assert len(retried.errors[0].encode()) <= 4096
        assert "PermanentError: the account is closed" in dead.errors[0]
        assert "test_worker.py" in dead.errors[0]
        assert "runners.py" not in dead.errors[0]


async def test_an_execution_without_a_handler_fails_and_says_which_there_are() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        @worker.handler("known")
        async def known(_context: Context, _payload: bytes) -> None: ...

        async with serving(worker):
            (entry,) = cluster.add("unknown")
            await cluster.until(lambda: entry.state == "FAILED")
        assert entry.errors == ["worker has no handler 'unknown'; it has: known"]


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_no_more_handlers_run_at_once_than_allowed(mode: str) -> None:
    async with ScriptedCluster(3) as cluster:
        worker = Worker(cluster.addresses, concurrency=4)
        lock = threading.Lock()
        running = most = 0
        gate = asyncio.Event()
        thread_gate = threading.Event()

        def enter() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)

        def leave() -> None:
            nonlocal running
            with lock:
                running -= 1

        if mode == "async":

            @worker.handler("slow")
            async def slow(_context: Context, _payload: bytes) -> None:
                enter()
                await gate.wait()
                leave()
        else:

            @worker.handler("slow")
            def slow_in_thread(_context: Context, _payload: bytes) -> None:
                enter()
                thread_gate.wait(10)
                leave()

        async with serving(worker):
            entries = cluster.add("slow", 50)
            await cluster.until(lambda: running == 4)
            # Slow handlers prefetch nothing: the rest is left for other workers.
            assert sum(entry.state == "LEASED" for entry in entries) <= 8
            gate.set()
            thread_gate.set()
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
        assert most == 4


async def test_work_that_waits_behind_slow_handlers_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_LONGEST_WAIT_S", 0.2)
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=2)
        gate = asyncio.Event()

        @worker.handler("slow")
        async def slow(_context: Context, _payload: bytes) -> None:
            await gate.wait()

        async with serving(worker):
            await cluster.until(lambda: cluster.connections)
            (connection,) = cluster.connections
            cluster.nodes[0].idle = True
            entries = cluster.add("slow", 10)
            cluster.lease_to(connection, entries)
            await cluster.until(lambda: len(cluster.released) == 8)
            assert sorted(cluster.released) == [entry.id for entry in entries[2:]]
            gate.set()
            await cluster.until(lambda: cluster.states(entries[:2]) == {"SUCCEEDED"})


async def test_what_was_asked_for_before_handlers_became_slow_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots come free all the time, but not soon enough for what waits at the end."""
    monkeypatch.setattr(link, "_LONGEST_WAIT_S", 0.4)
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=1)

        @worker.handler("slow")
        async def slow(_context: Context, _payload: bytes) -> None:
            await asyncio.sleep(0.15)

        async with serving(worker):
            await cluster.until(lambda: cluster.connections)
            (connection,) = cluster.connections
            cluster.nodes[0].idle = True
            entries = cluster.add("slow", 20)
            cluster.lease_to(connection, entries)
            await cluster.until(lambda: cluster.released)
            kept = [entry for entry in entries if entry.id not in cluster.released]
            assert 1 <= len(kept) < 20
            assert sorted(cluster.released) == [entry.id for entry in entries[len(kept) :]]
            await cluster.until(lambda: cluster.states(kept) == {"SUCCEEDED"})


async def test_a_handler_may_use_timeouts_and_its_own_task_before_it_suspends() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=10)
        outcomes: list[str] = []

        @worker.handler("timeout")
        async def timeout(_context: Context, _payload: bytes) -> None:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                outcomes.append("timed out")

        @worker.handler("cancels-itself")
        async def cancels_itself(_context: Context, _payload: bytes) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

        @worker.handler("awaits-cancelled")
        async def awaits_cancelled(_context: Context, _payload: bytes) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        async with serving(worker):
            timed = cluster.add("timeout", 20)
            odd = cluster.add("cancels-itself", 5)
            failed = cluster.add("awaits-cancelled", 5)
            await cluster.until(lambda: cluster.states([*timed, *odd]) == {"SUCCEEDED"})
            await cluster.until(lambda: cluster.states(failed) == {"FAILED"})
        assert outcomes == ["timed out"] * 20
        assert failed[0].errors[0].startswith("asyncio.exceptions.CancelledError")


async def test_context_variables_do_not_leak_from_one_execution_to_the_next() -> None:
    import contextvars

    variable = contextvars.ContextVar("variable", default="clean")
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=3)
        seen: list[str] = []

        @worker.handler("sets")
        async def sets(context: Context, _payload: bytes) -> None:
            seen.append(variable.get())
            variable.set(f"set by {context.execution_id}")

        async with serving(worker):
            entries = cluster.add("sets", 20)
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
        assert seen == ["clean"] * 20


async def test_threads_run_in_parallel_and_only_on_plain_functions() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=8)
        barrier = threading.Barrier(8, timeout=5)
        loop_thread = threading.get_ident()

        @worker.handler("meet")
        def meet(_context: Context, _payload: bytes) -> None:
            assert threading.get_ident() != loop_thread
            barrier.wait()

        async with serving(worker):
            entries = cluster.add("meet", 8)
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})


async def test_a_thread_is_told_that_its_execution_was_stopped_and_keeps_its_slot_until_it_ends() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=1)
        contexts: list[Context] = []
        told = threading.Event()
        may_end = threading.Event()

        @worker.handler("thread")
        def in_thread(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            if len(contexts) == 1:
                context.cancelled.wait(10)
                told.set()
                may_end.wait(10)
                context.raise_if_cancelled()

        async with serving(worker):
            first, second = cluster.add("thread", 2)
            await cluster.until(lambda: contexts)
            reason = worker_pb2.CANCEL_REASON_LEASE_LOST
            cancel = worker_pb2.CancelExecution(execution_id=first.id, token=first.token, reason=reason)
            cluster.connections[0].send(cancel_execution=cancel)
            await cluster.until(told.is_set)
            assert worker.stats.running == 1
            assert len(contexts) == 1
            may_end.set()
            await cluster.until(lambda: second.state == "SUCCEEDED")
        assert contexts[0].stop_reason is StopReason.LEASE_LOST
        assert first.errors == []


async def test_long_handlers_are_reported_as_started_and_short_ones_are_not() -> None:
    async with ScriptedCluster(started_after_ms=100) as cluster:
        worker = Worker(cluster.addresses)
        gate = asyncio.Event()

        @worker.handler("long")
        async def long(_context: Context, _payload: bytes) -> None:
            await gate.wait()

        @worker.handler("short")
        async def short(_context: Context, _payload: bytes) -> None: ...

        async with serving(worker):
            long_ones, short_ones = cluster.add("long", 3), cluster.add("short", 3)
            await cluster.until(lambda: all(entry.started for entry in long_ones))
            gate.set()
            await cluster.until(lambda: cluster.states([*long_ones, *short_ones]) == {"SUCCEEDED"})
        assert not any(entry.started for entry in short_ones)


async def test_a_run_timeout_ends_the_handler_and_fails_the_attempt() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)
        ended = asyncio.Event()

        @worker.handler("endless")
        async def endless(_context: Context, _payload: bytes) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with serving(worker):
            (entry,) = cluster.add("endless", run_timeout_ms=150)
            await cluster.until(lambda: entry.state == "FAILED")
            await asyncio.wait_for(ended.wait(), 5)
        assert entry.errors == ["run timeout of 150 ms exceeded"]


async def test_handlers_are_checked_when_they_are_registered() -> None:
    worker = Worker(["127.0.0.1:1"])

    @worker.handler("taken")
    async def taken(_context: Context, _payload: bytes) -> None: ...

    with pytest.raises(ValueError, match="already"):
        worker.handler("taken")(taken)
    with pytest.raises(ValueError, match="not async"):
        worker.handler("other", process=True)(taken)
    with pytest.raises(ValueError, match="top level"):
        worker.handler("other", process=True)(lambda _context, _payload: None)
    at_top_level = eval("lambda context, payload: None", {})
    for name, function, process, field in (
        ("other", at_top_level, True, "process"),
        ("a b", taken, False, "name"),
        ("", taken, False, "name"),
        ("x" * 201, taken, False, "name"),
    ):
        with pytest.raises(InvalidField) as refused:
            worker.handler(name, process=process)(function)
        assert refused.value.field == field
    assert worker.handler_names == ("taken",)


async def test_a_worker_that_the_cluster_refuses_says_why() -> None:
    async with ScriptedCluster() as cluster:
        cluster.refuse_hello = "hello.queues[0]: bad name"
        worker = Worker(cluster.addresses, queues=["?"])
        with pytest.raises(Exception, match="bad name"):
            await asyncio.wait_for(worker.serve(), 5)


class Panic(BaseException):
    """As some libraries raise it."""


async def test_whatever_a_handler_raises_is_its_failure_and_costs_no_slot() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses, concurrency=2)

        @worker.handler("panic")
        async def panic(_context: Context, payload: bytes) -> None:
            raise {b"0": Panic, b"1": KeyboardInterrupt, b"2": GeneratorExit, b"3": SystemExit}[payload]("boom")

        @worker.handler("cancel")
        async def cancel_itself(_context: Context, _payload: bytes) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        @worker.handler("text")
        async def odd_text(_context: Context, _payload: bytes) -> None:
            raise ValueError("cannot read caf\udce9.txt")

        @worker.handler("quick")
        async def quick(_context: Context, _payload: bytes) -> None: ...

        async with serving(worker):
            entries = [cluster.add("panic", payload=str(number).encode())[0] for number in range(4)]
            entries += cluster.add("cancel", 3) + cluster.add("text", 3)
            await cluster.until(lambda: cluster.states(entries) == {"FAILED"})
            after = cluster.add("quick", 10)
            await cluster.until(lambda: cluster.states(after) == {"SUCCEEDED"})
        assert any("cannot read caf?.txt" in entry.errors[0] for entry in entries)


async def test_a_handler_whose_body_would_never_run_is_refused_or_fails_for_good() -> None:
    async with ScriptedCluster() as cluster:
        worker = Worker(cluster.addresses)

        def generator(_context: Context, _payload: bytes) -> Iterator[int]:
            yield 1

        with pytest.raises(ValueError, match="generator"):
            worker.handler("generator")(generator)

        async def inner(_context: Context, _payload: bytes) -> None: ...

        @worker.handler("wrapped")
        def wrapper(context: Context, payload: bytes) -> object:
            return inner(context, payload)

        async with serving(worker):
            (entry,) = cluster.add("wrapped")
            await cluster.until(lambda: entry.state == "DEAD_LETTER")
        assert "async def" in entry.errors[0]
