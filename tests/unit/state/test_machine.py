import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import ImpossibleState, InvalidField, RaftschedError, StoreCorrupt
from raftsched.state.results import Rejected
from raftsched.store import keys
from tests.unit.state.support import (
    ALL_SHARDS,
    MINUTE_MS,
    START_MS,
    Node,
    ack_command,
    create_command,
    minutely,
    replayed,
    wrapped,
)


def busy_history(node: Node) -> None:
    """Entries of every kind, with several commands each."""
    node.create(40, names=[f"n{number}" for number in range(40)], key="k", tenant="a", run_timeout_ms=15_000)
    node.create(10, ticks_ms=minutely(3), jitter_ms=2_000)
    node.create(10, every_ms=1_500, due_ms=START_MS, priority=3, payloads=[bytes(50)] * 10)
    session, other = node.open_session("default"), node.open_session("default", "q")
    node.batch(
        command_pb2.AssignShards(owners=[1 + shard % 3 for shard in ALL_SHARDS]),
        command_pb2.LeaderStarted(node=1, term=2, session_grace_ms=5_000),
        create_command(5, queue="q"),
        create_command(1, names=["n1"]),
    )
    node.fire(limit=30)
    leased = node.lease(session, 12)
    node.batch(
        command_pb2.Lease(session=other, queues=["q", "default"], limit=9, payload_bytes_limit=120),
        command_pb2.Fire(shards=ALL_SHARDS, limit=500),
        ack_command(leased.token, leased.executions[:5]),
    )
    node.fail(leased.token, leased.executions[5:8])
    node.fail(leased.token, leased.executions[8:9], permanent=True)
    node.start(leased.token, leased.executions[9:11])
    node.release(leased.token, leased.executions[11:])
    node.do(command_pb2.ReplayDeadLetters(executions=keys.pack_ids(leased.executions[8:9])))
    node.advance(1_000)
    node.do(command_pb2.CancelJob(job=44))
    node.do(command_pb2.CancelJob(job=20))
    node.renew(session, leased.token)
    node.advance(3 * MINUTE_MS)
    node.fire()
    node.do(command_pb2.ExtendTicks(schedule=1, after_ms=START_MS + 3 * MINUTE_MS, ticks_ms=minutely(5, first=4)))
    node.tick()
    node.do(command_pb2.CloseSession(session=other))
    node.fire()


@pytest.fixture
def other_directory(tmp_path: Path) -> Path:
    return tmp_path / "other"


# --- determinism ---


@pytest.mark.parametrize("every", [1, 3, 1_000])
def test_replicas_agree_to_the_byte_wherever_they_commit(node: Node, other_directory: Path, every: int) -> None:
    busy_history(node)
    other = replayed(node, other_directory, range(0, len(node.entries), every))
    assert other.machine.digest == node.machine.digest
    assert other.dump() == node.dump()
    assert other.machine.counters == node.machine.counters
    assert other.machine.ready_by_queue == node.machine.ready_by_queue
    other.machine.close()


@pytest.mark.parametrize("share", [0.05, 0.4, 0.6, 0.95])
def test_a_restart_in_the_middle_and_a_replay_of_the_tail_lead_to_the_same(
    node: Node, other_directory: Path, share: float
) -> None:
    busy_history(node)
    committed = int(len(node.entries) * share)
    other = replayed(node, other_directory, [committed])
    other.reopen()
    assert other.machine.applied_index == other.machine.committed_index == committed
    for entry in node.entries[committed:]:
        other.apply(entry)
    assert other.machine.digest == node.machine.digest
    assert other.dump() == node.dump()
    other.machine.close()


def test_the_digest_differs_when_anything_written_does(node: Node, tmp_path: Path) -> None:
    busy_history(node)
    changed = bytearray(node.entries[0])
    place = bytes(changed).index(b"n17")
    changed[place] ^= 1
    node_entries, node.entries = node.entries, [bytes(changed), *node.entries[1:]]
    other = replayed(node, tmp_path / "changed")
    node.entries = node_entries
    assert other.machine.digest != node.machine.digest
    other.machine.close()


