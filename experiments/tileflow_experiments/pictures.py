"""The one style of all plots: colours, lines and numbers that are legible on a light and on a dark page.

Plots have a transparent background, like the charts of OUT/report.html (:mod:`.charts`), which share their colours.
Matplotlib is imported when one is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MUTED, TRIALS, BEST, DEFAULT, ROOF = "#8a8a8a", "#5b8def", "#2ca25f", "#e6842a", "#c0504d"
PALETTE = (
    TRIALS,
    "#9b6bb3",
    "#3aa6a6",
    "#b8a13c",
    ROOF,
    BEST,
    DEFAULT,
)  # the last three mean levels where there are any

_STYLE: Any = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": MUTED,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": MUTED,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.titlesize": 10,
    "axes.titlesize": 10,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style inside the block. A figure keeps it, wherever it is saved."""
    import matplotlib
    from cycler import cycler

    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        yield


def level(axes: Any, value: float, label: str, colour: str = MUTED, *, upright: bool = False) -> None:
    """Draw a dashed line at a reference value; the legend names it."""
    (axes.axvline if upright else axes.axhline)(value, color=colour, linewidth=1, linestyle="--", label=label)


def plain_numbers(axis: Any, unit: str = "{x:g}") -> None:
    """Format ticks of a logarithmic axis as numbers (``182`` and not ``1.82 x 10^2``), also the few between powers."""
    from matplotlib.ticker import StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter(unit))
    axis.set_minor_formatter(StrMethodFormatter(unit))


def percent(axis: Any) -> None:
    """Format ticks of shares as percentages."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))
