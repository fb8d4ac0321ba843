"""When due rows are fired."""

from raftsched.dispatch.fire_pump import CLOCK_BEHIND_WAIT_S, READY_ENOUGH, READY_ENOUGH_SHARED, FirePump
from raftsched.internal.v1 import command_pb2
from raftsched.model.errors import OutcomeUnknown
from raftsched.state.results import Fired, Rejected
from tests.unit.dispatch.support import ManualClock, Submitted, Views


def make(views: Views, *served: str) -> tuple[FirePump, Submitted, ManualClock]:
    submitted, clock = Submitted(), ManualClock()
    pump = FirePump(node_id=1, machine=views, submit=submitted, clock=clock, served_queues=lambda: served)
    return pump, submitted, clock


def test_it_sleeps_until_the_next_row_is_due() -> None:
    pump, submitted, clock = make(Views(due_ms=1_000_250), "default")
    assert pump.step() == 0.25
    assert submitted.commands == []
    clock.wall += 250
    assert pump.step() is None
    assert submitted.commands == [command_pb2.Command(fire=command_pb2.Fire(shards=range(32), limit=2_000))]


def test_it_needs_no_call_while_nothing_is_due() -> None:
    pump, submitted, _ = make(Views(), "default")
    assert pump.step() is None
    assert submitted.commands == []


def test_it_fires_only_its_own_shards() -> None:
    pump, submitted, _ = make(Views(due_ms=0, shard_owners=(2, 1, 1, *(3,) * 29)), "default")
    pump.step()
    assert list(submitted.commands[0].fire.shards) == [1, 2]


def test_a_node_without_shards_fires_nothing() -> None:
    pump, submitted, _ = make(Views(due_ms=0, shard_owners=(2,) * 32), "default")
    assert pump.step() is None
    assert submitted.commands == []


def test_one_fire_is_under_way_at_a_time() -> None:
    views = Views(due_ms=0)
    pump, submitted, _ = make(views, "default")
    pump.step()
    pump.step()
    assert len(submitted.commands) == 1
    submitted.answer(Fired(count=2_000, more=True))
    pump.step()
    assert len(submitted.commands) == 2


def test_a_lost_fire_does_not_stop_the_pump() -> None:
    pump, submitted, clock = make(Views(due_ms=0), "default")
    pump.step()
    submitted.answer(Rejected(OutcomeUnknown()))
    clock.now_s += CLOCK_BEHIND_WAIT_S
    pump.step()
    assert len(submitted.commands) == 2


def test_a_node_whose_clock_is_ahead_waits_for_the_replicated_clock_without_spinning() -> None:
    pump, submitted, clock = make(Views(due_ms=1_000_000), "default")
    pump.step()
    submitted.answer(Fired(count=0, more=False))
    wait_s = pump.step()
    assert wait_s is not None
    assert 0 < wait_s <= CLOCK_BEHIND_WAIT_S
    assert len(submitted.commands) == 1
    clock.now_s += CLOCK_BEHIND_WAIT_S
    pump.step()
    assert len(submitted.commands) == 2


def test_a_replicated_clock_ahead_of_this_node_is_followed() -> None:
    pump, submitted, _ = make(Views(due_ms=2_000_000, now_ms=2_000_000), "default")
    pump.step()
    assert len(submitted.commands) == 1


def test_it_waits_while_workers_have_enough() -> None:
    views = Views(due_ms=0, ready_by_queue={"default": READY_ENOUGH})
    pump, submitted, _ = make(views, "default")
    assert pump.step() is None
    assert submitted.commands == []
    views.ready_by_queue = {"default": READY_ENOUGH - 1}
    pump.step()
    assert len(submitted.commands) == 1


def test_a_queue_that_is_full_or_unserved_does_not_hold_up_another() -> None:
    views = Views(due_ms=0, ready_by_queue={"slow": READY_ENOUGH, "unserved": 10 * READY_ENOUGH})
    pump, submitted, _ = make(views, "slow", "fast")
    pump.step()
    assert len(submitted.commands) == 1


def test_without_any_worker_it_stops_at_a_bounded_backlog() -> None:
    views = Views(due_ms=0, ready_by_queue={"a": READY_ENOUGH // 2})
    pump, submitted, _ = make(views)
    pump.step()
    submitted.answer(Fired(count=1, more=True))
    views.ready_by_queue = {"a": READY_ENOUGH // 2, "b": READY_ENOUGH // 2}
    assert pump.step() is None
    assert len(submitted.commands) == 1


def test_what_a_limit_holds_back_does_not_keep_others_from_becoming_ready() -> None:
    views = Views(due_ms=0, ready_by_queue={"default": 100 * READY_ENOUGH}, leasable_by_queue={"default": 0})
    pump, submitted, _ = make(views, "default")
    pump.step()
    assert len(submitted.commands) == 1


def test_where_priorities_and_tenants_meet_what_is_due_becomes_ready_however_much_there_is() -> None:
    views = Views(due_ms=0, ready_by_queue={"default": 10 * READY_ENOUGH}, shared={"default"})
    pump, submitted, _ = make(views, "default")
    pump.step()
    assert len(submitted.commands) == 1
    views = Views(due_ms=0, ready_by_queue={"default": READY_ENOUGH_SHARED}, shared={"default"})
    pump, submitted, _ = make(views, "default")
    assert pump.step() is None
    assert submitted.commands == []