def test_an_entry_without_commands_only_moves_the_index(node: Node) -> None:
    node.create()
    before, digest = node.dump(), node.machine.digest
    effects = node.machine.apply_entry(node.machine.applied_index + 1, 7, b"")
    assert (effects.results, node.dump()) == ([], before)
    assert node.machine.applied_term == 7
    assert node.machine.digest != digest


def test_an_entry_that_was_applied_already_is_fatal(node: Node) -> None:
    node.create()
    with pytest.raises(ImpossibleState):
        node.machine.apply_entry(node.machine.applied_index, 1, b"")


def test_results_are_for_the_node_that_asked_only(node: Node) -> None:
    for origin, request, expected in ((1, 5, [5]), (2, 5, []), (1, 0, [])):
        command = wrapped(create_command())
        command.origin, command.request = origin, request
        entry = command_pb2.Entry(now_ms=node.now_ms, commands=[command.SerializeToString()])
        effects = node.apply(entry.SerializeToString())
        assert [number for number, _ in effects.results] == expected


# --- idempotence under re-proposal ---


@pytest.mark.parametrize("place", range(40))
def test_every_entry_may_be_proposed_twice(node: Node, other_directory: Path, place: int) -> None:
    """What takes from a queue may take more; everything else changes nothing the second time."""
    busy_history(node)
    if place >= len(node.entries):
        return
    entry = command_pb2.Entry.FromString(node.entries[place])
    operations = {command_pb2.Command.FromString(data).WhichOneof("op") for data in entry.commands}
    other = Node(other_directory, node_id=9)
    for earlier in node.entries[: place + 1]:
        other.apply(earlier)
    before = other.dump()
    other.apply(node.entries[place])
    takes_more = {"fire", "lease", "open_session"} & operations
    creates_without_key = place > 0 and "create_jobs" in operations
    if not takes_more and not creates_without_key:
        assert other.dump() == before
    for later in node.entries[place + 1 :]:
        other.apply(later)
    other.check()
    other.machine.close()


# --- durability ---


def test_what_was_not_committed_is_gone_after_a_crash(node: Node) -> None:
    node.create()
    node.machine.commit()
    committed = node.dump()
    node.create(5)
    node.reopen()
    assert node.dump() == committed
    assert node.machine.applied_index == 1


def test_the_committed_index_follows_the_commit(node: Node) -> None:
    node.create()
    machine = node.machine
    assert (machine.applied_index, machine.committed_index) == (1, 0)
    assert machine.dirty_ops > 0
    machine.commit()
    assert (machine.committed_index, machine.dirty_ops) == (1, 0)


def test_views_are_the_same_after_a_restart(node: Node) -> None:
    busy_history(node)
    node.machine.commit()
    before = node.machine

    def views() -> object:
        machine = node.machine
        return (
            {queue: count for queue, count in machine.ready_by_queue.items() if count},
            machine.shard_owners,
            dict(machine.sessions),
            machine.counters,
            machine.next_due_ms(ALL_SHARDS),
            machine.next_deadline_ms(),
            machine.schedules_to_extend(node.now_ms + 10 * MINUTE_MS),
            (machine.applied_index, machine.applied_term, machine.now_ms, machine.digest),
        )

    expected = views()
    node.reopen()
    assert node.machine is not before
    assert views() == expected


def test_a_profile_can_be_asked_for_from_another_thread(node: Node) -> None:
    (job,) = node.create(handler="h1")
    number = node.job(job).profile
    node.machine.commit()
    node.reopen()
    found = []
    thread = threading.Thread(target=lambda: found.append(node.machine.profile(number).handler))
    thread.start()
    thread.join()
    assert found == ["h1"]
    with pytest.raises(ImpossibleState):
        node.machine.profile(77)


