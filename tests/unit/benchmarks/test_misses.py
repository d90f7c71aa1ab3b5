"""The cells that miss their target: which they are, and that the page shows those of the run that is kept."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tile_testing import ROOT
from tileflow_benchmarks.suite import cli
from tileflow_benchmarks.suite.cells import SUITE, Cell
from tileflow_benchmarks.suite.misses import fastest, misses
from tileflow_benchmarks.suite.results import Ceilings, CellResult, SuiteRun, Timing, run_from

PAGE = ROOT / "docs/measurements/performance.md"
KEPT = ROOT / "docs/data/bench-h200.json"
LIMITS = Ceilings(copy_gbps=1000.0, matmul_tflops=500.0)


def cell(name: str) -> Cell:
    return next(c for c in SUITE if c.name == name)


def result(name: str, **us: float | str) -> CellResult:
    """A cell that takes 10 us at the copy bandwidth; times are to 0.1 us."""
    timings = {n: Timing(error=t) if isinstance(t, str) else Timing(t, 0.1) for n, t in us.items()}
    return CellResult(cell(name), timings, 10_000_000, 1, "bfloat16", LIMITS, "a card")


@pytest.mark.parametrize(
    ("found", "is_missed"),
    [
        (result("softmax", default=10.5, eager=20.0), False),
        (result("softmax", default=12.0, eager=20.0), True),  # 83 % of the bandwidth
        (result("softmax", default=10.5, eager=20.0, liger=10.2), True),  # slower by more than the intervals
        (result("softmax", default=10.5, eager=20.0, liger=10.4), False),
        (result("softmax", default=10.5, eager=20.0, liger="wrong"), False),
        (result("softmax", default="wrong", eager=20.0), True),
        (result("matmul", default=40.0, eager=41.0), False),  # the bandwidth is not what a product is held to
        (result("matmul", default=42.0, eager=41.0), True),
        (result("matmul", tileflow=39.0, default=40.0), False),  # our own tuned row is no peer
    ],
)
def test_what_misses(found: CellResult, is_missed: bool) -> None:
    assert [*misses(SuiteRun({}, [found]))] == [found] * is_missed


def test_the_fastest_other_has_a_time_that_counts() -> None:
    assert fastest(result("softmax", default=1.0, eager=3.0, liger=2.0, triton="dead")) == "liger"
    assert fastest(result("softmax", default=1.0, tileflow=1.0)) is None


def test_the_page_shows_the_run_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "performance.md"
    shutil.copy(PAGE, page)
    monkeypatch.setattr(sys, "argv", ["scripts/bench", "misses", str(KEPT), "--docs", str(page)])
    assert cli.main() == 0
    again = f"scripts/bench misses {KEPT.relative_to(ROOT)} --docs {PAGE.relative_to(ROOT)}"
    assert page.read_text() == PAGE.read_text(), again
    assert again in page.read_text(), "the page says how it is made"


def test_the_page_has_a_reason_for_each_kernel_that_misses() -> None:
    names = {found.cell.name for found in misses(run_from(json.loads(KEPT.read_text())))}
    reasons = PAGE.read_text().partition("\n## Why\n")[2].partition("\n## ")[0]
    assert {name for name in names if f"`{name}`" not in reasons} == set()
