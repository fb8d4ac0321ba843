"""What a drain's starts and confirmations say: how late, in which order, how evenly. Works on whole columns, since
there are millions of them.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

PARTS = 10


def first_starts(executions: Numbers, started_ms: Numbers) -> tuple[Numbers, Numbers]:
    """Each execution once, with its first start, by id."""
    order = np.lexsort((started_ms, executions))
    executions, started_ms = executions[order], started_ms[order]
    is_first = np.ones(len(executions), dtype=bool)
    is_first[1:] = executions[1:] != executions[:-1]
    return executions[is_first], started_ms[is_first]


def spread(values: Numbers) -> dict[str, float]:
    """p50, p99 and the largest: values that occurred."""
    if not len(values):
        return {"p50": float("nan"), "p99": float("nan"), "max": float("nan")}
    ordered = np.sort(values)
    at = [max(0, int(np.ceil(share * len(ordered))) - 1) for share in (0.5, 0.99, 1.0)]
    return dict(zip(("p50", "p99", "max"), (round(float(ordered[index]), 2) for index in at), strict=True))


def start_order(executions: Numbers, started_ms: Numbers) -> dict[str, Any]:
    """How far from its place each execution started. Executions get their ids when they fire, oldest first, so the
    one with the n-th id should be the n-th to start. `ahead_of_all_ms` is by how much, at most, one started later than
    a younger one."""
    if not len(executions):
        return {"displacement": spread(np.empty(0)), "of": 0, "overtaken_by_ms": spread(np.empty(0))}
    by_id = np.argsort(executions, kind="stable")
    started = started_ms[by_id]
    place = np.empty(len(started), dtype=np.int64)
    place[np.argsort(started, kind="stable")] = np.arange(len(started))
    displacement = np.abs(place - np.arange(len(started)))
    # The earliest start among the younger ones.
    earliest_after = np.minimum.accumulate(started[::-1])[::-1]
    return {
        "displacement": spread(displacement),
        "of": len(started),
        "overtaken_by_ms": spread(started - earliest_after),
    }


def flatness(curve: Sequence[tuple[float, int]], total: int) -> dict[str, Any]:
    """Rates of the tenths of a drain, by (seconds since it began, how many until then), ascending."""
    if not curve or total < PARTS:
        return {"per_s_by_tenth": [], "slowest_to_median": None, "last_to_median": None}
    seconds = np.array([0.0, *(second for second, _ in curve)])
    counts = np.array([0, *(count for _, count in curve)])
    goals = np.arange(1, PARTS + 1) * (counts[-1] / PARTS)
    at = np.interp(goals, counts, seconds)
    durations = np.diff(np.concatenate(([0.0], at)))
    rates = [float(counts[-1] / PARTS / max(duration, 1e-6)) for duration in durations]
    middle = median(rates)
    return {
        "per_s_by_tenth": [round(rate) for rate in rates],
        "slowest_to_median": round(min(rates) / middle, 2),
        "last_to_median": round(rates[-1] / middle, 2),
    }


def median_and_range(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}
