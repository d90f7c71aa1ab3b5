"""The pictures of the report: what ours reaches over eager beside its peers, and how near the roofline it comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .ratios import geomean, share
from .report import PEERS
from .results import EAGER, OURS, CellResult

_COLOURS = ("#1b6ca8", "#e08e45", "#6b9e78", "#9b72aa", "#b0413e")


def draw(results: Sequence[CellResult], folder: Path) -> list[str]:
    """Write ``over_eager.png`` and ``roofline.png`` into ``folder``; their names. Nothing where there is no result."""
    import matplotlib

    matplotlib.use("Agg")
    drawn = []
    if any(r.us(EAGER) for r in results):
        _over_eager(results, folder / "over_eager.png")
        drawn.append("over_eager.png")
    if any(share(r, OURS) for r in results):
        _roofline(results, folder / "roofline.png")
        drawn.append("roofline.png")
    return drawn


def _over_eager(results: Sequence[CellResult], path: Path) -> None:
    from matplotlib import pyplot

    contenders = [OURS, *(p for p in PEERS if p != EAGER and any(r.us(p) for r in results))]
    kernels = list(dict.fromkeys(r.cell.name for r in results if r.us(EAGER)))
    figure, axes = pyplot.subplots(figsize=(12, 4.5), layout="constrained")
    width = 0.8 / len(contenders)
    for n, name in enumerate(contenders):
        heights = [_speed_over_eager(results, kernel, name) for kernel in kernels]
        places = [k + (n - (len(contenders) - 1) / 2) * width for k in range(len(kernels))]
        axes.bar(places, heights, width, label=name, color=_COLOURS[n % len(_COLOURS)])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.set_ylabel("times as fast as eager")
    axes.set_xticks(range(len(kernels)), kernels, rotation=40, ha="right")
    axes.legend(ncols=len(contenders), frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _speed_over_eager(results: Sequence[CellResult], kernel: str, name: str) -> float:
    """The geometric mean over a kernel's shapes; NaN, which draws nothing, where there is none."""
    pairs = [(r.us(EAGER), r.us(name)) for r in results if r.cell.name == kernel]
    ratios = [eager / us for eager, us in pairs if eager and us]
    return geomean(ratios) if ratios else float("nan")


def _roofline(results: Sequence[CellResult], path: Path) -> None:
    from matplotlib import pyplot

    cells = [(r.cell.title, part, r.cell.bound) for r in results if (part := share(r, OURS)) is not None]
    figure, axes = pyplot.subplots(figsize=(9, 0.5 + 0.2 * len(cells)), layout="constrained")
    colours = [_COLOURS[0] if bound == "memory" else _COLOURS[1] for _, _, bound in cells]
    axes.barh(range(len(cells)), [100 * part for _, part, _ in cells], color=colours)
    axes.axvline(90, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(cells)), [title for title, _, _ in cells], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("% of the roofline measured in the same run (copy bandwidth; bf16 product)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
