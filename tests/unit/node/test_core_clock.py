"""Which time a node's callers are answered by."""

from types import SimpleNamespace

import pytest

from raftsched.model.errors import ClockUnsure
from raftsched.node.cluster_clock import ClusterClock
from raftsched.node.core import Core
from tests.unit.dispatch.support import ManualClock

HOUR_MS = 3_600_000
NOW_MS = 10_000_000


def core_of(*, wall_ms: int, replicated_ms: int, members: int = 3) -> tuple[Core, ClusterClock]:
    clock = ClusterClock(ManualClock(wall=wall_ms), members=members)
    core = Core.__new__(Core)
    core._engine = SimpleNamespace(clock=clock, machine=SimpleNamespace(now_ms=replicated_ms))  # type: ignore[assignment]
    return core, clock


def test_a_clock_far_ahead_that_nobody_has_judged_dates_no_request() -> None:
    core, clock = core_of(wall_ms=NOW_MS + HOUR_MS, replicated_ms=NOW_MS)
    with pytest.raises(ClockUnsure):
        core.wall_ms()
    clock.reported(2, NOW_MS)
    clock.reported(3, NOW_MS)
    assert core.wall_ms() == NOW_MS


def test_a_clock_that_agrees_with_the_replicated_one_need_not_be_judged() -> None:
    core, _ = core_of(wall_ms=NOW_MS + 1_000, replicated_ms=NOW_MS)
    assert core.wall_ms() == NOW_MS + 1_000


def test_no_request_is_dated_before_what_the_cluster_has_agreed_upon() -> None:
    core, _ = core_of(wall_ms=NOW_MS - HOUR_MS, replicated_ms=NOW_MS)
    assert core.wall_ms() == NOW_MS


def test_a_node_alone_dates_requests_by_its_own_clock() -> None:
    core, _ = core_of(wall_ms=NOW_MS + HOUR_MS, replicated_ms=NOW_MS, members=1)
    assert core.wall_ms() == NOW_MS + HOUR_MS
