"""A cluster without work hardly uses the processor: no busy loop. The exact bound is in bench/idle.py."""

from bench.idle import idle_percent
from tests.cluster.harness import Cluster

GUARD_PERCENT = 15.0


def test_three_idle_nodes_use_little_cpu(calm_cluster: Cluster) -> None:
    used = idle_percent(calm_cluster, 10.0)
    assert sum(percent for name, percent in used.items() if name.startswith("node-")) < GUARD_PERCENT, used
