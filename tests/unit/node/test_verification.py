import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.internal.v1 import command_pb2, report_pb2
from raftsched.model.errors import ImpossibleState
from raftsched.node.verification import Verifications
from raftsched.raft.background import InlineBackground, ThreadBackground
from raftsched.raft.log import RaftLog
from raftsched.state.machine import Machine
from raftsched.store.environment import Store
from raftsched.v1 import cluster_pb2
from tests.unit.state.support import create_command

JOBS = 3_000
RUNNING = cluster_pb2.VERIFICATION_STATE_RUNNING
ALONE = cluster_pb2.VERIFICATION_STATE_ALONE
SAME = cluster_pb2.VERIFICATION_STATE_SAME
DIFFERS = cluster_pb2.VERIFICATION_STATE_DIFFERS
DAMAGED = cluster_pb2.VERIFICATION_STATE_DAMAGED
CANCELLED = cluster_pb2.VERIFICATION_STATE_CANCELLED


class StillClock:
    def wall_ms(self) -> int:
        return 1

    def monotonic(self) -> float:
        return 1.0


class HeldBackground:
    """Runs nothing before it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self.work.append((work, done))

    def run_all(self) -> None:
        while self.work:
            InlineBackground().submit(*self.work.pop(0))

    def poll(self) -> None:
        """Done by run_all."""

    def close(self) -> None:
        self.work.clear()


class Node:
    """Node 1 of three: a state and a log, without anything around them."""

    def __init__(self, folder: Path, *, members: int = 3) -> None:
        self.store = Store(folder / "state")
        self.machine = Machine(self.store, node_id=1)
        self.log = RaftLog(folder / "log")
        self.log.set_term(1, 1)
        self.background: Any = HeldBackground()
        self.members = range(1, members + 1)
        self.folder = folder
        self.create(JOBS)
        self.machine.commit()
        self.verifications = self.make(share=1.0)

    def make(self, share: float) -> Verifications:
        return Verifications(
            node_id=1,
            members=lambda: self.members,
            machine=self.machine,
            store=self.store,
            log=self.log,
            clock=StillClock(),
            background=self.background,
            share=share,
        )

    def create(self, count: int) -> None:
        payloads = [b"%08d" % number for number in range(count)]
        command = command_pb2.Command(create_jobs=create_command(count, payloads=payloads))
        index = self.machine.applied_index + 1
        entry = command_pb2.Entry(now_ms=index, commands=[command.SerializeToString()]).SerializeToString()
        self.log.append(index, 1, b"\x00" + entry)
        self.log.flush()
        self.machine.apply_entry(index, 1, entry)

    def verify(self) -> None:
        self.verifications.start()
        self.background.run_all()

    def hear(self, peer: int, content_hash: str, index: int | None = None) -> None:
        verified = report_pb2.Verified(
            index=self.machine.applied_index if index is None else index, content_hash=bytes.fromhex(content_hash)
        )
        self.verifications.reported(peer, verified)

    def damage(self, name: str, text: bytes) -> None:
        """Under the open file: LMDB maps it, so it is seen at once."""
        with (self.folder / name / "data.mdb").open("r+b") as file:
            data = file.read()
            assert text in data
            file.seek(0)
            file.write(data.replace(text, text[:-1] + b"!"))

    @property
    def hash(self) -> str:
        view = self.verifications.view()
        assert view is not None
        return view.content_hash

    @property
    def state(self) -> int:
        view = self.verifications.view()
        assert view is not None
        return view.state

    def close(self) -> None:
        self.verifications.close()
        self.log.close()
        self.store.close()


OTHER = "ab" * 32


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def test_before_the_first_one_there_is_nothing_to_tell(node: Node) -> None:
    assert node.verifications.view() is None
    assert node.verifications.report() is None
    assert node.verifications.problem == ""


def test_it_reads_every_row_and_every_entry(node: Node) -> None:
    node.verify()
    view = node.verifications.view()
    assert view is not None
    assert view.state == ALONE
    assert view.log_entries == 1
    with node.store.read() as read:
        assert view.state_rows == sum(read.entries(getattr(read.tables, name)) for name in read.tables.__slots__)
    assert view.state_rows > JOBS


def test_what_is_read_is_the_state_as_of_the_entry(node: Node) -> None:
    node.verify()
    expected = node.hash
    node.verifications.start()
    node.create(10)
    node.machine.commit()
    node.background.run_all()
    assert node.hash == expected
    node.verify()
    assert node.hash != expected


def test_a_majority_with_the_same_content_settles_it(node: Node) -> None:
    node.verify()
    assert node.state == ALONE
    node.hear(3, node.hash)
    assert node.state == SAME
    node.hear(2, OTHER)
    assert (node.state, node.verifications.problem) == (SAME, "")


def test_peers_may_be_faster(node: Node) -> None:
    node.verify()
    own = node.hash
    node.verifications.start()
    node.hear(2, own)
    node.hear(3, own)
    assert node.state == RUNNING
    node.background.run_all()
    assert node.state == SAME
    view = node.verifications.view()
    assert view is not None
    assert (view.same, view.other) == ((1, 2, 3), ())


def test_a_majority_with_another_content_makes_this_node_the_damaged_one(node: Node) -> None:
    node.verify()
    node.hear(2, OTHER)
    assert (node.state, node.verifications.problem) == (ALONE, "")
    node.hear(3, OTHER)
    assert node.state == DIFFERS
    assert str(node.store.path / "data.mdb") in node.verifications.problem


def test_three_nodes_of_which_no_two_agree_decide_nothing(node: Node) -> None:
    node.verify()
    node.hear(2, OTHER)
    node.hear(3, "cd" * 32)
    assert node.state == ALONE


def test_what_was_decided_stays_when_peers_go_on(node: Node) -> None:
    node.verify()
    node.hear(2, OTHER)
    node.hear(3, OTHER)
    node.hear(2, node.hash, node.machine.applied_index + 5)
    assert node.state == DIFFERS


def test_results_of_another_index_and_of_strangers_do_not_count(node: Node) -> None:
    node.verify()
    node.hear(2, OTHER, node.machine.applied_index - 1)
    node.hear(7, OTHER)
    node.hear(8, OTHER)
    assert node.state == ALONE


def test_a_single_node_is_its_own_majority(tmp_path: Path) -> None:
    node = Node(tmp_path, members=1)
    node.verify()
    assert node.state == SAME
    node.close()


def test_a_node_without_a_vote_goes_by_those_that_have_one(node: Node) -> None:
    node.members = range(2, 5)
    node.verify()
    assert node.state == ALONE
    node.hear(2, node.hash)
    assert node.state == ALONE
    node.hear(3, node.hash)
    assert node.state == SAME


def test_a_flipped_bit_in_a_value_changes_the_hash(node: Node) -> None:
    node.verify()
    before = node.hash
    node.damage("state", b"00001234")
    node.verify()
    assert node.hash != before


def test_a_damaged_entry_of_the_log_is_named(node: Node) -> None:
    node.damage("log", b"00001234")
    node.verify()
    assert node.state == DAMAGED
    assert "log entry 1 is damaged" in node.verifications.problem
    assert node.verifications.report() is None


def test_a_page_of_another_kind_is_not_taken_for_whole(node: Node) -> None:
    node.verify()
    before = node.hash
    # A page of the table of payloads becomes one of another kind.
    with (node.folder / "state" / "data.mdb").open("r+b") as file:
        at = file.read().index(b"00002900") // 4_096 * 4_096
        file.seek(at + 10)
        file.write(b"\x20\x00")
    node.verify()
    assert node.state == DAMAGED or node.hash != before


def test_a_newer_one_replaces_the_one_under_way(node: Node) -> None:
    node.verifications.start()
    first = node.machine.applied_index
    node.create(1)
    node.verifications.start()
    node.background.run_all()
    view = node.verifications.view()
    assert view is not None
    assert view.index == first + 1
    assert view.state == ALONE


def test_closing_lets_go_of_views_that_were_never_read(node: Node) -> None:
    node.verifications.start()
    node.verifications.start()
    # The fixture closes: the store would wait for its readers for ever.
    assert node.state == RUNNING


def test_an_unexpected_error_stops_the_node(node: Node) -> None:
    node.verifications.start()
    _, done = node.background.work.pop()
    with pytest.raises(ImpossibleState):
        done(None, ImpossibleState("a bug"))


def test_a_state_that_is_to_be_replaced_is_not_held_up(node: Node, tmp_path: Path) -> None:
    node.verify()
    copy = tmp_path / "copy"
    node.machine.snapshot_to(copy)
    reading, going_on = threading.Event(), threading.Event()

    class Slow(ThreadBackground):
        def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
            def slowly() -> Any:
                reading.set()
                assert going_on.wait(10)
                return work()

            super().submit(slowly, done)

    ended = threading.Event()
    node.verifications.close()
    node.background = Slow(ended.set, name="verify")
    node.verifications = node.make(share=1.0)
    node.verifications.start()
    assert reading.wait(10)
    # The store waits for its reader, which sees that it is in the way.
    threading.Timer(0.05, going_on.set).start()
    node.machine.install_snapshot(copy)
    assert ended.wait(10)
    node.verifications.poll()
    assert node.state == CANCELLED


def test_resting_does_not_change_what_is_found(node: Node) -> None:
    node.verify()
    expected = node.hash
    node.verifications.close()
    ended = threading.Event()
    node.background = ThreadBackground(ended.set, name="verify")
    node.verifications = node.make(share=0.5)
    node.verifications.start()
    assert ended.wait(10)
    node.verifications.poll()
    assert node.hash == expected
