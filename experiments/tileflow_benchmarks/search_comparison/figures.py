"""A cell's plot: the re-timed incumbents of each rival's searches over time."""

from __future__ import annotations

import math
from typing import Any

from tileflow_experiments.pictures import BEST, DEFAULT, level, plain_numbers, style

from .score import WITHIN, CellComparison, incumbent_us, rivals_of

POINTS = 400


def figure(comparison: CellComparison) -> Any:
    """Plot the median over seeds as a line, their range as a band, and the pooled best, 2 % above it and our default
    as dashed lines."""
    with style():
        return _figure(comparison)


def _figure(comparison: CellComparison) -> Any:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(7, 4), layout="constrained")
    axes = drawn.add_subplot()
    last = max(run.curve[-1][0] for run in comparison.runs if run.curve)
    first = max(min(run.curve[0][0] for run in comparison.runs if run.curve), 0.1)
    points = [first * (last / first) ** (i / POINTS) for i in range(POINTS + 1)]
    for rival in rivals_of(comparison):
        per_point = [sorted(incumbent_us(run.curve, at) for run in comparison.of(rival)) for at in points]
        # with an even number of seeds the slower of the two in the middle
        middle = [_drawable(times[len(times) // 2]) for times in per_point]
        (line,) = axes.plot(points, middle, label=rival, drawstyle="steps-post")
        axes.fill_between(
            points,
            [_drawable(times[0]) for times in per_point],
            [_drawable(times[-1]) for times in per_point],
            step="post",
            alpha=0.15,
            color=line.get_color(),
        )
    level(axes, comparison.best_us, "the best of all searches", BEST)
    level(axes, WITHIN * comparison.best_us, f"{WITHIN - 1:.0%} above it")
    if math.isfinite(comparison.default_us):
        level(axes, comparison.default_us, "default config, no search", DEFAULT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("seconds, workers up, caches empty")
    axes.set_ylabel("time of what the search holds, us")
    axes.set_title(comparison.cell.title)
    axes.legend()
    return drawn


def _drawable(value: float) -> float:
    return value if math.isfinite(value) else math.nan
