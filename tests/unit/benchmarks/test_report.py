"""The report's arithmetic: means, cells of ours that failed, cells of peers that did; and its way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tileflow_benchmarks.suite import plots
from tileflow_benchmarks.suite.cells import SUITE, Cell, in_turn
from tileflow_benchmarks.suite.ratios import groups, mean, our_us, over, roofline_us, share
from tileflow_benchmarks.suite.report import BEGIN, END, into, to_markdown
from tileflow_benchmarks.suite.results import Ceilings, CellResult, SuiteRun, Timing, Tuned, run_from

LIMITS = Ceilings(4000.0, 500.0)
HEADER = {"command": "scripts/bench --out x", "date": "2026-01-02", "driver": "5", "versions": {"torch": "2.11"},
          "absent": ["liger"], "is_dry": False}  # fmt: skip


def cell(name: str, nth: int = 0) -> Cell:
    return [c for c in SUITE if c.name == name][nth]


def result(
    what: Cell, bytes: int = 4_000_000, flops: int = 1, dtype: str = "bfloat16", **us: float | str
) -> CellResult:
    """``us``: a contender's time, or its error."""
    timings = {n: Timing(error=t) if isinstance(t, str) else Timing(t, 0.1, 5.0, 0.2) for n, t in us.items()}
    return CellResult(what, timings, bytes, flops, dtype, LIMITS, "a card")


def test_means_are_over_shapes_and_then_over_kernels() -> None:
    results = [
        result(cell("softmax"), tileflow=1.0, eager=2.0),
        result(cell("softmax", 1), tileflow=1.0, eager=8.0),  # softmax: 4
        result(cell("matmul"), tileflow=1.0, eager=1.0),  # matmul: 1
    ]
    found = mean(results, "eager")
    assert found is not None
    assert found.ratio == pytest.approx(2.0)  # not 16^(1/3)
    assert (found.kernels, found.least, found.least_name) == (2, pytest.approx(1.0), "matmul")
    subsets = {name: mean(group, "eager") for name, group in groups(results).items()}
    assert {name: m and round(m.ratio, 6) for name, m in subsets.items()} == {
        "whole suite": 2.0, "bound by memory": 4.0, "bound by the matrix units": 1.0, "the launch post's eleven": 2.0,
    }  # fmt: skip


def test_a_failed_cell_of_ours_enters_as_eagers_own_time() -> None:
    failed = result(cell("softmax"), tileflow="wrong", eager=6.0, helion=3.0)
    assert our_us(failed) == 6.0
    assert over(failed, "eager") == 1.0
    assert over(failed, "helion") == 0.5
    assert share(failed, "tileflow") is None


def test_a_wrong_time_does_not_count_even_where_it_was_measured() -> None:
    wrong = CellResult(cell("softmax"), {"tileflow": Timing(1.0, 0.1, error="incorrect"), "eager": Timing(6.0, 0.1)})
    assert over(wrong, "eager") == 1.0


def test_a_failed_cell_of_a_peer_is_left_out_of_its_means_alone() -> None:
    results = [
        result(cell("softmax"), tileflow=1.0, eager=4.0, helion="no config"),
        result(cell("matmul"), tileflow=1.0, eager=1.0, helion=3.0),
    ]
    helion, eager = mean(results, "helion"), mean(results, "eager")
    assert helion is not None and (helion.ratio, helion.kernels) == (pytest.approx(3.0), 1)
    assert eager is not None and eager.kernels == 2
    assert mean(results, "liger") is None


def test_the_roofline_is_of_the_cells_own_device() -> None:
    assert roofline_us(result(cell("softmax"), bytes=8_000_000)) == pytest.approx(2.0)
    product = result(cell("matmul"), bytes=8_000, flops=10**9, tileflow=4.0)
    assert roofline_us(product) == pytest.approx(2.0)
    assert share(product, "tileflow") == pytest.approx(0.5)
    assert roofline_us(replace(product, flop_dtype="float8_e4m3fn")) == pytest.approx(1.0)
    assert roofline_us(replace(product, ceilings=None)) is None
    assert roofline_us(result(cell("softmax"), bytes=8, flops=10**12)) == pytest.approx(2e-6)  # bound by memory


def sample() -> SuiteRun:
    results = [
        result(cell("softmax"), tileflow=2.0, default=4.0, eager=8.0, helion=3.0),
        result(cell("fp8_matmul"), dtype="float8_e4m3fn", tileflow="out of resources", eager=3.0, liger="no kernel"),
    ]
    results[0] = replace(
        results[0],
        timings={**results[0].timings, "torch.compile": Timing(4.0, 0.1, setup_s=12.0, note="the loss alone")},
    )
    return SuiteRun(
        HEADER, results, [cell("jsd")], {"1": {"tileflow": 9.0, "torch.add": 5.0, "helion": "ImportError: x"}}
    )


def test_the_page_tells_times_ratios_and_what_failed() -> None:
    told = to_markdown(sample(), ["plot.png"], {"Helion": {"softmax": Tuned({"a": 1}, 60.2, 31)}})
    for line in (
        f"| {cell('softmax').title} | 2.0 ± 0.1 | 4.0 ± 0.1 | 8.0 ± 0.1 | 4.0 ± 0.1 | 3.0 ± 0.1 |  |",
        f"| {cell('softmax').title} | 2000 GB/s | 50% | 4.00x | 2.00x | 1.50x |  | 0.50 |",
        f"| {cell('fp8_matmul').title} | failed |  | 3.0 ± 0.1 |  |  | failed |",
        f"- {cell('fp8_matmul').title}, tileflow: out of resources",
        f"- {cell('jsd').title}: not measured, the time was over",
        f"- torch.compile: the loss alone ({cell('softmax').title})",
        "- torch.compile took 12 s to compile 1 cells, not counted above",
        "| 1 | 9.0 | 5.0 | ImportError: x |",
        "| softmax | full | 60 | 31 | yes |",
        "Not importable there, so not timed: liger.",
        "![plot.png](plot.png)",
    ):
        assert line in told.splitlines(), line
    eager = next(line for line in told.splitlines() if line.startswith("| eager | 2.00x (2; least fp8_matmul 1.00x)"))
    assert "4.00x (1; least softmax 4.00x)" in eager
    assert "dry run" not in told
    assert "dry run" in to_markdown(replace(sample(), header={**HEADER, "is_dry": True}))


def test_json_brings_the_same_page_again() -> None:
    again = run_from(json.loads(json.dumps(sample().to_json())))
    assert again == sample()


def test_figures_go_between_the_marks_of_a_page() -> None:
    page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
    assert into(page, "new\n") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"
    assert into(into(page, "old\n"), "new\n") == into(page, "new\n")
    with pytest.raises(ValueError, match="must hold"):
        into("no marks", "new")


def test_plots_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plots.draw(sample().results, tmp_path) == ["over_eager.png", "roofline.png"]
    assert all((tmp_path / name).stat().st_size > 5_000 for name in ("over_eager.png", "roofline.png"))
    assert plots.draw([result(cell("jsd"), tileflow="dead")], tmp_path) == []


def test_a_run_that_ends_early_has_something_of_every_kernel() -> None:
    ordered = in_turn(SUITE)
    assert sorted(ordered, key=SUITE.index) == list(SUITE)
    kernels = {c.kernel for c in SUITE}
    assert {c.kernel for c in ordered[: len(kernels)]} == kernels
