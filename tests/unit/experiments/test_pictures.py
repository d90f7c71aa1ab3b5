"""Pictures: labels inside, levels named, and a style that a light and a dark page both carry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tile_testing import ROOT

pytest.importorskip("matplotlib")

from matplotlib import colors, pyplot
from tileflow_benchmarks.suite import plots
from tileflow_benchmarks.suite.results import run_from
from tileflow_experiments import pictures

KEPT = ROOT / "docs/data/bench-h200.json"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The suite's two pictures, as figures."""
    with pytest.MonkeyPatch.context() as patch:
        kept: list[Any] = []
        close = pyplot.close
        patch.setattr(pyplot, "close", kept.append)
        plots.draw(run_from(json.loads(KEPT.read_text())).results, tmp_path_factory.mktemp("pictures"))
        yield kept
        for figure in kept:
            close(figure)


def test_no_label_is_cut(drawn: list[Any]) -> None:
    """The roofline's axis label ended outside of the picture, and nothing said what its colours are."""
    assert len(drawn) == 2
    for figure in drawn:
        (axes,) = figure.axes
        renderer = figure.canvas.get_renderer()
        shown = [axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            shown += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        assert len(shown) > 20
        for text in filter(lambda text: text.get_text(), shown):
            box = text.get_window_extent(renderer)
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
            assert inside, text.get_text()


def test_levels_and_colours_are_named(drawn: list[Any]) -> None:
    over_eager, roofline = ([t.get_text() for legend in _legends(f) for t in legend.get_texts()] for f in drawn)
    assert {"eager", "tileflow", "torch.compile"} <= {*over_eager}
    assert "the aim, 90 %" in roofline and sum("bound by" in text for text in roofline) == 2


def _legends(figure: Any) -> list[Any]:
    return [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]


def test_colours_are_legible_on_both_grounds() -> None:
    """Contrast by WCAG: at least 3 to white and to the site's dark ground, as for large text and drawings."""

    def luminance(colour: str) -> float:
        parts = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colors.to_rgb(colour))
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    for colour in (pictures.MUTED, pictures.TRIALS, pictures.BEST, pictures.ROOF):
        for ground in ("#ffffff", "#1e2129"):
            low, high = sorted((luminance(colour), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, ground)


def test_the_style_stays_inside() -> None:
    before = pyplot.rcParams["text.color"]
    with pictures.style():
        assert pyplot.rcParams["text.color"] == pictures.MUTED
    assert pyplot.rcParams["text.color"] == before
