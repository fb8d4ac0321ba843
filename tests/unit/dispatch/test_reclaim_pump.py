"""Removal goes step by step at its pace, and rests when there is nothing to find."""

import logging

import pytest

from raftsched.dispatch.reclaim_pump import (
    FAILED_WAIT_S,
    IDLE_WAIT_S,
    LONGEST_PASS_WAIT_S,
    LOOKING_WAIT_S,
    PASS_WAIT_S,
    REMOVING_WAIT_S,
    ReclaimPump,
)
from raftsched.model.errors import InvalidField, NoQuorum
from raftsched.model.retention import RetentionSettings
from raftsched.state.results import Reclaimed, Rejected
from tests.unit.dispatch.support import ManualClock, Submitted, Views

SETTINGS = RetentionSettings(age_ms=5_000, executions=7, request_id_age_ms=9_000, dead_letter_quota=10)


class Bench:
    def __init__(self) -> None:
        self.machine, self.submitted, self.clock = Views(reclaim_due=True), Submitted(), ManualClock()
        self.pump = ReclaimPump(machine=self.machine, submit=self.submitted, clock=self.clock, settings=SETTINGS)

    def step(self) -> float | None:
        return self.pump.step(self.clock.now_s)

    def answer(self, removed: int, *, done: bool = False) -> float | None:
        """The wait after the next step has come back so."""
        assert self.step() is None
        self.submitted.answer(Reclaimed(removed, done))
        wait_s = self.step()
        if wait_s is not None:
            self.clock.now_s += wait_s
        return wait_s


def test_a_step_carries_the_leaders_settings() -> None:
    bench = Bench()
    assert bench.step() is None
    reclaim = bench.submitted.commands[0].reclaim
    assert (reclaim.age_ms, reclaim.executions, reclaim.request_id_age_ms) == (5_000, 7, 9_000)
    assert 0 < reclaim.limit <= 1_000


def test_there_is_one_step_at_a_time() -> None:
    bench = Bench()
    bench.step()
    bench.clock.now_s += 1_000
    bench.step()
    assert bench.submitted.kinds() == ["reclaim"]


def test_steps_that_remove_come_faster_and_passes_that_find_nothing_more_rarely() -> None:
    bench = Bench()
    assert bench.answer(5) == pytest.approx(REMOVING_WAIT_S)
    assert bench.answer(0) == pytest.approx(LOOKING_WAIT_S)
    assert bench.answer(0, done=True) == pytest.approx(PASS_WAIT_S)
    assert bench.answer(0, done=True) == pytest.approx(2 * PASS_WAIT_S)
    for _ in range(5):
        wait_s = bench.answer(0, done=True)
    assert wait_s == pytest.approx(LONGEST_PASS_WAIT_S)
    assert bench.answer(1, done=True) == pytest.approx(PASS_WAIT_S)


def test_nothing_is_proposed_while_a_look_finds_nothing() -> None:
    bench = Bench()
    bench.machine.reclaim_due = False
    assert bench.step() == IDLE_WAIT_S
    bench.machine.reclaim_due = True
    assert bench.step() == IDLE_WAIT_S
    assert bench.submitted.commands == []
    bench.clock.now_s += IDLE_WAIT_S
    bench.step()
    assert bench.submitted.kinds() == ["reclaim"]


def test_a_step_without_a_result_is_proposed_again() -> None:
    bench = Bench()
    bench.step()
    bench.submitted.answer(Rejected(NoQuorum()))
    assert bench.step() == pytest.approx(FAILED_WAIT_S)
    bench.clock.now_s += FAILED_WAIT_S
    bench.step()
    assert bench.submitted.kinds() == ["reclaim", "reclaim"]


def test_too_many_dead_letters_are_told_once_until_there_are_fewer(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    told = []
    with caplog.at_level(logging.WARNING):
        for dead_letters in (10, 11, 12, 10, 11):
            bench.machine.counters.dead_letters = dead_letters
            bench.step()
            told.append(len(caplog.records))
    assert told == [0, 1, 1, 1, 2]
    assert "11 dead letters" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"age_ms": 999}, "retention.age_ms"),
        ({"request_id_age_ms": -1}, "retention.request_id_age_ms"),
        ({"executions": 100_001}, "retention.executions"),
        ({"dead_letter_quota": -1}, "retention.dead_letter_quota"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        RetentionSettings(**settings)
    assert caught.value.field == field
