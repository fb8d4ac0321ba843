"""Which time a node believes."""

import pytest

from raftsched.node.cluster_clock import BOUND_MS, REPORT_LIFE_S, ClusterClock
from tests.unit.dispatch.support import ManualClock

HOUR_MS = 3_600_000


class Node:
    """A node whose true time and own clock a test moves apart."""

    def __init__(self, *, peers: int = 2) -> None:
        self.machine = ManualClock(now_s=100.0, wall=10_000_000)
        self.true_ms = 10_000_000
        self.clock = ClusterClock(self.machine, members=peers + 1)
        self.peers = peers
        self.hear()

    def pass_time(self, milliseconds: int) -> None:
        self.true_ms += milliseconds
        self.machine.wall += milliseconds
        self.machine.now_s += milliseconds / 1000

    def hear(self, *, late_ms: int = 0) -> None:
        for peer in range(2, 2 + self.peers):
            self.clock.reported(peer, self.true_ms - late_ms)

    def jump(self, milliseconds: int) -> None:
        self.machine.wall += milliseconds

    def error_ms(self) -> int:
        return self.clock.wall_ms() - self.true_ms


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_clock_that_agrees_is_followed(node: Node) -> None:
    node.pass_time(5_000)
    assert node.error_ms() == 0
    assert node.clock.is_trusted


def test_a_slewing_clock_is_followed(node: Node) -> None:
    for _ in range(100):
        node.pass_time(100)
        node.machine.wall += 1
        node.clock.wall_ms()
    assert node.error_ms() == 100


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -8 * HOUR_MS])
def test_a_jump_is_not_believed_before_the_others_speak_nor_after_they_deny_it(node: Node, jump_ms: int) -> None:
    node.jump(jump_ms)
    assert node.error_ms() == 0
    node.pass_time(400)
    assert node.error_ms() == 0
    node.hear()
    assert not node.clock.is_trusted
    for _ in range(20):
        node.pass_time(500)
        node.hear()
        assert abs(node.error_ms()) <= 1


def test_a_clock_that_is_set_right_is_believed_again(node: Node) -> None:
    node.jump(HOUR_MS)
    node.hear()
    node.jump(-HOUR_MS)
    node.hear()
    assert node.clock.is_trusted
    assert node.error_ms() == 0


def test_a_jump_that_all_clocks_make_is_followed(node: Node) -> None:
    node.pass_time(100)
    node.jump(HOUR_MS)
    node.true_ms += HOUR_MS
    assert node.error_ms() == -HOUR_MS
    node.hear()
    assert node.clock.is_trusted
    assert node.error_ms() == 0


def test_a_node_that_starts_with_a_wrong_clock_learns_the_time_from_the_others() -> None:
    node = Node(peers=0)
    node.peers = 2
    node.clock = ClusterClock(node.machine, members=3)
    node.jump(HOUR_MS)
    node.hear()
    assert not node.clock.is_trusted
    assert not node.clock.may_lead
    assert abs(node.error_ms()) <= 1


def test_a_node_does_not_lead_before_it_knows_a_majority_of_clocks() -> None:
    clock = ClusterClock(ManualClock(), members=3)
    assert not clock.may_lead
    clock.reported(2, 1_000_000)
    assert clock.may_lead


def test_a_node_alone_goes_by_its_own_clock() -> None:
    machine = ManualClock()
    clock = ClusterClock(machine, members=1)
    machine.wall += HOUR_MS
    assert clock.may_lead
    assert clock.wall_ms() == machine.wall


def test_one_wrong_peer_does_not_matter(node: Node) -> None:
    node.clock.reported(2, node.true_ms + HOUR_MS)
    assert node.clock.is_trusted
    assert node.error_ms() == 0


def test_a_peer_that_was_put_right_is_right_at_once(node: Node) -> None:
    node.clock.reported(2, node.true_ms + HOUR_MS)
    node.pass_time(500)
    node.clock.reported(2, node.true_ms)
    # With what node 2 said before this would be a majority.
    node.clock.reported(3, node.true_ms + HOUR_MS)
    assert node.clock.is_trusted
    assert node.error_ms() == 0


def test_reports_that_were_held_up_do_not_condemn_a_clock(node: Node) -> None:
    for _ in range(3):
        node.pass_time(500)
        node.hear(late_ms=2 * BOUND_MS)
    assert node.clock.is_trusted


def test_of_two_clocks_that_differ_neither_is_condemned() -> None:
    node = Node()
    node.pass_time(int(REPORT_LIFE_S * 1000) + 1)
    node.clock.reported(2, node.true_ms + HOUR_MS)
    assert node.clock.is_trusted


def test_of_two_clocks_that_differ_the_one_that_jumped_is_not_believed() -> None:
    node = Node()
    node.pass_time(int(REPORT_LIFE_S * 1000) + 1)
    node.jump(HOUR_MS)
    node.clock.reported(2, node.true_ms)
    assert not node.clock.may_lead
    assert node.error_ms() == 0


def test_of_two_clocks_that_never_agreed_neither_leads() -> None:
    clock = ClusterClock(ManualClock(wall=10_000_000), members=3)
    clock.reported(2, 10_000_000 + HOUR_MS)
    assert not clock.may_lead
    clock.reported(3, 10_000_000)
    assert clock.may_lead


def test_old_reports_prove_nothing(node: Node) -> None:
    node.pass_time(int(REPORT_LIFE_S * 1000) + 1)
    assert node.clock.offset_ms() is None


def test_clocks_of_nodes_that_left_do_not_count_and_those_of_new_ones_do() -> None:
    node = Node(peers=2)
    node.jump(HOUR_MS)
    node.hear()
    assert not node.clock.is_trusted
    node.clock.follow_members(1, [])
    assert node.clock.may_lead, "alone"
    node.clock.follow_members(3, [2, 3])
    assert node.clock.offset_ms() is None, "they have to be heard anew"
    node.hear()
    assert node.clock.offset_ms() == -HOUR_MS
