"""OUT/report.html: one page from the journal, whole without a network."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.browser import Theme, page_text, screenshot
from tile_testing.fakes.experiments_fakes import BAD, GPU, prepare
from tileflow_experiments import charts, html_report, sweep
from tileflow_experiments.journal import Folded
from tileflow_experiments.records import StudyKey, TrialRecord
from tileflow_experiments.tables import winner, winners

from tileflow.config import Config

CHART = re.compile(r'<script type="application/json">(.*?)</script>', re.S)


@pytest.fixture(scope="module")
def key(folded: Folded) -> StudyKey:
    return next(key for key in folded.trials if key.device_class == GPU)


def trace(figure: charts.Figure | None, name: str) -> dict[str, Any]:
    assert figure is not None
    (found,) = (t for t in figure["data"] if t["name"] == name)
    return found


def test_convergence_has_every_good_trial_and_the_levels(folded: Folded, key: StudyKey) -> None:
    records = folded.trials[key]
    task = prepare(key, "static")
    default = next(r for r in records if r.config == task.default)
    figure = charts.convergence(records, default)
    good = [r.time_us for r in records if r.time_us is not None]
    assert trace(figure, "trials")["y"] == good and 0 < len(good) < len(records)
    assert trace(figure, "best so far")["y"][-1] == min(good)
    assert trace(figure, "default")["y"] == [default.time_us] * 2
    assert trace(figure, "roofline")["y"] == [5.0, 5.0]


def test_the_roofline_marks_best_and_default(folded: Folded, key: StudyKey) -> None:
    records, task = folded.trials[key], prepare(key, "static")
    won = winner(folded, task)
    default = next(r for r in records if r.config == task.default)
    assert won is not None
    figure = charts.roofline(records, won, default)
    assert trace(figure, "best")["y"] == [3000 / won.time_us * 1e6]
    assert default.time_us is not None and trace(figure, "default")["y"] == [3000 / default.time_us * 1e6]
    untold = [replace(r, result=replace(r.result, build=None)) for r in records]
    assert charts.roofline(untold, None, None) is None


def test_the_knob_that_decides_explains_the_most(folded: Folded, key: StudyKey) -> None:
    shares = charts.explained(folded.trials[key])
    assert shares["x"] > 0.8 > 0.2 > shares["y"] > 0.0, shares
    assert "inert" not in shares, "a trial is one binary, and inert changes none"
    assert all(0.0 <= share <= 1.0 for share in shares.values())
    assert charts.explained(folded.trials[key][:3]) == {}


def test_the_page_says_what_the_report_says(searched: Path, folded: Folded) -> None:
    text = (searched / "report.html").read_text()
    body = text.partition("</style>")[2]
    assert len(folded.trials) == 4
    for key in folded.trials:
        assert key.title in body
    assert "2.30x" in body and "50%" in body and "modelled" in body and f"x={BAD}" in body
    figures = [json.loads(found) for found in CHART.findall(body)]
    assert len(figures) == 3 * len(folded.trials) + 1
    assert all(figure["data"] for figure in figures)


def test_nothing_is_fetched(searched: Path) -> None:
    text = (searched / "report.html").read_text()
    assert not re.search(r"<script[^>]*\ssrc=|<link\b|<img\b|@import", text)


def test_what_a_trial_said_is_text_and_never_markup(folded: Folded, key: StudyKey) -> None:
    spoiled = "</script><script>alert(1)</script>"

    def spoil(record: TrialRecord) -> TrialRecord:
        outcome = replace(record.result.outcome, error_digest=spoiled)
        config = Config.of(record.config.to_dict() | {"inert": spoiled})
        return replace(record, config=config, result=replace(record.result, outcome=outcome))

    trials = {key: [spoil(r) for r in folded.trials[key]]}
    spoiled_one, tasks = replace(folded, trials=trials), [prepare(key, "static")]
    page = html_report.render(spoiled_one, tasks, winners(spoiled_one, tasks))
    assert "alert(1)" in page and "<script>alert(1)" not in page


@pytest.mark.slow
def test_a_browser_draws_it(searched: Path) -> None:
    page = page_text((searched / "report.html").as_uri(), 420, 900)
    drawn = page.count('class="chart js-plotly-plot"')
    assert drawn == 4, "the first search's charts and the phases"
    assert page.count("main-svg") >= drawn and ">best so far<" in page


@pytest.mark.slow
@pytest.mark.parametrize(("size", "width", "height"), [("desktop", 1200, 1500), ("phone", 500, 1500)])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_screenshots_of_it(
    searched: Path, request: pytest.FixtureRequest, size: str, width: int, height: int, theme: Theme
) -> None:
    """Chromium draws the page for a phone and a desktop, light and dark, into build/report. No path of this
    machine is on it, and each picture is small enough to be committed."""
    assert str(searched) not in (searched / "report.html").read_text()
    shown = request.config.rootpath / "build" / "report" / f"report-{size}-{theme}.png"
    is_dark = screenshot((searched / "report.html").as_uri(), shown, width, height, theme)
    assert is_dark is (theme == "dark"), "the page follows the reader's scheme"
    assert 4_000 < shown.stat().st_size < 200_000


def test_tables_are_written_where_nothing_draws(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine without plotly lost a whole search at its export."""
    folder = tmp_path / "sweep"
    shutil.copytree(searched, folder)
    (folder / "report.html").unlink()
    shutil.rmtree(folder / "tables")
    for name in ("plotly", "plotly.offline"):
        monkeypatch.setitem(sys.modules, name, None)
    sweep.export(folder, prepare)
    assert list((folder / "tables").iterdir()) and not (folder / "report.html").exists()
    assert "pip install plotly" in caplog.text