# --- snapshots ---


def test_a_snapshot_taken_on_another_thread_installs_as_the_same_state(node: Node, tmp_path: Path) -> None:
    busy_history(node)
    node.machine.commit()
    expected, digest, index = node.dump(), node.machine.digest, node.machine.applied_index
    node.create(3)
    snapshot = tmp_path / "snapshot"
    found: list[tuple[int, int, bytes]] = []
    thread = threading.Thread(target=lambda: found.append(node.machine.snapshot_to(snapshot)))
    thread.start()
    thread.join()
    assert found == [(index, 1, digest)]

    other = Node(tmp_path / "other", node_id=9)
    other.create(7, queue="soon gone")
    other.machine.install_snapshot(snapshot)
    assert (other.machine.applied_index, other.machine.digest) == (index, digest)
    assert other.machine.committed_index == index
    assert other.dump() == expected
    other.apply(node.entries[-1])
    assert other.machine.digest == node.machine.digest
    other.check()
    other.reopen()
    assert other.machine.applied_index == index
    other.machine.close()


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "another file"])
def test_a_damaged_snapshot_is_refused_and_the_state_kept(node: Node, tmp_path: Path, damage: str) -> None:
    node.create(50, payloads=[bytes(5_000)] * 50)
    node.machine.commit()
    expected = node.dump()
    snapshot = tmp_path / "snapshot"
    node.machine.snapshot_to(snapshot)
    whole = snapshot.read_bytes()
    snapshot.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "garbage": random.Random(1).randbytes(len(whole)),
            "empty": b"",
            "another file": b"PK" * 50_000,
        }[damage]
    )
    with pytest.raises(StoreCorrupt):
        node.machine.install_snapshot(snapshot)
    assert node.dump() == expected
    assert node.create() == [51]


# --- malformed input ---


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("fuzzed") / "state")
    busy_history(node)
    yield node
    node.check()
    node.machine.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry(fuzzed: Node, entry: bytes) -> None:
    index = fuzzed.machine.applied_index
    fuzzed.machine.apply_entry(index + 1, 1, entry)
    assert fuzzed.machine.applied_index == index + 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=100), max_size=4))
def test_any_bytes_are_commands(fuzzed: Node, commands: list[bytes]) -> None:
    entry = command_pb2.Entry(now_ms=fuzzed.now_ms, commands=commands).SerializeToString()
    fuzzed.machine.apply_entry(fuzzed.machine.applied_index + 1, 1, entry)


