"""The charts of OUT/report.html as plotly's figures: data, no drawing.

Colours and grid lines are legible on a light and on a dark background, which the page chooses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tileflow.target import target

from .figures import best_so_far
from .pictures import BEST, DEFAULT, MUTED, ROOF, TRIALS
from .records import TrialRecord
from .tables import Winner

_GRID = "rgba(128,128,128,0.25)"
_HEIGHT = 340  # px
_FEW = 6  # measured configs below which importance is undefined

Figure = dict[str, Any]


def _figure(traces: Sequence[dict[str, Any]], x: dict[str, Any], y: dict[str, Any]) -> Figure:
    axis = {"gridcolor": _GRID, "zeroline": False, "automargin": True}
    return {
        "data": list(traces),
        "layout": {
            "height": _HEIGHT,
            "margin": {"l": 60, "r": 20, "t": 10, "b": 100},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": MUTED},
            "legend": {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0},
            "xaxis": axis | x,
            "yaxis": axis | y,
        },
    }


def convergence(records: Sequence[TrialRecord], default: TrialRecord | None) -> Figure:
    """Return the chart of every good trial and the best so far, in microseconds over the seconds of the search."""
    start = min((r.started_at for r in records if r.completed), default=0.0)
    good = [r for r in records if r.completed and r.time_us is not None]
    steps = best_so_far(records)
    traces = [
        _points(
            "trials",
            [r.started_at - start for r in good],
            [r.time_us for r in good],
            TRIALS,
            [str(r.config) for r in good],
        ),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "line": {"shape": "hv", "color": BEST},
            "x": [step[1] for step in steps],
            "y": [step[2] for step in steps],
        },
    ]
    end = max((step[1] for step in steps), default=1.0) or 1.0
    roofline = next((b.roofline_us for r in records if (b := r.result.build) is not None and b.roofline_us), None)
    for name, level, colour in (
        ("default", default.time_us if default is not None else None, DEFAULT),
        ("roofline", roofline, ROOF),
    ):
        if level is not None:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": [0, end],
                    "y": [level, level],
                    "line": {"dash": "dash", "color": colour},
                }
            )
    return _figure(traces, {"title": {"text": "seconds"}}, {"title": {"text": "time, us"}, "type": "log"})


def roofline(records: Sequence[TrialRecord], winner: Winner | None, default: TrialRecord | None) -> Figure | None:
    """Return the chart of achieved FLOP/s over arithmetic intensity under the datasheet's roofline.

    Returns None where the kernel computes nothing.
    """
    points = [(r, *place) for r in records if (place := _place(r, r.time_us)) is not None]
    if not points:
        return None
    device = target(records[0].study.device_class)
    bandwidth, peak = device.dram_gbps * 1e9, max(rate for _, rate in device.peak_tflops) * 1e12
    ridge = peak / bandwidth
    low, high = min(min(x for _, x, _ in points), ridge) / 4, max(max(x for _, x, _ in points), ridge) * 4
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{device.name}, datasheet",
            "line": {"color": ROOF},
            "x": [low, ridge, high],
            "y": [low * bandwidth, peak, peak],
        },
        _points(
            "trials",
            [x for _, x, _ in points],
            [y for _, _, y in points],
            TRIALS,
            [str(r.config) for r, _, _ in points],
        ),
    ]
    for name, record, time_us, colour in (
        ("default", default, default.time_us if default is not None else None, DEFAULT),
        ("best", winner.record if winner is not None else None, winner.time_us if winner is not None else None, BEST),
    ):
        place = None if record is None else _place(record, time_us)
        if record is not None and place is not None:
            mark = _points(name, [place[0]], [place[1]], colour, [str(record.config)])
            traces.append(mark | {"marker": {"color": colour, "size": 13, "symbol": "diamond"}})
    return _figure(
        traces,
        {"title": {"text": "FLOP per byte"}, "type": "log"},
        {"title": {"text": "FLOP/s"}, "type": "log", "exponentformat": "SI"},
    )


def _place(record: TrialRecord, time_us: float | None) -> tuple[float, float] | None:
    """Return a trial's FLOP per byte and FLOP/s."""
    traffic = record.result.build.traffic if record.result.build is not None else None
    if time_us is None or traffic is None or not traffic.flops or not traffic.bytes:
        return None
    return traffic.flops / traffic.bytes, traffic.flops / time_us * 1e6


def importance(records: Iterable[TrialRecord]) -> Figure | None:
    """Return the chart of how much of the variance of log times each knob explains alone.

    The measure is the correlation ratio, the sum of squares between the choices over the total one. Returns None where
    too few configs were measured, or all take the same time.
    """
    shares = explained(records)
    if not shares:
        return None
    names = sorted(shares, key=lambda name: shares[name])
    bar = {"type": "bar", "orientation": "h", "y": names, "x": [shares[n] for n in names], "marker": {"color": TRIALS}}
    figure = _figure([bar], {"title": {"text": "share of the spread explained alone"}, "range": [0, 1]}, {})
    figure["layout"] |= {"height": 80 + 26 * len(names), "margin": {"l": 20, "r": 20, "t": 10, "b": 50}}
    return figure


def explained(records: Iterable[TrialRecord]) -> dict[str, float]:
    """Return the correlation ratio (0 to 1) of each knob that took more than one value; empty where it is undefined."""
    good = [(r.config.to_dict(), math.log(r.time_us)) for r in records if r.completed and r.time_us]
    times = np.array([y for _, y in good])
    total = float(((times - times.mean()) ** 2).sum()) if len(good) else 0.0
    if len(good) < _FEW or total == 0.0:
        return {}
    shares: dict[str, float] = {}
    for name in sorted({name for config, _ in good for name in config}):
        found: dict[tuple[type, Any], int] = {}  # True is not 1
        choices = [config.get(name) for config, _ in good]
        numbers = [found.setdefault((type(choice), choice), len(found)) for choice in choices]
        counts, sums = np.bincount(numbers), np.bincount(numbers, times)
        known = counts > 1  # a choice that was tried once explains itself: it says nothing
        if known.sum() > 1:
            means = sums[known] / counts[known]
            shares[name] = float((counts[known] * (means - times.mean()) ** 2).sum()) / total
    return shares


def phases(seconds: dict[str, dict[str, float]]) -> Figure | None:
    """Return the chart of where the time went: a bar for each study, divided into its phases in seconds."""
    names = list(next(iter(seconds.values()), {}))
    if not names:
        return None
    studies = list(seconds)[::-1]
    traces = [
        {"type": "bar", "orientation": "h", "name": name, "y": studies, "x": [seconds[s][name] for s in studies]}
        for name in names
    ]
    figure = _figure(traces, {"title": {"text": "seconds, summed over workers"}}, {})
    figure["layout"] |= {"barmode": "stack", "height": 190 + 30 * len(studies)}
    figure["layout"]["margin"] |= {"l": 20, "b": 150}
    return figure


def _points(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "text": list(texts),
        "hovertemplate": "%{y:.4g}<br>%{text}<extra></extra>",
        "marker": {"color": colour, "size": 6},
    }
