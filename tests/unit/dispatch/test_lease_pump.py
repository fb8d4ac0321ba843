"""How workers' credits become leases."""

from raftsched.dispatch.lease_pump import EMPTY_WAIT_S, LEASE_LIMIT, MAX_FREE_CREDIT, LeasePump
from raftsched.model.errors import OutcomeUnknown
from raftsched.state.results import Leased, Rejected
from tests.unit.dispatch.support import ManualClock, Submitted, Views


def leased(count: int, token: int = 9) -> Leased:
    ids = range(1, count + 1)
    return Leased(7, token, list(ids), list(ids), [0] * count, [1] * count, [1] * count)


class Setup:
    def __init__(self, ready: int = 10_000) -> None:
        self.views = Views(ready_by_queue={"default": ready})
        self.submitted, self.clock = Submitted(), ManualClock()
        self.pump = LeasePump(machine=self.views, submit=self.submitted, clock=self.clock)
        self.granted: list[Leased] = []
        self.pump.open(1, 7, ["default"], self.granted.append)

    def limits(self) -> list[int]:
        return [command.lease.limit for command in self.submitted.commands]


def test_without_credit_nothing_is_leased() -> None:
    setup = Setup()
    setup.pump.step()
    assert setup.submitted.commands == []


def test_credit_becomes_a_lease_for_its_session_and_queues() -> None:
    setup = Setup()
    setup.pump.credit(1, 10)
    setup.pump.step()
    lease = setup.submitted.commands[0].lease
    assert (lease.session, list(lease.queues), lease.limit) == (7, ["default"], 10)


def test_without_ready_executions_in_its_queues_nothing_is_leased() -> None:
    setup = Setup(ready=0)
    setup.views.ready_by_queue["other"] = 5
    setup.pump.credit(1, 10)
    assert setup.pump.step() is None
    assert setup.submitted.commands == []


def test_credit_is_a_running_total_so_repeating_it_grants_nothing() -> None:
    setup = Setup()
    setup.pump.credit(1, 10)
    setup.pump.step()
    setup.submitted.answer(leased(10))
    setup.pump.credit(1, 10)
    setup.pump.credit(1, 5)
    setup.pump.step()
    assert setup.limits() == [10]
    setup.pump.credit(1, 14)
    setup.pump.step()
    assert setup.limits() == [10, 4]


def test_what_was_not_granted_stays_credit() -> None:
    setup = Setup()
    setup.pump.credit(1, 10)
    setup.pump.step()
    setup.submitted.answer(leased(4))
    setup.pump.step()
    assert setup.limits() == [10, 6]


def test_a_large_credit_is_leased_piece_by_piece_with_one_under_way() -> None:
    setup = Setup()
    setup.pump.credit(1, 10 * LEASE_LIMIT)
    setup.pump.step()
    setup.pump.step()
    assert setup.limits() == [LEASE_LIMIT]
    setup.submitted.answer(leased(LEASE_LIMIT))
    setup.pump.step()
    assert setup.limits() == [LEASE_LIMIT, LEASE_LIMIT]


def test_grants_reach_their_stream() -> None:
    setup = Setup()
    setup.pump.credit(1, 3)
    setup.pump.step()
    setup.submitted.answer(leased(3))
    assert setup.granted == [leased(3)]


def test_a_grant_for_a_stream_that_is_gone_is_given_back() -> None:
    setup = Setup()
    setup.pump.credit(1, 2)
    setup.pump.step()
    setup.pump.close(1)
    setup.submitted.answer(leased(2, token=77))
    assert setup.granted == []
    (block,) = setup.submitted.commands[1].release.blocks
    assert block.token == 77
    assert block.executions == bytes(7) + b"\x01" + bytes(7) + b"\x02"


def test_after_an_empty_grant_it_waits_a_moment_instead_of_spinning() -> None:
    setup = Setup()
    setup.pump.credit(1, 5)
    setup.pump.step()
    setup.submitted.answer(leased(0))
    wait_s = setup.pump.step()
    assert wait_s is not None
    assert 0 < wait_s <= EMPTY_WAIT_S
    assert setup.limits() == [5]
    setup.clock.now_s += EMPTY_WAIT_S
    setup.pump.step()
    assert setup.limits() == [5, 5]


def test_a_lost_lease_command_does_not_keep_the_stream_waiting_for_ever() -> None:
    setup = Setup()
    setup.pump.credit(1, 5)
    setup.pump.step()
    setup.submitted.answer(Rejected(OutcomeUnknown()))
    setup.clock.now_s += EMPTY_WAIT_S
    setup.pump.step()
    assert setup.limits() == [5, 5]


def test_a_draining_node_leases_nothing_more() -> None:
    setup = Setup()
    setup.pump.credit(1, 5)
    setup.pump.stop()
    setup.pump.step()
    assert setup.submitted.commands == []


def test_whatever_credit_a_stream_gives_its_grants_and_its_weight_are_bounded() -> None:
    setup = Setup()
    setup.pump.credit(1, 2**64 - 1)
    assert setup.pump.capacity == MAX_FREE_CREDIT
    setup.pump.step()
    assert setup.limits() == [LEASE_LIMIT]


def test_the_weight_of_a_node_does_not_grow_with_what_its_workers_have_done() -> None:
    setup = Setup()
    for total in range(10, 1_000, 10):
        setup.pump.credit(1, total)
        setup.pump.step()
        setup.submitted.answer(leased(10))
    assert setup.pump.capacity == 10


def test_what_a_limit_holds_back_is_not_asked_for_until_something_is_applied() -> None:
    setup = Setup()
    setup.views.leasable_by_queue = {"default": 0}
    setup.pump.credit(1, 5)
    assert setup.pump.step() is None
    assert setup.submitted.commands == []
    setup.views.leasable_by_queue = {"default": 1}
    setup.pump.step()
    assert setup.limits() == [5]


def test_what_a_rate_holds_back_is_asked_for_when_the_next_one_may_go() -> None:
    setup = Setup()
    setup.views.leasable_by_queue = {"default": 0}
    setup.views.refill_by_queue = {"default": setup.clock.wall + 250}
    setup.pump.credit(1, 5)
    assert setup.pump.step() == 0.25
    assert setup.submitted.commands == []
    setup.clock.wall += 250
    setup.pump.step()
    assert setup.limits() == [5]


def test_a_stream_waits_for_the_first_of_its_queues() -> None:
    setup = Setup()
    setup.views.leasable_by_queue = {"default": 0, "fast": 3}
    setup.views.refill_by_queue = {"default": setup.clock.wall + 250}
    setup.pump.open(2, 7, ["default", "fast"], setup.granted.append)
    setup.pump.credit(2, 4)
    setup.pump.step()
    assert setup.limits() == [4]
