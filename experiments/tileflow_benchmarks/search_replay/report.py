"""A comparison of strategies as JSON, Markdown and plots."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tileflow_experiments.pictures import level, percent, style

from .compare import NEAR, RecordingComparison, StrategyRuns, geometric_mean, quartiles
from .simulate import Replayed

AT_SECONDS = (5.0, 15.0, 30.0, 60.0)
POINTS = 200


def write(comparisons: Sequence[RecordingComparison], folder: Path, name: str, seconds: float) -> list[Path]:
    """Write ``name``.json, ``name``.md and one PNG per recording. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    paths[0].write_text(
        json.dumps([_json(comparison) for comparison in comparisons], indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    paths[1].write_text(markdown(comparisons, seconds), encoding="utf-8")
    for comparison in comparisons:
        path = folder / f"{name}-{re.sub('[^A-Za-z0-9_]+', '-', comparison.recording.header.title)}.png"
        figure(comparison, seconds).savefig(path, dpi=110)
        paths.append(path)
    return paths


def markdown(comparisons: Sequence[RecordingComparison], seconds: float) -> str:
    """Return the overview, then each recording."""
    parts = [_overview(comparisons)]
    for comparison in comparisons:
        header = comparison.recording.header
        versions = ", ".join(f"{name} {value}" for name, value in sorted(header.versions.items()))
        times = f"default {_default_us(comparison):.2f} us, best {comparison.recording.best_us:.2f} us"
        parts.append(
            f"## {header.title}\n\n{len(comparison.recording.rows)} configs of {header.space_size}, {times}; "
            f"recorded on {header.recorded_on} with {header.cores} cores ({versions})."
        )
        beaten = sum(row.facts is not None and row.median_us < row.facts.least_us for row in comparison.recording.rows)
        if beaten:
            parts.append(f"**{beaten} configs beat the bound of their static facts**: the bound is wrong for them.")
        if comparison.stale:
            parts.append(
                f"**Stale**: {comparison.stale}; `python -m tileflow_benchmarks.search_replay record` makes it anew."
            )
        parts.append(_table(comparison, [at for at in AT_SECONDS if at <= seconds]))
    return "\n\n".join(parts) + "\n"


def _overview(comparisons: Sequence[RecordingComparison]) -> str:
    """Summarise all recordings: the median seed's seconds, their geometric mean, the slowest, how many reached it."""
    lines = [
        f"Seconds of virtual time to within {NEAR - 1:.0%} of a recording's best, {len(comparisons)} recordings, "
        f"{len(comparisons[0].entries[0].runs)} seeds each.",
        "",
        "| strategy | geometric mean of medians | slowest median | searches that got there | worst regret at the end |",
        "|---|---|---|---|---|",
    ]
    for i, entry in enumerate(comparisons[0].entries):
        every = [comparison.entries[i].seconds_to(NEAR * comparison.recording.best_us) for comparison in comparisons]
        medians = [quartiles(seconds)[1] for seconds in every]
        reached = sum(math.isfinite(s) for seconds in every for s in seconds)
        total = sum(map(len, every))
        worst = max(run.best_at(math.inf) / b.recording.best_us - 1 for b in comparisons for run in b.entries[i].runs)
        cells = [entry.variant, _s(geometric_mean(medians)), _s(max(medians)), f"{reached} of {total}"]
        lines.append(f"| {' | '.join([*cells, _percent(worst)])} |")
    return "\n".join(lines)


def _table(comparison: RecordingComparison, at_seconds: Sequence[float]) -> str:
    best = comparison.recording.best_us
    head = ["strategy", f"s to {NEAR - 1:.0%}", f"trials to {NEAR - 1:.0%}", "got there"]
    head += [f"regret at {at:g} s" for at in at_seconds]
    head += ["built", "measured", "dropped", "thinking s", "outside", "ended by itself"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for entry in comparison.entries:
        seconds = entry.seconds_to(NEAR * best)
        cells = [entry.variant, _spread(seconds), _spread(entry.trials_to(NEAR * best), digits=0)]
        cells.append(f"{sum(map(math.isfinite, seconds))} of {len(seconds)}")
        for at in at_seconds:
            cells.append(_percent(quartiles([run.best_at(at) / best - 1 for run in entry.runs])[1]))
        cells += [f"{_median(entry, count):.0f}" for count in (_built, _measured, _pruned)]
        cells += [f"{_median(entry, _thinking):.1f}", f"{_median(entry, _snapped):.0f}"]
        cells.append(
            f"{sum(bool(run.finished) for run in entry.runs)} of {len(entry.runs)}, "
            f"median {_median(entry, lambda run: run.seconds):.0f} s"
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(comparison: RecordingComparison, seconds: float) -> Any:
    """Plot regret against seconds and measurements: the median over seeds, and the quartiles as a band."""
    with style():
        return _figure(comparison, seconds)


def _figure(comparison: RecordingComparison, seconds: float) -> Any:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4), layout="constrained")
    most = max(run.measured for entry in comparison.entries for run in entry.runs)
    axes: list[tuple[str, list[float], Callable[[Replayed, float], float]]] = [
        ("seconds", [seconds * (i + 1) / POINTS for i in range(POINTS)], lambda run, at: run.best_at(at)),
        ("measurements", [float(i + 1) for i in range(most)], lambda run, at: run.best_after(int(at))),
    ]
    for place, (label, points, best_of) in enumerate(axes, 1):
        axis = drawn.add_subplot(1, 2, place)
        for entry in comparison.entries:
            regrets = [[best_of(run, at) / comparison.recording.best_us - 1 for run in entry.runs] for at in points]
            lows, middles, highs = zip(*map(quartiles, regrets), strict=True)
            (line,) = axis.plot(points, [_drawable(v) for v in middles], label=entry.variant)
            axis.fill_between(
                points, [_drawable(v) for v in lows], [_drawable(v) for v in highs], alpha=0.15, color=line.get_color()
            )
        level(axis, NEAR - 1, f"{NEAR - 1:.0%}")
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=0.01)
        axis.set_ylim(bottom=0)
        percent(axis.yaxis)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel(label)
        axis.set_ylabel("regret against the recording's best")
    axis.legend()
    drawn.suptitle(comparison.recording.header.title)
    return drawn


def _json(comparison: RecordingComparison) -> dict[str, Any]:
    header = comparison.recording.header
    return {
        "kernel": header.kernel,
        "problem": header.problem,
        "device_class": header.device_class,
        "recorded_on": header.recorded_on,
        "stale": comparison.stale,
        "best_us": comparison.recording.best_us,
        "searches": {entry.variant: [asdict(run) for run in entry.runs] for entry in comparison.entries},
    }


def _default_us(comparison: RecordingComparison) -> float:
    default = comparison.recording.header.default
    return next((row.median_us for row in comparison.recording.rows if row.config == default), math.nan)


def _built(run: Replayed) -> float:
    return run.built


def _measured(run: Replayed) -> float:
    return run.measured


def _pruned(run: Replayed) -> float:
    return run.pruned


def _thinking(run: Replayed) -> float:
    return run.thinking_s


def _snapped(run: Replayed) -> float:
    return run.snapped


def _median(entry: StrategyRuns, what: Callable[[Replayed], float]) -> float:
    return quartiles([what(run) for run in entry.runs])[1]


def _spread(values: Sequence[float], digits: int = 1) -> str:
    low, middle, high = (f"{v:.{digits}f}" if math.isfinite(v) else "never" for v in quartiles(values))
    return f"{middle} ({low} to {high})"


def _s(value: float) -> str:
    return f"{value:.1f} s" if math.isfinite(value) else "never"


def _percent(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "nothing yet"


def _drawable(value: float) -> float:
    return value if math.isfinite(value) else math.nan
