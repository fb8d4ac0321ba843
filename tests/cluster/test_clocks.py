"""Clocks of nodes and workers jump by an hour while jobs run: none early, none twice, and no silence."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.clocks import Clock, require_clocks
from tests.cluster.harness import Cluster, Machine
from tests.cluster.ledger import Ledger
from tests.cluster.load import finish, start_load, wait_progress
from tests.cluster.processes import PATIENCE, let_last, until

HOUR_S = 3_600
# Longer than the session's ttl: were leases judged by the clock that jumped, they would end meanwhile.
JUMP_LASTS_S = 4.0
# Until every node has heard that a clock is right again: two that are wrong at once would be a majority.
HEARD_S = 1.5
# Without any jump two seconds; an election and a busy machine may come in between.
LONGEST_SILENCE_MS = 8_000


@pytest.fixture
def clocks(tmp_path: Path) -> dict[str, Clock]:
    require_clocks()
    names = ("node-1", "node-2", "node-3", "worker-1", "worker-2")
    return {name: Clock(tmp_path / "clocks" / name) for name in names}


@pytest.fixture
def cluster(tmp_path: Path, clocks: dict[str, Clock]) -> Iterator[Cluster]:
    machines = {number: Machine(environment=clocks[f"node-{number}"].environment) for number in (1, 2, 3)}
    cluster = Cluster(tmp_path / "cluster", machines=machines)
    try:
        yield cluster.start()
        cluster.wait_equal_digests()
    finally:
        cluster.close()


def longest_silence_ms(ledger: Ledger) -> int:
    """Between two starts of the job that recurs every two seconds."""
    starts = sorted(run.started_ms for run in ledger.cluster.runs() if run.key == "every-tick")
    return max(later - earlier for earlier, later in pairwise(starts))


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S], ids=["forward", "backward"])
def test_a_clock_that_jumps_by_an_hour_does_no_harm(cluster: Cluster, clocks: dict[str, Clock], jump_s: int) -> None:
    for name in ("worker-1", "worker-2"):
        cluster.start_worker(name, environment=clocks[name].environment)
    ledger = start_load(cluster, seconds=15)
    wait_progress(ledger, 30)

    leader = cluster.leader()
    clocks[f"node-{leader}"].set_off(jump_s)
    # Its clock would become everybody's: it gives up leading.
    until(lambda: cluster.leader() != leader, "another node leads")
    let_last("the old leader's clock is off", JUMP_LASTS_S)
    wait_progress(ledger, 5)
    clocks[f"node-{leader}"].set_off(0)
    let_last("all clocks are right", HEARD_S)

    follower = next(number for number in cluster.nodes if number not in (leader, cluster.leader()))
    clocks[f"node-{follower}"].set_off(jump_s)
    let_last("a follower's clock is off", JUMP_LASTS_S)
    wait_progress(ledger, 5)
    clocks[f"node-{follower}"].set_off(0)

    clocks["worker-1"].set_off(jump_s)
    let_last("a worker's clock is off", JUMP_LASTS_S)
    wait_progress(ledger, 5)
    clocks["worker-1"].set_off(0)

    cluster.wait_serving()
    report = finish(ledger)
    # No lease ended because of a clock.
    assert report.extra_runs == 0
    assert longest_silence_ms(ledger) < LONGEST_SILENCE_MS * PATIENCE
