"""The plot of where the driver saturates: the share of the GPUs' rate that a simulated cluster reaches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tileflow_experiments.pictures import level, percent, plain_numbers, style

Row = Mapping[str, float]
AIMS = {7.0: 0.8, 30.0: 0.4}  # by the rate of a GPU
ROWS, PLOT = "simulated-cluster.json", "simulated-cluster.png"


def keep(rows: Sequence[Row], out: Path, strategy: str) -> None:
    """Add rows of one command to those in the folder ``out``, and draw all of them anew. A row takes the place of an
    older one of the same setting."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / ROWS
    old = json.loads(path.read_text()) if path.exists() else []
    found = {_setting(row): row for row in (*old, *({**row, "strategy": strategy} for row in rows))}
    kept = [found[key] for key in sorted(found)]
    path.write_text(json.dumps(kept, indent=1) + "\n")
    figure(kept).savefig(out / PLOT, dpi=120)


def figure(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Plot the share over the GPUs, a line for each strategy, rate and number of schedulers."""
    from matplotlib.figure import Figure

    with style():
        drawn = Figure(figsize=(7, 5), layout="constrained")
        axes = drawn.add_subplot()
        lines: dict[tuple[str, float, float], list[Mapping[str, Any]]] = {}
        for row in rows:
            lines.setdefault((row["strategy"], row["per_s"], row["schedulers"]), []).append(row)
        for (strategy, per_s, schedulers), points in sorted(lines.items()):
            points.sort(key=lambda row: row["gpus"])
            many = "1 scheduler" if schedulers == 1 else f"{schedulers:g} schedulers"
            axes.plot(
                [row["gpus"] for row in points],
                [row["reached"] for row in points],
                marker="o",
                label=f"{strategy}, {per_s:g} a second and GPU, {many}",
            )
        for per_s, aim in AIMS.items():
            level(axes, aim, f"wanted of 512 GPUs at {per_s:g} a second")
        axes.set_xscale("log", base=2)
        plain_numbers(axes.xaxis)
        percent(axes.yaxis)
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("GPUs, simulated")
        axes.set_ylabel("share of their rate")
        axes.set_title("Where the driver saturates")
        drawn.legend(loc="outside lower center", ncols=2)
        return drawn


def _setting(row: Mapping[str, Any]) -> tuple[str, float, float, float]:
    return row["strategy"], row["per_s"], row["schedulers"], row["gpus"]
