"""A study's figures. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileflow.target import target

from .pictures import BEST, DEFAULT, ROOF, TRIALS, level, style
from .records import TrialRecord


def best_so_far(records: Sequence[TrialRecord]) -> list[tuple[int, float, float]]:
    """Return (trials so far, seconds since the first, best us so far) for each completed trial from the first good one
    on.

    A measured time replaces every modelled one.
    """
    completed = [r for r in records if r.completed]
    start = min((r.started_at for r in completed), default=0.0)
    curve: list[tuple[int, float, float]] = []
    best: tuple[bool, float] | None = None
    for count, record in enumerate(completed, 1):
        if record.time_us is not None:
            mine = (not record.measured, record.time_us)
            best = mine if best is None else min(best, mine)
        if best is not None:
            curve.append((count, record.started_at - start, best[1]))
    return curve


def convergence(records: Sequence[TrialRecord], title: str) -> Any:
    """Draw the best time so far against trials and against seconds."""
    with style():
        return _convergence(records, title)


def _convergence(records: Sequence[TrialRecord], title: str) -> Any:
    figure = _figure()
    curve = best_so_far(records)
    default = next((r for r in records if r.is_of_default and r.time_us is not None), None)
    roof = next((b.roofline_us for r in records if (b := r.result.build) is not None and b.roofline_us), None)
    for position, (column, label) in enumerate(((0, "trials"), (1, "seconds")), 1):
        axes = figure.add_subplot(1, 2, position)
        axes.step(
            [point[column] for point in curve],
            [point[2] for point in curve],
            where="post",
            color=BEST,
            label="best so far",
        )
        if default is not None and default.time_us is not None:
            level(axes, default.time_us, "default", DEFAULT)
        if roof is not None:
            level(axes, roof, "roofline", ROOF)
        axes.set_yscale("log")
        axes.set_xlabel(label)
        axes.set_ylabel("time, us")
    axes.legend()
    figure.suptitle(title + _how(records))
    return figure


def roofline(records: Sequence[TrialRecord], title: str) -> Any:
    """Draw the achieved FLOP/s of every good trial against arithmetic intensity, under the datasheet's roofline."""
    with style():
        return _roofline(records, title)


def _roofline(records: Sequence[TrialRecord], title: str) -> Any:
    figure = _figure()
    axes = figure.add_subplot(1, 1, 1)
    moved = [(r.time_us, r.result.build.traffic) for r in records if r.result.build is not None]
    points = [
        (traffic.flops / traffic.bytes, traffic.flops / time_us * 1e6)
        for time_us, traffic in moved
        if time_us is not None and traffic is not None and traffic.flops and traffic.bytes
    ]
    device = target(records[0].study.device_class)
    bandwidth, peak = device.dram_gbps * 1e9, max(rate for _, rate in device.peak_tflops) * 1e12
    ridge = peak / bandwidth
    low = min([x for x, _ in points] + [ridge]) / 4
    high = max([x for x, _ in points] + [ridge]) * 4
    axes.loglog([low, ridge, high], [low * bandwidth, peak, peak], color=ROOF, label=f"{device.name}, datasheet")
    axes.loglog([x for x, _ in points], [y for _, y in points], "o", markersize=3, color=TRIALS, label="trials")
    if points:
        best = max(points, key=lambda point: point[1])
        axes.loglog(*best, "D", markersize=8, color=BEST, label="best")
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("FLOP/s")
    axes.legend()
    figure.suptitle(title + _how(records))
    return figure


def _how(records: Sequence[TrialRecord]) -> str:
    return "" if any(r.measured and r.time_us is not None for r in records) else " (modelled)"


def _figure() -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 3.5), layout="constrained")
