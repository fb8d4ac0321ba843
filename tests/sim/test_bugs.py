"""The simulator finds what it is for: each known fault, put back, is noticed within a few seeds."""

import pytest

from tests.sim.bugs import BUGS, Bug
from tests.sim.simulation import simulate
from tests.sim.timeline import Violation

# Most are caught by the first; those that need a rare coincidence by one of so many.
MOST_SEEDS = 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.hazard}: {bug.name}")
def test_a_known_fault_is_noticed(bug: Bug) -> None:
    others = []
    with bug.planted():
        for seed in range(bug.first_seed, bug.first_seed + MOST_SEEDS):
            try:
                simulate(seed, settings=bug.settings)
            except Violation as error:
                if bug.is_shown_by(str(error)):
                    return
                others.append(str(error).splitlines()[0])
    pytest.fail(f"not noticed in {MOST_SEEDS} seeds; other violations: {others}")


def test_a_violation_says_how_to_run_its_seed_again() -> None:
    bug = next(bug for bug in BUGS if bug.name == "fires early")
    with bug.planted(), pytest.raises(Violation) as caught:
        simulate(1, settings=bug.settings)
    text = str(caught.value)
    assert text.startswith("seed 1, commit ")
    assert "python -m tests.sim --seed 1" in text
    assert "1 starts" in text, "the trace is missing"
