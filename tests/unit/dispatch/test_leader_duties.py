"""What a leader proposes by itself."""

from raftsched.dispatch.leader_duties import REVIEW_EVERY_S, TICK_RETRY_S, LeaderDuties
from raftsched.state.results import Done
from tests.unit.dispatch.support import ManualClock, Submitted, Views
from tests.unit.dispatch.test_tick_pump import Need

LIVE = {1: 0, 2: 0, 3: 0}
SHARED = (1,) * 11 + (2,) * 11 + (3,) * 10


class Setup:
    def __init__(self, views: Views) -> None:
        self.views, self.submitted, self.clock = views, Submitted(), ManualClock()
        self.duties = LeaderDuties(
            node_id=1, machine=views, submit=self.submitted, clock=self.clock, session_grace_ms=10_000
        )

    def lead(self) -> None:
        self.duties.lead(4)
        self.submitted.answer(Done())
        self.submitted.commands.clear()


def test_a_new_leader_announces_itself_with_the_grace_for_sessions() -> None:
    setup = Setup(Views())
    setup.duties.lead(4)
    started = setup.submitted.commands[0].leader_started
    assert (started.node, started.term, started.session_grace_ms) == (1, 4, 10_000)


def test_nothing_expires_before_the_announcement_is_through() -> None:
    setup = Setup(Views(deadline_ms=0))
    setup.duties.lead(4)
    assert setup.duties.step(LIVE) is None
    assert setup.submitted.kinds() == ["leader_started"]
    setup.submitted.answer(Done())
    setup.duties.step(LIVE)
    assert "tick" in setup.submitted.kinds()


def test_an_earlier_terms_announcement_does_not_count_for_the_new_one() -> None:
    setup = Setup(Views(deadline_ms=0))
    setup.duties.lead(4)
    setup.duties.lead(6)
    setup.submitted.answer(Done())
    assert setup.duties.step(LIVE) is None


def test_it_sleeps_until_the_next_deadline() -> None:
    setup = Setup(Views(deadline_ms=1_000_200, shard_owners=SHARED))
    setup.lead()
    assert setup.duties.step(LIVE) == 0.2
    setup.clock.wall += 200
    setup.duties.step(LIVE)
    assert setup.submitted.kinds() == ["tick"]


def test_a_deadline_that_a_tick_did_not_end_is_not_tried_in_a_busy_loop() -> None:
    setup = Setup(Views(deadline_ms=0, shard_owners=SHARED))
    setup.lead()
    setup.duties.step(LIVE)
    setup.submitted.answer(Done())
    wait_s = setup.duties.step(LIVE)
    assert wait_s is not None
    assert 0 < wait_s <= TICK_RETRY_S
    assert setup.submitted.kinds() == ["tick"]


def test_shards_of_a_silent_node_are_given_to_the_others() -> None:
    setup = Setup(Views(shard_owners=SHARED))
    setup.lead()
    setup.duties.step({1: 0, 2: 0})
    assert set(setup.submitted.commands[0].assign_shards.owners) == {1, 2}


def test_shards_stay_while_nothing_changes() -> None:
    setup = Setup(Views(shard_owners=SHARED))
    setup.lead()
    assert setup.duties.step(LIVE) == REVIEW_EVERY_S
    assert setup.submitted.commands == []


def test_schedules_that_run_short_are_looked_at() -> None:
    setup = Setup(Views(shard_owners=SHARED, needs=[Need(5)]))
    setup.lead()
    setup.duties.step(LIVE)
    assert setup.submitted.kinds() == ["extend_ticks"]
