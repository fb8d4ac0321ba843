"""Draws what went on over time: how a hot bucket drained, what grew."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

# More points than pixels only make a large file.
MAX_POINTS = 2_000


def draw(
    path: Path,
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    across: str = "seconds after the due time",
    up: str = "executions",
) -> None:
    """One PNG, a line for each curve; by default executions over seconds since the due time."""
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for label, points in curves.items():
            step = max(1, len(points) // MAX_POINTS)
            shown = [*points[::step], *points[-1:]]
            axes.plot([second for second, _ in shown], [count for _, count in shown], label=label)
        axes.set_title(title)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path, dpi=120)
