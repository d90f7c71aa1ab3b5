"""``scripts/regression``: what became slower between two runs of the suite."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing import ROOT
from tileflow_benchmarks.suite.regression import Change, Verdict, compare, main
from tileflow_benchmarks.suite.results import DEFAULT, EAGER, OURS, CellResult, SuiteRun, run_from

KEPT = ROOT / "docs/data/bench-h200.json"


@pytest.fixture(scope="module")
def run() -> SuiteRun:
    return run_from(json.loads(KEPT.read_text()))


def slowed(run: SuiteRun, factor: float, *names: str, cells: int | None = None) -> SuiteRun:
    """The run with the first ``cells`` cells of the contenders ``factor`` times as slow."""

    def slow(number: int, result: CellResult) -> CellResult:
        if cells is not None and number >= cells:
            return result
        timings = {
            name: replace(t, median_us=t.median_us * factor) if name in names and t.median_us else t
            for name, t in result.timings.items()
        }
        return replace(result, timings=timings)

    return replace(run, results=[slow(n, r) for n, r in enumerate(run.results)])


def test_a_run_is_no_slower_than_itself(run: SuiteRun) -> None:
    changes = compare(run, run)
    assert len(changes) == len(run.results) > 40
    assert {change.verdict for change in changes} == {Verdict.EQUAL}


def test_a_slower_cell_is_found_and_comes_first(run: SuiteRun) -> None:
    first, *others = compare(run, slowed(run, 1.2, OURS, cells=1))
    assert first.verdict is Verdict.SLOWER and first.title == run.results[0].cell.title
    assert first.ratio == pytest.approx(1 / 1.2) and "slower" in first.line
    assert {change.verdict for change in others} == {Verdict.EQUAL}
    assert compare(run, slowed(run, 1 / 1.2, OURS, cells=1))[0].verdict is Verdict.FASTER


def test_a_slower_host_is_no_regression_beside_eager(run: SuiteRun) -> None:
    host = slowed(run, 1.2, OURS, EAGER, DEFAULT)
    assert {change.verdict for change in compare(run, host)} == {Verdict.EQUAL}
    assert {change.verdict for change in compare(run, host, beside="")} == {Verdict.SLOWER}


def test_what_is_within_the_intervals_is_equal(run: SuiteRun) -> None:
    result = run.results[0]
    wide = replace(result.timings[OURS], ci95_us=result.timings[OURS].median_us * 0.3)
    uncertain = replace(run, results=[replace(result, timings={**result.timings, OURS: wide})])
    assert compare(uncertain, slowed(uncertain, 1.2, OURS))[0].verdict is Verdict.EQUAL


def test_a_cell_that_fails_or_is_gone_is_worse(run: SuiteRun) -> None:
    result = run.results[0]
    broken = replace(result.timings[OURS], error="ValueError: no")
    failed = replace(run, results=[replace(result, timings={**result.timings, OURS: broken}), *run.results[1:]])
    assert compare(run, failed)[0] == Change(result.cell.title, Verdict.FAILED, why="tileflow: ValueError: no")
    assert compare(run, replace(run, results=run.results[1:]))[0].verdict is Verdict.GONE
    assert compare(replace(run, results=run.results[1:]), run)[-1].verdict is Verdict.NEW


def test_the_exit_code(run: SuiteRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def at(name: str, found: SuiteRun) -> str:
        (tmp_path / name).write_text(json.dumps(found.to_json()))
        return str(tmp_path / name)

    old, empty = at("old.json", run), at("empty.json", replace(run, results=[]))
    assert main([old, old]) == 0
    assert main([old, at("slow.json", slowed(run, 1.5, OURS, cells=2))]) == 1
    assert "2 slower" in capsys.readouterr().out
    assert main([empty, old]) == 2, "nothing was compared"
