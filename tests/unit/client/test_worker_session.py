"""A worker keeps its leases through the loss of nodes, and stops in time when it cannot keep them."""

import asyncio
import time
from datetime import timedelta

import pytest

from raftsched.client import Context, StopReason, Worker, streams
from raftsched.v1 import worker_pb2

from .scripted_cluster import Connection, Entry, ScriptedCluster, serving


def started_worker(cluster: ScriptedCluster, gate: asyncio.Event, contexts: list[Context], **options: int) -> Worker:
    """A worker whose handler "wait" waits for the gate."""
    worker = Worker(cluster.addresses, **options)

    @worker.handler("wait")
    async def wait(context: Context, _payload: bytes) -> None:
        contexts.append(context)
        await gate.wait()

    return worker


async def test_one_session_spans_a_stream_to_every_node_and_credit_is_spread_over_them() -> None:
    async with ScriptedCluster(3) as cluster:
        async with serving(Worker(cluster.addresses, concurrency=90)):
            await cluster.until(lambda: len(cluster.connections) == 3)
            await cluster.until(lambda: sum(connection.credit for connection in cluster.connections) == 90)
            opening = [hello for hello in cluster.all_messages("hello") if hello.session == 0]
            assert len(opening) == 1
            assert {connection.session for connection in cluster.connections} == {1}
        assert not cluster.sessions


async def test_what_is_acknowledged_on_a_stream_that_dies_is_acknowledged_again_through_another_node() -> None:
    async with ScriptedCluster(2) as cluster:
        first, second = cluster.nodes
        await second.stop()
        gate = asyncio.Event()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts)):
            entries = cluster.add("wait", 4)
            await cluster.until(lambda: len(contexts) == 4)
            first.deaf = True
            gate.set()
            await cluster.until(lambda: first.messages("ack"))
            await second.start()
            await cluster.until(lambda: second.connections)
            assert cluster.states(entries) == {"LEASED"}
            await first.stop()
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
            assert second.messages("ack")


async def test_a_node_that_restarts_is_joined_again_and_leases_are_kept() -> None:
    async with ScriptedCluster(1) as cluster:
        (node,) = cluster.nodes
        gate = asyncio.Event()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts)):
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: contexts)
            await node.stop()
            gate.set()
            await asyncio.sleep(0)
            await node.start()
            await cluster.until(lambda: entry.state == "SUCCEEDED")
            hellos = node.messages("hello")
            assert [hello.session for hello in hellos[-1:]] == [1]
            (later,) = cluster.add("wait")
            await cluster.until(lambda: later.state == "SUCCEEDED")
        assert len(contexts) == 2


async def test_a_node_that_asks_for_a_retry_gets_it_until_it_confirms() -> None:
    async with ScriptedCluster(1) as cluster:
        (node,) = cluster.nodes
        node.without_quorum = True
        gate = asyncio.Event()
        gate.set()
        async with serving(started_worker(cluster, gate, [])) as _:
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: len(node.messages("ack")) >= 2)
            node.without_quorum = False
            await cluster.until(lambda: entry.state == "SUCCEEDED")


async def test_a_result_that_came_too_late_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with ScriptedCluster(1) as cluster:
        gate = asyncio.Event()
        contexts: list[Context] = []
        worker = started_worker(cluster, gate, contexts)
        async with serving(worker):
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: contexts)
            entry.token += 1
            gate.set()
            await cluster.until(lambda: worker.stats.stale == 1)
            # It is not held any more.
            await cluster.until(lambda: cluster.held_tokens == [])
        assert (worker.stats.succeeded, worker.stats.confirmed) == (1, 0)
        assert any(getattr(record, "executions", None) == [entry.id] for record in caplog.records)


async def test_heartbeats_list_what_is_held_and_only_that() -> None:
    async with ScriptedCluster(2) as cluster:
        gate = asyncio.Event()
        async with serving(started_worker(cluster, gate, [])):
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: entry.state == "LEASED")
            token = entry.token
            await cluster.until(lambda: cluster.held_tokens == [token])
            gate.set()
            await cluster.until(lambda: entry.state == "SUCCEEDED")
            await cluster.until(lambda: cluster.held_tokens == [])


