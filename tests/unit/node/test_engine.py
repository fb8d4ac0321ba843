import random
import time
from collections.abc import Callable
from pathlib import Path

from raftsched.internal.v1 import command_pb2
from raftsched.node.clock import SystemClock
from raftsched.node.config import NodeConfig
from raftsched.node.engine import Engine, Outside
from raftsched.raft.background import InlineBackground
from raftsched.state.machine import Machine
from raftsched.state.results import Leased, LeaseEnded, Result, SessionOpened
from raftsched.store.keys import pack_ids
from raftsched.v1 import limit_pb2
from tests.unit.raft.support import MemoryTransport
from tests.unit.state.support import QUEUE, create_command


class Deaf:
    """A listener that nobody stands behind."""

    def lease_ended(self, ended: LeaseEnded) -> None:
        pass

    def session_ended(self, session: int) -> None:
        pass


class UncommittedMachine(Machine):
    """Loses in a crash all that was applied."""

    def commit(self) -> None:
        pass


class CrashingEngine(Engine):
    _machine_type = UncommittedMachine


def open_engine(folder: Path, of_type: type[Engine] = Engine) -> Engine:
    config = NodeConfig(node_id=1, data_dir=folder, listen="127.0.0.1:7100", peers={1: "127.0.0.1:7100"})
    return of_type(
        config,
        Outside(
            clock=SystemClock(),
            rng=random.Random(1),
            transport=MemoryTransport(),
            send_report=lambda _node, _data: None,
            log_background=InlineBackground(),
            snapshot_background=InlineBackground(),
            listener=Deaf(),
        ),
    )


def answer_to(engine: Engine, command: command_pb2.Command) -> Result:
    results: list[Result] = []
    engine.submit(command, 1, results.append)
    run_until(engine, lambda: bool(results))
    return results[0]


def run_until(engine: Engine, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        engine.step()


def test_what_was_leased_before_a_crash_is_not_taken_back_when_the_log_is_applied_again(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, CrashingEngine)
    run_until(engine, lambda: engine.replica.is_leader)
    opened = answer_to(
        engine, command_pb2.Command(open_session=command_pb2.OpenSession(worker="w", queues=[QUEUE], ttl_ms=60_000))
    )
    assert isinstance(opened, SessionOpened)
    granted: list[Leased] = []
    engine.lease_pump.open(1, opened.session, [QUEUE], granted.append)
    engine.lease_pump.credit(1, 10)
    answer_to(engine, command_pb2.Command(create_jobs=create_command(3, due_ms=engine.clock.wall_ms())))
    run_until(engine, lambda: sum(len(leased.executions) for leased in granted) == 3)
    last = engine.machine.applied_index
    engine.close(commit=False)

    again = open_engine(tmp_path)
    assert again.machine.applied_index == 0
    run_until(again, lambda: again.replica.is_leader and again.machine.applied_index > last)
    answer_to(again, command_pb2.Command(tick=command_pb2.Tick(limit=1)))
    assert opened.session in again.machine.sessions
    assert not any(again.machine.ready_by_queue.values())
    again.close(commit=True)


def test_a_backlog_that_a_limit_holds_back_is_left_alone_until_there_is_room(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    run_until(engine, lambda: engine.replica.is_leader)
    opened = answer_to(
        engine, command_pb2.Command(open_session=command_pb2.OpenSession(worker="w", queues=[QUEUE], ttl_ms=60_000))
    )
    assert isinstance(opened, SessionOpened)
    limit = command_pb2.PutLimit(scope=limit_pb2.LIMIT_SCOPE_TENANT, name="t", concurrency=1)
    answer_to(engine, command_pb2.Command(put_limit=limit))
    granted: list[Leased] = []
    engine.lease_pump.open(1, opened.session, [QUEUE], granted.append)
    engine.lease_pump.credit(1, 10)
    create = create_command(50, due_ms=engine.clock.wall_ms(), tenant="t")
    answer_to(engine, command_pb2.Command(create_jobs=create))
    for number in range(1, 4):
        run_until(engine, lambda number=number: len(granted) == number)  # type: ignore[misc]
        run_until(engine, lambda: not engine.machine.leasable(QUEUE))
        index = engine.machine.applied_index
        deadline_s = time.monotonic() + 0.1
        while time.monotonic() < deadline_s:
            engine.step()
        # What was under way, and an entry of the leader's own; not a lease after the other.
        assert engine.machine.applied_index <= index + 3
        assert len(granted) == number
        assert len(granted[-1].executions) == 1
        release = command_pb2.Release()
        release.blocks.add(token=granted[-1].token, executions=pack_ids(granted[-1].executions))
        answer_to(engine, command_pb2.Command(release=release))
    engine.close(commit=True)