IDS = st.integers(0, 3) | st.integers(0, 80) | st.sampled_from([keys.MAX_ID, 1 << 63, 1 << 32])
TIMES = st.integers(START_MS - 5, START_MS + 5) | st.integers(-(1 << 63), (1 << 63) - 1)
COLUMNS = st.lists(IDS, max_size=5).map(keys.pack_ids) | st.binary(max_size=20)
SMALL = st.integers(0, 5) | st.sampled_from([(1 << 32) - 1])
TEXTS = st.sampled_from(["", "default", "q", "x" * 600])
BLOCKS = st.lists(st.builds(command_pb2.LeasedBlock, token=IDS, executions=COLUMNS), max_size=3)
OPERATIONS = st.one_of(
    st.builds(command_pb2.CancelJob, job=IDS, dropped_token=IDS),
    st.builds(command_pb2.ReplayDeadLetters, executions=COLUMNS),
    st.builds(command_pb2.Fire, shards=st.lists(SMALL, max_size=4), limit=SMALL),
    st.builds(command_pb2.Tick, limit=SMALL),
    st.builds(command_pb2.ExtendTicks, schedule=SMALL, after_ms=TIMES, ticks_ms=st.lists(TIMES, max_size=3)),
    st.builds(command_pb2.AssignShards, owners=st.lists(SMALL, max_size=33)),
    st.builds(command_pb2.LeaderStarted, node=SMALL, term=IDS, session_grace_ms=TIMES),
    st.builds(command_pb2.OpenSession, worker=TEXTS, queues=st.lists(TEXTS, max_size=2), ttl_ms=TIMES),
    st.builds(command_pb2.CloseSession, session=IDS),
    st.builds(
        command_pb2.Renew,
        sessions=st.lists(st.builds(command_pb2.RenewSession, session=IDS, held_tokens=COLUMNS), max_size=2),
        grant_timeout_ms=TIMES,
    ),
    st.builds(
        command_pb2.Lease, session=IDS, queues=st.lists(TEXTS, max_size=2), limit=SMALL, payload_bytes_limit=SMALL
    ),
    st.builds(command_pb2.Release, blocks=BLOCKS),
    st.builds(command_pb2.Started, blocks=BLOCKS, started_ms=TIMES),
    st.builds(
        command_pb2.Ack,
        blocks=st.lists(
            st.builds(command_pb2.CompletedBlock, token=IDS, executions=COLUMNS, started_ms=COLUMNS, ended_ms=COLUMNS),
            max_size=2,
        ),
    ),
    st.builds(
        command_pb2.Fail,
        failures=st.lists(
            st.builds(
                command_pb2.FailedExecution,
                token=IDS,
                execution=IDS,
                started_ms=TIMES,
                ended_ms=TIMES,
                error=TEXTS,
                permanent=st.booleans(),
            ),
            max_size=3,
        ),
    ),
    st.builds(
        command_pb2.CreateJobs,
        jobs=st.lists(
            st.builds(command_pb2.NewJob, profile=SMALL, schedule=SMALL, due_ms=TIMES, name=TEXTS, payload=COLUMNS),
            max_size=3,
        ),
        profiles=st.lists(st.binary(max_size=10) | st.just(bytes(create_command().profiles[0])), max_size=2),
        schedules=st.lists(
            st.builds(
                command_pb2.NewSchedule,
                schedule=st.binary(max_size=10) | st.just(command_pb2.Schedule(every_ms=1_000).SerializeToString()),
                ticks_ms=st.lists(TIMES, max_size=2),
            ),
            max_size=2,
        ),
        key_namespace=TEXTS,
        key=TEXTS,
        fingerprint=st.binary(max_size=16) | st.just(bytes(16)),
    ),
)


@settings(max_examples=200, deadline=None)
@given(OPERATIONS)
def test_any_values_in_a_command_yield_a_result_and_a_refusal_writes_nothing(fuzzed: Node, operation: object) -> None:
    before = fuzzed.dump()
    result = fuzzed.do(operation)
    if isinstance(result, Rejected):
        assert isinstance(result.error, RaftschedError)
        assert fuzzed.dump() == before


def test_a_command_without_an_operation_is_refused_and_counted(node: Node) -> None:
    command = command_pb2.Command(origin=1, request=3).SerializeToString()
    effects = node.apply(command_pb2.Entry(now_ms=node.now_ms, commands=[command, b"\xff"]).SerializeToString())
    ((request, result),) = effects.results
    assert request == 3
    assert isinstance(result, Rejected)
    assert isinstance(result.error, InvalidField)
    assert node.machine.counters.unintelligible == 2


@pytest.mark.parametrize("owners", [[], [1] * 31, [1] * 33])
def test_shards_are_assigned_all_or_none(node: Node, owners: list[int]) -> None:
    node.refused(InvalidField, command_pb2.AssignShards(owners=owners))


def test_assigning_shards_tells_once(node: Node) -> None:
    owners = [1 + shard % 2 for shard in ALL_SHARDS]
    node.do(command_pb2.AssignShards(owners=owners))
    assert node.effects.shards_changed
    assert node.machine.shard_owners == tuple(owners)
    node.do(command_pb2.AssignShards(owners=owners))
    assert not node.effects.shards_changed
