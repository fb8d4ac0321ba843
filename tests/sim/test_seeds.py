"""Whole clusters under faults: some seeds in each run of the tests, and that a seed is all it takes to repeat one."""

import os
import subprocess
import sys

import pytest

from tests.sim.faults import FaultPlan
from tests.sim.simulation import ROOT, Settings, simulate

# Simulated seconds with faults; what follows until all has drained comes on top.
FAULT_S = 45.0


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_cluster_keeps_its_promises_under_faults(seed: int) -> None:
    simulate(seed, fault_s=FAULT_S)


def test_a_cluster_keeps_its_promises_without_faults() -> None:
    outcome = simulate(1, settings=Settings(fault_s=20.0, plan=FaultPlan(groups=()), bad_workers=0))
    assert "1 elections" in outcome.summary
    assert "stale results" not in outcome.summary


def test_one_seed_is_one_course_of_events() -> None:
    """In two processes whose hashes of strings differ."""
    command = [sys.executable, "-m", "tests.sim", "--seed", "7", "--minutes", "0.4"]
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append(done.stdout.split(" x,")[0].rsplit(" ", 1)[0])
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("seed 7 ")


def test_another_seed_is_another_course_of_events() -> None:
    assert simulate(3, fault_s=5.0).digest != simulate(4, fault_s=5.0).digest
