"""A comparison's folder as JSON, a Markdown page and one plot per cell; made again from the folder at any time."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .figures import figure
from .retime import TIMED, Retimed
from .score import CellComparison, ScoredSearch, near, rivals_of, score_cell
from .searches import RIVALS, Rival, results, slug

HEADER, UNSTARTED = "header.json", "unstarted.json"
NAMES: dict[Rival, str] = {"tileflow": "tileflow", "helion": "Helion"}


def comparisons(out: Path) -> list[CellComparison]:
    """Return every cell of the comparison's folder that has a search, scored by whatever was timed again."""
    ended = results(out)
    found = []
    for cell in dict.fromkeys(result.search.cell for result in ended):
        path = out / "retimed" / slug(cell) / TIMED
        data = json.loads(path.read_text(encoding="utf-8"))["timed"] if path.exists() else []
        timed = [Retimed.from_json(t) for t in data]
        found.append(score_cell(cell, [result for result in ended if result.search.cell == cell], timed))
    return found


def write(out: Path) -> list[Path]:
    """Write duel.json, duel.md and duel-CELL.png in the comparison's folder ``out``. Returns their paths."""
    scored = comparisons(out)
    header = json.loads((out / HEADER).read_text(encoding="utf-8"))
    unstarted = json.loads(path.read_text(encoding="utf-8")) if (path := out / UNSTARTED).exists() else []
    paths = [out / "duel.json", out / "duel.md"]
    data = {"header": header, "unstarted": unstarted, "bouts": [to_json(comparison) for comparison in scored]}
    paths[0].write_text(json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
    paths[1].write_text(markdown(header, scored, unstarted), encoding="utf-8")
    for comparison in scored:
        if any(run.curve for run in comparison.runs):
            paths.append(out / f"duel-{slug(comparison.cell)}.png")
            figure(comparison).savefig(paths[-1], dpi=110)
    return paths


def to_json(comparison: CellComparison) -> dict[str, Any]:
    """Return what the tables are made of; infinite and missing numbers are null."""
    runs = []
    for run in comparison.runs:
        numbers = {
            name: _finite(getattr(run, name))
            for name in ("first_s", "near_s", "near_wall_s", "picked_us", "own_best_us")
        }
        result = run.result
        runs.append(
            {
                **result.search.to_json(),
                **numbers,
                "curve": run.curve,
                "ending": result.ending,
                "gpu": result.gpu,
                "startup_s": result.startup_s,
                "done_s": result.done_s,
                "picked": result.picked,
                "timed": sum(t.time_us is not None for t in result.series),
                "heard": len(result.series),
            }
        )
    return {
        "cell": comparison.cell.title,
        "best_us": _finite(comparison.best_us),
        "default_us": _finite(comparison.default_us),
        "final_ratio": _finite(comparison.final_ratio),
        "selection_own": _finite(comparison.selection_own),
        "selection_pooled": _finite(comparison.selection_pooled),
        "runs": runs,
        "failed": [asdict(t) for t in comparison.failed],
    }


def markdown(header: dict[str, Any], scored: Sequence[CellComparison], unstarted: Sequence[str]) -> str:
    """Return the overview, each rival's searches by cell, and what is missing."""
    lines = [
        f"Command `{header['command']}`, {header['date']}, {header['device']}, {header['cores']} cores and one GPU a "
        f"search, {header['streams']} at a time, {header['versions']}.",
        "",
        "| kernel | pooled best us | default over best | tileflow: s to 2 % | Helion: s to 2 % | tileflow over best "
        "| Helion over best | Helion over tileflow | our pick over our own best |",
        "|---|" + "---|" * 8,
        *[_overview(comparison) for comparison in scored],
        "",
        *[
            f"{NAMES[rival]}: {got} of {every} searches came within 2 % of the pooled best."
            for rival in RIVALS
            for got, every in [near(scored, rival)]
        ],
        "",
        "| kernel | search | seeds | start-up s | first time s | s to 2 % | the same since the process began | "
        "picked after s | configs timed | of considered |",
        "|---|---|" + "---|" * 8,
        *[_searches(comparison, rival) for comparison in scored for rival in rivals_of(comparison)],
        "",
        *_missing(scored, unstarted),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _overview(comparison: CellComparison) -> str:
    def over(us: float) -> str:
        return f"{us / comparison.best_us:.3f}x" if math.isfinite(us) else "-"

    def ratio(value: float) -> str:
        return f"{value:.3f}x" if math.isfinite(value) else "-"

    cells = [comparison.cell.title, f"{comparison.best_us:.2f}", over(comparison.default_us)]
    cells += [spread([run.near_s for run in comparison.of(rival)]) for rival in RIVALS]
    cells += [over(comparison.median(rival, "picked_us")) for rival in RIVALS]
    return f"| {' | '.join([*cells, ratio(comparison.final_ratio), ratio(comparison.selection_own)])} |"


def _searches(comparison: CellComparison, rival: Rival) -> str:
    runs = comparison.of(rival)
    cells = [comparison.cell.title, NAMES[rival], str(len(runs)), spread([_or_inf(r.result.startup_s) for r in runs])]
    cells += [spread([getattr(run, what) for run in runs]) for what in ("first_s", "near_s", "near_wall_s")]
    cells.append(spread([_or_inf(run.result.done_s) for run in runs]))
    cells += [
        f"{statistics.median(_timed(run) for run in runs):.0f}",
        f"{statistics.median(len(run.result.series) for run in runs):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _missing(scored: Sequence[CellComparison], unstarted: Sequence[str]) -> list[str]:
    lines = [
        f"- {run.result.search.name}: {run.result.ending}"
        for comparison in scored
        for run in comparison.runs
        if run.result.ending
    ]
    lines += [f"- {name}: not started, no time was left" for name in unstarted]
    lines += [
        f"- {comparison.cell.title}: re-timing {t.candidate.rival} {t.candidate.config or 'default'}: {t.error}"
        for comparison in scored
        for t in comparison.failed
    ]
    lines += [
        f"- {comparison.cell.title}: nothing was timed again" for comparison in scored if math.isinf(comparison.best_us)
    ]
    return ["Failed or missing:", "", *(lines or ["- nothing"])]


def spread(values: Sequence[float]) -> str:
    """Return ``12.3 (9.1 to 20.0)``: median, least and most; where some were not reached, also how many."""
    reached = sorted(v for v in values if math.isfinite(v))
    if not reached:
        return "not reached" if values else "-"
    middle = statistics.median(values)
    text = f"{middle:.1f}" if math.isfinite(middle) else "not reached"
    lacking = len(values) - len(reached)
    missed = f"; not reached by {lacking} of {len(values)}" if lacking else ""
    return f"{text} ({reached[0]:.1f} to {reached[-1]:.1f}{missed})"


def _timed(run: ScoredSearch) -> int:
    return len({t.config for t in run.result.series if t.time_us is not None})


def _or_inf(value: float | None) -> float:
    return math.inf if value is None else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
