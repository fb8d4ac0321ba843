"""Several runs of several systems as one table: medians, ranges, and how many times faster raftsched is."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

HEADINGS = (
    "system",
    "copies",
    "jobs",
    "create/s",
    "drain/s: median (min–max)",
    "raftsched is … times as fast",
    "start delay p50 / p99 in s",
    "CPU µs an execution",
)


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several runs of one system say together."""
    rates = [run["drain_per_s"] for run in runs]
    return {
        "jobs": runs[0]["jobs"],
        "runs": len(runs),
        "create_per_s": round(median(run["create_per_s"] for run in runs)),
        "drain_per_s": {"median": round(median(rates)), "min": min(rates), "max": max(rates)},
        "start_delay_ms": {name: median(run["start_delay_ms"][name] for run in runs) for name in ("p50", "p99")},
        "cpu_us_per_execution": round(median(run["cpu_us_per_execution"] for run in runs), 1),
    }


def with_ratios(systems: dict[str, dict[str, Any]], own: str) -> dict[str, dict[str, Any]]:
    """Adds to each peer how many times faster `own` drained: by the medians, and within one round (min–max)."""
    if "drain_per_s" not in systems.get(own, {}):
        return systems
    mine = systems[own]["drain_per_s"]
    for name, system in systems.items():
        if name != own and "drain_per_s" in system:
            theirs = system["drain_per_s"]
            rounds = [first["drain_per_s"] / second["drain_per_s"] for first, second in _rounds(systems, own, name)]
            system["times_as_fast"] = {"median": round(mine["median"] / theirs["median"], 2)}
            if rounds:
                system["times_as_fast"] |= {"min": round(min(rounds), 2), "max": round(max(rounds), 2)}
    return systems


def _rounds(
    systems: Mapping[str, Mapping[str, Any]], first: str, second: str
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The runs of both that belong to the same round: they stood next to each other in time."""
    by_round = {run["round"]: run for run in systems[second].get("each", ())}
    return [(run, by_round[run["round"]]) for run in systems[first].get("each", ()) if run["round"] in by_round]


def markdown(systems: Mapping[str, Mapping[str, Any]]) -> str:
    """The fastest first; what could not be measured last, with the reason."""
    measured = [(name, system) for name, system in systems.items() if "drain_per_s" in system]
    measured.sort(key=lambda pair: -pair[1]["drain_per_s"]["median"])
    lines = [_row(HEADINGS), _row(["---"] * len(HEADINGS))]
    lines += [_row(_cells(name, system)) for name, system in measured]
    for name, system in systems.items():
        for error in dict.fromkeys(system.get("errors", ())):
            lines.append(f"\n{name}: {error}")
    return "\n".join(lines) + "\n"


def _cells(name: str, system: Mapping[str, Any]) -> list[str]:
    rate, delay, ratio = system["drain_per_s"], system["start_delay_ms"], system.get("times_as_fast")
    times = "" if ratio is None else f"{ratio['median']:.2f}"
    if ratio is not None and "min" in ratio:
        times += f" ({ratio['min']:.2f}–{ratio['max']:.2f})"
    return [
        name,
        str(system["copies"]),
        f"{system['jobs']:,}",
        f"{system['create_per_s']:,}",
        f"{rate['median']:,} ({rate['min']:,}–{rate['max']:,})",
        times,
        f"{delay['p50'] / 1_000:.2f} / {delay['p99'] / 1_000:.2f}",
        f"{system['cpu_us_per_execution']:.1f}",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
