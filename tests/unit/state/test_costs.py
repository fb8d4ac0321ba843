"""What an execution of a plain job costs, counted rather than timed, so that no change makes it dearer unnoticed.

Most of a node's time goes into rows, pages and calls of the state machine; each bound is a few per cent above what was
counted when it was set. Who needs more has to say why here.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2
from raftsched.state.results import Fired
from raftsched.store import keys
from raftsched.store.writer import Writer
from tests.unit.state.support import ALL_SHARDS, MINUTE_MS, Node, ack_command, minutely

JOBS = 12_000
BATCH = 1_500
PAGE_BYTES = 4_096
# Calls of the writer, whatever the number of rows each is for.
CALLS = ("get", "get_many", "get_all", "cursor", "put", "put_many", "put_same", "delete", "delete_many")


@dataclass(frozen=True, slots=True)
class Cost:
    """Per execution from Fire to Ack, on one node."""

    rows_written: float
    writer_calls: float
    entry_bytes: float
    pages: float


def written_bytes() -> int:
    """What this process has handed to the kernel."""
    found = re.search(r"^wchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def count_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    calls: Counter[str] = Counter()

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return method(*arguments, **options)

        return call

    for name in CALLS:
        monkeypatch.setattr(Writer, name, counted(name, getattr(Writer, name)))
    return calls


def drain(node: Node, session: int) -> None:
    done = 0
    while done < JOBS:
        node.advance(1)
        node.want(Fired, command_pb2.Fire(shards=ALL_SHARDS, limit=BATCH))
        leased = node.lease(session, BATCH)
        assert node.ack(leased.token, leased.executions, node.now_ms, node.now_ms) == []
        done += len(leased.executions)


def cost(node: Node, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Cost:
    session = node.open_session(ttl_ms=3_600_000)
    for _ in range(0, JOBS, 4_000):
        node.create(4_000, due_ms=node.now_ms + MINUTE_MS, **settings)
    node.machine.commit()
    node.entries.clear()
    node.advance(MINUTE_MS)
    calls = count_calls(monkeypatch)
    rows_before, bytes_before = node.machine.dirty_ops, written_bytes()
    drain(node, session)
    rows = node.machine.dirty_ops - rows_before
    node.machine.commit()
    return Cost(
        rows_written=rows / JOBS,
        writer_calls=sum(calls.values()) / JOBS,
        entry_bytes=sum(map(len, node.entries)) / JOBS,
        pages=(written_bytes() - bytes_before) / PAGE_BYTES / JOBS,
    )


def test_a_one_off_costs_no_more_than_it_did(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = cost(node, monkeypatch)
    assert spent.rows_written < 5.01, "execution thrice, job, due row; the rest is shared by a batch"
    assert spent.writer_calls < 0.013
    assert spent.entry_bytes < 24.5, "an id and two times in the Ack; Fire and Lease name no execution"
    assert spent.pages < 0.05


def test_a_recurring_job_costs_one_more_row_for_its_next_tick(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = cost(node, monkeypatch, ticks_ms=minutely(64))
    assert spent.rows_written < 6.01
    assert spent.writer_calls < 0.015
    assert spent.entry_bytes < 24.5
    assert spent.pages < 0.07


def test_an_ack_of_many_is_bytes_and_not_messages() -> None:
    executions = range(1, BATCH + 1)
    size = ack_command(1 << 40, executions, 1_800_000_000_000, 1_800_000_000_000).ByteSize()
    assert size < (3 * keys.ID_BYTES + 1) * BATCH
