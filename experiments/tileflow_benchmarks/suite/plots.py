"""The plots of the report: our speed over eager beside the peers', and the share of the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tileflow_experiments.pictures import DEFAULT, PALETTE, TRIALS, level, plain_numbers, style

from .ratios import geomean, share
from .report import PEERS
from .results import EAGER, OURS, CellResult

AIM = 90  # % of the roofline


def draw(results: Sequence[CellResult], folder: Path) -> list[str]:
    """Write ``over_eager.png`` and ``roofline.png`` into ``folder``. Returns their names; none without a result."""
    import matplotlib

    matplotlib.use("Agg")
    drawn = []
    with style():
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
        above = [height - 1 for height in heights]  # bars begin at eager's speed and point down where eager is faster
        axes.bar(places, above, width, bottom=1, label=name, color=PALETTE[n % len(PALETTE)])
    level(axes, 1, "eager")
    axes.set_yscale("log", base=2)
    plain_numbers(axes.yaxis, "{x:g}x")
    axes.set_ylabel("times as fast as eager")
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(kernels)), kernels, rotation=40, ha="right")
    axes.legend(ncols=len(contenders) + 1)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _speed_over_eager(results: Sequence[CellResult], kernel: str, name: str) -> float:
    """Return the geometric mean over a kernel's shapes; NaN, which draws nothing, where there is none."""
    pairs = [(r.us(EAGER), r.us(name)) for r in results if r.cell.name == kernel]
    ratios = [eager / us for eager, us in pairs if eager and us]
    return geomean(ratios) if ratios else float("nan")


def _roofline(results: Sequence[CellResult], path: Path) -> None:
    from matplotlib import pyplot

    cells = [(r.cell.title, part, r.cell.bound) for r in results if (part := share(r, OURS)) is not None]
    figure, axes = pyplot.subplots(figsize=(9, 1.6 + 0.18 * len(cells)), layout="constrained")
    for of_memory, label, colour in (
        (True, "bound by memory: of the copy bandwidth", TRIALS),
        (False, "bound by products: of a bf16 product's rate", DEFAULT),
    ):
        mine = [(n, 100 * part) for n, (_, part, bound) in enumerate(cells) if (bound == "memory") == of_memory]
        if mine:
            axes.barh(*zip(*mine, strict=True), color=colour, label=label)
    level(axes, AIM, f"the aim, {AIM} %", upright=True)
    axes.set_yticks(range(len(cells)), [title for title, _, _ in cells], fontsize=7)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlabel("% of the roofline, measured in the same run")
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside upper right", ncols=1)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