async def test_handlers_stop_before_a_session_that_cannot_be_renewed_may_end_and_their_results_are_dropped() -> None:
    async with ScriptedCluster(2, ttl_ms=1_000, heartbeat_ms=100) as cluster:
        stopped_s: list[float] = []
        contexts: list[Context] = []
        worker = Worker(cluster.addresses, grace=timedelta(0))

        @worker.handler("stubborn")
        async def stubborn(context: Context, _payload: bytes) -> None:
            contexts.append(context)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped_s.append(time.monotonic())
                # Nobody is told that it has "succeeded" after all.

        async with serving(worker):
            (entry,) = cluster.add("stubborn")
            await cluster.until(lambda: contexts)
            await cluster.until(lambda: cluster.all_messages("heartbeat"))
            cluster.renewing = False
            silent_since_s = time.monotonic()
            await cluster.until(lambda: stopped_s)
            assert stopped_s[0] - silent_since_s < 1.0
            assert contexts[0].stop_reason is StopReason.LEASE_LOST
            assert contexts[0].cancelled.is_set()
            # The session turns out to have survived: the lease is not listed, and so given back and leased anew.
            cluster.renewing = True
            await cluster.until(lambda: len(contexts) == 2)
            assert contexts[1].execution_id == entry.id
            assert contexts[1].token > contexts[0].token
        assert not cluster.all_messages("ack")
        assert entry.errors == []


async def test_results_that_were_ready_before_a_session_lapsed_are_still_reported() -> None:
    async with ScriptedCluster(1, ttl_ms=1_000, heartbeat_ms=100) as cluster:
        (node,) = cluster.nodes
        contexts: list[Context] = []
        worker = started_worker(cluster, asyncio.Event(), contexts)

        @worker.handler("quick")
        async def quick(_context: Context, _payload: bytes) -> None: ...

        async with serving(worker):
            await cluster.until(lambda: cluster.connections)
            (connection,) = cluster.connections
            node.idle = True
            done, held = *cluster.add("quick"), *cluster.add("wait")
            node.deaf = True
            cluster.lease_to(connection, [done, held])
            await cluster.until(lambda: node.messages("ack") and contexts)
            await cluster.until(lambda: contexts[0].stop_reason is StopReason.LEASE_LOST)
            await node.stop()
            node.deaf = False
            await node.start()
            await cluster.until(lambda: done.state == "SUCCEEDED")
            await cluster.until(lambda: cluster.held_tokens == [])
        assert held.errors == []


async def test_a_lost_session_stops_everything_and_a_new_one_begins() -> None:
    async with ScriptedCluster(3) as cluster:
        gate = asyncio.Event()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts, concurrency=2)):
            entries = cluster.add("wait", 2)
            await cluster.until(lambda: len(contexts) == 2)
            await cluster.until(lambda: len(cluster.connections) == 3)
            cluster.expire()
            await cluster.until(lambda: len(contexts) == 4)
            assert [context.stop_reason for context in contexts[:2]] == [StopReason.LEASE_LOST] * 2
            await cluster.until(lambda: len(cluster.connections) == 3)
            assert {connection.session for connection in cluster.connections} == {2}
            gate.set()
            await cluster.until(lambda: cluster.states(entries) == {"SUCCEEDED"})
        assert [hello.session for hello in cluster.all_messages("hello")].count(0) == 2


async def test_asked_to_cancel_a_worker_drops_what_has_not_begun_and_keeps_what_has() -> None:
    async with ScriptedCluster(1) as cluster:
        gate = asyncio.Event()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts, concurrency=1)):
            await cluster.until(lambda: cluster.connections)
            (connection,) = cluster.connections
            cluster.nodes[0].idle = True
            entries = cluster.add("wait", 3)
            cluster.lease_to(connection, entries)
            await cluster.until(lambda: contexts)
            for question, entry in enumerate(entries[:2], start=1):
                ask(connection, entry, question)
            ask(connection, entries[1], 3)
            await cluster.until(lambda: len(cluster.answers) == 3)
            assert [(answer.question, answer.begun) for answer in cluster.answers] == [
                (1, True),
                (2, False),
                (3, False),
            ]
            gate.set()
            await cluster.until(lambda: entries[0].state == entries[2].state == "SUCCEEDED")
        assert [context.execution_id for context in contexts] == [entries[0].id, entries[2].id]


