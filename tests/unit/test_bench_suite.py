"""The benchmark suite: its cells lower, and the sweep that tunes it covers all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tileflow_experiments.bench.measure import Ceilings, Result, Timing
from tileflow_experiments.bench.report import to_markdown
from tileflow_experiments.bench.suite import SUITE, Cell
from tileflow_experiments.spec import parse

from tileflow.api import load_kernel
from tileflow.target import target

HEADER = ("command", "date", "device", "driver", "torch", "triton", "python")
SPEC = Path(__file__).parent.parent.parent / "configs" / "suite.yaml"


@pytest.mark.parametrize("cell", SUITE, ids=lambda c: c.title)
def test_every_cell_lowers_and_moves_something(cell: Cell) -> None:
    kernel = load_kernel(cell.kernel)
    lowered = kernel.lower(kernel.inputs(device="meta", **dict(cell.problem)), target("nvidia-h200"))
    assert lowered.emit(lowered.default)
    traffic = lowered.traffic
    assert traffic.bytes > 0
    assert (traffic.flops / traffic.bytes > 20) or cell.bound == "memory" or "int4" in cell.title


def test_the_sweep_of_the_suite_covers_it() -> None:
    spec = parse(yaml.safe_load(SPEC.read_text()))
    tuned = {(k.kernel, frozenset(problem)) for k in spec.kernels for problem in k.problems}
    assert tuned == {(cell.kernel, frozenset(cell.problem)) for cell in SUITE}


def test_the_report_says_ratios_and_failures() -> None:
    def timing(us: float | None, error: str = "") -> Timing:
        return Timing(us, 0.1, 5.0, 0.2, error)

    softmax = next(c for c in SUITE if "softmax" in c.kernel)
    fp8 = next(c for c in SUITE if "fp8" in c.kernel)
    results = [
        Result(
            softmax, 4_000_000, 1, "float32", {"tileflow": timing(2.0), "default": timing(4.0), "eager": timing(8.0)}
        ),
        Result(fp8, 1, 2_000_000, "float8_e4m3fn", {"tileflow": timing(1.0, "wrong"), "eager": timing(3.0)}),
    ]
    told = to_markdown(dict.fromkeys(HEADER, "?"), Ceilings(4000.0, 1.0), {}, results)
    assert f"| {softmax.title} | 2.0 ± 0.1 | 4.0 ± 0.1 | 8.0 ± 0.1 | - | 50% | 4.00x | - | 0.50x |" in told
    assert (
        "| eager | 2.00x (2) | 4.00x (1) | 1.00x (1) | 4.00x (1) |" in told
    )  # a wrong cell counts as eager's own time
    assert f"- {fp8.title}, tileflow: wrong" in told