async def test_what_was_refused_before_its_lease_arrived_does_not_begin() -> None:
    async with ScriptedCluster(1) as cluster:
        gate = asyncio.Event()
        gate.set()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts)):
            await cluster.until(lambda: cluster.connections)
            (connection,) = cluster.connections
            cluster.nodes[0].idle = True
            entries = cluster.add("wait", 2)
            entries[0].token = 7
            ask(connection, entries[0], 1)
            await cluster.until(lambda: cluster.answers)
            assert not cluster.answers[0].begun
            cluster.lease_to(connection, entries, token=7)
            await cluster.until(lambda: entries[1].state == "SUCCEEDED")
        assert [context.execution_id for context in contexts] == [entries[1].id]


async def test_a_cancel_that_is_no_question_stops_the_handler() -> None:
    async with ScriptedCluster(1) as cluster:
        contexts: list[Context] = []
        async with serving(started_worker(cluster, asyncio.Event(), contexts)):
            (entry,) = cluster.add("wait")
            await cluster.until(lambda: contexts)
            (connection,) = cluster.connections
            ask(connection, entry, 0, worker_pb2.CANCEL_REASON_RUN_TIMEOUT)
            await cluster.until(lambda: contexts[0].stop_reason is StopReason.RUN_TIMEOUT)
            await cluster.until(lambda: cluster.held_tokens == [])
        assert not cluster.all_messages("ack")
        assert not cluster.all_messages("fail")


async def test_a_node_that_is_going_away_is_left_and_the_others_go_on() -> None:
    async with ScriptedCluster(2) as cluster:
        gate = asyncio.Event()
        contexts: list[Context] = []
        async with serving(started_worker(cluster, gate, contexts, concurrency=10)):
            await cluster.until(lambda: len(cluster.connections) == 2)
            leaving = cluster.nodes[0]
            (connection,) = leaving.connections
            entries = cluster.add("wait", 4)
            await cluster.until(lambda: len(contexts) == 4)
            leaving.idle = True
            connection.send(drain=worker_pb2.Drain())
            # The worker ends the stream itself.
            await cluster.until(lambda: connection not in leaving.connections)
            gate.set()
            more = cluster.add("wait", 20)
            await cluster.until(lambda: cluster.states([*entries, *more]) == {"SUCCEEDED"})


async def test_a_node_that_goes_on_going_away_is_not_stormed() -> None:
    async with ScriptedCluster(1) as cluster:
        (node,) = cluster.nodes
        node.leaving = True
        async with serving(Worker(cluster.addresses)):
            began_s = time.monotonic()
            await cluster.until(lambda: len(node.messages("hello")) == 4)
            # Waits of at least 50, 100 and 200 ms.
            assert time.monotonic() - began_s > 0.35
            node.leaving = False
            await cluster.until(lambda: node.messages("credit"))


async def test_a_node_that_hangs_while_another_answers_is_connected_anew() -> None:
    async with ScriptedCluster(2, heartbeat_ms=100) as cluster:
        async with serving(Worker(cluster.addresses)):
            await cluster.until(lambda: len(cluster.connections) == 2)
            hanging = cluster.nodes[0]
            (connection,) = hanging.connections
            hanging.deaf = True
            await cluster.until(lambda: connection not in hanging.connections)
            hanging.deaf = False
            await cluster.until(lambda: len(cluster.connections) == 2)
        assert len([hello for hello in cluster.all_messages("hello") if hello.session == 0]) == 1


def ask(
    connection: Connection,
    entry: Entry,
    question: int,
    reason: worker_pb2.CancelReason = worker_pb2.CANCEL_REASON_REQUESTED,
) -> None:
    """Asks the worker to drop the execution; without a question, tells it to."""
    cancel = worker_pb2.CancelExecution(execution_id=entry.id, token=entry.token, question=question, reason=reason)
    connection.send(cancel_execution=cancel)


async def test_a_node_that_dies_while_its_stream_waits_for_another_to_open_the_session_stops_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_WELCOME_TIMEOUT_S", 1.0)
    async with ScriptedCluster(2) as cluster:
        for node in cluster.nodes:
            node.deaf = True
        async with serving(Worker(cluster.addresses)):
            await cluster.until(lambda: all(node.streams for node in cluster.nodes))
            await cluster.until(lambda: cluster.all_messages("hello"))
            (asked,) = [node for node in cluster.nodes if node.messages("hello")]
            (waiting,) = [node for node in cluster.nodes if node is not asked]
            await waiting.stop()
            asked.deaf = False
            await cluster.until(lambda: asked.connections)
